import pytest

from turnchart.flows.events import MAX_DEPTH, MAX_NODES
from turnchart.flows.problems import Problem
from turnchart.flows.source import MapNode, as_written, read_text


def problems_of(text: str) -> list[Problem]:
    return list(read_text(text, "a.yaml").problems)


@pytest.mark.parametrize(
    ("text", "tag", "length"),
    [
        ("a: !!python/object/apply:os.system [id]", "!!python/object/apply:os.system", 36),
        ("a: !!python/name:os.system {b: 1}", "!!python/name:os.system", 30),
        ("a: !!python/name:os.system ''", "!!python/name:os.system", 26),
        ("a: !!str 5", "!!str", 7),
        ("a: !own x", "!own", 6),
        ("a: !own\n  b: 1", "!own", 4),
        ("a: ! x", "!", 3),
        ("%TAG !p! tag:yaml.org,2002:python/\n---\na: !p!name:os.system []", "!!python/name:os.system", 20),
    ],
)
def test_tags_are_refused_on_every_kind_of_node(text: str, tag: str, length: int) -> None:
    (problem,) = problems_of(text)
    assert (problem.code, problem.message) == ("yaml-tag", f"tag {tag} is not allowed")
    assert (problem.column, problem.length) == (4, length)


def test_a_tag_on_a_key_is_refused_too() -> None:
    assert [p.code for p in problems_of("!x a: 1")] == ["yaml-tag"]


def test_every_duplicate_is_found_and_the_first_one_counts() -> None:
    document = read_text("a: 1\nb: {c: 1, c: 2}\na: 3\n'a': 4\n", "f")
    assert [(p.code, p.line, p.column) for p in document.problems] == [
        ("yaml-duplicate-key", 2, 11), ("yaml-duplicate-key", 3, 1), ("yaml-duplicate-key", 4, 1),
    ]  # fmt: skip
    assert "first given on line 1" in document.problems[1].help
    assert document.root is not None
    assert as_written(document.root) == {"a": 1, "b": {"c": 1}}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("? [a]\n: b", "yaml-key"),
        ("a: {{ x }}", "yaml-key"),
        ("? \n: b", "yaml-key"),
        ("b: &x {c: 1}\n<<: *x", "yaml-merge-key"),
        ("a: 1\n---\nb: 2", "yaml-documents"),
        ("a: &x [*x]", "yaml-cycle"),
        ("a: &x {b: {c: *x}}", "yaml-cycle"),
    ],
)
def test_what_yaml_could_do_and_a_flow_must_not(text: str, code: str) -> None:
    assert [p.code for p in problems_of(text)] == [code]


def test_a_quoted_merge_key_is_a_key_like_any_other() -> None:
    root = read_text("'<<': 1", "f").root
    assert root is not None
    assert as_written(root) == {"<<": 1}


def test_an_alias_is_the_value_of_its_anchor() -> None:
    root = read_text("x-a: &a {b: [1]}\nc: *a\nd: &a 2\ne: *a\n", "f").root
    assert isinstance(root, MapNode)
    assert as_written(root) == {"x-a": {"b": [1]}, "c": {"b": [1]}, "d": 2, "e": 2}
    alias = root.get("c")
    assert alias is root.get("x-a")


def test_aliases_are_counted_as_if_they_were_written_out() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 8)]
    (problem,) = problems_of("\n".join(lines))
    assert (problem.code, problem.line) == ("yaml-nodes", 5)


def test_too_many_values_stop_the_reading() -> None:
    (problem,) = problems_of("[" + "x, " * MAX_NODES + "]")
    assert problem.code == "yaml-nodes"
    assert not problems_of("[" + "x, " * (MAX_NODES - 1) + "]")


def test_depth_is_counted_through_aliases() -> None:
    lines = ["a0: &a0 [x]", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, MAX_DEPTH))]
    (problem,) = problems_of("\n".join(lines))
    assert problem.code == "yaml-depth"
    assert not problems_of("\n".join(lines[: MAX_DEPTH - 1]))

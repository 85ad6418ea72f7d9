from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnchart.flows.merge import Merged, read_merged
from turnchart.flows.paths import Place
from turnchart.flows.source import MapNode, as_written

Read = Callable[..., Merged]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Write files and read ``child.yaml`` with its parents."""

    def read(child: str, **others: str) -> Merged:
        for name, text in {"child": child, **others}.items():
            (tmp_path / f"{name}.yaml").write_text(text)
        return read_merged(tmp_path / "child.yaml", "child.yaml", Place(tmp_path, tmp_path))

    return read


def content(merged: Merged) -> Any:
    assert merged.root is not None
    assert merged.problems == []
    return as_written(merged.root)


def codes(merged: Merged) -> list[tuple[str, str, int, int]]:
    return [(p.code, p.file, p.line, p.column) for p in merged.problems]


HOOKS = """
version: 1
hooks:
  pre_tool:
    - {use: a, id: one}
    - {use: b, id: two}
"""


def test_maps_merge_and_everything_else_replaces(read: Read) -> None:
    merged = read(
        "version: 1\nextends: base.yaml\nmodel: {settings: {top_p: 1}}\ntools: [b]\nlimits: {max_steps: 3}\n",
        base="version: 1\nname: base\ndescription: d\nx-y: 1\nmodel: {id: a:b, settings: {max_tokens: 5}}\n"
        "tools: [a, c]\nqueues: {steering: all}\n",
    )
    assert content(merged) == {
        "version": 1, "extends": "base.yaml", "tools": ["b"], "queues": {"steering": "all"},
        "model": {"id": "a:b", "settings": {"max_tokens": 5, "top_p": 1}}, "limits": {"max_steps": 3},
    }  # fmt: skip


def test_a_short_model_of_the_parent_is_its_id(read: Read) -> None:
    merged = read("version: 1\nextends: base.yaml\nmodel: {settings: {}}\n", base="version: 1\nmodel: a:b\n")
    assert content(merged)["model"] == {"id": "a:b", "settings": {}}


def test_a_short_model_of_the_child_replaces_all_of_the_parents(read: Read) -> None:
    merged = read("version: 1\nextends: base.yaml\nmodel: c:d\n", base="version: 1\nmodel: {id: a:b}\n")
    assert content(merged)["model"] == "c:d"


def test_a_child_cannot_drop_what_the_parent_denies(read: Read) -> None:
    merged = read(
        "version: 1\nextends: base.yaml\npermissions: {deny: [c], ask: [], allow: [e]}\n",
        base="version: 1\npermissions: {default: deny, deny: [a], ask: [b], allow: [d]}\n",
    )
    assert content(merged)["permissions"] == {
        "default": "deny",
        "deny": ["a", "c"],
        "ask": ["b"],
        "allow": ["e"],
    }


@pytest.mark.parametrize(
    ("chain", "ids"),
    [
        ("[inherit, {use: c}]", ["one", "two", "c"]),
        ("[{use: c}, inherit, {use: d}]", ["c", "one", "two", "d"]),
        ("[replace, {use: c}]", ["c"]),
        ("[replace]", []),
        ("[inherit, {use: c, id: two}]", ["one", "c/two"]),  # it takes the place of the inherited one
        ("[{use: c, id: one}, inherit, {use: d}]", ["c/one", "two", "d"]),
    ],
)
def test_a_chain_says_what_becomes_of_the_parents(read: Read, chain: str, ids: list[str]) -> None:
    merged = read(f"version: 1\nextends: base.yaml\nhooks: {{pre_tool: {chain}}}\n", base=HOOKS)
    names = [
        "/".join(each[key] for key in ("use", "id") if key in each and each[key] not in ("a", "b"))
        for each in content(merged)["hooks"]["pre_tool"]
    ]
    assert names == ids


@pytest.mark.parametrize(
    ("chain", "line", "column"),
    [
        ("[{use: c}]", 3, 9),
        ("[]", 3, 9),
        ("[inherit, inherit]", 3, 29),
        ("[replace, inherit]", 3, 29),
        ("[{use: c}, replace]", 3, 30),
    ],
)
def test_an_unclear_chain_is_an_error(read: Read, chain: str, line: int, column: int) -> None:
    merged = read(f"version: 1\nextends: base.yaml\nhooks: {{pre_tool: {chain}}}\n", base=HOOKS)
    assert codes(merged) == [("chain-unclear", "child.yaml", line, column)]
    assert "one, two" in merged.problems[0].message or "more than once" in merged.problems[0].message


def test_inherit_needs_a_parent(read: Read) -> None:
    assert codes(read("version: 1\nhooks: {pre_tool: [inherit, {use: a}]}\n")) == [
        ("chain-unclear", "child.yaml", 2, 20)
    ]


@pytest.mark.parametrize("word", ["inherit", "replace"])
@pytest.mark.parametrize(("key", "more"), [("prompt", "{text: b}"), ("tools", "b")])
def test_a_list_that_is_no_chain_takes_no_word_for_the_parents(
    read: Read, key: str, more: str, word: str
) -> None:
    child = f"version: 1\nextends: base.yaml\n{key}:\n  - {word}\n  - {more}\n"
    merged = read(child, base=f"version: 1\n{key}: []\n")
    assert codes(merged) == [("bad-value", "child.yaml", 4, 5)]
    assert merged.problems[0].message == f"{key}[0]: only a chain of hooks takes {word}"
    assert "write here too what is to stay of the parent's list" in merged.problems[0].help
    assert merged.root is not None
    assert len(as_written(merged.root)[key]) == 1, "so that nothing else is said of it"
    quoted = read(child.replace(f"- {word}", f"- '{word}'"), base="version: 1\n")
    assert quoted.problems == []


def test_inherit_of_nothing_is_nothing(read: Read) -> None:
    for base in ("version: 1\n", "version: 1\nhooks: {context: [{use: x}]}\n"):
        merged = read("version: 1\nextends: base.yaml\nhooks: {pre_tool: [inherit, {use: a}]}\n", base=base)
        assert content(merged)["hooks"]["pre_tool"] == [{"use": "a"}]


def test_every_value_keeps_its_own_file_and_line(read: Read) -> None:
    merged = read("version: 1\nextends: base.yaml\nhooks: {pre_tool: [inherit, {use: c}]}\n", base=HOOKS)
    assert merged.root is not None
    hooks = merged.root.get("hooks")
    assert isinstance(hooks, MapNode)
    chain = hooks.get("pre_tool")
    assert chain is not None
    items = getattr(chain, "items", ())
    assert [(item.source.name, item.line) for item in items] == [
        ("base.yaml", 5), ("base.yaml", 6), ("child.yaml", 3),
    ]  # fmt: skip
    assert [source.name for source in merged.sources] == ["child.yaml", "base.yaml"]


def test_problems_of_the_parent_are_the_parents(read: Read) -> None:
    merged = read("version: 1\nextends: base.yaml\n", base="version: 1\nname: a\nname: b\n")
    assert codes(merged) == [("yaml-duplicate-key", "base.yaml", 3, 1)]


@pytest.mark.parametrize(
    ("child", "code"),
    [
        ("version: 1\nextends: none.yaml\nzzz: 1\n", "extends-missing"),
        ("version: 1\nextends: child.yaml\n", "extends-cycle"),
        ("version: 1\nextends: ../x.yaml\n", "path-outside"),
        ("version: 1\nextends: [a, b]\n", "bad-value"),
        ("version: 1\nextends: ${env:A}\n", "bad-value"),
        ("version: 1\nextends: base.yaml\n", "yaml-syntax"),
    ],
)
def test_when_extends_fails_nothing_else_is_said(read: Read, child: str, code: str) -> None:
    merged = read(child, base="a: [")
    assert [problem.code for problem in merged.problems] == [code]
    assert merged.root is None


def test_parents_may_be_many_but_not_too_many(read: Read) -> None:
    def chain(length: int) -> Merged:
        others = {f"b{i}": f"version: 1\nextends: b{i + 1}.yaml\n" for i in range(length)}
        return read("version: 1\nextends: b0.yaml\n", **others, **{f"b{length}": "version: 1\nname: top\n"})

    assert chain(5).problems == []
    assert [problem.code for problem in chain(25).problems] == ["extends-cycle"]


@pytest.mark.parametrize(
    ("base", "child", "merged"),
    [
        ("{deny: [a]}", "5", {"deny": ["a"]}),  # it is reported, and what the parent denies stays denied
        ("5", "{deny: [a]}", {"deny": ["a"]}),
        ("{deny: [a]}", "{ask: [b]}", {"deny": ["a"], "ask": ["b"]}),
    ],
)
def test_permissions_of_a_wrong_shape(read: Read, base: str, child: str, merged: object) -> None:
    given = read(
        f"version: 1\nextends: base.yaml\npermissions: {child}\n", base=f"version: 1\npermissions: {base}\n"
    )
    assert content(given)["permissions"] == merged


@pytest.mark.parametrize("entry", ["{use: x}", "{run: [y, z]}", "{}", "[]"])
def test_an_unclear_chain_names_the_hooks_at_stake(read: Read, entry: str) -> None:
    base = f"version: 1\nhooks: {{pre_tool: [{entry}]}}\n"
    (problem,) = read("version: 1\nextends: base.yaml\nhooks: {pre_tool: []}\n", base=base).problems
    assert problem.message.split()[-1] in ("x", "y", "hook")


def test_a_cycle_of_files_is_found(read: Read) -> None:
    merged = read("version: 1\nextends: base.yaml\n", base="version: 1\nextends: child.yaml\n")
    assert codes(merged) == [("extends-cycle", "base.yaml", 2, 10)]
    assert merged.problems[0].help == "child.yaml extends base.yaml extends child.yaml"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x\n", "the key version is missing"),
        ("version: 2\n", "version 2 of the format is newer"),
        ("version: 0\n", "there is no version 0"),
        ("version: '1'\n", "the version must be the number 1"),
        ("version: 1.0\n", "the version must be the number 1"),
        ("version: true\n", "the version must be the number 1"),
        ("version: !x 1\n", "tag !x is not allowed"),
    ],
)
def test_the_version_is_checked_first(read: Read, text: str, message: str) -> None:
    (problem,) = read(text).problems
    assert problem.code in ("version", "yaml-tag")
    assert message in problem.message


@pytest.mark.parametrize("text", ["- a\n", "just text\n", "5\n"])
def test_a_flow_is_a_map(read: Read, text: str) -> None:
    merged = read(text)
    assert codes(merged) == [("bad-value", "child.yaml", 1, 1)]
    assert merged.root is None

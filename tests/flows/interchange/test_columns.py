import pytest

from turnchart.flows.interchange.columns import column_of

LINE = '{"a": 1, "b" : [ "x", {"c\\"d": null, "e": [ ]} ], "f": {}}'


@pytest.mark.parametrize(
    ("path", "begins"),
    [
        ((), '{"a"'),
        (("a",), "1,"),
        (("b",), '[ "x"'),
        (("b", 0), '"x"'),
        (("b", 1), '{"c'),
        (("b", 1, 'c"d'), "null"),
        (("b", 1, "e"), "[ ]"),
        (("f",), "{}"),
    ],
)
def test_a_value_is_found(path: tuple[str | int, ...], begins: str) -> None:
    assert LINE[column_of(LINE, path) - 1 :].startswith(begins)


@pytest.mark.parametrize(
    ("path", "reached"), [(("z",), ()), (("b", 7), ("b",)), (("a", "z"), ("a",)), (("f", 0), ("f",))]
)
def test_a_path_to_nowhere_leads_to_what_it_reaches(
    path: tuple[str | int, ...], reached: tuple[str | int, ...]
) -> None:
    assert column_of(LINE, path) == column_of(LINE, reached)


def test_blanks_before_the_line_count() -> None:
    assert column_of('  {"a": 1}', ()) == 3
    assert column_of('  {"a": 1}', ("a",)) == 9


def test_the_last_of_two_equal_names_counts() -> None:
    assert column_of('{"a": 1, "a": 2}', ("a",)) == 15

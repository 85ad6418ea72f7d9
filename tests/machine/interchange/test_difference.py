import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnchart.machine.interchange.difference import difference, patched, same

SCALARS = (
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, 2.5]) | st.text(max_size=2)
)
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), JSON, max_size=4)


@given(OBJECTS, OBJECTS)
def test_a_difference_makes_one_of_the_other(base: dict[str, Any], wanted: dict[str, Any]) -> None:
    changes = json.loads(json.dumps(difference(base, wanted)))
    made = patched(base, changes)
    assert same(made, wanted)
    assert json.dumps(made, sort_keys=True) == json.dumps(wanted, sort_keys=True)


@given(OBJECTS)
def test_there_is_none_between_equals(value: dict[str, Any]) -> None:
    assert difference(value, json.loads(json.dumps(value))) == {}


def test_it_says_no_more_than_what_differs() -> None:
    base = {"text": "a long text", "parts": [{"type": "text", "n": 1}, {"type": "image"}], "old": 1}
    wanted = {
        "text": "a long text",
        "parts": [{"type": "text", "n": 1, "sign": "x"}, {"type": "image"}],
        "new": None,
    }
    assert difference(base, wanted) == {
        "set": {"new": None},
        "drop": ["old"],
        "within": {"parts": {"within": {"0": {"set": {"sign": "x"}}}}},
    }


@pytest.mark.parametrize("pair", [(1, 1.0), (True, 1), (0, False), (None, 0), ([1], [1, 2]), ({}, [])])
def test_what_is_written_differently_differs(pair: tuple[Any, Any]) -> None:
    assert not same(*pair)
    assert not same({"x": [pair[0]]}, {"x": [pair[1]]})


def test_a_tuple_is_a_list() -> None:
    assert same({"x": (1, (2,))}, {"x": [1, [2]]})


def test_a_difference_of_something_else_is_refused() -> None:
    with pytest.raises(KeyError):
        patched({}, {"within": {"a": {"set": {"b": 1}}}})

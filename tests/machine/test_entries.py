"""Frozen JSON, and the entry as a line of text."""

import copy
import json
import pickle
from collections import OrderedDict
from collections.abc import Callable
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.machine.histories import JSON

from turnchart.machine.entries import (
    CONTEXT_TYPES,
    ENTRIES,
    MAX_DEPTH,
    SIGNALS,
    WRITES,
    Entry,
    Frozen,
    decode,
    decode_foreign,
    encode,
    freeze,
)
from turnchart.machine.messages import Text


class Word(StrEnum):
    YES = "yes"


class Number(IntEnum):
    ONE = 1


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def thawed(value: Any) -> Any:
    return json.loads(encode(value))


def frozen_throughout(value: Any) -> bool:
    if isinstance(value, Frozen):
        return all(frozen_throughout(item) for item in value.values())
    if isinstance(value, tuple):
        return all(frozen_throughout(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
    return value is None or type(value) in (str, int, float, bool)


# -- freezing ----------------------------------------------------------------------------------


@given(JSON)
def test_freezing_keeps_the_value_and_decoding_is_parsing_and_freezing_in_one(value: Any) -> None:
    frozen = freeze(value)
    assert frozen_throughout(frozen)
    assert thawed(frozen) == value
    text = json.dumps(value, ensure_ascii=False)
    found = decode(text)
    whole = decode(f'{{"it":{text}}}')["it"]
    assert encode(whole) == encode(frozen)
    assert frozen_throughout(whole)
    assert type(found) is (list if isinstance(value, list) else type(frozen))


def test_freezing_detaches() -> None:
    inner = {"b": [1]}
    frozen = freeze({"a": inner})
    inner["b"].append(2)
    assert frozen == {"a": {"b": (1,)}}


def test_what_is_frozen_is_not_copied() -> None:
    frozen = freeze({"a": [1]})
    assert freeze(frozen) is frozen
    assert freeze([frozen])[0] is frozen


MAPPINGS: list[Any] = [OrderedDict(a=1), MappingProxyType({"a": 1}), {"a": Number.ONE}]


@pytest.mark.parametrize("value", MAPPINGS)
def test_any_mapping_is_an_object(value: Any) -> None:
    frozen = freeze(value)
    assert frozen == {"a": 1}
    assert type(frozen["a"]) is int


def test_subclasses_of_plain_values_become_plain() -> None:
    assert type(freeze(Word.YES)) is str
    assert [type(key) for key in freeze({Word.YES: True})] == [str]


@pytest.mark.parametrize(
    ("value", "error", "what"),
    [
        ({"a": [1, float("nan")]}, ValueError, r"^\$\.a\[1\] is nan, which JSON cannot hold$"),
        ([float("inf")], ValueError, r"^\$\[0\] is inf, which JSON cannot hold$"),
        ({"a": {1: 2}}, TypeError, r"^\$\.a has the key 1; JSON keys are strings$"),
        ({"a": {None: 2}}, TypeError, r"^\$\.a has the key None; JSON keys are strings$"),
        ({"a": [object()]}, TypeError, r"^\$\.a\[0\] is a object, which is not JSON$"),
        ({"a": {1, 2}}, TypeError, r"^\$\.a is a set, which is not JSON$"),
        (b"bytes", TypeError, r"^\$ is a bytes, which is not JSON$"),
        ([10**4300], ValueError, r"^\$\[0\] is a number of more than 4300 digits"),
        ([-(10**4300)], ValueError, r"^\$\[0\] is a number of more than 4300 digits"),
        (nested(MAX_DEPTH + 2), ValueError, r"is nested deeper than 200, or contains itself$"),
    ],
)
def test_what_is_no_json_is_refused_by_its_path(value: Any, error: type[Exception], what: str) -> None:
    with pytest.raises(error, match=what):
        freeze(value)


def test_a_cycle_is_refused() -> None:
    knot: dict[str, Any] = {}
    knot["self"] = [knot]
    with pytest.raises(ValueError, match="contains itself"):
        freeze(knot)


def test_the_longest_number_and_the_deepest_value_are_stored() -> None:
    data = Frozen(kind="mine", data=(freeze(10**4300 - 1), freeze(nested(MAX_DEPTH))))
    line = Entry(0, None, "custom", 1.0, data).line()
    assert Entry.of(decode(line)).data == data


CHANGES: list[Callable[[Any], object]] = [
    lambda data: data.__setitem__("a", 2),
    lambda data: data.__delitem__("a"),
    lambda data: data.update(a=2),
    lambda data: data.setdefault("b", 2),
    lambda data: data.pop("a"),
    lambda data: data.popitem(),
    lambda data: data.clear(),
    lambda data: data.__ior__({"a": 2}),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_frozen_object_cannot_be_changed(change: Any) -> None:
    data = Frozen(a=1)
    with pytest.raises(TypeError, match=r"log data is frozen; copy it with dict\(data\)"):
        change(data)
    assert data == {"a": 1}


@pytest.mark.parametrize("value", [Frozen(a=(1, Frozen(b=2))), Text("hi")])
def test_a_frozen_object_can_be_copied_and_pickled(value: Frozen) -> None:
    assert copy.copy(value) is copy.deepcopy(value) is value
    again = pickle.loads(pickle.dumps(value))
    assert (again, type(again)) == (value, type(value))


# -- text --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity"])
def test_decode_reads_no_numbers_that_json_does_not_have(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is no JSON"):
        decode(f'{{"a":{name}}}')


@given(JSON, st.sampled_from([None, 1]))
def test_what_a_model_wrote_is_read_as_if_it_were_frozen_afterwards(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    read, expected = decode_foreign(text), freeze(json.loads(text))
    assert (read, repr(read)) == (expected, repr(expected))


REFUSED = [
    '{"a":NaN}',
    '{"a":[1e999]}',
    '{"a":-1e999}',
    '{"a":' + "1" * 4301 + "}",
    "[" * 202 + "]" * 202,
    "{",
    "",
]


@pytest.mark.parametrize("text", REFUSED)
@pytest.mark.parametrize("padding", ["", " " * MAX_DEPTH])
def test_what_the_log_cannot_hold_is_refused_where_a_model_wrote_it(text: str, padding: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode_foreign(text + padding)


ENTRY = st.builds(
    Entry,
    seq=st.integers(0),
    parent=st.none() | st.integers(0),
    type=st.text(),
    time=st.floats(allow_nan=False, allow_infinity=False),
    data=st.dictionaries(st.text(), JSON, max_size=3).map(freeze),
    replaces=st.none() | st.tuples(st.integers(0), st.integers(0)),
    sources=st.none() | st.lists(st.integers(0), max_size=3).map(tuple),
    attempt=st.none() | st.integers(0),
    ignorable=st.booleans(),
    foreign_id=st.none() | st.text(),
)


@given(ENTRY)
def test_an_entry_is_one_line_and_comes_back_from_it(entry: Entry) -> None:
    line = entry.line()
    assert "\n" not in line
    again = Entry.of(decode(line))
    assert again == entry
    assert again.line() == line
    assert Entry.of(json.loads(line)) == entry
    assert frozen_throughout(again.data)


def test_a_line_has_only_what_the_entry_has() -> None:
    assert Entry(0, None, "custom", 1.5, Frozen(a=1)).line() == (
        '{"seq":0,"parent":null,"type":"custom","time":1.5,"data":{"a":1}}'
    )
    full = Entry(7, 6, "custom", 2, Frozen(), (1, 2), (1, 2), 3, True, "x")
    assert full.line() == (
        '{"seq":7,"parent":6,"type":"custom","time":2.0,"data":{},'
        '"replaces":[1,2],"sources":[1,2],"attempt":3,"ignorable":true,"foreign_id":"x"}'
    )


def test_half_a_surrogate_pair_can_be_written() -> None:
    entry = Entry(0, None, "custom", 1.0, Frozen(a="\ud800 \N{SNOWMAN}"))
    line = entry.line()
    assert (
        line.encode()
        == '{"seq":0,"parent":null,"type":"custom","time":1.0,"data":{"a":"\\ud800 ☃"}}'.encode()
    )
    assert Entry.of(decode(line)) == entry


RAW: dict[str, Any] = {"seq": 1, "parent": 0, "type": "custom", "time": 1, "data": {}}


@pytest.mark.parametrize("name", RAW)
def test_an_entry_without_a_field_is_refused(name: str) -> None:
    with pytest.raises(KeyError, match=name):
        Entry.of({key: value for key, value in RAW.items() if key != name})


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("seq", "1", "seq and parent must be integers"),
        ("seq", True, "seq and parent must be integers"),
        ("parent", 1.0, "seq and parent must be integers"),
        ("type", None, "type a string"),
        ("time", "now", "time must be a number"),
        ("time", True, "time must be a number"),
        ("data", [], "data an object"),
        ("replaces", 3, "lists of integers"),
        ("replaces", [1, 2, 3], "replaces must be the first and the last of a range"),
        ("sources", ["1"], "lists of integers"),
        ("sources", {"1": 2}, "lists of integers"),
        ("attempt", "1", "attempt must be an integer"),
        ("foreign_id", 1, "foreign_id a string"),
    ],
)
def test_an_entry_with_a_field_of_another_type_is_refused(field: str, value: Any, what: str) -> None:
    with pytest.raises(TypeError, match=what):
        Entry.of(RAW | {field: value})


# -- the catalogue -----------------------------------------------------------------------------


def test_the_catalogue_holds_what_is_named_elsewhere() -> None:
    assert set(WRITES) <= set(ENTRIES)
    assert set(ENTRIES) >= CONTEXT_TYPES
    assert not set(ENTRIES) & set(SIGNALS)

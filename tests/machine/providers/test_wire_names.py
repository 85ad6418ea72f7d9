import re

from hypothesis import given
from hypothesis import strategies as st

from turnchart.machine.providers.wire_names import LONGEST_ID, LONGEST_NAME, WireIds, WireNames, wire_id


def test_a_dot_becomes_two_lines() -> None:
    names = WireNames(["github.search", "read_file"])
    assert names.wire("github.search") == "github__search"
    assert names.own("github__search") == "github.search"
    assert names.wire("read_file") == "read_file"
    assert names.own("of nobody") == "of nobody"


def test_who_has_a_name_keeps_it() -> None:
    names = WireNames(["a.b", "a__b", "a b", ""])
    assert names.wire("a__b") == "a__b"
    assert len({names.wire(name) for name in ("a.b", "a__b", "a b", "a_b", "")}) == 5


@given(st.lists(st.text(max_size=90), max_size=8, unique=True))
def test_every_name_goes_over_and_comes_back(given: list[str]) -> None:
    names = WireNames(given)
    for name in given:
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,%d}" % LONGEST_NAME, names.wire(name))  # noqa: UP031  # braces
        assert names.own(names.wire(name)) == name


@given(st.lists(st.text(max_size=60), unique=True))
def test_every_id_fits_and_stays_apart(ids: list[str]) -> None:
    assert len({wire_id(id) for id in ids}) == len(ids)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", wire_id(id)) for id in ids)
    assert all(len(wire_id(id)) <= LONGEST_ID for id in ids)


@given(st.lists(st.text(st.sampled_from("ab. "), max_size=3)))
def test_no_two_calls_have_one_id_and_every_result_finds_its_call(given: list[str]) -> None:
    ids, found = WireIds(), set[str]()
    for id in given:
        wire = ids.call(id)
        assert ids.result(id) == wire
        assert len(wire) <= LONGEST_ID
        found.add(wire)
    assert len(found) == len(given)


def test_an_id_that_fits_stays() -> None:
    assert wire_id("call_1-x") == "call_1-x"
    assert wire_id("c1.1.0") == wire_id("c1.1.0") != "c1.1.0"

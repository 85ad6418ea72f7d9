"""Rules that the automaton would catch first are asked here directly; the others in test_verify."""

from turnchart.machine.books import Fields, Requests, Turns, as_list, as_object
from turnchart.machine.entries import Entry, Frozen


def entry(type: str, **data: object) -> Entry:
    return Entry(0, None, type, 0.0, Frozen(data))


def test_a_turn_that_is_not_open_cannot_end() -> None:
    wrong = Turns().take(entry("turn/end", turn=1, reason="completed", steps=0))
    assert wrong == ("no turn is open", "turn/start")


def test_a_hook_before_the_step_names_the_step_to_come() -> None:
    book = Turns()
    assert book.take(entry("turn/start", turn=1)) is None
    assert book.take(entry("hook/result", turn=1, step=1)) is None
    assert book.take(entry("hook/result", turn=1, step=2)) == ("`step` is 2", "0")
    assert book.take(entry("step/start", turn=1, step=1)) is None
    assert book.take(entry("hook/result", turn=1, step=2)) == ("`step` is 2", "1")


def test_entries_between_turns_name_no_open_one() -> None:
    assert Turns().take(entry("hook/result", turn=7, step=3)) is None


def test_a_header_may_repeat_the_last_one_for_a_reason() -> None:
    book = Requests()
    same = {"model": "m", "settings": Frozen(), "thinking": "off", "tools": ()}
    assert book.take(entry("request/header", reason="initial", **same)) is None
    assert book.take(entry("request/header", reason="series", starts_series=True, **same)) is None
    assert book.take(entry("request/header", reason="resume", **same)) is None
    assert book.take(entry("request/header", reason="change", **same)) is not None


def test_a_prompt_may_repeat_the_last_one_in_its_place() -> None:
    book = Requests()
    said = entry("system/message", message=Frozen(role="system", content=()))
    assert book.take(said) is None
    assert book.take(said._replace(replaces=(3, 3))) is None
    assert book.take(said) is not None


def test_fields_may_be_absent_or_null_where_the_catalogue_says_so() -> None:
    assert Fields().take(entry("compaction/start", trigger="manual")) is None
    assert Fields().take(entry("compaction/start", trigger="manual", turn=None)) is None
    assert Fields().take(entry("compaction/start")) == ("field `trigger` is missing", "turn?, trigger")


def test_foreign_json_is_taken_for_what_it_is() -> None:
    assert as_object("x") == {}
    assert as_list("x") == ()
    assert as_list([1]) == [1]

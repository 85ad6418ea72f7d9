from typing import Any

import pytest

from turnchart.machine import Session, UserMessage
from turnchart.machine.entries import Frozen
from turnchart.machine.messages import ToolResultMessage
from turnchart.machine.summaries import retained_messages, summary_message


def test_a_summary_is_read_with_the_files_that_it_names() -> None:
    details = Frozen(read_files=("a.py", "b.py"), modified_files=("c.py",))
    said = summary_message(Frozen(summary="All of it.", details=details), 5.0)
    assert said.text == (
        "The earlier part of this conversation was replaced by this summary of it:\n\n"
        "<summary>\nAll of it.\n</summary>\n\n"
        "<read-files>\na.py\nb.py\n</read-files>\n\n"
        "<modified-files>\nc.py\n</modified-files>"
    )
    assert (said.source, said.time) == ("compaction", 5.0)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            {"summary": ""},
            "The earlier part of this conversation was left out to make room for what follows.",
        ),
        ({"summary": "s", "details": "imported"}, "<summary>\ns\n</summary>"),
        ({"summary": "s", "details": Frozen(dropped=True)}, "</summary>\n\nThe earlier part"),
    ],
)
def test_other_forms(data: dict[str, Any], expected: str) -> None:
    assert expected in summary_message(data, 0.0).text


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"first_kept": None}, "it lacks 'summary'"),
        ({"summary": 5}, "its summary is a int, not text"),
        ({"summary": "s", "retained_tail": "abc"}, "its retained_tail is no list"),
        ({"summary": "s", "retained_tail": (None,)}, "something else than numbers"),
        ({"summary": "s", "retained_tail": (Frozen(role="x"),)}, "role 'x' is unknown"),
        ({"summary": "s", "first_kept": 7}, "it keeps what follows from 7 on"),
    ],
)
def test_an_entry_that_cannot_be_read_is_refused(data: dict[str, Any], reason: str) -> None:
    session = Session()
    session.append("user/message", Frozen(message=UserMessage("a")))
    with pytest.raises(Exception, match=reason):
        session.append("compaction", Frozen(data))
    assert len(session.entries) == 1


def test_numbers_in_a_tail_name_what_the_log_still_has() -> None:
    kept = ToolResultMessage("c", "t", "r")
    assert retained_messages(Frozen(retained_tail=(3, kept, 4))) == [kept]
    assert retained_messages(Frozen()) == []


def test_a_range_that_is_no_part_of_the_conversation_is_refused() -> None:
    session = Session()
    session.append("user/message", Frozen(message=UserMessage("a")))
    with pytest.raises(Exception, match="which is no part of the conversation"):
        session.append("compaction", Frozen(summary="s"), replaces=(0, 5), sources=(0,))

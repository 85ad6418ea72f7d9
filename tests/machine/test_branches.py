"""What the model reads of a branch that was left."""

from typing import Any

import pytest
from tests.machine.histories import Kept, folds, reopened

from turnchart.machine.branches import branch_message
from turnchart.machine.entries import Frozen
from turnchart.machine.errors import AppendRefused
from turnchart.machine.messages import UserMessage
from turnchart.machine.session import Session


def test_a_summary_is_a_message_that_says_what_it_is_and_names_the_files() -> None:
    details = Frozen(read_files=("a.py",), modified_files=("b.py", "c.py"))
    said = branch_message({"summary": "We tried A.", "from": 3, "details": details}, 5.0)
    assert said is not None
    assert (said.role, said.source, said.time) == ("user", "branch_summary", 5.0)
    assert "<summary>\nWe tried A.\n</summary>" in said.text
    assert said.text.endswith(
        "<read-files>\na.py\n</read-files>\n\n<modified-files>\nb.py\nc.py\n</modified-files>"
    )


def test_a_blank_summary_says_nothing() -> None:
    assert branch_message({"summary": " \n", "from": None}, 0.0) is None


@pytest.mark.parametrize("details", [None, "x", Frozen(read_files="a.py"), Frozen(other=1)])
def test_details_of_another_form_name_no_files(details: Any) -> None:
    said = branch_message({"summary": "A.", "from": 0, "details": details}, 0.0)
    assert said is not None
    assert said.text.endswith("</summary>")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (Frozen(summary="x"), "it lacks 'from'"),
        (Frozen({"from": 0}), "it lacks 'summary'"),
        (Frozen({"summary": 5, "from": 0}), "its summary is a int, not text"),
        (Frozen({"summary": "x", "from": "0"}), "it comes from '0', which is no number of an entry"),
    ],
)
def test_a_malformed_entry_is_refused(data: Frozen, what: str) -> None:
    session = Session(Kept())
    with pytest.raises(AppendRefused, match=what):
        session.append("branch_summary", data)
    assert session.entries == []


def test_it_stands_in_the_conversation_where_it_was_written() -> None:
    session = Session(Kept())
    session.append("user/message", Frozen(message=UserMessage("a")))
    session.append("branch_summary", Frozen({"summary": "We tried A.", "from": 0}))
    session.append("branch_summary", Frozen({"summary": "", "from": 0}))
    session.append("user/message", Frozen(message=UserMessage("b")))
    assert [node.seq for node in session.view.nodes] == [0, 1, 3]
    assert folds(reopened(session)) == folds(session)

"""Transforms and projectors: a view of one's own over the entries of a branch."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from tests.machine.drive import calls, scripted
from tests.machine.histories import ACTS, Act, Kept, history

from turnchart.machine import Entry, Message, Reply, ScriptedModel, Session, UserMessage
from turnchart.machine.entries import Frozen
from turnchart.machine.rebuild import rebuild


def texts(session: Session, **more: Any) -> list[str]:
    return [each.text for each in session.context(**more)]


def written(*said: str) -> Session:
    session = Session(Kept())
    for text in said:
        session.append("user/message", Frozen(message=UserMessage(text)))
    return session


def without_first(entries: Sequence[Entry]) -> Sequence[Entry]:
    return entries[1:]


def shouting(entries: Sequence[Entry]) -> Sequence[Entry]:
    return [
        each._replace(data=Frozen(message=UserMessage(each.data["message"].text.upper()))) for each in entries
    ]


def note(entry: Entry, _index: int, _entries: Sequence[Entry]) -> Message:
    return UserMessage(entry.data["data"])


def two(*_given: object) -> Sequence[Message]:
    return [UserMessage("x"), UserMessage("y")]


def nothing(*_given: object) -> None:
    return None


def strange(*_given: object) -> list[str]:
    return ["x"]


@given(acts=ACTS)
def test_a_transform_that_changes_nothing_shows_what_the_view_shows(acts: list[Act]) -> None:
    session = history(acts)
    assert list(session.context(transforms=[tuple])) == list(session.view.messages())


def test_transforms_are_stacked_and_those_of_the_call_come_last() -> None:
    session = written("a", "b", "c")
    stop = session.transform(without_first)
    assert texts(session, transforms=[shouting]) == ["B", "C"]
    session.transform(without_first)
    assert texts(session) == ["c"]
    stop()
    assert session.projection is None
    assert texts(session) == ["a", "b", "c"]


def test_a_projector_of_the_call_goes_before_that_of_the_session() -> None:
    session = written("a")
    session.append_custom("note", "n")
    session.append_custom("other", "o")
    first = session.project("note", note)
    second = session.project("note", two)
    assert texts(session) == ["a", "x", "y"]
    assert texts(session, projectors={"note": note, "other": note}) == ["a", "n", "o"]
    first()
    assert texts(session) == ["a", "x", "y"]
    second()
    assert (session.projection, texts(session)) == (None, ["a"])
    assert texts(session, projectors={"note": nothing}) == ["a"]


def test_what_was_replaced_takes_custom_entries_along() -> None:
    session = written("a")
    session.append_custom("note", "old")
    session.append("user/message", Frozen(message=UserMessage("b")))
    session.append_custom("note", "new")
    session.append("user/message", Frozen(message=UserMessage("both")), replaces=(0, 2))
    assert texts(session, projectors={"note": note}) == ["both", "new"]


def test_an_imported_compaction_without_a_range_begins_at_its_first_kept() -> None:
    session = written("a", "b", "c")
    summary = Frozen(summary="A.", first_kept=1, retained_tail=(), tokens_before=1)
    session.append("compaction", summary)
    assert list(session.context(transforms=[tuple])) == list(session.view.messages())
    assert texts(session)[1:] == ["b", "c"]


def test_something_else_than_entries_or_messages_is_refused_by_name() -> None:
    session = written("a")
    session.append_custom("note", "n")

    def wrong(entries: Sequence[Entry]) -> Any:
        return ["x", *entries]

    with pytest.raises(TypeError, match="the transform wrong gave a str; it must give entries"):
        session.context(transforms=[wrong])
    nonsense: Any = {"note": strange}
    with pytest.raises(TypeError, match="the projector of 'note' gave a str; it must give a message"):
        session.context(projectors=nonsense)


async def test_what_the_model_saw_because_of_them_is_in_the_log() -> None:
    replies: list[Reply | str] = [calls(("add", {"a": 1, "b": 2})), "one", "two", "three"]
    async with scripted(replies) as agent:
        session, model = agent.session, agent.model
        assert isinstance(model, ScriptedModel)
        session.append_custom("note", "n")
        stop = session.project("note", note)
        await agent.prompt("x")
        session.transform(without_first)
        await agent.prompt("y")
        stop()
        session.projection = None
        await agent.prompt("z")
        shown = [[each.text for each in request.messages] for request in model.requests]
        assert [each[0] for each in shown] == ["n", "n", "x", "x"]
        rebuilt = [[each.text for each in request.messages] for request in rebuild(session.entries)]
        assert rebuilt == shown
        logged = [entry.seq for entry in session.entries if entry.type == "request/rewritten"]
        assert len(logged) == 2


async def test_a_transform_that_fails_fails_the_turn() -> None:
    async with scripted(["never"]) as agent:
        agent.session.transform(lambda entries: [entries[99]])
        turn = await agent.prompt("x")
        assert turn.reason == "error"
        assert isinstance(turn.error, IndexError)
        assert isinstance(agent.model, ScriptedModel)
        agent.model.drop()

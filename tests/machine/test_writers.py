"""What people and programs write to a session: at once between turns, at the end of the step inside one."""

from collections.abc import Callable

import pytest
from tests.machine.drive import calls, drop, scripted, texts, types
from tests.machine.histories import Kept

from turnchart.machine import (
    Agent,
    AppendRefused,
    CustomMessage,
    Entry,
    ScriptedModel,
    Session,
    SessionReadOnly,
    Signal,
    State,
    UserMessage,
)
from turnchart.machine.entries import Frozen
from turnchart.machine.kinds import KINDS, Kind


def test_between_turns_each_writer_appends_at_once() -> None:
    session = Session.memory()
    custom = session.append_custom("mine", {"a": [1]})
    assert custom is not None
    assert custom.data == {"kind": "mine", "data": {"a": (1,)}}
    message = session.append_custom_message("note", "hello")
    assert message is not None
    assert message.data["message"].text == "hello"
    named = session.set_name("  two\n lines ")
    assert named is not None
    assert named.data == {"name": "two lines"}
    assert types(session) == ["custom", "custom_message", "session_info"]


def test_a_label_names_an_entry_and_blank_text_takes_the_name_away() -> None:
    session = Session.memory()
    session.append_custom("mine", 1)
    first, second = session.append_label(0, " here "), session.append_label(0, "  ")
    assert first is not None
    assert first.data == {"target": 0, "text": "here"}
    assert second is not None
    assert second.data == {"target": 0}
    with pytest.raises(IndexError, match="there is no entry 7 to label; the log has 3"):
        session.append_label(7, "x")
    with pytest.raises(TypeError, match="named by its number, not by True"):
        session.append_label(True, "x")


def test_navigating_starts_another_branch_or_another_root() -> None:
    session = Session.memory()
    session.append_custom("mine", 1)
    session.append_custom("mine", 2)
    session.navigate(0)
    assert session.leaf == 0
    branch = session.append_custom("mine", 3)
    assert branch is not None
    assert branch.parent == 0
    session.navigate(None)
    root = session.append_custom("mine", 4)
    assert root is not None
    assert root.parent is None
    with pytest.raises(IndexError, match="there is no entry 9"):
        session.navigate(9)


async def test_inside_a_turn_they_wait_for_the_end_of_the_step() -> None:
    async with scripted([calls(("add", {"a": 1, "b": 2})), "done"]) as agent:
        agent.follow_up("x")
        await agent.until(State.TOOLING)
        assert agent.session.append_custom("mine", 1) is None
        assert agent.session.append_label(0, "start") is None
        with pytest.raises(AppendRefused, match="move in the tree when it is over"):
            agent.session.navigate(0)
        assert "custom" not in types(agent.session)
        agent.go_on()
        await agent.idle()
        kinds = types(agent.session)
        assert kinds[kinds.index("step/end") + 1 :][:2] == ["custom", "label"]


async def test_who_asks_for_a_write_hears_at_once_what_is_wrong_with_it() -> None:
    async with scripted(["a"]) as agent:
        agent.append_message(UserMessage("first", id="one"))
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        agent.append_message(UserMessage("second", id="two"))
        wrong: list[tuple[Callable[[], object], type[Exception], str]] = [
            (lambda: agent.append_message(UserMessage("y", id="one")), ValueError, "'one' is here already"),
            (
                lambda: agent.append_message(UserMessage("y", id="two")),
                ValueError,
                "'two' waits to be written",
            ),
            (lambda: agent.session.append_label(99, "x"), IndexError, "there is no entry 99 to label"),
            (lambda: agent.session.append_custom("mine", {1}), TypeError, "is a set, which is not JSON"),
            (lambda: agent.set_active_tools(["nope"]), ValueError, "there is no tool 'nope'"),
            (lambda: agent.set_model(5), TypeError, "model must be text, not int"),  # type: ignore[arg-type]
        ]
        for act, error, what in wrong:
            with pytest.raises(error, match=what):
                act()
        agent.go_on()
        await agent.idle()
        assert agent.turning.error is None
        assert texts(agent.session, "user/message") == ["first", "x", "second"]


async def test_a_message_that_no_log_could_take_is_refused_when_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(_said: CustomMessage) -> UserMessage:
        raise RuntimeError("no rule today")

    monkeypatch.setitem(KINDS, "odd", Kind(None, fails))
    async with scripted(["a"]) as agent:
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        with pytest.raises(AppendRefused, match="no rule today"):
            agent.append_message(CustomMessage("odd", "x"))
        with pytest.raises(AppendRefused, match="no rule today"):
            agent.session.append_custom_message("odd", "x")
        agent.go_on()
        await agent.idle()
        assert agent.turning.error is None


async def test_one_that_is_refused_at_the_end_of_the_step_holds_up_none_behind_it() -> None:
    async with scripted([calls(("add", {"a": 1, "b": 2})), "never"]) as agent:
        agent.session.validate(lambda entry: "no" if entry.data.get("data") == 2 else None)
        agent.follow_up("x")
        await agent.until(State.TOOLING)
        for number in range(4):
            agent.session.append_custom("mine", number)
        agent.go_on()
        await agent.idle()
        assert [e.data["data"] for e in agent.session.entries if e.type == "custom"] == [0, 1, 3]
        assert isinstance(agent.turning.error, AppendRefused)
        assert agent.unwritten == ()
        drop(agent)


async def test_what_a_failing_store_did_not_take_is_kept_in_order() -> None:
    class Full(Kept):
        """Takes two custom entries, and then nothing any more."""

        def append(self, entry: Entry) -> None:
            self.refuse = OSError(28, "full") if entry.data.get("data") == 2 else self.refuse
            super().append(entry)

    store = Full()
    async with Agent(ScriptedModel(["a"]), session=Session(store)) as agent:
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        for number in range(4):
            agent.session.append_custom("mine", number)
        agent.go_on()
        await agent.idle()
        assert [e.data["data"] for e in store.entries if e.type == "custom"] == [0, 1]
        assert [write.data["data"] for write in agent.unwritten] == [2, 3]
        with pytest.raises(SessionReadOnly):
            agent.session.append_custom("mine", 4)
        with pytest.raises(SessionReadOnly):
            agent.set_model("other")
    again = Session(Kept(store.entries))
    for write in agent.unwritten:
        again.append(write.type, write.data)
    assert [e.data["data"] for e in again.entries if e.type == "custom"] == [0, 1, 2, 3]


async def test_what_a_refused_end_of_a_turn_kept_back_is_written_first() -> None:
    async with Agent(ScriptedModel(["a", "b"])) as agent:
        stop = agent.session.validate(lambda entry: "no" if entry.type == "step/end" else None)
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        agent.session.append_custom("mine", 1)
        agent.go_on()
        await agent.idle()
        assert (agent.state, len(agent.unwritten)) == (State.IDLE, 1)
        stop()
        agent.session.append_custom("mine", 2)
        assert [e.data["data"] for e in agent.session.entries if e.type == "custom"] == [1, 2]
        kinds = types(agent.session)
        assert kinds.index("turn/end") < kinds.index("custom")
        assert (await agent.prompt("y")).ok


async def test_what_a_listener_asks_for_while_writes_are_flushed_comes_after_them() -> None:
    async with scripted([calls(("add", {"a": 1, "b": 2})), "done"]) as agent:
        session = agent.session

        def hear(signal: Signal, _abort: object) -> None:
            entry = signal.data["entry"]
            if entry.type == "custom" and entry.data["data"] < 2:
                session.append_custom("mine", entry.data["data"] + 10)

        agent.on("session/event", hear)
        agent.follow_up("x")
        await agent.until(State.TOOLING)
        for number in range(3):
            session.append_custom("mine", number)
        agent.go_on()
        await agent.idle()
        assert [e.data["data"] for e in session.entries if e.type == "custom"] == [0, 1, 2, 10, 11]


def test_a_custom_message_may_be_hidden_from_people_and_carry_details() -> None:
    session = Session.memory()
    entry = session.append_custom_message("note", "n", display=False, details={"a": 1})
    assert entry is not None
    assert (entry.data["message"]["display"], entry.data["message"].details) == (False, {"a": 1})


def test_a_move_with_a_summary_that_is_refused_has_not_moved() -> None:
    session = Session.memory()
    for number in range(3):
        session.append_custom("mine", number)
    stop = session.validate(lambda entry: "no" if entry.type == "branch_summary" else None)
    with pytest.raises(AppendRefused, match="no"):
        session.navigate(0, summary="x")
    assert session.leaf == 2
    stop()
    assert session.navigate(0, summary="x").data == Frozen({"summary": "x", "from": 2})

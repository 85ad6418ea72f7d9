"""What people and programs write to a session: at once between turns, at the end of the step inside one."""

import pytest
from tests.machine.drive import calls, scripted, types

from turnchart.machine import AppendRefused, Session, State


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

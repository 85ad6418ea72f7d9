"""What an agent is fitted out with, and what its effects ask of it."""

from pathlib import Path
from typing import Any

import pytest
from tests.machine.drive import add, calls, run, scripted, slow, texts

from turnchart.machine import (
    Agent,
    Failure,
    Reply,
    RequestFailed,
    ScriptedModel,
    Session,
    UnknownModel,
    UserMessage,
    tool,
)
from turnchart.machine.clock import SYSTEM_CLOCK
from turnchart.machine.points import Allow, Deny, PreTool
from turnchart.testing import FakeClock


def made(**settings: Any) -> Agent:
    """Return an agent that does nothing."""
    return Agent(ScriptedModel(), **settings)


# -- making one ------------------------------------------------------------------------------------------


def test_making_an_agent_writes_and_starts_nothing(tmp_path: Path) -> None:
    session = Session.jsonl(tmp_path / "s.jsonl")
    agent = made(session=session, hooks={"session_start": [_fail]})
    assert (agent.state, session.entries) == ("idle", [])
    assert not (tmp_path / "s.jsonl").exists()


def _fail(payload: object) -> None:
    raise AssertionError


def test_it_has_a_session_a_clock_and_the_current_folder_unless_it_is_given_others(tmp_path: Path) -> None:
    agent = made()
    assert agent.clock is SYSTEM_CLOCK
    assert agent.root == Path.cwd()
    assert agent.session.entries == []
    clock, session = FakeClock(), Session.memory()
    agent = made(clock=clock, session=session, root=tmp_path, name="me", flow="demo")
    assert (agent.clock, agent.session, agent.root, agent.name, agent.flow) == (
        clock,
        session,
        tmp_path,
        "me",
        "demo",
    )


@pytest.mark.parametrize("model", [None, 5, ScriptedModel, [ScriptedModel()], b"test"])
def test_what_is_no_model_is_refused_with_what_one_is(model: Any) -> None:
    with pytest.raises(TypeError, match=r"a model is an id .* or an object with `id` and `prepare`.*, not "):
        Agent(model)


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match=r"two tools have the name 'add'; .*@tool\(name=\)"):
        made(tools=[add, tool(add.fn, name="add")])


def test_a_function_is_no_tool_yet() -> None:
    def double(number: int) -> int:
        return 2 * number

    with pytest.raises(
        TypeError, match=r"tools\[1\] is a function: make a tool of it with @tool or tool\(double\)"
    ):
        made(tools=[add, double])
    with pytest.raises(TypeError, match=r"tools\[0\] is a str: make a tool of a typed function"):
        made(tools=["add"])


def test_a_lone_hook_is_no_chain() -> None:
    with pytest.raises(TypeError, match=r"hooks\['pre_tool'\] must be a list of hooks, in order"):
        made(hooks={"pre_tool": _fail})


def test_hooks_of_a_point_that_does_not_exist_are_refused() -> None:
    with pytest.raises(ValueError, match="pre_tools"):
        made(hooks={"pre_tools": [_fail]})


def test_what_cannot_take_a_payload_is_no_hook() -> None:
    def no_payload() -> None: ...

    with pytest.raises(TypeError, match="no_payload"):
        made(hooks={"pre_tool": [no_payload]})
    assert made(hooks={"pre_tool": []}).chains == {}


def test_agents_share_no_settings_that_can_be_changed() -> None:
    one, two = made(), made()
    one.added_tools |= {"x"}
    assert two.added_tools == frozenset()
    assert one.session is not two.session


# -- prompt and tools ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "joined"), [("One.", "One."), ((), ""), (["One.", "", "Two."], "One.\n\nTwo.")]
)
def test_the_parts_of_the_prompt_are_joined_with_a_blank_line(prompt: Any, joined: str) -> None:
    assert made(prompt=prompt).system_prompt == joined


def test_tools_stand_in_the_order_of_their_names_whatever_order_they_were_given_in() -> None:
    one, two = made(tools=[slow, add]), made(tools=[add, slow])
    assert [spec["name"] for spec in one.specs(("slow", "add"))] == ["add", "slow"]
    assert one.specs(("slow", "add")) == two.specs(("add", "slow"))
    assert one.specs(("add", "add", "none")) == one.specs(("add",))
    (spec,) = one.specs(("add",))
    assert spec["description"] == "Add two numbers."
    assert set(spec["schema"]["properties"]) == {"a", "b"}


def test_specs_are_made_once_for_one_choice_of_tools() -> None:
    agent = made(tools=[add, slow])
    assert agent.specs(("add",)) is agent.specs(("add",))


def test_a_tool_can_be_called_only_where_the_step_has_it() -> None:
    agent = made(tools=[add, slow])
    agent.turning.tools = ("add",)
    assert agent.tool("add") is add
    assert agent.tool("slow") is None
    assert agent.tool("none") is None


async def test_the_active_tools_are_all_until_somebody_chooses() -> None:
    async with scripted([]) as agent:
        assert agent.active_tools() == ("add", "slow")
        agent.set_active_tools(["slow"])
        assert agent.active_tools() == ("slow",)
        agent.added_tools = frozenset(("add",))
        assert agent.active_tools() == ("add", "slow")


# -- models ----------------------------------------------------------------------------------------------


async def test_the_agents_own_model_is_found_by_its_id() -> None:
    agent = made()
    assert await agent.find_model("test") is agent.model
    assert await agent.find_model("") is agent.model
    with pytest.raises(UnknownModel, match=r"no model 'other': give Agent\(models=\)"):
        await agent.find_model("other")


async def test_others_are_found_by_a_mapping_or_a_function_that_may_be_async() -> None:
    other = ScriptedModel(id="other")

    def find(id: str) -> Any:
        return {"other": other}.get(id)

    async def find_later(id: str) -> Any:
        return find(id)

    for models in ({"other": other}, find, find_later):
        agent = made(models=models)
        assert await agent.find_model("other") is other
        with pytest.raises(UnknownModel, match="'none'"):
            await agent.find_model("none")


async def test_an_agent_may_know_its_model_by_the_id_alone() -> None:
    model = ScriptedModel(["hi"], id="other")
    async with Agent("other", models={"other": model}) as agent:
        assert (await agent.prompt("x")).text == "hi"


async def test_hooks_ask_models_one_question_beside_the_conversation() -> None:
    judge = ScriptedModel(["no way", Failure("auth")], id="judge")
    seen: list[str] = []

    async def judged(payload: PreTool) -> Allow | Deny:
        seen.append(await payload.ask_model("judge", f"May {payload.tool} run?"))
        return Deny(seen[-1])

    agent, _ = await run(
        [calls(("add", {"a": 1, "b": 2})), "ok"], models={"judge": judge}, hooks={"pre_tool": [judged]}
    )
    assert texts(agent.session, "tool/result") == ["Denied: no way (hook judged)"]
    (request,) = judge.requests
    assert [message.text for message in request.messages] == ["May add run?"]
    assert (request.system, request.tools) == ("", ())
    with pytest.raises(RequestFailed, match="auth"):
        await agent.world.ask_model("judge", "again?")


# -- what is put into the inbox --------------------------------------------------------------------------


def test_messages_get_ids_and_times_and_keep_those_that_they_bring() -> None:
    agent = made(clock=FakeClock(5.0))
    item = agent.put(
        [UserMessage("a"), UserMessage("b", id="mine", time=1.0)], "next-step", "inject", source="me"
    )
    first, second = item.messages
    assert (first["id"], first["time"], first["source"]) == ("m0", 5.0, "me")
    assert (second["id"], second["time"], second["source"]) == ("mine", 1.0, "me")
    assert item.id == "i0"


def test_a_source_that_a_message_names_stays() -> None:
    (said,) = made().put([UserMessage("a", source="own")], "next-step", "inject", source="me").messages
    assert said["source"] == "own"


def test_ids_never_collide() -> None:
    agent = made()
    agent.put([UserMessage("a", id="m1")], "rider", "next_turn")
    item = agent.put([UserMessage("b")], "rider", "next_turn")
    assert item.messages[0]["id"] not in ("m1", "")
    with pytest.raises(ValueError, match="'m1' is here already"):
        agent.put([UserMessage("c", id="m1")], "rider", "next_turn")


# -- approvals and chance --------------------------------------------------------------------------------


def test_what_is_approved_for_the_session_is_approved_for_that_subject() -> None:
    @tool(subject="path")
    def read(path: str) -> str:
        """Read."""
        return path

    agent = made(tools=[read, add])
    agent.approve_for_session(read, {"path": "a"})
    agent.approve_for_session(add, {"a": 1, "b": 1})
    assert agent.approved_for_session(read, {"path": "a"})
    assert not agent.approved_for_session(read, {"path": "b"})
    assert agent.approved_for_session(add, {"a": 2, "b": 2})


def test_the_same_seed_gives_the_same_chance() -> None:
    one, two, other = (made(seed=seed).rng.random() for seed in (1, 1, 2))
    assert one == two != other
    agent = made()
    assert agent.rng is agent.rng


async def test_a_reply_may_stream_while_another_agent_works() -> None:
    async with scripted([Reply("a", delay=1)]) as one, scripted([Reply("b", delay=2)]) as two:
        one.follow_up("x")
        two.follow_up("y")
        await one.idle()
        await two.idle()
        assert texts(one.session, "assistant/message") + texts(two.session, "assistant/message") == ["a", "b"]

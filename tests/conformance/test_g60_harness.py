"""data-flow G 60 to 97: queues, order of events, settings, hooks that answer, and what listeners may do."""

from typing import Any

import pytest
from anyio.lowlevel import checkpoint
from tests.conformance.hearing import Heard, admitted, requests, roles, said, users, watched
from tests.conformance.toolkit import asks, results
from tests.machine.drive import ADD, add, drop, run, scripted, slow, texts, types

from turnchart.machine import (
    Agent,
    CustomMessage,
    Failure,
    Queues,
    Reply,
    ScriptedModel,
    State,
    ToolContext,
    UserMessage,
    tool,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.bound import bind
from turnchart.machine.payloads import Assemble
from turnchart.machine.points import Context, Deny, PostTool, PreStep, PreTool, Request
from turnchart.machine.ui import (
    Abort,
    AgentEnd,
    AgentStart,
    MessageEnd,
    MessageStart,
    ModelUpdate,
    QueueUpdate,
    SavePoint,
    Settled,
    ThinkingLevelUpdate,
    ToolsUpdate,
    UiEvent,
)

PLAIN = [
    "queue_update", "agent_start", "queue_update", "turn_start", "ms user", "me user",
    "after_provider_response", "ms assistant", "mu assistant", "me assistant", "turn_end", "save_point",
    "agent_end", "settled",
]  # fmt: skip
"""One prompt and its answer. The prompt itself waits in the queue for a moment."""


def lengths(heard: Heard, name: str) -> list[int]:
    """Return how many waited in one list at each change, repeated lengths once."""
    found: list[int] = []
    for event in heard.of(QueueUpdate):
        length = len(getattr(event, name))
        if found[-1:] != [length]:
            found.append(length)
    return found


async def test_g060_steering_one_at_a_time() -> None:
    async with watched(["a", "b", "c"], queues=Queues(steering="one-at-a-time")) as (agent, heard):
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        agent.steer("one")
        agent.steer("two")
        agent.go_on()
        await agent.idle()
    assert [len(each) for each in users(agent)] == [1, 2, 3]
    assert lengths(heard, "steer") == [0, 1, 2, 1, 0]


async def test_g061_prompts_one_at_a_time() -> None:
    async with watched(["a", "b", "c"]) as (agent, heard):
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        agent.follow_up("one")
        agent.follow_up("two")
        agent.go_on()
        await agent.idle()
    assert [len(each) for each in users(agent)] == [1, 2, 3]
    assert lengths(heard, "follow_up") == [1, 0, 1, 2, 1, 0]
    assert [len(heard.of(kind)) for kind in (AgentStart, AgentEnd, Settled)] == [1, 1, 1]


async def test_g061_or_all_in_one_turn() -> None:
    async with watched(["a", "b"], queues=Queues(follow_up="all")) as (agent, heard):
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        agent.follow_up("one")
        agent.follow_up("two")
        agent.go_on()
        await agent.idle()
    assert [len(each) for each in users(agent)] == [1, 3]
    assert lengths(heard, "follow_up") == [1, 0, 1, 2, 0]


async def test_g062_what_a_pre_step_hook_adds_follows_the_prompt_and_stays() -> None:
    def more(payload: PreStep) -> PreStep | None:
        if payload.step > 1:
            return None
        return payload.replace(messages=(*payload.messages, UserMessage("more", source="hook")))

    async with watched([ADD, "done"], hooks={"pre_step": [more]}) as (agent, _):
        await agent.prompt("x")
    assert users(agent) == [["x", "more"], ["x", "more"]]
    assert texts(agent.session, "user/message") == ["x", "more"]


async def test_g063_an_abort_gives_back_what_it_discarded_and_leaves_the_riders() -> None:
    async with watched([Reply("late", delay=5)]) as (agent, heard):
        agent.follow_up("first")
        await admitted(agent)
        agent.steer("steered")
        agent.follow_up("followed")
        agent.next_turn("next")
        cleared = agent.abort("user")
        assert [each.messages[0].text for each in cleared] == ["steered", "followed"]
        await agent.idle()
        (abort,) = heard.of(Abort)
        assert abort.cleared == cleared
        names = heard.names()
        assert names.index("queue_update") < names.index("abort") < names.index("agent_end")
        last = heard.of(QueueUpdate)[-1]
        assert (len(last.steer), len(last.follow_up), len(last.next_turn)) == (0, 0, 1)
        assert [event.next_turn_count for event in heard.of(Settled)] == [1]
        agent.model = ScriptedModel(["ok"])
        await agent.prompt("second")
        assert users(agent) == [["first", "next", "second"]]


async def test_g063_an_abort_that_discards_nothing_is_no_event() -> None:
    async with watched([Reply("late", delay=5)]) as (agent, heard):
        agent.follow_up("x")
        await admitted(agent)
        assert agent.abort("user") == ()
        await agent.idle()
        assert heard.of(Abort) == []


async def test_g064_a_context_hook_that_fails_is_passed_over_unless_it_says_stop() -> None:
    def broken(_: Context) -> None:
        raise ValueError("boom")

    agent, (turn,) = await run(["hi"], hooks={"context": [broken]})
    assert turn.ok
    assert roles(agent.session) == ["user", "assistant"]
    stops = bind("context", broken, on_error="stop")
    async with watched(["hi"], hooks={"context": [stops]}) as (agent, heard):
        turn = await agent.prompt("x")
        assert turn.reason == "error"
        assert roles(agent.session) == ["user"]
        assert heard.names()[-4:] == ["turn_end", "save_point", "agent_end", "settled"]
        drop(agent)


async def test_g065_settings_asked_for_during_a_tool_count_from_the_next_step() -> None:
    other = ScriptedModel(["done"], id="other")

    @tool
    def change() -> str:
        """Change everything."""
        agent.set_model("other")
        agent.set_thinking_level("high")
        agent.set_active_tools(["add"])
        return "changed"

    async with watched([asks("change")], tools=[change, add], models={"other": other}) as (agent, heard):
        await agent.prompt("x")
    (first,), (second,) = requests(agent), other.requests
    assert (first.model, first.thinking, len(first.tools)) == ("test", None, 2)
    assert (second.model, second.thinking, len(second.tools)) == ("other", "high", 1)
    assert heard.of(ModelUpdate) == [ModelUpdate("other", "test")]
    assert heard.of(ThinkingLevelUpdate) == [ThinkingLevelUpdate("high", None)]
    assert heard.of(ToolsUpdate) == [ToolsUpdate(("add",), ("change", "add"))]
    view = agent.view
    assert (view.model, view.thinking_level, [each.name for each in view.tools]) == ("other", "high", ["add"])


async def test_g066_a_message_appended_by_a_listener_follows_the_answer() -> None:
    def note(event: UiEvent, _: AbortSignal) -> None:
        if isinstance(event, MessageEnd) and event.message.role == "assistant":
            agent.append_message(CustomMessage("note", "seen"))

    async with scripted(["hi"]) as agent:
        agent.ui(note)
        heard = Heard(agent)
        await agent.prompt("x")
    assert roles(agent.session) == ["user", "assistant", "custom"]
    assert heard.names()[-5:] == ["save_point", "ms custom", "me custom", "agent_end", "settled"]


async def test_g067_idle_returns_after_the_listeners_of_agent_end() -> None:
    seen: list[str] = []

    async def slowly(event: UiEvent, _: AbortSignal) -> None:
        await checkpoint()
        seen.append(event.type)

    async with scripted(["hi"]) as agent:
        agent.ui(slowly)
        agent.follow_up("x")
        await agent.idle()
        assert seen[-2:] == ["agent_end", "settled"]


async def test_g069_each_call_has_its_own_context_of_the_same_session() -> None:
    seen: list[ToolContext] = []

    @tool
    def look(ctx: ToolContext) -> str:
        """Keep the context."""
        seen.append(ctx)
        return "seen"

    agent, _ = await run([asks("look"), asks("look"), "done"], tools=[look])
    first, second = seen
    assert first is not second
    assert first.call_id != second.call_id
    assert first.session_id == second.session_id == agent.session.id
    assert first.abort is second.abort is agent.turning.abort


def test_g071_tools_have_one_name_each() -> None:
    with pytest.raises(ValueError, match="two tools have the name 'add'"):
        Agent(ScriptedModel(), tools=[add, add])
    agent = Agent(ScriptedModel(), tools=[add, slow])
    with pytest.raises(ValueError, match="no tool 'nope'; the tools are: add, slow"):
        agent.set_active_tools(["add", "nope"])
    with pytest.raises(ValueError, match="'add' is named twice"):
        agent.set_active_tools(["add", "add"])
    assert agent.session.entries == []


async def test_g073_settings_of_a_request_are_those_of_its_step() -> None:
    options: dict[str, Any] = {"top_p": 1}

    def choose(payload: Request) -> Request:
        return payload.replace(settings=options)

    @tool
    def change() -> str:
        """Change what the next request is made with."""
        options["top_p"] = 0
        return "changed"

    agent, _ = await run([asks("change"), "done"], tools=[change], hooks={"request": [choose]})
    assert [dict(request.settings) for request in requests(agent)] == [{"top_p": 1}, {"top_p": 0}]


async def test_g074_request_hooks_chain_and_may_clear_a_setting() -> None:
    seen: list[dict[str, Any]] = []

    def first(payload: Request) -> Request:
        seen.append(dict(payload.settings))
        return payload.replace(settings={**payload.settings, "headers": {"a": "1"}})

    def second(payload: Request) -> Request:
        seen.append(dict(payload.settings))
        left = {name: value for name, value in payload.settings.items() if name != "timeout"}
        return payload.replace(settings=left)

    agent, _ = await run(["hi"], settings={"timeout": 5}, hooks={"request": [first, second]})
    assert seen == [{"timeout": 5}, {"timeout": 5, "headers": {"a": "1"}}]
    assert dict(requests(agent)[0].settings) == {"headers": {"a": "1"}}


async def test_g076_the_whole_order_of_one_prompt() -> None:
    async with watched(["hi"]) as (agent, heard):
        await agent.prompt("x")
    assert heard.names() == PLAIN


async def test_g076_the_whole_order_with_a_tool() -> None:
    async with watched([ADD, "done"]) as (agent, heard):
        await agent.prompt("x")
    tool_run = ["tool_execution_start", "tool_execution_end", "ms tool_result", "me tool_result"]
    asked = PLAIN[6:10]
    assert heard.names() == [
        *PLAIN[:10], *tool_run, "turn_end", "save_point", "turn_start", *asked, *PLAIN[10:],
    ]  # fmt: skip


async def test_g077_at_the_end_of_a_message_its_entry_is_in_the_log() -> None:
    seen: list[tuple[str, str, bool]] = []

    def look(event: UiEvent, _: AbortSignal) -> None:
        if isinstance(event, MessageStart | MessageEnd):
            logged = [entry.type for entry in agent.session.entries]
            seen.append((event.type, event.message.role, f"{event.message.role}/message" in logged))

    async with scripted(["hi"]) as agent:
        agent.ui(look)
        await agent.prompt("x")
    assert ("message_end", "user", True) in seen
    assert ("message_start", "assistant", False) in seen
    assert ("message_end", "assistant", True) in seen


@pytest.mark.parametrize("send", ["steer", "follow_up", "inject", "next_turn"])
async def test_g078_an_idle_agent_takes_every_input(send: str) -> None:
    async with watched(["hi"]) as (agent, _):
        getattr(agent, send)("x")
        assert (agent.status == "running") == (send in ("steer", "follow_up"))
        await agent.idle()
        drop(agent)


async def test_g079_a_rider_is_told_and_goes_before_the_next_prompt() -> None:
    async with watched(["hi"]) as (agent, heard):
        agent.next_turn("also")
        (event,) = heard.of(QueueUpdate)
        assert (event.steer, event.follow_up, said(event.next_turn[0].messages)) == ((), (), ["also"])
        await agent.prompt("x")
    assert users(agent) == [["also", "x"]]


async def test_g080_after_a_failure_what_is_for_the_next_step_goes_first() -> None:
    async with watched([Failure("auth"), "a", "b"]) as (agent, _):
        agent.follow_up("one")
        await agent.until(State.REQUESTING)
        agent.steer("s1")
        agent.follow_up("f1")
        agent.go_on()
        await agent.idle()
        assert agent.parked
        agent.follow_up("two")
        await agent.idle()
        drop(agent)
    assert texts(agent.session, "user/message") == ["one", "s1", "f1", "two"]


async def test_g082_a_queue_listener_that_raises_loses_no_message() -> None:
    def bad(event: UiEvent, _: AbortSignal) -> None:
        if event.type == "queue_update":
            raise ValueError("boom")

    async with scripted(["hi"]) as agent:
        agent.ui(bad)
        turn = await agent.prompt("x")
    assert turn.ok
    assert users(agent) == [["x"]]


async def test_g084_a_write_that_was_asked_for_lands_after_the_answer_that_was_cut_off() -> None:
    async def meanwhile(agent: Agent, clock: Any) -> None:
        await clock.sleep(1)
        agent.append_message(CustomMessage("note", "asked"))
        assert "custom_message" not in types(agent.session)
        agent.abort("user")

    agent, (turn,) = await run([Reply(chunks=["par", 5.0, "tial"])], act=meanwhile)
    assert turn.reason == "aborted"
    assert types(agent.session)[-4:] == ["assistant/message", "step/end", "custom_message", "turn/end"]


async def test_g085_the_prompt_is_put_together_once_a_step() -> None:
    seen: list[int] = []

    def count(payload: Assemble) -> None:
        seen.append(payload.turn.steps)

    agent, _ = await run([ADD, Failure("overloaded"), "done"], hooks={"assemble": [count]})
    assert len(requests(agent)) == 3
    assert seen == [0, 1]


def refuse(_: PreTool) -> Deny:
    return Deny("not today")


def shrug(_: PreTool) -> None:
    """Have no opinion."""


@pytest.mark.parametrize("order", [[refuse, shrug], [shrug, refuse]])
async def test_g088_a_denial_is_not_undone_by_a_hook_without_an_opinion(order: list[Any]) -> None:
    agent, _ = await run([ADD, "done"], hooks={"pre_tool": order})
    ((outcome, text),) = results(agent.session)
    assert (outcome, text.startswith("Denied: not today")) == ("denied", True)


async def test_g089_the_second_post_tool_hook_sees_what_the_first_made() -> None:
    def a(payload: PostTool) -> PostTool:
        return payload.replace(content=f"A({payload.text})")

    def b(payload: PostTool) -> PostTool:
        return payload.replace(content=f"B({payload.text})")

    agent, _ = await run([ADD, "done"], hooks={"post_tool": [a, b]})
    assert texts(agent.session, "tool/result") == ["B(A(3))"]


async def test_g090_a_pre_step_that_fails_gives_back_what_it_took() -> None:
    def broken(_: PreStep) -> None:
        raise ValueError("boom")

    async with watched([], hooks={"pre_step": [broken]}) as (agent, _):
        agent.next_turn("rider")
        turn = await agent.prompt("x")
    assert turn.reason == "error"
    assert [item.messages[0].text for item in turn.unadmitted] == ["rider", "x"]


@pytest.mark.parametrize("send", ["steer", "follow_up"])
async def test_g091_input_from_a_listener_of_agent_end_is_neither_lost_nor_a_failure(send: str) -> None:
    sent: list[str] = []

    async def more(event: UiEvent, _: AbortSignal) -> None:
        if event.type == "agent_end" and not sent:
            sent.append(send)
            getattr(agent, send)("more")

    async with scripted(["a", "b"]) as agent:
        agent.ui(more)
        turn = await agent.prompt("x")
        assert (turn.number, turn.ok) == (1, True)
        assert not agent.view.is_streaming
    assert texts(agent.session, "user/message") == ["x", "more"]
    assert texts(agent.session, "assistant/message") == ["a", "b"]


async def test_g092_settled_and_save_point_reach_listeners_and_unknown_signals_are_refused() -> None:
    async with watched(["hi"]) as (agent, heard):
        await agent.prompt("x")
        assert len(heard.of(Settled)) == len(heard.of(SavePoint)) == 1
        with pytest.raises(ValueError, match="no signal 'settled'; the signals are: session/event"):
            agent.on("settled", lambda signal, _: None)


async def test_g093_an_abort_sets_the_signal_of_a_job_in_maintenance() -> None:
    async def job(agent: Agent) -> str:
        agent.abort("user")
        return agent.turning.abort.reason

    async with watched([]) as (agent, _):
        assert await agent.maintain(job) == "user"
        assert agent.state is State.IDLE
        assert agent.session.entries == []


async def test_g095_a_pre_tool_hook_sees_the_answer_in_the_log() -> None:
    seen: list[list[str]] = []

    def look(payload: PreTool) -> None:
        seen.append([entry.data["message"].role for entry in payload.log if entry.type.endswith("t/message")])

    await run([ADD, "done"], hooks={"pre_tool": [look]})
    assert seen == [["assistant"]]


async def test_g096_settled_comes_once_when_agent_end_sent_the_agent_on() -> None:
    seen: list[tuple[str, str, bool]] = []

    def hear(event: UiEvent, _: AbortSignal) -> None:
        if event.type in ("agent_start", "agent_end", "settled"):
            seen.append((event.type, agent.status, agent.view.is_streaming))
        if event.type == "agent_end" and len(seen) == 2:
            agent.follow_up("more")

    async with scripted(["a", "b"]) as agent:
        agent.ui(hear)
        await agent.prompt("x")
    assert seen == [
        ("agent_start", "running", True),
        ("agent_end", "idle", True),
        ("agent_start", "running", True),
        ("agent_end", "idle", True),
        ("settled", "idle", False),
    ]

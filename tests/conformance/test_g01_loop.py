"""data-flow G 1 to 35: the loop. Messages in, hooks, tools, and the events that tell of them."""

from collections.abc import AsyncIterator
from typing import Any

from tests.conformance.hearing import ASKED, Heard, requests, roles, said, users, watched
from tests.conformance.toolkit import (
    after,
    all_of,
    asks,
    code,
    last,
    outcomes,
    parallels,
    ran,
    results,
    timed,
)
from tests.machine.drive import ADD, add, calls, run, slows, texts, types

from turnchart.machine import (
    Agent,
    Failure,
    ModelRequest,
    PreparedCall,
    Reply,
    State,
    UserMessage,
    tool,
)
from turnchart.machine.models import BlockEnd, BlockStart, Chunk, Finish, TextDelta, ToolCallDelta
from turnchart.machine.payloads import Assemble
from turnchart.machine.points import (
    AfterStep,
    Context,
    Convert,
    PostTool,
    PreTool,
    Stop,
    ToolOutcome,
)
from turnchart.machine.ui import (
    AgentEnd,
    MessageEnd,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
)
from turnchart.testing import FakeClock


async def test_g001_a_text_reply_is_one_run_of_two_messages() -> None:
    async with watched(["hello"]) as (agent, heard):
        await agent.prompt("hi")
    (end,) = heard.of(AgentEnd)
    assert [(each.role, each.text) for each in end.messages] == [("user", "hi"), ("assistant", "hello")]
    assert heard.names("queue_update", "save_point", "settled", *ASKED) == [
        "agent_start", "turn_start", "ms user", "me user", "turn_end", "agent_end",
    ]  # fmt: skip


async def test_g004_what_a_context_hook_adds_is_shown_once_a_request_and_never_kept() -> None:
    def pre(payload: Context) -> Context:
        return payload.replace(messages=(UserMessage("pre"), *payload.messages))

    async with watched(["a", "b"], hooks={"context": [pre]}) as (agent, heard):
        await agent.prompt("x")
        await agent.prompt("y")
    assert users(agent) == [["pre", "x"], ["pre", "x", "y"]]
    assert said(agent.session.context()) == ["x", "a", "y", "b"]
    assert "pre" not in [text for end in heard.of(AgentEnd) for text in said(end.messages)]


async def test_g005_a_tool_runs_once_with_checked_arguments() -> None:
    given: list[object] = []

    @tool(inline=True)
    def note(n: int) -> str:
        """Note a number."""
        given.append(n)
        return "noted"

    async with watched([calls(("note", {"n": 7})), "done"], tools=[note]) as (agent, heard):
        await agent.prompt("x")
    assert given == [7]
    (end,) = heard.of(ToolExecutionEnd)
    assert (end.tool, end.is_error, end.result.text) == ("note", False, "noted")


async def test_g006_post_tool_sees_the_usage_of_a_tool_and_may_replace_it() -> None:
    seen: list[object] = []

    @tool
    def costly() -> ToolOutcome:
        """Cost something."""
        return ToolOutcome(usage={"input": 1})

    def dearer(payload: PostTool) -> PostTool:
        seen.append(payload.usage)
        return payload.replace(usage={"input": 5})

    agent, _ = await run([asks("costly"), "done"], tools=[costly], hooks={"post_tool": [dearer]})
    assert seen == [{"input": 1}]
    (result,) = all_of(agent.session, "tool/result")
    assert result.data["message"]["usage"] == {"input": 5}


def as_text(payload: PreTool) -> PreTool:
    """Give a text where the tool takes a number."""
    return payload.replace(args={**payload.args, "a": "one"})


def sixes(payload: PreTool) -> PreTool:
    """Give other numbers than the model."""
    return payload.replace(args={"a": 6, "b": 6})


async def test_g008_arguments_that_a_hook_changed_are_validated_again_at_once() -> None:
    agent, _ = await run([ADD, "done"], hooks={"pre_tool": [as_text]})
    ((outcome, text),) = results(agent.session)
    assert outcome == "denied"
    assert "`a`" in text


async def test_g009_the_log_keeps_the_arguments_that_the_model_gave() -> None:
    agent, _ = await run([ADD, "done"], hooks={"pre_tool": [sixes]})
    assert texts(agent.session, "tool/result") == ["12"]
    (answer, _) = all_of(agent.session, "assistant/message")
    assert answer.data["message"].tool_calls[0].arguments == {"a": 1, "b": 2}
    assert all_of(agent.session, "tool/call")[0].data["arguments"] == {"a": 1, "b": 2}


async def test_g013_two_exclusive_calls_do_not_overlap() -> None:
    seen: list[str] = []
    await run([asks("a", "b"), "done"], tools=[timed("a", 2, seen), timed("b", 1, seen)])
    assert seen == ["a+", "a-", "b+", "b-"]


async def test_g014_an_exclusive_call_is_a_barrier_and_does_not_make_its_batch_serial() -> None:
    seen: list[str] = []
    tools = [*parallels(seen, a=2, b=1, d=1), timed("c", 1, seen)]
    await run([asks("a", "b", "c", "d"), "done"], tools=tools)
    assert ran(seen) == ["a+", "b+", "b-", "a-", "c+", "c-", "d+", "d-"]


async def test_g015_parallel_tools_overlap() -> None:
    seen: list[str] = []
    await run([asks("a", "b"), "done"], tools=parallels(seen, a=2, b=1))
    assert ran(seen) == ["a+", "b+", "b-", "a-"]


async def test_g016_the_prompt_may_change_from_step_to_step() -> None:
    def by_step(payload: Assemble) -> Assemble:
        return payload.replace(sections=(f"After {payload.turn.steps} steps.",))

    agent, _ = await run([ADD, "done"], hooks={"assemble": [by_step]})
    assert [request.system for request in requests(agent)] == ["After 0 steps.", "After 1 steps."]


class Polls:
    """The two callbacks, and how often each was asked."""

    def __init__(self, steering: list[str] | None = None, follow_up: list[str] | None = None) -> None:
        self.asked: list[str] = []
        self._steering = steering or []
        self._follow_up = follow_up or []

    def settings(self) -> dict[str, Any]:
        """Return the arguments of an agent that asks these."""
        return {"poll_steering": self.steering, "poll_follow_up": self.follow_up}

    def steering(self) -> str | None:
        self.asked.append("steering")
        return self._steering.pop(0) if self._steering else None

    async def follow_up(self) -> str | None:
        self.asked.append("follow_up")
        return self._follow_up.pop(0) if self._follow_up else None


def stop(_: AfterStep) -> Stop:
    """End the turn after its first step."""
    return Stop("enough")


async def test_g017_a_turn_that_is_stopped_asks_for_no_follow_up() -> None:
    polls = Polls(follow_up=["more"])
    async with watched([ADD], hooks={"after_step": [stop]}, **polls.settings()) as (agent, heard):
        turn = await agent.prompt("x")
    assert turn.reason == "stopped"
    assert texts(agent.session, "tool/result") == ["3"]
    assert polls.asked == ["steering"]
    assert heard.names("save_point", "settled", "queue_update")[-2:] == ["turn_end", "agent_end"]


async def test_g017_the_callbacks_feed_steps_and_turns() -> None:
    polls = Polls(steering=["first"], follow_up=["second"])
    async with watched(["a", "b"], **polls.settings()) as (agent, heard):
        await agent.prompt("x")
    assert users(agent) == [["x", "first"], ["x", "first", "second"]]
    assert types(agent.session).count("turn/start") == 2
    assert heard.names().count("agent_start") == heard.names().count("agent_end") == 1


async def test_g018_a_batch_whose_results_all_terminate_ends_the_turn() -> None:
    async with watched([asks("last", "last")], tools=[last()]) as (agent, heard):
        turn = await agent.prompt("x")
    assert (turn.reason, turn.steps, len(requests(agent))) == ("completed", 1, 1)
    (end,) = heard.of(TurnEnd)
    assert len(end.tool_results) == 2


async def test_g019_one_result_that_does_not_terminate_goes_on() -> None:
    agent, _ = await run([calls(("last", {}), ("add", {"a": 1, "b": 2})), "done"], tools=[last(), add])
    assert len(requests(agent)) == 2


async def test_g020_post_tool_may_terminate() -> None:
    def end(payload: PostTool) -> PostTool:
        return payload.replace(terminate=True)

    agent, (turn,) = await run([ADD], hooks={"post_tool": [end]})
    assert (turn.reason, len(requests(agent))) == ("completed", 1)


async def test_g021_what_waits_is_delivered_after_a_batch_that_terminates() -> None:
    async with watched([asks("last"), "b", "c"], tools=[last()]) as (agent, _):
        agent.follow_up("x")
        agent.steer("steered")
        agent.follow_up("next")
        await agent.idle()
    assert len(requests(agent)) == 3
    assert users(agent)[1:] == [["x", "steered"], ["x", "steered", "next"]]


async def test_g022_resuming_without_anything_waiting_begins_nothing() -> None:
    async with watched(["hi"]) as (agent, heard):
        assert agent.resume() is False
        await agent.prompt("x")
        heard.clear()
        before = len(agent.session.entries)
        assert agent.resume() is False
        await agent.idle()
        assert len(agent.session.entries) == before
        assert heard.events == []


async def test_g026_an_unknown_tool_is_an_error_result() -> None:
    async with watched([asks("nope"), "done"]) as (agent, heard):
        turn = await agent.prompt("x")
    ((outcome, text),) = results(agent.session)
    assert (outcome, turn.steps) == ("error", 2)
    assert text == "There is no tool 'nope'. The tools are: add, slow."
    (end,) = heard.of(ToolExecutionEnd)
    assert (end.tool, end.is_error) == ("nope", True)


async def test_g027_arguments_that_do_not_fit_name_the_field_and_echo_what_came() -> None:
    agent, _ = await run([calls(("add", {"a": "q", "b": 2})), "done"])
    ((outcome, text),) = results(agent.session)
    assert outcome == "error"
    assert "`a`" in text
    assert '"q"' in text


async def test_g028_a_tool_that_raises_is_an_error_and_one_without_content_is_none() -> None:
    seen: list[str] = []

    @tool
    def silent() -> None:
        """Say nothing."""

    broken = timed("broken", 0, seen, outcome=ValueError("boom"))
    async with watched([asks("broken", "silent"), "done"], tools=[broken, silent]) as (agent, heard):
        await agent.prompt("x")
    failed, fine = heard.of(ToolExecutionEnd)
    assert failed.is_error
    assert "boom" in failed.result.text
    assert (fine.is_error, fine.result.content) == (False, ())


async def test_g029_a_stream_without_a_finish_is_a_whole_answer() -> None:
    class Unfinished:
        id = "unfinished"

        async def prepare(self, config: Any, abort: Any) -> Any:
            del abort
            return PreparedCall(config, self._stream)

        async def _stream(self, _: ModelRequest) -> AsyncIterator[Chunk]:
            yield TextDelta("all of it")

    async with Agent(Unfinished(), clock=FakeClock()) as agent:
        heard = Heard(agent)
        turn = await agent.prompt("x")
    assert (turn.reason, turn.text) == ("completed", "all of it")
    assert heard.of(MessageEnd)[-1].message.text == "all of it"


async def test_g030_an_answer_is_one_pair_whatever_its_first_chunk_is() -> None:
    bare = Reply(chunks=[TextDelta("a"), TextDelta("b"), BlockEnd(0), TextDelta("late")])
    async with watched([bare, Reply(chunks=[Finish("stop")])]) as (agent, heard):
        await agent.prompt("x")
        assert [event.message.text for event in heard.of(MessageUpdate)] == ["a", "ab", "ab", "ab"]
        assert heard.names()[-6:-3] == ["mu assistant", "me assistant", "turn_end"]
        heard.clear()
        await agent.prompt("y")
    assert heard.of(MessageUpdate) == []
    assert heard.names().count("ms assistant") == heard.names().count("me assistant") == 1


async def test_g031_a_failed_answer_runs_none_of_the_tools_that_it_asked_for() -> None:
    broken = Reply(
        chunks=[
            BlockStart("tool_call", 0, "c1", "add"), ToolCallDelta('{"a": 1, "b": 2}'), BlockEnd(0),
            Finish("error", Failure("auth")),
        ]
    )  # fmt: skip
    async with watched([broken]) as (agent, heard):
        turn = await agent.prompt("x")
    assert turn.reason == "error"
    assert "tool/call" not in types(agent.session)
    assert heard.of(ToolExecutionStart) == []
    (end,) = heard.of(TurnEnd)
    assert end.tool_results == ()
    assert end.message is not None
    assert end.message.stop_reason == "error"


async def test_g032_a_convert_hook_that_fails_ends_the_run_with_its_error() -> None:
    def broken(_: Convert) -> None:
        raise ValueError("boom")

    async with watched([], hooks={"convert": [broken]}) as (agent, heard):
        turn = await agent.prompt("x")
    assert turn.reason == "error"
    assert heard.names("queue_update") == [
        "agent_start", "turn_start", "ms user", "me user", "turn_end", "save_point", "agent_end", "settled",
    ]  # fmt: skip
    (end,) = heard.of(TurnEnd)
    assert end.message is None
    assert "boom" in (end.error_message or "")
    assert agent.view.error_message == end.error_message


async def test_g033_an_abort_in_the_second_preflight_runs_nothing_and_answers_every_call() -> None:
    seen: list[str] = []

    def abort_at_b(payload: PreTool) -> None:
        if payload.tool == "b":
            agent.abort("user")

    tools = parallels(seen, a=1, b=1)
    async with watched([asks("a", "b")], tools=tools, hooks={"pre_tool": [abort_at_b]}) as (agent, heard):
        turn = await agent.prompt("x")
    assert turn.reason == "aborted"
    assert seen == []
    assert outcomes(agent.session) == ["aborted", "aborted"]
    assert [code(entry) for entry in all_of(agent.session, "tool/result")] == ["ABORTED", "ABORTED"]
    assert [event.tool for event in heard.of(ToolExecutionStart)] == ["a", "b"]
    assert [(event.tool, event.is_error) for event in heard.of(ToolExecutionEnd)] == [
        ("a", True),
        ("b", True),
    ]


async def test_g034_an_abort_between_exclusive_calls_leaves_no_call_without_its_result() -> None:
    seen: list[str] = []
    tools = [timed("a", 2, seen), timed("b", 1, seen)]
    agent, (turn,) = await run([asks("a", "b")], tools=tools, act=after(1, lambda agent: agent.abort("user")))
    assert turn.reason == "aborted"
    assert seen == ["a+"]
    assert outcomes(agent.session) == ["aborted", "aborted"]


async def test_g035_an_abort_among_tools_asks_the_model_nothing_more() -> None:
    async with watched([slows(0, 1)]) as (agent, heard):
        agent.follow_up("x")
        await agent.until(State.TOOLING)
        agent.abort("user")
        await agent.idle()
    assert len(requests(agent)) == 1
    assert types(agent.session)[-2:] == ["step/end", "turn/end"]
    assert roles(agent.session) == ["user", "assistant", "tool_result", "tool_result"]
    assert heard.names()[-4:] == ["turn_end", "save_point", "agent_end", "settled"]

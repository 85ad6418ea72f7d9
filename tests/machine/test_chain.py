"""How the hooks of a list act together, point by point."""

from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any

import pytest

from turnchart.machine.chain import BoundHook, Chain, Dispatch, run_chain
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.messages import Text, UserMessage
from turnchart.machine.points import (
    AddContext,
    AfterStep,
    Allow,
    Ask,
    Assemble,
    Block,
    Compact,
    Context,
    Continue,
    Decision,
    Deny,
    Enter,
    GiveUp,
    Payload,
    PostTool,
    PreStep,
    PreTool,
    Reject,
    Request,
    RequestError,
    Retry,
    SessionEnd,
    SessionStart,
    Stop,
    Summary,
    TurnStopping,
    TurnView,
    Veto,
)
from turnchart.machine.verdict import Verdict

pytestmark = pytest.mark.anyio

LS = PreTool(tool="shell", args=Frozen(command="ls"), subject="ls", subject_name="command")


def says(answer: object, id: str = "says", **options: Any) -> BoundHook:
    """A hook that always gives the same answer."""

    def hook(payload: Payload) -> object:
        del payload
        return answer

    return BoundHook(hook, id, **options)


def rewrites(command: str) -> BoundHook:
    def hook(payload: PreTool) -> PreTool:
        return payload.replace(args={"command": command})

    return BoundHook(hook, f"to-{command}")


def denies(command: str) -> BoundHook:
    def hook(payload: PreTool) -> Deny | None:
        return Deny(f"no {command}") if payload.subject == command else None

    return BoundHook(hook, f"no-{command}")


async def ran(
    point: str, payload: Payload, *hooks: object
) -> tuple[Verdict[Any], list[tuple[str, str | None]]]:
    """Run a list; return the verdict, and who was called with what result."""
    verdict = await run_chain(point, payload, hooks)
    return verdict, [(dispatch.id, dispatch.decision) for dispatch in verdict.trace]


# -- the list ---------------------------------------------------------------------------------------


async def test_no_hooks_no_opinion() -> None:
    chain = Chain("pre_tool")
    verdict = await chain.run(LS)
    assert not chain
    assert verdict == Verdict(LS)
    assert verdict.payload is LS


async def test_ids_are_made_to_differ() -> None:
    chain = Chain("pre_tool", [says(None, "a"), says(None, "a-2"), says(None, "a"), says(None, "a")])
    assert [hook.id for hook in chain.hooks] == ["a", "a-2", "a-3", "a-4"]
    assert chain


async def test_a_payload_of_another_point_is_refused() -> None:
    with pytest.raises(TypeError, match="pre_tool takes PreTool, not PostTool"):
        await Chain("pre_tool").run(PostTool())


async def test_sync_and_async_hooks_and_those_that_return_an_awaitable() -> None:
    async def waits(payload: PreTool) -> Ask:
        return Ask(payload.id)

    def returns_awaitable(payload: PreTool) -> Any:
        return waits(payload)

    for hook in (waits, returns_awaitable):
        verdict = await run_chain("pre_tool", LS, [hook])
        assert verdict.decision == Ask(hook.__name__)


async def test_every_hook_has_its_own_id_and_memory() -> None:
    seen: list[tuple[str, MutableMapping[str, Any]]] = []
    memories: dict[str, dict[str, Any]] = {"a": {"n": 1}, "b": {}}

    def remembers(payload: Context) -> Context:
        seen.append((payload.id, dict(payload.memory)))
        payload.memory["n"] = payload.memory.get("n", 0) + 1
        return payload.replace(messages=[*payload.messages, UserMessage(payload.id)])

    chain = Chain("context", [BoundHook(remembers, "a"), BoundHook(remembers, "b")])
    given = Context(id="given", memory={"mine": True})
    verdict = await chain.run(given, memory=memories.__getitem__)
    assert seen == [("a", {"n": 1}), ("b", {})]
    assert memories == {"a": {"n": 2}, "b": {"n": 1}}
    assert (verdict.payload.id, verdict.payload.memory) == ("given", {"mine": True})
    assert [message.text for message in verdict.payload.messages] == ["a", "b"]


async def test_run_chain_takes_a_world() -> None:
    seen: list[object] = []

    def looks(payload: PreTool) -> None:
        seen.append(payload.world)

    world: Any = object()
    await run_chain("pre_tool", LS, [looks], world=world)
    assert seen == [world]


async def test_without_a_memory_hooks_see_that_of_the_payload() -> None:
    seen: list[object] = []

    def looks(payload: PreTool) -> None:
        seen.append(payload.memory)

    await run_chain("pre_tool", replace(LS, memory={"n": 1}), [looks])
    assert seen == [{"n": 1}]


async def test_hooks_run_only_for_the_tools_that_they_name() -> None:
    hooks = [
        says(None, "all"),
        says(None, "shell", tools=("sh*",)),
        says(None, "other", tools=("git.*", "Shell")),
    ]
    _, called = await ran("pre_tool", LS, *hooks)
    assert called == [("all", None), ("shell", None)]


async def test_the_trace_tells_what_happened() -> None:
    clock = iter(range(100))
    hooks = [rewrites("ls -h"), says(Ask("sure?"), "ask", where="f.yaml:3")]
    trace: list[Dispatch] = []
    verdict = await Chain("pre_tool", hooks).run(LS, now=lambda: next(clock), trace=trace)
    first, second = verdict.trace
    assert (first.point, first.id, first.changed, first.decision) == ("pre_tool", "to-ls -h", ("args",), None)
    assert (second.id, second.where, second.decision, second.reason) == ("ask", "f.yaml:3", "ask", "sure?")
    assert (first.seconds, second.seconds) == (1, 1)
    assert tuple(trace) == verdict.trace


# -- pre_tool ---------------------------------------------------------------------------------------


async def test_deny_ends_the_list() -> None:
    verdict, called = await ran("pre_tool", LS, says(Deny("no"), "a"), says(Allow(), "b"))
    assert (verdict.decision, verdict.by) == (Deny("no"), "a")
    assert called == [("a", "deny")]


@pytest.mark.parametrize(
    ("answers", "holds", "by"),
    [
        ([Ask("1"), Deny("2")], Deny("2"), "1"),
        ([Allow(), Deny("2")], Deny("2"), "1"),
        ([Ask("1"), Allow()], Ask("1"), "0"),
        ([Allow(), Ask("2")], Ask("2"), "1"),
        ([Ask("1"), Ask("2")], Ask("1"), "0"),
        ([Allow("1"), Allow("2")], Allow("1"), "0"),
        ([Ask("1"), None, Allow()], Ask("1"), "0"),
        ([None, None], None, ""),
    ],
)
async def test_the_strictest_answer_holds(
    answers: list[Decision | None], holds: Decision | None, by: str
) -> None:
    hooks = [says(answer, str(place)) for place, answer in enumerate(answers)]
    verdict, called = await ran("pre_tool", LS, *hooks)
    assert (verdict.decision, verdict.by) == (holds, by)
    assert len(called) == len(answers)


async def test_a_hook_that_denies_sees_what_a_hook_before_it_made_of_the_command() -> None:
    verdict, _ = await ran("pre_tool", LS, rewrites("rm"), denies("rm"))
    assert verdict.decision == Deny("no rm")
    assert verdict.payload.args == {"command": "rm"}


async def test_a_denied_command_is_not_rewritten_any_more() -> None:
    verdict, called = await ran("pre_tool", LS, denies("ls"), rewrites("pwd"))
    assert verdict.decision == Deny("no ls")
    assert verdict.payload is LS
    assert called == [("no-ls", "deny")]


async def test_an_ask_survives_a_rewrite() -> None:
    verdict, _ = await ran("pre_tool", LS, says(Ask("sure?")), rewrites("pwd"))
    assert (verdict.decision, verdict.payload.subject) == (Ask("sure?"), "pwd")


async def test_rewritten_arguments_are_checked_at_once() -> None:
    def check(payload: PreTool) -> PreTool:
        if payload.subject == "bad":
            raise ValueError("not a command")
        return replace(payload, args=Frozen(command=str(payload.subject).strip()))

    verdict = await run_chain("pre_tool", LS, [rewrites(" pwd "), rewrites("bad")], check=check)
    assert verdict.payload.args == {"command": "pwd"}
    assert verdict.decision == Deny("hook `to-bad` failed: changed args: not a command")
    assert verdict.trace[-1].error == "changed args: not a command"


# -- pre_step ---------------------------------------------------------------------------------------


def adds(text: str) -> BoundHook:
    def hook(payload: PreStep) -> PreStep:
        return payload.replace(messages=(*payload.messages, UserMessage(text)))

    return BoundHook(hook, text)


async def test_two_hooks_that_rewrite_both_take_effect() -> None:
    verdict, called = await ran("pre_step", PreStep(messages=(UserMessage("hi"),)), adds("a"), adds("b"))
    assert [message.text for message in verdict.payload.messages] == ["hi", "a", "b"]
    assert called == [("a", None), ("b", None)]
    assert [dispatch.changed for dispatch in verdict.trace] == [("messages",), ("messages",)]


async def test_enter_goes_on_with_its_messages() -> None:
    enter = Enter((UserMessage("new"),), starts_request_series=True)
    verdict, called = await ran(
        "pre_step", PreStep(messages=(UserMessage("hi"),)), says(enter, "e"), adds("a")
    )
    assert verdict.decision is None
    assert [message.text for message in verdict.payload.messages] == ["new", "a"]
    assert verdict.payload.starts_request_series
    assert called == [("e", "enter"), ("a", None)]


async def test_reject_ends_the_list() -> None:
    verdict, called = await ran("pre_step", PreStep(), says(Reject("budget"), "r"), adds("a"))
    assert (verdict.decision, verdict.by, called) == (Reject("budget"), "r", [("r", "reject")])


# -- rewriting --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("point", "payload", "change"),
    [
        ("assemble", Assemble(), {"sections": ("a",), "contexts": {"date": "today"}, "tools": ("shell",)}),
        ("request", Request(), {"model": "m", "settings": {"t": 1}, "thinking": "low", "tools": ("shell",)}),
        ("context", Context(), {"messages": (UserMessage("a"),)}),
        ("post_tool", PostTool(), {"content": (Text("a"),), "terminate": True}),
    ],
)
async def test_a_rewriting_point(point: str, payload: Payload, change: dict[str, Any]) -> None:
    verdict, _ = await ran(point, payload, says(payload.replace(**change)))
    assert verdict.payload == payload.replace(**change)
    assert verdict.trace[0].changed == tuple(sorted(change))


async def test_block_withholds_a_result_and_what_was_to_come_with_it() -> None:
    def tells(payload: PostTool) -> PostTool:
        return payload.replace(context="by the way")

    verdict, called = await ran(
        "post_tool", PostTool(), tells, says(Block("secret"), "b"), says(None, "never")
    )
    assert (verdict.decision, verdict.by, verdict.payload.context) == (Block("secret"), "b", "")
    assert called == [("tells", None), ("b", "block")]


# -- first answers, all answers ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("point", "payload", "answer"),
    [
        ("request_error", RequestError(), Retry(2, "m")),
        ("request_error", RequestError(), GiveUp("no")),
        ("after_step", AfterStep(), Stop("enough")),
        ("turn_stopping", TurnStopping(), Continue("go on")),
        ("compact", Compact(), Veto("not now")),
        ("compact", Compact(), Summary("short")),
    ],
)
async def test_the_first_answer_ends_the_list(point: str, payload: Payload, answer: Decision) -> None:
    verdict, called = await ran(point, payload, says(None, "a"), says(answer, "b"), says(answer, "c"))
    assert (verdict.decision, verdict.by) == (answer, "b")
    assert called == [("a", None), ("b", answer.word)]


async def test_at_session_start_all_answers_count() -> None:
    hooks = [says(AddContext("a"), "a"), says(None, "b"), says(AddContext("c"), "c")]
    verdict, called = await ran("session_start", SessionStart(), *hooks)
    assert verdict.answers == (AddContext("a"), AddContext("c"))
    assert verdict.decision is None
    assert called == [("a", "add_context"), ("b", None), ("c", "add_context")]


async def test_at_session_end_nothing_is_answered() -> None:
    _, called = await ran("session_end", SessionEnd(), says(None, "a"), says(None, "b"))
    assert called == [("a", None), ("b", None)]


async def test_a_hook_is_passed_over_when_its_continues_are_spent() -> None:
    def continued(id: str) -> Entry:
        return Entry(0, None, "hook/result", 0.0, Frozen(id=id, decision="continue"))

    payload = TurnStopping(turn=TurnView(1, [continued("a"), continued("a"), continued("b")]))
    hooks = [says(Continue("a"), "a", max_continues=2), says(Continue("b"), "b", max_continues=2)]
    verdict, _ = await ran("turn_stopping", payload, *hooks)
    assert verdict.decision == Continue("b")
    assert verdict.trace[0].reason == "passed over: its 2 continues are spent"
    assert verdict.trace[0].notable, "somebody must learn that it did not get what it wanted"

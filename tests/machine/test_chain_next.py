"""Hooks that take ``next`` and wrap the rest of the list."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from turnchart.machine.chain import BoundHook, bind, run_chain
from turnchart.machine.entries import Frozen
from turnchart.machine.errors import HookFailed
from turnchart.machine.messages import Text, UserMessage
from turnchart.machine.points import (
    AddContext,
    Allow,
    Ask,
    Block,
    Context,
    Continue,
    Convert,
    Decision,
    Deny,
    Enter,
    Next,
    Payload,
    PostTool,
    PreStep,
    PreTool,
    Reject,
    RunTool,
    SessionStart,
    Stream,
    ToolOutcome,
    TurnStopping,
)
from turnchart.machine.verdict import Verdict

pytestmark = pytest.mark.anyio

LS = PreTool(tool="shell", args=Frozen(command="ls"), subject="ls", subject_name="command")


def says(answer: object, id: str = "says") -> BoundHook:
    def hook(payload: Payload) -> object:
        del payload
        return answer

    return BoundHook(hook, id)


def wraps(after: object, before: Any = None, id: str = "wraps") -> BoundHook:
    """A hook that changes the payload for the rest, and then returns ``after``."""

    async def hook(payload: Any, next: Next) -> object:
        await next(payload.replace(**before) if before else payload)
        return after

    return BoundHook(hook, id, wraps=True, is_async=True)


def skips(answer: object, id: str = "skips") -> BoundHook:
    """A hook that never calls the rest."""

    def hook(payload: Any, next: Next) -> object:
        del payload, next
        return answer

    return BoundHook(hook, id, wraps=True)


def texts(payload: Context | PreStep) -> list[str]:
    return [message.text for message in payload.messages]


def adds(text: str) -> BoundHook:
    def hook(payload: Any) -> Any:
        return payload.replace(messages=(*payload.messages, UserMessage(text)))

    return BoundHook(hook, text)


# -- rewriting --------------------------------------------------------------------------------------


async def test_a_wrapper_gets_the_verdict_of_the_rest_and_keeps_it() -> None:
    seen: list[Verdict[Any]] = []

    async def looks(payload: Context, next: Next) -> None:
        seen.append(await next(payload.replace(messages=[UserMessage("w")])))

    verdict = await run_chain("context", Context(), [adds("a"), looks, adds("b")])
    assert texts(verdict.payload) == ["w", "b"]
    assert texts(seen[0].payload) == ["w", "b"]
    assert [dispatch.id for dispatch in seen[0].trace] == ["b"]
    assert [(dispatch.id, dispatch.changed) for dispatch in verdict.trace] == [
        ("a", ("messages",)),
        ("b", ("messages",)),
        ("looks", ("messages",)),
    ]


async def test_a_plain_wrapper_may_return_what_next_gave() -> None:
    def passes(payload: Context, next: Next) -> Any:
        return next(payload)

    verdict = await run_chain("context", Context(), [passes, adds("a")])
    assert texts(verdict.payload) == ["a"]


async def test_a_wrapper_has_the_last_word_on_the_payload() -> None:
    async def appends(payload: Context, next: Next) -> Context:
        seen: Verdict[Context] = await next(payload)
        return seen.payload.replace(messages=(*seen.payload.messages, UserMessage("w")))

    verdict = await run_chain("context", Context(), [appends, adds("a")])
    assert texts(verdict.payload) == ["a", "w"]
    assert verdict.trace[-1].changed == ("messages",)


async def test_returning_the_payload_as_it_was_given_adds_nothing() -> None:
    async def careless(payload: Context, next: Next) -> Context:
        await next(payload)
        return payload

    verdict = await run_chain("context", Context(), [careless, adds("a")])
    assert texts(verdict.payload) == ["a"]


@pytest.mark.parametrize("answer", [None, Context(messages=(UserMessage("own"),))])
async def test_not_calling_next_skips_the_rest(answer: Context | None) -> None:
    verdict = await run_chain("context", Context(), [skips(answer), adds("never")])
    assert texts(verdict.payload) == (["own"] if answer else [])
    assert [dispatch.id for dispatch in verdict.trace] == ["skips"]


async def test_next_may_be_called_again() -> None:
    async def twice(payload: Context, next: Next) -> None:
        await next(payload.replace(messages=[UserMessage("1")]))
        await next(payload.replace(messages=[UserMessage("2")]))

    verdict = await run_chain("context", Context(), [twice, adds("a")])
    assert texts(verdict.payload) == ["2", "a"]


async def test_what_next_is_given_is_read_like_an_answer() -> None:
    async def wrong(payload: Context, next: Next) -> None:
        await next(payload.replace(messages=5))

    async def other(payload: Convert, next: Next) -> None:
        await next(LS)

    with pytest.raises(HookFailed, match="on convert failed: returned a PreTool, not a Convert"):
        await run_chain("convert", Convert(), [other])
    verdict = await run_chain("context", Context(), [wrong, adds("a")])
    assert texts(verdict.payload) == ["a"]
    assert [dispatch.error for dispatch in verdict.trace] == [
        "changed messages: it must be Sequence, not int",
        None,
    ]


# -- decisions --------------------------------------------------------------------------------------


async def test_a_wrapper_decides_over_the_rest() -> None:
    hooks = [wraps(Continue("mine"), id="w"), says(Continue("theirs"))]
    verdict = await run_chain("turn_stopping", TurnStopping(), hooks)
    assert (verdict.decision, verdict.by) == (Continue("mine"), "w")
    kept = await run_chain("turn_stopping", TurnStopping(), [wraps(None), says(Continue("theirs"), "t")])
    assert (kept.decision, kept.by) == (Continue("theirs"), "t")
    assert kept.trace[-1].decision is None


async def test_only_enter_or_a_verdict_takes_a_reject_back() -> None:
    async def lets_in(payload: PreStep, next: Next) -> Verdict[PreStep]:
        seen: Verdict[PreStep] = await next(payload)
        return replace(seen, decision=None)

    rejects = says(Reject("no"), "r")
    enters = wraps(Enter((UserMessage("mine"),)))
    changes = wraps(PreStep(messages=(UserMessage("mine"),)))
    for hook, decision, messages in (
        (enters, None, ["mine"]),
        (changes, Reject("no"), ["mine"]),
        (lets_in, None, []),
    ):
        verdict = await run_chain("pre_step", PreStep(), [hook, rejects])
        assert (verdict.decision, texts(verdict.payload)) == (decision, messages)


async def test_a_wrapper_may_return_a_whole_verdict() -> None:
    async def wraps_it(payload: PostTool, next: Next) -> Verdict[PostTool]:
        seen: Verdict[PostTool] = await next(payload)
        return Verdict(seen.payload.replace(content="clean"), answer)

    answer: Decision | None
    for answer in (None, Block("no")):
        verdict = await run_chain("post_tool", PostTool(), [wraps_it, says(Block("rest"))])
        assert verdict.decision == answer
        assert verdict.payload.text == "clean"


async def test_all_answers_of_the_rest_are_kept() -> None:
    hooks = [says(AddContext("a")), wraps(AddContext("w")), says(AddContext("b"))]
    verdict = await run_chain("session_start", SessionStart(), hooks)
    assert verdict.answers == (AddContext("a"), AddContext("b"), AddContext("w"))


async def test_answers_in_a_verdict_are_read_too() -> None:
    async def only(payload: SessionStart, next: Next) -> Verdict[SessionStart]:
        seen: Verdict[SessionStart] = await next(payload)
        return replace(seen, answers=(*seen.answers[:1], answer))

    answer: Any = AddContext("w")
    hooks = [only, says(AddContext("a")), says(AddContext("b"))]
    verdict = await run_chain("session_start", SessionStart(), hooks)
    assert verdict.answers == (AddContext("a"), AddContext("w"))
    answer = Deny("x")
    verdict = await run_chain("session_start", SessionStart(), hooks)
    assert verdict.answers == (AddContext("a"), AddContext("b"))
    assert "returned a Deny" in str(verdict.trace[-1].error)


# -- pre_tool: nobody loosens -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "rest", "holds"),
    [
        (None, Deny("r"), Deny("r")),
        (Allow("w"), Deny("r"), Deny("r")),
        (Ask("w"), Deny("r"), Deny("r")),
        (Allow("w"), Ask("r"), Ask("r")),
        (Deny("w"), Ask("r"), Deny("w")),
        (Ask("w"), Allow("r"), Ask("w")),
        (Ask("w"), None, Ask("w")),
        (Verdict(LS), Deny("r"), Deny("r")),
        (Verdict(LS), Ask("r"), Ask("r")),
        (Verdict(LS, Allow("w")), Ask("r"), Ask("r")),
    ],
)
async def test_the_rest_of_a_gate_is_never_loosened(
    own: object, rest: Decision | None, holds: Decision
) -> None:
    verdict = await run_chain("pre_tool", LS, [wraps(own), says(rest)])
    assert verdict.decision == holds


async def test_an_ask_before_a_wrapper_is_kept() -> None:
    verdict = await run_chain("pre_tool", LS, [says(Ask("a"), "a"), wraps(Allow()), says(Allow())])
    assert (verdict.decision, verdict.by) == (Ask("a"), "a")


@pytest.mark.parametrize("answer", [None, Allow(), Ask("w"), LS, Verdict(LS)])
async def test_the_rest_of_a_gate_is_skipped_only_with_a_deny(answer: object) -> None:
    verdict = await run_chain("pre_tool", LS, [skips(answer), says(Deny("r"))])
    assert verdict.decision == Deny("r")
    assert [dispatch.id for dispatch in verdict.trace] == ["skips", "says"]
    denied = await run_chain("pre_tool", LS, [skips(Deny("w")), says(Deny("never"))])
    assert denied.decision == Deny("w")
    assert [dispatch.id for dispatch in denied.trace] == ["skips"]


def denies_rm() -> BoundHook:
    def hook(payload: PreTool) -> Deny | None:
        return Deny("no rm") if payload.subject == "rm" else None

    return BoundHook(hook, "no-rm")


async def test_what_a_wrapper_rewrites_afterwards_is_judged_again() -> None:
    sneaky = wraps(LS.replace(args={"command": "rm"}))
    verdict = await run_chain("pre_tool", LS, [sneaky, denies_rm()])
    assert verdict.decision == Deny("no rm")
    harmless = await run_chain("pre_tool", LS, [wraps(LS.replace(args={"command": "pwd"})), denies_rm()])
    assert (harmless.decision, harmless.payload.subject) == (None, "pwd")
    assert [dispatch.id for dispatch in harmless.trace] == ["no-rm", "wraps", "no-rm"]


async def test_a_wrapper_cannot_take_back_what_the_rest_rewrote() -> None:
    async def undoes(payload: PreTool, next: Next) -> Verdict[PreTool]:
        await next(payload)
        return Verdict(payload)

    def cleans(payload: PreTool) -> PreTool:
        return payload.replace(args={"command": "ls # clean"})

    verdict = await run_chain("pre_tool", LS, [undoes, cleans])
    assert verdict.payload.subject == "ls # clean"


async def test_asking_the_rest_of_a_gate_again_does_not_help() -> None:
    async def tries(payload: PreTool, next: Next) -> Verdict[PreTool]:
        await next(payload.replace(args={"command": "rm"}))
        seen: Verdict[PreTool] = await next(payload)
        return seen

    verdict = await run_chain("pre_tool", LS, [tries, denies_rm()])
    assert verdict.decision == Deny("no rm")


# -- wrap points ------------------------------------------------------------------------------------


async def shell(payload: RunTool) -> ToolOutcome:
    return ToolOutcome((Text(str(payload.args.get("command"))),))


RUN = RunTool(tool="shell", args=Frozen(command="ls"))


async def test_plain_hooks_at_a_wrap_point_only_look() -> None:
    verdict = await run_chain("tool", RUN, [says(None)], inner=shell)
    assert verdict.value == ToolOutcome((Text("ls"),))
    with pytest.raises(HookFailed, match="returned a ToolOutcome; tool takes nothing, or one of RunTool"):
        await run_chain("tool", RUN, [says(ToolOutcome())], inner=shell)


async def test_a_wrapper_may_return_another_value_or_none_to_keep_it() -> None:
    other = ToolOutcome((Text("other"),))
    assert (await run_chain("tool", RUN, [wraps(other)], inner=shell)).value is other
    assert (await run_chain("tool", RUN, [skips(other)], inner=shell)).value is other
    assert (await run_chain("tool", RUN, [wraps(None)], inner=shell)).value == ToolOutcome((Text("ls"),))


async def test_a_wrapper_that_neither_calls_nor_returns_has_failed() -> None:
    with pytest.raises(HookFailed, match="neither called next nor returned anything"):
        await run_chain("tool", RUN, [skips(None)], inner=shell)
    with pytest.raises(HookFailed, match="returned a str; tool takes a ToolOutcome"):
        await run_chain("tool", RUN, [wraps("text")], inner=shell)


async def test_a_wrapper_sees_the_body_fail_and_may_try_again() -> None:
    tries: list[int] = []

    def fails_once(payload: RunTool) -> ToolOutcome:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("reset")
        return ToolOutcome()

    async def again(payload: RunTool, next: Next) -> Any:
        try:
            return await next(payload)
        except ConnectionError:
            return await next(payload)

    verdict = await run_chain("tool", RUN, [again], inner=fails_once)
    assert (verdict.value, len(tries)) == (ToolOutcome(), 2)


async def test_a_failure_of_the_body_is_none_of_the_wrapper() -> None:
    def fails(payload: RunTool) -> ToolOutcome:
        raise ConnectionError("reset")

    with pytest.raises(ConnectionError, match="reset"):
        await run_chain("tool", RUN, [wraps(None), says(None)], inner=fails)


async def test_the_stream_may_be_wrapped_by_a_generator() -> None:
    async def chunks(payload: Stream) -> AsyncIterator[str]:
        for text in "ab":
            yield text

    async def upper(payload: Stream, next: Next) -> AsyncIterator[str]:
        async for chunk in await next(payload):
            yield chunk.upper()

    verdict = await run_chain("stream", Stream(), [bind("stream", upper), says(None)], inner=chunks)
    assert [chunk async for chunk in verdict.value] == ["A", "B"]
    assert (await run_chain("stream", Stream(), [])).value is None

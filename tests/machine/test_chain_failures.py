"""What a failing, late or cancelled hook means, by the failure column of the table."""

import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from turnchart.machine.abort import Aborted, AbortSignal
from turnchart.machine.chain import BoundHook, Chain, Dispatch, bind, run_chain
from turnchart.machine.clock import SYSTEM_CLOCK
from turnchart.machine.entries import Frozen
from turnchart.machine.errors import HookFailed
from turnchart.machine.messages import Text, UserMessage
from turnchart.machine.points import (
    POINTS,
    AddContext,
    Block,
    Context,
    Deny,
    Next,
    OnError,
    Payload,
    PostTool,
    PreStep,
    PreTool,
    RequestError,
    SessionStart,
)
from turnchart.machine.verdict import Verdict

pytestmark = pytest.mark.anyio

LS = PreTool(tool="shell", args=Frozen(command="ls"), subject="ls", subject_name="command")


def raises(payload: Payload) -> None:
    raise ValueError("broken")


def nothing(payload: Payload) -> None: ...


def adds_context(payload: Payload) -> AddContext:
    return AddContext("a")


def agrees(payload: Payload) -> bool:
    return True


def broken(on_error: OnError | None = None, id: str = "broken") -> BoundHook:
    return BoundHook(raises, id, "f.yaml:7", on_error=on_error)


# -- the table --------------------------------------------------------------------------------------

RAISES = [
    ("session_start", "stop"), ("assemble", None), ("assemble", "stop"), ("pre_step", None),
    ("request", None), ("request", "stop"), ("context", "stop"), ("convert", None), ("stream", None),
    ("request_error", None),
    ("tool", None), ("after_step", None), ("turn_stopping", None),
]  # fmt: skip
GOES_ON = [
    ("session_start", None), ("session_start", "warn"), ("session_end", None), ("assemble", "warn"),
    ("request", "warn"), ("context", None), ("context", "warn"), ("post_tool", None), ("post_tool", "warn"),
    ("compact", None),
]  # fmt: skip


def test_every_point_and_every_on_error_is_in_one_of_the_lists() -> None:
    others = [("pre_tool", None), ("post_tool", "stop"), ("on_signal", None)]
    choices = [
        (p.name, e) for p in POINTS.values() for e in (None, *(("warn", "stop") if p.on_error else ()))
    ]
    assert sorted(map(str, RAISES + GOES_ON + others)) == sorted(map(str, choices))


@pytest.mark.parametrize(("point", "on_error"), RAISES)
async def test_a_failure_that_ends_the_dispatch(point: str, on_error: OnError | None) -> None:
    trace: list[Dispatch] = []
    hooks = [BoundHook(nothing, "before"), broken(on_error), BoundHook(raises, "never")]
    with pytest.raises(HookFailed) as caught:
        await Chain(point, hooks).run(POINTS[point].payload(), trace=trace)
    assert str(caught.value) == f"hook `broken` (f.yaml:7) on {point} failed: ValueError: broken"
    assert (caught.value.point, caught.value.id, caught.value.where) == (point, "broken", "f.yaml:7")
    assert isinstance(caught.value.__cause__, ValueError)
    assert [(dispatch.id, dispatch.error) for dispatch in trace] == [
        ("before", None),
        ("broken", "ValueError: broken"),
    ]


@pytest.mark.parametrize(("point", "on_error"), GOES_ON)
async def test_a_failure_that_is_reported_only(point: str, on_error: OnError | None) -> None:
    payload = POINTS[point].payload()
    verdict = await run_chain(point, payload, [broken(on_error), BoundHook(nothing, "after")])
    assert (verdict.payload, verdict.decision, verdict.by) == (payload, None, "")
    assert [(dispatch.id, dispatch.error) for dispatch in verdict.trace] == [
        ("broken", "ValueError: broken"),
        ("after", None),
    ]
    assert verdict.trace[0].notable


async def test_at_the_gate_of_tools_a_failure_denies_the_call() -> None:
    verdict = await run_chain("pre_tool", LS, [broken(), BoundHook(raises, "never")])
    assert verdict.decision == Deny("hook `broken` (f.yaml:7) failed: ValueError: broken")
    assert verdict.by == "broken"
    assert [(d.id, d.decision, d.error) for d in verdict.trace] == [("broken", "deny", "ValueError: broken")]


async def test_a_result_is_withheld_without_a_word_of_what_the_error_says() -> None:
    secret = PostTool(content=(Text("sk-secret"),), context="sk-secret")

    def quotes(payload: PostTool) -> None:
        raise ValueError(f"cannot read {payload.text}")

    verdict = await run_chain(
        "post_tool", secret, [bind("post_tool", quotes, where="f.yaml:7", on_error="stop")]
    )
    assert verdict.decision == Block("result withheld: hook `quotes` (f.yaml:7) failed (ValueError)")
    assert verdict.payload.context == ""
    assert verdict.trace[0].error == "ValueError: cannot read sk-secret"


async def test_with_warn_the_value_before_stays() -> None:
    def adds(payload: Context) -> Context:
        return payload.replace(messages=(*payload.messages, UserMessage("a")))

    verdict = await run_chain("context", Context(), [adds, broken(), adds])
    assert [message.text for message in verdict.payload.messages] == ["a", "a"]


async def test_at_session_start_the_others_are_still_asked() -> None:
    hooks = [broken(), BoundHook(adds_context, "a")]
    verdict = await run_chain("session_start", SessionStart(), hooks)
    assert verdict.answers == (AddContext("a"),)


async def test_a_failure_at_request_error_keeps_its_cause() -> None:
    with pytest.raises(HookFailed) as caught:
        await run_chain("request_error", RequestError(kind="overloaded"), [raises])
    assert isinstance(caught.value.__cause__, ValueError)


async def test_nonsense_is_a_failure() -> None:
    verdict = await run_chain("pre_tool", LS, [BoundHook(agrees, "yes")])
    wrong = "returned a bool; pre_tool takes nothing, or one of PreTool, Allow, Ask, Deny"
    assert verdict.decision == Deny(f"hook `yes` failed: {wrong}")
    assert verdict.trace[0].error == wrong


async def test_an_error_without_words_is_named() -> None:
    def asserts(payload: PreTool) -> None:
        raise AssertionError

    verdict = await run_chain("pre_tool", LS, [asserts])
    assert verdict.trace[0].error == "AssertionError"


# -- failures and next ------------------------------------------------------------------------------


async def test_a_wrapper_that_fails_before_next_does_not_hide_the_rest() -> None:
    async def fails(payload: Any, next: Next) -> None:
        raise ValueError("broken")

    def adds(payload: Context) -> Context:
        return payload.replace(messages=[UserMessage("a")])

    verdict = await run_chain("context", Context(), [fails, adds])
    assert [message.text for message in verdict.payload.messages] == ["a"]
    denied = await run_chain("pre_tool", LS, [fails, BoundHook(raises, "never")])
    assert denied.decision == Deny(f"hook `fails` ({denied.trace[0].where}) failed: ValueError: broken")
    assert len(denied.trace) == 1


async def test_a_wrapper_that_fails_after_next_keeps_what_the_rest_said() -> None:
    async def fails(payload: Any, next: Next) -> None:
        await next(payload)
        raise ValueError("broken")

    calls: list[str] = []

    def adds(payload: Context) -> Context:
        calls.append(payload.id)
        return payload.replace(messages=[UserMessage("a")])

    verdict = await run_chain("context", Context(), [fails, adds])
    assert ([message.text for message in verdict.payload.messages], calls) == (["a"], ["adds"])


async def test_a_failure_of_the_rest_passes_through_wrappers_as_it_is() -> None:
    async def passes(payload: Any, next: Next) -> Any:
        return await next(payload)

    with pytest.raises(HookFailed, match="hook `broken`"):
        await run_chain("pre_step", PreStep(), [passes, passes, broken()])


async def test_a_wrapper_may_catch_a_failure_of_the_rest() -> None:
    async def catches(payload: PreStep, next: Next) -> PreStep | None:
        try:
            return await next(payload)  # type: ignore[no-any-return]
        except HookFailed:
            return payload.replace(messages=[UserMessage("caught")])

    verdict = await run_chain("pre_step", PreStep(), [catches, broken()])
    assert [message.text for message in verdict.payload.messages] == ["caught"]


# -- time -------------------------------------------------------------------------------------------


class Timeouts:
    """Makes timeouts that all run out, and remembers for how long they were."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    @contextmanager
    def __call__(self, seconds: float) -> Generator[None]:
        self.asked.append(seconds)
        yield
        raise TimeoutError


async def waits(payload: Payload) -> None:
    await checkpoint()


async def test_a_late_hook_has_failed() -> None:
    late = Timeouts()
    verdict = await Chain("pre_tool", [bind("pre_tool", waits, where="x:1", timeout=5)]).run(LS, timeout=late)
    assert verdict.decision == Deny("hook `waits` (x:1) failed: it took longer than 5 s")
    assert late.asked == [5]
    with pytest.raises(HookFailed, match=r"took longer than 30 s"):
        await Chain("pre_step", [waits]).run(PreStep(), timeout=late)


async def test_only_what_is_awaited_is_timed() -> None:
    def plain(payload: Payload) -> None: ...

    def awaitable(payload: Payload) -> Any:
        return waits(payload)

    async def wrapper(payload: Payload, next: Next) -> None:
        await next(payload)

    late = Timeouts()
    await Chain("context", [plain, wrapper]).run(Context(), timeout=late)
    assert late.asked == []
    verdict = await Chain("context", [awaitable, bind("context", wrapper, timeout=math.inf)]).run(
        Context(), timeout=late
    )
    assert late.asked == [30, math.inf]
    assert [dispatch.error for dispatch in verdict.trace] == [
        "it took longer than 30 s",
        "it took longer than inf s",
    ]


async def test_a_timeout_that_a_hook_meets_itself_is_told_in_its_words() -> None:
    async def calls(payload: Payload) -> None:
        raise TimeoutError("no answer from the server")

    verdict = await run_chain("context", Context(), [calls])
    assert verdict.trace[0].error == "TimeoutError: no answer from the server"


async def test_a_hook_is_timed_out_by_a_real_clock() -> None:
    async def hangs(payload: Payload) -> None:
        await anyio.sleep_forever()

    verdict = await run_chain(
        "pre_tool", LS, [bind("pre_tool", hangs, where="", timeout=0.01)], clock=SYSTEM_CLOCK
    )
    assert verdict.decision == Deny("hook `hangs` failed: it took longer than 0.01 s")
    assert verdict.trace[0].seconds > 0


# -- being cancelled --------------------------------------------------------------------------------


async def test_being_cancelled_from_outside_is_no_denial() -> None:
    trace: list[Dispatch] = []
    verdicts: list[Verdict[Any]] = []
    observed: list[Payload] = []

    async def hangs(payload: Payload) -> None:
        scope.cancel()
        await anyio.sleep_forever()

    async def wrapper(payload: Payload, next: Next) -> None:
        await next(payload)

    chain = Chain("pre_tool", [wrapper, hangs, bind("pre_tool", observed.append, observes=True)])
    with anyio.CancelScope() as scope:
        verdicts.append(await chain.run(LS, timeout=SYSTEM_CLOCK.timeout, trace=trace))
    assert scope.cancelled_caught
    assert (verdicts, trace, observed) == ([], [], [])


async def test_an_abort_that_a_hook_notices_is_no_denial() -> None:
    def checks(payload: Payload) -> None:
        assert payload.abort is not None
        payload.abort.check()

    async def wrapper(payload: Payload, next: Next) -> None:
        await next(payload)

    signal = AbortSignal()
    aborted = PreTool(abort=signal)
    assert (await run_chain("pre_tool", aborted, [wrapper, checks])).decision is None
    signal.set("user")
    with pytest.raises(Aborted, match="user"):
        await run_chain("pre_tool", aborted, [wrapper, checks])

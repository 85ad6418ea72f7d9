"""Approvals (lifecycle I.8, 166) and our own scenario: the time of a person counts towards no limit or timeout."""

from typing import Any

import anyio
import pytest
from tests.conformance.toolkit import (
    Seen,
    abort,
    after,
    all_of,
    asks,
    outcomes,
    parallels,
    ran,
    reasons,
    results,
    timed,
)
from tests.machine.drive import calls, run, scripted, texts, types

from turnchart.machine import (
    Approve,
    ApproveForSession,
    Limits,
    Permissions,
    Question,
    Refuse,
    ToolContext,
    tool,
)
from turnchart.machine.approvals import Approver
from turnchart.machine.points import Allow, Ask, Deny, PreTool
from turnchart.testing import FakeClock

ASKING = Permissions(default="ask")
HOUR = 3600.0


def slow_person(clock: FakeClock, seconds: float, *answers: object) -> Any:
    """Return an approver that takes so long for each answer; the last one is given for ever."""
    left = list(answers)

    async def answer(_: Question) -> object:
        await clock.sleep(seconds)
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


async def answered(answer: object, *, tools: Any = None, replies: Any = None, **settings: Any) -> Any:
    """Run one call that asks, with one answer, and return the agent and what ran."""
    seen: Seen = []

    async def approve(question: Question) -> Any:
        seen.append(f"asked {question.tool}")
        return answer

    settings.setdefault("permissions", ASKING)
    agent, (turn,) = await run(
        replies or [asks("a"), "ok"], tools=tools or [timed("a", 0, seen)], approver=approve, **settings
    )
    return agent, turn, seen


async def test_i166_without_an_approver_the_call_is_denied() -> None:
    agent, (turn,) = await run([calls(("add", {"a": 1, "b": 2})), "ok"], permissions=ASKING)
    assert results(agent.session) == [("denied", "Denied: no approver")]
    decided = all_of(agent.session, "approval/decided")[0].data
    assert (decided["outcome"], decided["reason"]) == ("refused", "no approver")
    assert (turn.reason, turn.steps) == ("completed", 2)


async def test_i166_approved_once_it_runs_and_the_next_call_asks_again() -> None:
    agent, _, seen = await answered(Approve(), replies=[asks("a", "a"), "ok"])
    assert seen == ["asked a", "a+", "a-", "asked a", "a+", "a-"]
    assert [entry.data["outcome"] for entry in all_of(agent.session, "approval/decided")] == ["approved"] * 2


async def test_i166_approved_for_the_session_nobody_asks_again() -> None:
    agent, _, seen = await answered(ApproveForSession(), replies=[asks("a", "a"), asks("a"), "ok"])
    assert seen.count("asked a") == 1
    assert outcomes(agent.session) == ["ok"] * 3


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Refuse("not on Friday"), "Denied: not on Friday"),
        (Refuse(), "Denied: refused"),
        (None, "Denied: the approver answered NoneType, which is no answer"),
        (True, "Denied: the approver answered bool, which is no answer"),
        ("yes", "Denied: the approver answered str, which is no answer"),
        (Approve, "Denied: the approver answered type, which is no answer"),
    ],
)
async def test_i166_everything_but_an_approval_denies(answer: object, says: str) -> None:
    agent, _, seen = await answered(answer)
    assert seen == ["asked a"]
    assert results(agent.session) == [("denied", says)]


async def test_i166_an_approver_that_fails_denies() -> None:
    async def fails(_: Question) -> Approve:
        raise OSError("the terminal is gone")

    agent, (turn,) = await run([calls(("add", {"a": 1, "b": 2})), "ok"], permissions=ASKING, approver=fails)
    assert results(agent.session) == [
        ("denied", "Denied: the approver failed: OSError: the terminal is gone")
    ]
    assert turn.reason == "completed"


@pytest.mark.parametrize("answer", [Approve(), Refuse("late")])
async def test_i166_an_abort_while_a_person_is_asked_is_a_cut_and_never_a_denial(answer: object) -> None:
    seen: Seen = []

    async def stubborn(_: Question) -> Any:
        with anyio.CancelScope(shield=True):
            await clock.sleep(5)
        return answer

    clock = FakeClock()
    tools = parallels(seen, a=1, b=1)
    async with scripted(
        [asks("a", "b")], clock=clock, tools=tools, permissions=ASKING, approver=stubborn
    ) as agent:
        agent.follow_up("x")
        await clock.sleep(1)
        agent.abort()
        await agent.idle()
    assert seen == []
    assert outcomes(agent.session) == ["aborted", "aborted"]
    assert all("it had no effect" in text for _, text in results(agent.session))
    assert types(agent.session).count("approval/asked") == 1
    assert "approval/decided" not in types(agent.session)


async def test_a_hook_that_asks_is_judged_with_the_permissions_and_the_stricter_holds() -> None:
    def ask(_: PreTool) -> Ask:
        return Ask("are you sure?")

    def deny(_: PreTool) -> Deny:
        return Deny("never")

    def allow(_: PreTool) -> Allow:
        return Allow()

    agent, _, seen = await answered(Refuse("no"), permissions=None, hooks={"pre_tool": [ask, allow]})
    assert all_of(agent.session, "approval/asked")[0].data["reason"] == "are you sure?"
    assert seen == ["asked a"]
    agent, _, seen = await answered(Approve(), permissions=None, hooks={"pre_tool": [ask, deny]})
    assert (seen, outcomes(agent.session)) == ([], ["denied"])
    agent, _, seen = await answered(Refuse("no"), hooks={"pre_tool": [allow]})
    assert (seen, outcomes(agent.session)) == (["asked a"], ["denied"])


async def test_the_question_shows_what_will_run() -> None:
    asked: list[Question] = []

    @tool(subject="path", effects="read")
    async def look(path: str, lines: int = 10) -> str:
        """Look."""
        return f"{path} {lines}"

    def rewrite(payload: PreTool) -> PreTool:
        return payload.replace(args={"path": "b"})

    async def approve(question: Question) -> Approve:
        asked.append(question)
        return Approve()

    agent, _ = await run(
        [calls(("look", {"path": "a"})), "ok"], tools=[look], permissions=ASKING, approver=approve,
        hooks={"pre_tool": [rewrite]},
    )  # fmt: skip
    (question,) = asked
    assert (question.tool, dict(question.args), question.subject, question.effects) == (
        "look", {"path": "b", "lines": 10}, "b", "read",
    )  # fmt: skip
    assert results(agent.session) == [("ok", "b 10")]


# -- the time of a person ------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", [1.0, 9.9999, 11.0, 24 * HOUR])
async def test_waiting_for_a_person_does_not_count_towards_max_seconds(wait: float) -> None:
    seen: Seen = []
    clock = FakeClock()
    async with scripted(
        [asks("a", "a"), "ok"], clock=clock, tools=[timed("a", 4, seen)], permissions=ASKING,
        approver=slow_person(clock, wait, Approve()), limits=Limits(max_seconds=10),
    ) as agent:  # fmt: skip
        turn = await agent.prompt("x")
    assert (turn.reason, seen) == ("completed", ["a+", "a-", "a+", "a-"])
    assert len(clock.slept) < 20


async def test_what_is_left_after_the_answer_still_counts() -> None:
    seen: Seen = []
    clock = FakeClock()
    async with scripted(
        [asks("a")], clock=clock, tools=[timed("a", 11, seen)], permissions=ASKING,
        approver=slow_person(clock, HOUR, Approve()), limits=Limits(max_seconds=10),
    ) as agent:  # fmt: skip
        begun = clock.now()
        turn = await agent.prompt("x")
    assert (turn.reason, seen) == ("max_seconds", ["a+"])
    assert clock.now() - begun == pytest.approx(HOUR + 10, abs=0.1)


async def test_time_before_the_question_counts_too() -> None:
    seen: Seen = []
    clock = FakeClock()
    async with scripted(
        [asks("a", "b")], clock=clock, tools=[timed("a", 9.999, seen), timed("b", 5, seen)],
        permissions=Permissions(default="allow", ask=["b"]),
        approver=slow_person(clock, HOUR, Approve()), limits=Limits(max_seconds=10),
    ) as agent:  # fmt: skip
        begun = clock.now()
        turn = await agent.prompt("x")
    assert (turn.reason, seen) == ("max_seconds", ["a+", "a-", "b+"])
    assert clock.now() - begun == pytest.approx(HOUR + 10, abs=0.1)
    assert len(clock.slept) < 20


async def test_waiting_for_a_person_counts_towards_no_timeout_of_tool_or_hook() -> None:
    seen: Seen = []
    clock = FakeClock()

    async def ask(_: PreTool) -> Ask:
        await clock.sleep(1)
        return Ask("sure?")

    async with scripted(
        [asks("a"), "ok"], clock=clock, tools=[timed("a", 4, seen, timeout=5)],
        approver=slow_person(clock, HOUR, Approve()), hooks={"pre_tool": [ask]},
    ) as agent:  # fmt: skip
        turn = await agent.prompt("x")
    assert turn.reason == "completed"
    assert outcomes(agent.session) == ["ok"]


async def test_bodies_that_already_run_go_on_and_their_own_timeout_holds_meanwhile() -> None:
    seen: Seen = []
    clock = FakeClock()
    tools = [
        timed("a", 50, seen, execution="parallel", timeout=100),
        timed("b", 200, seen, execution="parallel", timeout=100),
        timed("c", 1, seen, execution="parallel", timeout=5),
    ]
    async with scripted(
        [asks("a", "b", "c"), "ok"], clock=clock, tools=tools, limits=Limits(max_seconds=250),
        permissions=Permissions(default="allow", ask=["c"]), approver=slow_person(clock, HOUR, Approve()),
    ) as agent:  # fmt: skip
        turn = await agent.prompt("x")
    assert turn.reason == "completed"
    assert ran(seen) == ["a+", "b+", "a-", "c+", "c-"]
    assert outcomes(agent.session) == ["ok", "error", "ok"]


async def test_one_question_at_a_time_in_model_order() -> None:
    seen: Seen = []
    clock = FakeClock()
    open_questions = 0

    async def approve(question: Question) -> Approve:
        nonlocal open_questions
        open_questions += 1
        assert open_questions == 1
        seen.append(f"asked {question.tool}")
        await clock.sleep(10)
        open_questions -= 1
        return Approve()

    async with scripted(
        [asks("a", "b", "c"), "ok"], clock=clock, tools=parallels(seen, a=3, b=2, c=1), permissions=ASKING,
        approver=approve,
    ) as agent:  # fmt: skip
        await agent.prompt("x")
    assert seen == ["asked a", "a+", "asked b", "a-", "b+", "asked c", "b-", "c+", "c-"] or seen == [
        "asked a", "asked b", "a+", "a-", "asked c", "b+", "b-", "c+", "c-",
    ]  # fmt: skip


async def test_a_refused_call_counts_as_a_call_and_not_as_time() -> None:
    seen: Seen = []
    clock = FakeClock()
    async with scripted(
        [asks("a", "a", "a")], clock=clock, tools=[timed("a", 1, seen)], permissions=ASKING,
        approver=slow_person(clock, HOUR, Refuse("no")), limits=Limits(max_seconds=5, max_tool_calls=2),
    ) as agent:  # fmt: skip
        turn = await agent.prompt("x")
    assert turn.reason == "max_tool_calls"
    assert outcomes(agent.session) == ["denied", "denied", "error"]


async def test_the_wait_of_one_turn_is_no_credit_for_the_next() -> None:
    seen: Seen = []
    clock = FakeClock()
    async with scripted(
        [asks("a"), "ok", asks("a")], clock=clock, tools=[timed("a", 6, seen)],
        permissions=ASKING, approver=slow_person(clock, HOUR, ApproveForSession()), limits=Limits(max_seconds=10),
    ) as agent:  # fmt: skip
        assert (await agent.prompt("x")).ok
        approved = agent.session.entries[-1].time
        agent.limits = Limits(max_seconds=5)
        turn = await agent.prompt("y")
        assert turn.reason == "max_seconds"
        assert agent.session.entries[-1].time - approved == pytest.approx(5, abs=0.1)


async def test_an_abort_ends_the_wait_at_once() -> None:
    seen: Seen = []
    clock = FakeClock()

    async def never(_: Question) -> Approve:
        await anyio.sleep_forever()
        return Approve()

    agent, (turn,) = await run(
        [asks("a")], tools=[timed("a", 1, seen)], permissions=ASKING, approver=never, act=after(3, abort),
        limits=Limits(max_seconds=1),
    )  # fmt: skip
    del clock
    assert (turn.reason, outcomes(agent.session), seen) == ("aborted", ["aborted"], [])
    assert reasons(agent.session) == ["aborted"]


async def test_steering_while_a_person_is_asked_waits_for_the_next_step() -> None:
    clock = FakeClock()

    async def approve(_: Question) -> Approve:
        await clock.sleep(HOUR)
        return Approve()

    async def body(ctx: ToolContext) -> str:
        return ctx.call_id

    async with scripted(
        [asks("body"), "ok"],
        clock=clock,
        tools=[tool(body, description="x")],
        permissions=ASKING,
        approver=approve,
    ) as agent:
        agent.follow_up("x")
        await clock.sleep(1)
        agent.steer("also")
        await agent.idle()
    assert texts(agent.session, "user/message") == ["x", "also"]


async def approver_is_a_protocol(approver: Approver) -> None:
    """Typed use: an approver may be any async callable."""
    await approver(Question("c", "t", {}))

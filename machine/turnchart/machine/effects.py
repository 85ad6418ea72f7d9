"""What happens in each turn state but requesting and tooling: claim, pre-step, retry, boundary of a step."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, cast

from anyio.lowlevel import checkpoint

from turnchart.machine.chain import Verdict
from turnchart.machine.context import RUNTIME_CONTEXT
from turnchart.machine.cooling import next_model
from turnchart.machine.driver import EFFECTS, LEFT_OPEN, Driver
from turnchart.machine.entries import Frozen
from turnchart.machine.errors import RequestFailed
from turnchart.machine.inbox import Item, Origin, Target
from turnchart.machine.messages import Failure, Message, UserMessage, normalize_prompt_input
from turnchart.machine.points import (
    AfterStep,
    Assemble,
    Continue,
    Enter,
    PreStep,
    Reject,
    RequestError,
    Retry,
    Stop,
    TurnStopping,
)
from turnchart.machine.requesting import requesting
from turnchart.machine.states import Event, State
from turnchart.machine.tooling import leave_none_open, tooling

if TYPE_CHECKING:
    from turnchart.machine.outfit import Outfit, Poll

NO_FACTS_TEXT = "There are no facts to report any more."
"""What the model reads when the facts that it was told before are gone."""


# -- claiming --------------------------------------------------------------------------------------


async def claiming(driver: Driver) -> Event:
    """Claim what waits, then put the prompt together."""
    agent, now = cast("Outfit", driver), driver.turning
    if not now.claimed:
        driver.claim()
    now.claimed = False
    if agent.poll_steering is not None or agent.poll_follow_up is not None:
        await _claim_polled(agent)
    if agent.mcp is not None:
        await agent.mcp.settle(agent)
    await _assemble(agent)
    return Event.CLAIMED


async def _claim_polled(agent: Outfit) -> None:
    """Ask the callbacks and claim at once what they give, and nothing else: the claim of this step was made.

    A prompt is asked for only where the turn opens without input.
    """
    now = agent.turning
    polled: list[Item] = []
    if agent.poll_steering is not None:
        polled += await _polled(agent, "poll_steering", agent.poll_steering, "next-step")
    if agent.poll_follow_up is not None and now.step == 0 and not now.batch and not polled:
        polled += await _polled(agent, "poll_follow_up", agent.poll_follow_up, "next-turn")
    for item in polled:
        agent.claim_one(item)


async def _polled(agent: Outfit, name: str, poll: Poll, target: Target) -> tuple[Item, ...]:
    """Ask a callback for input and put it into the inbox; return it."""
    agent.did(name)
    if agent.signals.waiting:
        await agent.signals.deliver()
    given = poll()
    if isinstance(given, Awaitable):
        given = await given
    if not given:
        return ()
    origin: Origin = "steer" if target == "next-step" else "follow_up"
    return (agent.put(normalize_prompt_input(given), target, origin),)


async def _assemble(agent: Outfit) -> None:
    now = agent.turning
    active = agent.active_tools()
    verdict = await agent.ask(
        "assemble", lambda: Assemble(sections=agent.prompt_sections, tools=active, **agent.common())
    )
    if verdict is None:
        now.rendered, now.offered = agent.system_prompt, active
        facts: Any = {}
    else:
        payload = cast(Assemble, verdict.payload)
        now.rendered = "\n\n".join(each for each in payload.sections if each)
        now.offered, facts = tuple(payload.tools), payload.contexts
    now.tools = now.offered
    told = _facts_message(agent, facts) if facts or agent.session.view.facts is not None else None
    if told is not None:
        now.messages = (*now.messages, told)


def _facts_message(agent: Outfit, facts: Any) -> Message | None:
    """Return the message that tells the model the facts, or None where it knows them."""
    known = agent.session.view.facts
    text = "\n".join(f"{name}: {value}" for name, value in facts.items()) or NO_FACTS_TEXT
    if text == known or (not facts and known in (None, NO_FACTS_TEXT)):
        return None
    return UserMessage(
        text, id=f"f{len(agent.session.entries)}", time=agent.clock.now(), source=RUNTIME_CONTEXT
    )


# -- pre_step --------------------------------------------------------------------------------------


async def pre_step(driver: Driver) -> Event:
    """Let the proposed step in, or not."""
    agent, now = cast("Outfit", driver), driver.turning
    proposed = now.messages
    verdict = await driver.ask("pre_step", lambda: _proposal(driver, proposed))
    now.series = False
    if verdict is not None:
        if isinstance(verdict.decision, Reject):
            now.reason = "blocked"
            return Event.REJECT
        payload = cast(PreStep, verdict.payload)
        entered = verdict.decision if isinstance(verdict.decision, Enter) else payload
        now.messages = tuple(entered.messages)
        now.series = entered.starts_request_series
    if not now.messages and not now.owed:
        now.reason = now.reason or "completed"
        now.calls = ()
    elif agent.session.view.window is not None and agent.compaction.strategy != "none":
        from turnchart.machine.compaction import relieve

        await relieve(agent)
    return Event.ENTER


def _proposal(driver: Driver, messages: tuple[Message, ...]) -> PreStep:
    common = driver.common()
    common["step"] += not driver.session.brackets.step_open  # open where the step is picked up
    return PreStep(messages=messages, **common)


# -- retrying --------------------------------------------------------------------------------------


async def retrying(driver: Driver) -> Event:
    """Ask who tries again: the flow's chain, compaction, the policy, then the fallback models."""
    agent, now = cast("Outfit", driver), driver.turning
    if agent.session.barriers:
        await agent.session.flush()
    failure = now.failure or Failure("unknown")
    try:
        verdict = await driver.ask("request_error", lambda: _request_error(driver, failure))
    except Exception as error:
        raise RequestFailed(failure, note=f"; then {error}") from error
    if now.cause is not None:
        return Event.CANCEL
    decision = driver.decided(verdict)
    by = _by(verdict)
    if isinstance(decision, Retry) and (refused := _one_too_many(agent, by)):
        now.error, now.reason = RequestFailed(failure, note=refused), "error"
        return Event.GIVE_UP
    if decision is None and failure.kind == "context_window" and await _compacted(agent):
        decision, by = Retry(), "compaction"
    if decision is None:
        decision = _policy(agent, failure)
        by = "policy"
    if decision is None:
        model = _next_model(agent)
        decision = Retry(0, model) if model else None
        by = "fallback"
    if not isinstance(decision, Retry):
        now.error, now.reason = RequestFailed(failure), "error"
        return Event.GIVE_UP
    if decision.model is not None and agent.cooling is not None:
        agent.cooling.rest(now.model, agent.clock.now())
    await _wait(driver, failure, decision, by)
    return Event.RETRY


def _by(verdict: Verdict | None) -> str:
    return verdict.by if verdict is not None else ""


def _one_too_many(agent: Outfit, by: str) -> str:
    """Return what to say of a hook's retry that is one too many for its step; empty where it is not."""
    most = agent.limits.max_retries
    if most is None or agent.turning.retries < most:
        return ""
    return f"; hook `{by}` asked for it again, but limits.max_retries ({most}) are spent in this step"


def _request_error(driver: Driver, failure: Failure) -> RequestError:
    now = driver.turning
    return RequestError(
        kind=failure.kind, status=failure.status, retry_after=failure.retry_after, message=failure.message,
        attempt=now.attempts.get(now.model, 1), model=now.model, fallback=_next_model(cast("Outfit", driver)),
        **driver.common(),
    )  # fmt: skip


async def _compacted(agent: Outfit) -> bool:
    """Make the conversation shorter that did not fit; return whether that was done."""
    from turnchart.machine.compaction import overflow

    return await overflow(agent)


def _policy(agent: Outfit, failure: Failure) -> Retry | None:
    """Return what the retry policy says; None where it gives up."""
    now = agent.turning
    wait = agent.retry.wait(failure, now.attempts.get(now.model, 1), now.retry_kinds, agent.rng)
    return None if wait is None else Retry(wait)


def _next_model(agent: Outfit) -> str:
    """Return the next model that this step did not ask yet; empty for none."""
    own = agent.session.view.model or agent.model_id
    return next_model(own, agent.fallback, agent.turning.attempts, agent.cooling, agent.clock.now())


async def _wait(driver: Driver, failure: Failure, decision: Retry, by: str) -> None:
    now = driver.turning
    now.retries += 1
    data: dict[str, Any] = {
        "turn": now.number, "step": now.step, "retry": now.retries, "after": decision.after,
        "kind": failure.kind, "by": by,
    }  # fmt: skip
    if decision.model is not None:
        data["model"] = decision.model
        now.fallback = decision.model
    driver.log("llm/retry", Frozen(data), attempt=now.attempt)
    if driver.signals.waiting:
        await driver.signals.deliver()
    if decision.after > 0 and now.cause is None:
        await driver.clock.sleep(decision.after)
    else:
        await checkpoint()  # a hook that tries again for ever must leave room for an abort
    if now.cause is None:
        driver.log("llm/retry-started", Frozen(turn=now.number, step=now.step, retry=now.retries))


# -- stopping --------------------------------------------------------------------------------------


async def stopping(driver: Driver) -> Event:
    """The boundary of every step: hooks, limits, and on a natural stop the last word."""
    agent, now = cast("Outfit", driver), driver.turning
    if agent.session.barriers:
        await agent.session.flush()
    verdict = await driver.ask(
        "after_step", lambda: AfterStep(message=now.message, results=now.results, **driver.common())
    )
    now.must_stop = "stopped" if isinstance(driver.decided(verdict), Stop) else _spent(driver)
    if not now.must_stop and not now.owed and not driver.session.inbox.next_step:
        await _natural_stop(agent)
        now.must_stop = now.must_stop or _spent(driver)
    if now.must_stop and now.reason != "max_tokens":
        now.reason = now.must_stop
    return Event.SETTLE


def _spent(driver: Driver) -> str:
    """Return the limit that keeps this turn from another step; empty for none."""
    now, limits = driver.turning, driver.limits
    if limits.max_tool_calls is not None and now.tool_calls > limits.max_tool_calls:
        return "max_tool_calls"
    another = now.owed or driver.session.inbox.next_step
    if another and limits.max_steps is not None and now.step >= limits.max_steps:
        return "max_steps"
    return ""


async def _natural_stop(agent: Outfit) -> None:
    now, limits = agent.turning, agent.limits
    chain = agent.chains.get("turn_stopping")
    most = limits.max_continues if limits.max_continues is not None else 1_000_000
    continues = 0 if chain is None else agent.common()["turn"].continues
    verdict = await agent.ask("turn_stopping", lambda: _last_word(agent, continues, most))
    decision = agent.decided(verdict)
    if now.cause is not None:
        return
    if isinstance(decision, Continue):
        if continues >= most:
            now.must_stop = "max_continues"
        else:
            said = UserMessage(decision.reason, source=f"hook {_by(verdict)}")
            agent.put([said], "next-step", "hook")
        return
    if agent.poll_steering is not None and await _polled(
        agent, "poll_steering", agent.poll_steering, "next-step"
    ):
        return
    if not agent.session.inbox.next_turn and agent.poll_follow_up is not None:
        await _polled(agent, "poll_follow_up", agent.poll_follow_up, "next-turn")


def _last_word(agent: Outfit, continues: int, most: int) -> TurnStopping:
    now = agent.turning
    text = now.message.text if now.message is not None else ""
    return TurnStopping(
        text=text, reason=now.reason, continues=continues, max_continues=most, **agent.common()
    )


EFFECTS.update(
    {
        State.CLAIMING: claiming,
        State.PRE_STEP: pre_step,
        State.REQUESTING: requesting,
        State.RETRYING: retrying,
        State.TOOLING: tooling,
        State.STOPPING: stopping,
    }
)
LEFT_OPEN[State.TOOLING] = leave_none_open

"""I.3 of the lifecycle: claim, assemble, pre_step: what a proposed step is, who lets it in and what with."""

from collections.abc import Callable
from typing import Any

import pytest
from anyio.lowlevel import checkpoint
from tests.conformance.watching import INBOX, count, ends, hear, refuse, turns, waiting, when
from tests.machine.drive import ADD, drop, run, scripted, texts, types
from tests.machine.histories import Kept

from turnchart.machine import (
    Agent,
    AppendRefused,
    Failure,
    Reply,
    ScriptedModel,
    Session,
    State,
    UserMessage,
)
from turnchart.machine.points import Assemble, Enter, PreStep, Reject, Request

Hook = Callable[[PreStep], Any]


def reject(_: PreStep) -> Reject:
    return Reject("no")


def noted(seen: list[str], word: str) -> Callable[[object], None]:
    """Return a hook of any point that notes that it ran."""
    return lambda _: seen.append(word)


def asked(agent: Agent) -> list[list[str]]:
    """Return the texts of the messages of every request."""
    assert isinstance(agent.model, ScriptedModel)
    return [[said.text for said in request.messages] for request in agent.model.requests]


def empty(payload: PreStep) -> PreStep:
    return payload.replace(messages=())


def on(nth: int, act: Callable[[PreStep], Any]) -> Hook:
    """Return a hook that acts on the nth proposed step only, from 1."""
    seen = [0]

    def hook(payload: PreStep) -> Any:
        seen[0] += 1
        return act(payload) if seen[0] == nth else None

    return hook


async def test_i044_without_hooks_the_conversation_has_the_very_message_that_was_sent() -> None:
    async with scripted(["hi"]) as agent:
        item = agent.follow_up(UserMessage("x", id="u1", source="me"))
        await agent.idle()
        [said] = [entry.data["message"] for entry in agent.session.entries if entry.type == "user/message"]
        assert said is item.messages[0]
        assert (said["id"], said["source"]) == ("u1", "me")


async def test_i045_the_payload_holds_what_was_claimed_in_the_order_of_reading() -> None:
    seen: list[list[str]] = []

    def look(payload: PreStep) -> None:
        seen.append([said.text for said in payload.messages])

    async with scripted(["hi"], hooks={"pre_step": [look]}) as agent:
        agent.inject("i")
        agent.next_turn("r")
        await agent.prompt("p")
        assert seen == [["i", "r", "p"]]


async def test_i046_messages_that_a_hook_adds_follow_the_prompt_with_their_sources() -> None:
    def more(payload: PreStep) -> PreStep:
        added = (UserMessage("one", source="plugin one"), UserMessage("two", source="plugin two"))
        return payload.replace(messages=(*payload.messages, *added))

    agent, _ = await run(["ok"], hooks={"pre_step": [more]})
    said = [entry.data["message"] for entry in agent.session.entries if entry.type == "user/message"]
    assert [(each.text, each.get("source")) for each in said] == [
        ("x", None), ("one", "plugin one"), ("two", "plugin two"),
    ]  # fmt: skip


async def test_i047_a_rejected_turn_has_no_step_no_message_and_no_request() -> None:
    agent, (turn,) = await run([], hooks={"pre_step": [reject]})
    assert (turn.reason, turn.steps) == ("blocked", 0)
    assert types(agent.session) == [INBOX, "turn/start", INBOX, "hook/result", "turn/end"]
    assert [item.messages[0].text for item in turn.unadmitted] == ["x"]
    assert not agent.parked


async def test_i048_a_rejected_later_step_blocks_a_turn_that_had_completed() -> None:
    async with scripted(["a"], hooks={"pre_step": [on(2, reject)]}) as agent:
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        agent.steer("s")
        agent.go_on()
        await agent.idle()
        assert ends(agent.session) == ["blocked"]
        assert turns(agent.session) == [["x"]]
        assert agent.last_turn is not None
        assert [item.messages[0].text for item in agent.last_turn.unadmitted] == ["s"]


async def test_i049_a_first_step_without_messages_completes_a_turn_without_steps() -> None:
    agent, (turn,) = await run([], hooks={"pre_step": [empty]})
    assert (turn.reason, turn.steps) == ("completed", 0)
    assert count(agent.session, "turn/start", "step/start", "user/message", "turn/end") == (1, 0, 0, 1)
    assert [item.messages[0].text for item in turn.unadmitted] == ["x"]


async def test_i049_and_the_next_prompt_follows_without_idle() -> None:
    async with scripted(["b"], hooks={"pre_step": [on(1, empty)]}) as agent:
        heard = hear(agent, "agent/status")
        agent.follow_up("x")
        agent.follow_up("y")
        await agent.idle()
        assert turns(agent.session) == [[], ["y"]]
        assert heard == ["status running", "status idle"]


async def test_i050_a_later_step_without_messages_ends_the_turn_with_the_reason_it_has() -> None:
    for reply, reason in (("a", "completed"), (Reply("a", finish="max_tokens"), "max_tokens")):
        async with scripted([reply], hooks={"pre_step": [on(2, empty)]}) as agent:
            agent.follow_up("x")
            await agent.until(State.REQUESTING)
            agent.steer("s")
            agent.go_on()
            await agent.idle()
            assert ends(agent.session) == [reason]
            assert count(agent.session, "step/start", "user/message") == (1, 1)


async def test_i051_a_continuation_with_nothing_claimed_still_passes_the_hook() -> None:
    seen: list[tuple[int, int]] = []

    def look(payload: PreStep) -> None:
        seen.append((payload.step, len(payload.messages)))

    _, (turn,) = await run([ADD, "done"], hooks={"pre_step": [look]})
    assert seen == [(1, 1), (2, 0)]
    assert turn.steps == 2


async def test_i051_so_does_one_whose_messages_a_hook_took_away() -> None:
    async with scripted([ADD, "done"], hooks={"pre_step": [on(2, empty)]}) as agent:
        agent.follow_up("x")
        await agent.until(State.TOOLING)
        agent.steer("s")
        agent.go_on()
        await agent.idle()
        assert turns(agent.session) == [["x"]]
        assert count(agent.session, "step/start") == (2,)
        assert agent.last_turn is not None
        assert (agent.last_turn.text, agent.last_turn.reason) == ("done", "completed")


async def test_i052_a_hook_that_raises_ends_the_turn_and_only_its_batch_is_gone() -> None:
    def broken(_: PreStep) -> None:
        raise ValueError("boom")

    async with scripted(["b", "c"], hooks={"pre_step": [on(1, broken)]}) as agent:
        heard = hear(agent, "agent/error", "agent/status")
        agent.follow_up("x")
        agent.follow_up("y")
        await agent.idle()
        assert heard == ["status running", "agent/error", "status idle"]
        assert (ends(agent.session), waiting(agent)) == (["error"], ([], ["y"], []))
        assert count(agent.session, "step/start", "user/message") == (0, 0)
        assert agent.last_turn is not None
        assert [item.messages[0].text for item in agent.last_turn.unadmitted] == ["x"]
        agent.follow_up("z")
        await agent.idle()
        assert turns(agent.session) == [[], ["y"], ["z"]]


async def test_i053_what_comes_after_the_claim_waits_for_the_next_boundary() -> None:
    def send(payload: PreStep) -> None:
        if payload.step == 1:
            agent.inject("i")

    async with scripted(["a", "b"], hooks={"pre_step": [send]}) as agent:
        await agent.prompt("x")
        assert turns(agent.session) == [["x", "i"]]
        assert count(agent.session, "step/start") == (2,)


async def test_i054_what_a_hook_injects_and_rejects_stays_pending() -> None:
    def send(_: PreStep) -> Reject:
        agent.inject("i")
        return Reject("no")

    async with scripted([], hooks={"pre_step": [send]}) as agent:
        assert (await agent.prompt("x")).reason == "blocked"
        assert (waiting(agent), agent.parked) == ((["i"], [], []), True)


async def test_i055_what_a_hook_leaves_out_is_neither_logged_nor_queued_again() -> None:
    def without(payload: PreStep) -> PreStep:
        return payload.replace(messages=payload.messages[1:])

    async with scripted(["a"], hooks={"pre_step": [without]}) as agent:
        agent.inject("i")
        turn = await agent.prompt("x")
        assert turns(agent.session) == [["x"]]
        assert not agent.queued
        assert [item.messages[0].text for item in turn.unadmitted] == ["i"]
        assert asked(agent) == [["x"]]


async def test_i056_the_messages_are_frozen_and_who_changes_them_ends_the_turn() -> None:
    def append(payload: PreStep) -> None:
        payload.messages.append("y")  # type: ignore[attr-defined]  # the point

    def assign(payload: PreStep) -> None:
        payload.messages = ()  # type: ignore[misc]  # the point

    def change(payload: PreStep) -> None:
        payload.messages[0]["content"] = "y"

    for broken in (append, assign, change):
        agent, (turn,) = await run([], hooks={"pre_step": [broken]})
        assert turn.reason == "error", broken
        assert "user/message" not in types(agent.session)


async def test_i057_claimed_then_assemble_then_pre_step_then_step_start() -> None:
    order: list[str] = []

    def assemble(payload: Assemble) -> None:
        order.append(f"assemble {payload.turn.number}.{payload.step}")

    def look(payload: PreStep) -> None:
        order.append(f"pre_step {payload.turn.number}.{payload.step}")

    async with scripted([ADD, "a", "b"], hooks={"assemble": [assemble], "pre_step": [look]}) as agent:
        when(agent, "claimed x", lambda: order.append("claimed"))
        when(agent, "entry step/start", lambda: order.append("step/start"), times=9)
        await agent.prompt("x")
        assert [each.partition(" ")[0] for each in order] == [
            "claimed", "assemble", "pre_step", "step/start", "assemble", "pre_step", "step/start",
        ]  # fmt: skip
        assert [each for each in order if each.startswith("pre_step")] == ["pre_step 1.1", "pre_step 1.2"]
        await agent.prompt("y")
        assert order[-2] == "pre_step 2.1"


async def test_i058_an_assemble_that_fails_ends_the_turn_and_later_turns_work() -> None:
    broken = [True]

    def assemble(_: Assemble) -> None:
        if broken:
            raise KeyError(broken.pop())

    async with scripted(["b"], hooks={"assemble": [assemble]}) as agent:
        turn = await agent.prompt("x")
        assert (turn.reason, turn.steps) == ("error", 0)
        assert [item.messages[0].text for item in turn.unadmitted] == ["x"]
        assert (await agent.prompt("y")).ok


async def test_i059_the_outer_wrapper_says_whether_a_series_starts() -> None:
    async def drops(payload: PreStep, next: Any) -> Any:
        inner = await next(payload)
        return inner.payload.replace(starts_request_series=False)

    async def keeps(payload: PreStep, next: Any) -> Any:
        return await next(payload)

    def starts(payload: PreStep) -> PreStep:
        return payload.replace(starts_request_series=True)

    for outer, reasons in ((keeps, ["initial", "series"]), (drops, ["initial"])):
        agent, _ = await run(["a", "b"], "x", "y", hooks={"pre_step": [outer, starts]})
        headers = [entry.data["reason"] for entry in agent.session.entries if entry.type == "request/header"]
        assert headers == reasons, outer


async def test_i060_assemble_and_pre_step_run_once_for_each_proposed_step() -> None:
    seen: list[str] = []
    hooks = {
        "assemble": [noted(seen, "assemble")],
        "pre_step": [noted(seen, "pre_step")],
    }
    _, (turn,) = await run([ADD, ADD, ADD, "done"], hooks=hooks)
    assert turn.steps == 4
    assert seen == ["assemble", "pre_step"] * 4


async def test_i061_and_not_again_when_a_request_is_retried() -> None:
    seen: list[str] = []
    hooks = {
        "assemble": [noted(seen, "assemble")],
        "pre_step": [noted(seen, "pre_step")],
        "request": [noted(seen, "request")],
    }
    agent, _ = await run([Failure("overloaded"), Failure("timeout"), "ok"], hooks=hooks)
    assert seen == ["assemble", "pre_step", "request", "request", "request"]
    assert texts(agent.session, "user/message") == ["x"]


# -- what lies between -------------------------------------------------------------------------------


async def test_enter_is_the_same_as_other_messages() -> None:
    def enter(payload: PreStep) -> Enter:
        return Enter(messages=(UserMessage("instead"),))

    agent, (turn,) = await run(["ok"], hooks={"pre_step": [enter]})
    assert texts(agent.session, "user/message") == ["instead"]
    assert [item.messages[0].text for item in turn.unadmitted] == ["x"]


async def test_a_reworded_message_that_keeps_its_id_is_admitted() -> None:
    def reword(payload: PreStep) -> PreStep:
        (said,) = payload.messages
        return payload.replace(messages=(UserMessage(said.text.upper(), id=said["id"]),))

    agent, (turn,) = await run(["ok"], hooks={"pre_step": [reword]})
    assert texts(agent.session, "user/message") == ["X"]
    assert turn.unadmitted == ()


async def test_a_message_that_is_in_the_conversation_cannot_be_entered_again() -> None:
    def again(payload: PreStep) -> PreStep | None:
        old = [entry.data["message"] for entry in payload.log if entry.type == "user/message"]
        return payload.replace(messages=(*payload.messages, *old)) if old else None

    async with scripted(["a", "b"], hooks={"pre_step": [again]}) as agent:
        assert (await agent.prompt("x")).ok
        turn = await agent.prompt("y")
        assert turn.reason == "error"
        assert isinstance(turn.error, AppendRefused)
        assert "is in the conversation already" in str(turn.error)
        assert texts(agent.session, "user/message") == ["x", "y"]
        drop(agent)


async def test_a_refused_message_is_unadmitted_and_the_ones_before_it_are_not() -> None:
    async with scripted(["ok"]) as agent:
        agent.inject("i")
        stop = agent.session.validate(
            lambda entry: "no" if entry.type == "user/message" and entry.data["message"].text == "x" else None
        )
        turn = await agent.prompt("x")
        stop()
        assert turn.reason == "error"
        assert texts(agent.session, "user/message") == ["i"]
        assert [item.messages[0].text for item in turn.unadmitted] == ["x"]
        agent.trace().clear()
        assert (await agent.prompt(list(turn.unadmitted[0].messages))).ok
        assert texts(agent.session, "user/message") == ["i", "x"]


async def test_a_vetoed_step_start_leaves_no_step() -> None:
    async with scripted(["ok"]) as agent:
        stop = refuse(agent.session, "step/start")
        turn = await agent.prompt("x")
        assert (turn.reason, turn.steps) == ("error", 0)
        assert count(agent.session, "step/start", "step/end", "turn/end") == (0, 0, 1)
        stop()
        agent.trace().clear()
        assert (await agent.prompt("y")).ok


async def test_what_a_crash_left_claimed_is_read_first_by_the_next_turn() -> None:
    async def crash() -> None:
        async with scripted([], session=session) as agent:
            agent.follow_up("x")
            agent.follow_up("y")
            copies.append(Session(Kept(session.entries)))
            agent.abort()

    session, copies = Session(Kept()), list[Session]()
    await crash()
    async with scripted(["a", "b"], session=copies[0]) as agent:
        assert ends(copies[0]) == ["interrupted"]
        assert (agent.parked, waiting(agent)) == (True, ([], ["x", "y"], []))
        assert agent.state is State.IDLE
        agent.resume()
        await agent.idle()
        assert turns(copies[0]) == [[], ["x"], ["y"]]


async def test_a_steer_that_comes_while_an_empty_step_is_proposed_is_not_lost() -> None:
    def send(payload: PreStep) -> PreStep:
        agent.steer("s")
        return payload.replace(messages=())

    async with scripted(["b"], hooks={"pre_step": [on(1, send)]}) as agent:
        agent.follow_up("x")
        await agent.idle()
        assert turns(agent.session) == [[], ["s"]]
        assert not agent.parked


async def test_an_inject_that_comes_then_wakes_nobody() -> None:
    def send(payload: PreStep) -> PreStep:
        agent.inject("i")
        return payload.replace(messages=())

    async with scripted([], hooks={"pre_step": [on(1, send)]}) as agent:
        agent.follow_up("x")
        await agent.idle()
        assert (turns(agent.session), agent.parked) == ([[]], True)


async def test_what_is_polled_enters_with_what_waited_and_takes_no_second_prompt_along() -> None:
    given = ["polled"]

    async def poll() -> str | None:
        await checkpoint()
        return given.pop() if given else None

    async with scripted(["a", "b"], poll_steering=poll) as agent:
        agent.follow_up("x")
        agent.follow_up("y")
        await agent.idle()
        assert turns(agent.session) == [["x", "polled"], ["y"]]


async def test_a_request_hook_that_injects_is_read_by_the_next_step() -> None:
    def send(payload: Request) -> None:
        if payload.step == 1:
            agent.inject("i")

    async with scripted(["a", "b"], hooks={"request": [send]}) as agent:
        await agent.prompt("x")
        assert asked(agent) == [["x"], ["x", "a", "i"]]


@pytest.mark.parametrize("nonsense", ["yes", 7, {"messages": []}, True])
async def test_a_hook_that_answers_nonsense_ends_the_turn(nonsense: object) -> None:
    def hook(_: PreStep) -> object:
        return nonsense

    _, (turn,) = await run([], hooks={"pre_step": [hook]})
    assert turn.reason == "error"

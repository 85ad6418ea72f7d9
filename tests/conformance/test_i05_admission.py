"""lifecycle I.5, last part: cancelling and failing in the admission, and between it and the stream."""

import pytest
from tests.conformance.asking import Route, all_of, asked, in_step, reasons, seen
from tests.machine.drive import drop, texts

from turnchart.machine import Entry, ScriptedModel, Signal
from turnchart.machine.abort import AbortSignal
from turnchart.machine.points import Payload


@pytest.mark.parametrize("kind", ["system/message", "user/message", "request/header", "request/context"])
async def test_i105_a_cancel_by_who_hears_of_the_admission_keeps_it_and_sends_nothing(kind: str) -> None:
    def hear(signal: Signal, _: AbortSignal) -> None:
        if signal.data["entry"].type == kind:
            assert agent.abort() == ()

    route = Route()
    async with asked(route) as agent:
        agent.on("session/event", hear)
        turn = await agent.prompt("x")
    assert (turn.reason, turn.unadmitted) == ("aborted", ())
    assert in_step(agent.session) == ["system/message", "user/message", "request/header", "request/context"]
    assert route.requests == []


async def test_i105_a_watcher_that_cancels_amid_the_admission_ends_it_there() -> None:
    heard: list[str] = []

    def watch(entry: Entry) -> None:
        if entry.type == "user/message":
            heard.extend(item.messages[0].text for item in agent.abort())

    route = Route()
    async with asked(route) as agent:
        agent.session.watch(watch)
        agent.inject("first")
        turn = await agent.prompt("x")
    assert (turn.reason, heard) == ("aborted", ["x"])
    assert in_step(agent.session) == ["system/message", "user/message"]
    assert texts(agent.session, "user/message") == ["first"]
    assert route.requests == []


async def test_of_an_admission_that_is_refused_half_way_only_the_rest_is_unadmitted() -> None:
    def refuse(entry: Entry) -> str | None:
        return "no" if entry.type == "user/message" and entry.data["message"].text == "x" else None

    async with asked(Route(), checked=False) as agent:
        agent.session.validate(refuse)
        agent.inject("first")
        turn = await agent.prompt("x")
    assert turn.reason == "error"
    assert [item.messages[0].text for item in turn.unadmitted] == ["x"]
    assert texts(agent.session, "user/message") == ["first"]


@pytest.mark.parametrize("point", ["context", "convert", "stream"])
async def test_a_hook_after_the_admission_that_aborts_sends_nothing(point: str) -> None:
    def cut(_: Payload) -> None:
        agent.abort()

    route = Route()
    async with asked(route, hooks={point: [cut]}) as agent:
        turn = await agent.prompt("x")
    assert turn.reason == "aborted"
    assert in_step(agent.session) == ["system/message", "user/message", "request/header", "request/context"]
    assert route.requests == []


@pytest.mark.parametrize("kind", ["system/message", "user/message", "request/header", "request/context"])
async def test_an_admission_that_is_refused_fails_the_turn_and_the_next_one_admits_all(kind: str) -> None:
    model = ScriptedModel(default="ok")
    async with asked(model, checked=False) as agent:
        stop = agent.session.validate(lambda entry: "no" if entry.type == kind else None)
        agent.inject("first")
        turn = await agent.prompt("x")
        assert turn.reason == "error"
        stop()
        assert (await agent.prompt("y")).ok
        drop(agent)
    assert reasons(agent.session) == ["error", "completed"]
    assert len(all_of(agent.session, "request/header")) == 1
    assert seen(model.requests[0])[4] == "Be brief."

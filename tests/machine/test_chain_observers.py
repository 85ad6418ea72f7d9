"""Observers: they see what came out, and change and break nothing."""

from typing import Any

import pytest

from turnchart.machine.chain import BoundHook, Verdict, bind, run_chain
from turnchart.machine.entries import Frozen
from turnchart.machine.errors import HookFailed
from turnchart.machine.points import Deny, OnSignal, Payload, PreStep, PreTool

pytestmark = pytest.mark.anyio

LS = PreTool(tool="shell", args=Frozen(command="ls"), subject="ls", subject_name="command")


def says(answer: object, id: str = "says", observes: bool = False) -> BoundHook:
    def hook(payload: Payload) -> object:
        return answer

    return BoundHook(hook, id, observes=observes)


def rewrites(command: str) -> BoundHook:
    return says(LS.replace(args={"command": command}), f"to-{command}")


def denies(command: str) -> BoundHook:
    def hook(payload: PreTool) -> Deny | None:
        return Deny(f"no {command}") if payload.subject == command else None

    return BoundHook(hook, f"no-{command}")


async def ran(
    point: str, payload: Payload, *hooks: object
) -> tuple[Verdict[Any], list[tuple[str, str | None]]]:
    verdict = await run_chain(point, payload, hooks)
    return verdict, [(dispatch.id, dispatch.decision) for dispatch in verdict.trace]


async def test_observers_change_decide_and_break_nothing() -> None:
    def fails(payload: PreTool) -> None:
        raise ValueError("broken")

    hooks = [
        bind("pre_tool", fails, observes=True),
        says(Deny("no"), "denies", observes=True),
        says(LS, "changes", observes=True),
    ]
    verdict, called = await ran("pre_tool", LS, *hooks)
    assert (verdict.decision, verdict.payload) == (None, LS)
    assert called == [("fails", None), ("denies", None), ("changes", None)]
    assert [dispatch.error for dispatch in verdict.trace] == [
        "ValueError: broken",
        "returned a Deny; an observer changes and decides nothing",
        "returned a PreTool; an observer changes and decides nothing",
    ]


async def test_observers_hear_of_a_failure_too() -> None:
    seen: list[Any] = []

    def sees(payload: PreStep, verdict: Verdict[PreStep]) -> None:
        seen.append([dispatch.error for dispatch in verdict.trace])

    with pytest.raises(HookFailed):
        await run_chain("pre_step", PreStep(), [bind("pre_step", sees, observes=True), says("nonsense")])
    assert seen == [["returned a str; pre_step takes nothing, or one of PreStep, Reject, Enter"]]


async def test_an_observer_keeps_to_its_tools() -> None:
    seen: list[PreTool] = []
    watcher = BoundHook(seen.append, "w", observes=True, tools=("git",))
    await run_chain("pre_tool", LS, [watcher])
    assert seen == []


async def test_signals_are_only_observed() -> None:
    seen: list[object] = []

    def hears(payload: OnSignal) -> None:
        seen.append(payload.signal)
        raise ValueError("broken")

    verdict, called = await ran("on_signal", OnSignal(signal="notice"), hears, hears)
    assert seen == ["notice", "notice"]
    assert called == [("hears", None), ("hears-2", None)]
    assert {dispatch.error for dispatch in verdict.trace} == {"ValueError: broken"}

"""Where a step runner stands, every effect that is a step passes; where none does, nothing is asked."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from turnchart.machine import Agent, Reply, ScriptedModel, ToolCall, tool
from turnchart.machine.driver import EFFECTS, Driver
from turnchart.machine.points import ToolOutcome
from turnchart.machine.states import Event
from turnchart.machine.steps import StepRunner

T = TypeVar("T")


class Seen:
    """A step runner that writes down what passes."""

    def __init__(self, known: dict[str, ToolOutcome] | None = None) -> None:
        self.passed: list[str] = []
        self._known = known or {}

    async def run(self, name: str, key: str, fn: Callable[[], Awaitable[T]]) -> T:
        self.passed.append(f"{name} {key}")
        return await fn()

    async def effect(self, driver: Driver) -> Event | None:
        self.passed.append(driver.state)
        return await EFFECTS[driver.state](driver)

    def kept(self, call_id: str) -> ToolOutcome | None:
        return self._known.get(call_id)


@tool(replay="idempotent")
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def agent(steps: StepRunner) -> Agent:
    asks = Reply(tool_calls=[ToolCall("add", {"a": 1, "b": 2}, id="c1")])
    made = Agent(ScriptedModel([asks, "three"]), tools=[add])
    made.steps = steps
    return made


async def test_effects_and_tools_pass() -> None:
    steps = Seen()
    async with agent(steps) as works:
        assert (await works.prompt("1 + 2?")).text == "three"
    step = ["claiming", "pre_step", "requesting"]
    assert steps.passed == [*step, "tooling", "tool c1", "stopping", *step, "stopping"]


async def test_a_tool_whose_outcome_is_known_does_not_run() -> None:
    from turnchart.machine.messages import Text

    steps = Seen({"c1": ToolOutcome((Text("known"),))})
    async with agent(steps) as works:
        assert (await works.prompt("1 + 2?")).ok
        (result,) = [e for e in works.session.entries if e.type == "tool/result"]
    assert result.data["message"]["content"][0]["text"] == "known"
    assert "tool c1" not in steps.passed

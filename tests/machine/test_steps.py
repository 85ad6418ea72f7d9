"""Where a step runner stands, every effect that is a step passes; where none does, nothing is asked."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from turnchart.machine import Agent, Compaction, Reply, ScriptedModel, ToolCall, tool
from turnchart.machine.acts import Acts
from turnchart.machine.driver import EFFECTS, Driver
from turnchart.machine.points import Payload, PreTool, ToolOutcome
from turnchart.machine.states import Event
from turnchart.machine.steps import StepRunner
from turnchart.machine.stream import Answer

T = TypeVar("T")
P = TypeVar("P", bound=Payload)


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

    def bound(self, acts: Acts, point: str, payload: P) -> P:
        self.passed.append(f"hooks of {point} in {acts.state}")
        return payload

    async def answer(self, acts: Acts, question: str, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        self.passed.append(f"summary in {acts.state}: {question.split()[0]}")
        return await ask()


@tool(replay="idempotent")
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def agent(steps: StepRunner, **more: Any) -> Agent:
    asks = Reply(tool_calls=[ToolCall("add", {"a": 1, "b": 2}, id="c1")])
    made = Agent(more.pop("model", ScriptedModel([asks, "three"])), tools=[add], **more)
    made.steps = steps
    return made


async def test_effects_and_tools_pass() -> None:
    steps = Seen()
    async with agent(steps) as works:
        assert (await works.prompt("1 + 2?")).text == "three"
    step = ["claiming", "pre_step", "requesting"]
    assert steps.passed == [*step, "tooling", "tool c1", "stopping", *step, "stopping"]


def nothing(payload: PreTool) -> None:
    del payload


async def test_what_hooks_get_passes() -> None:
    steps = Seen()
    async with agent(steps, hooks={"pre_tool": [nothing]}) as works:
        assert (await works.prompt("1 + 2?")).ok
    assert [each for each in steps.passed if "hooks" in each] == ["hooks of pre_tool in tooling"]


async def test_requests_for_summaries_pass() -> None:
    steps = Seen()
    model = ScriptedModel(["a" * 400, "b" * 400, "sum", "c"], context_window=200)
    async with agent(steps, model=model, compaction=Compaction(keep_last=1)) as works:
        for text in ("one", "two", "three"):
            assert (await works.prompt(text)).ok
    assert [each for each in steps.passed if "summary" in each] == [f"summary in pre_step: {model.id}"]


async def test_a_tool_whose_outcome_is_known_does_not_run() -> None:
    from turnchart.machine.messages import Text

    steps = Seen({"c1": ToolOutcome((Text("known"),))})
    async with agent(steps) as works:
        assert (await works.prompt("1 + 2?")).ok
        (result,) = [e for e in works.session.entries if e.type == "tool/result"]
    assert result.data["message"]["content"][0]["text"] == "known"
    assert "tool c1" not in steps.passed

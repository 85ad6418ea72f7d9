import pytest

from turnchart.machine import LIFECYCLE, Agent, ScriptedModel
from turnchart.machine.bound import Remarked
from turnchart.machine.driver import Driver
from turnchart.machine.points import PreStep, Reject
from turnchart.testing import LifecycleCoverage
from turnchart.testing.coverage import MEASURES, least_of


def of(coverage: LifecycleCoverage) -> dict[str, tuple[int, int]]:
    return {part.name: (part.covered, part.whole) for part in coverage.parts()}


def missing(coverage: LifecycleCoverage, name: str) -> tuple[str, ...]:
    return next(part.missing for part in coverage.parts() if part.name == name)


async def test_the_generated_paths_take_everything_that_can_be_reached_on_the_real_driver() -> None:
    coverage = LifecycleCoverage()
    with coverage.counting():
        for path in LIFECYCLE.paths("pairs"):
            await path.drive(Agent("none"))
    assert [part.percent for part in coverage.parts()] == [100] * 4
    assert of(coverage) == {"states": (8, 8), "edges": (29, 29), "guards": (20, 20), "pairs": (60, 60)}
    assert coverage.report().splitlines()[0] == "states    8 of 8    100 %"


async def test_each_coverage_takes_all_of_its_own() -> None:
    for name, measure in (("edges", "edges"), ("guards", "guards"), ("pairs", "pairs")):
        coverage = LifecycleCoverage()
        for path in LIFECYCLE.paths(name):  # type: ignore[arg-type]
            agent = Agent("none")
            rows = agent.walk()
            await path.drive(agent)
            coverage.add(rows)
        assert missing(coverage, measure) == ()


async def test_what_was_never_walked_is_named() -> None:
    coverage = LifecycleCoverage()
    with coverage.counting():
        async with Agent(ScriptedModel(["a"])) as agent:
            await agent.prompt("x")
    assert of(coverage)["states"] == (5, 8)
    assert missing(coverage, "states") == ("retrying", "tooling", "maintenance")
    assert "requesting respond: has_tool_calls holds" in missing(coverage, "guards")
    assert "requesting respond: has_tool_calls does not hold" not in missing(coverage, "guards")
    assert "stopping settle if results_due > claiming claimed" in missing(coverage, "pairs")
    lines = coverage.report(shown=1).splitlines()
    assert lines[:3] == ["states    5 of 8   62.5 %", "    never: retrying", "    and 2 more"]
    assert len(coverage.report(shown=None).splitlines()) == 4 + sum(
        part.whole - part.covered for part in coverage.parts()
    )


async def test_only_agents_that_are_made_meanwhile_count_and_each_keeps_its_own_walk() -> None:
    outside = LifecycleCoverage()
    inside = LifecycleCoverage()
    with outside.counting():
        with inside.counting():
            async with Agent(ScriptedModel(["a"])) as agent:
                walk = agent.walk()
                await agent.prompt("x")
        async with Agent(ScriptedModel(["a"]), hooks={"pre_step": [no]}) as other:
            for _ in range(2):
                await other.prompt("x")
    assert [row.event for row in walk] == ["wake", "claimed", "enter", "respond", "settle"]
    assert of(inside)["edges"] == (5, 29)
    assert of(outside)["edges"] == (6, 29)
    assert Driver.counted is None
    async with Agent(ScriptedModel(["a"])) as agent:
        await agent.prompt("x")
    assert of(outside)["edges"] == (6, 29)


def no(payload: PreStep) -> Reject | None:
    return Reject("closed") if payload.turn.number > 1 else None


async def looks(payload: PreStep) -> Remarked:
    return Remarked(None, "looked")


async def test_a_hook_that_only_writes_to_stderr_has_not_acted() -> None:
    coverage = LifecycleCoverage()
    with coverage.counting():
        async with Agent(ScriptedModel(["a"]), hooks={"pre_step": [looks]}) as agent:
            await agent.prompt("x")
        coverage.settle()
    assert of(coverage)["hooks"] == (0, 1)


async def test_hooks_that_never_acted_are_named() -> None:
    coverage = LifecycleCoverage()
    with coverage.counting():
        async with Agent(ScriptedModel(["a"]), hooks={"pre_step": [no]}) as agent:
            await agent.prompt("x")
            coverage.settle()
            assert of(coverage)["hooks"] == (0, 1)
            assert missing(coverage, "hooks")[0].startswith("pre_step no (")
        async with Agent(ScriptedModel(["a"]), hooks={"pre_step": [no]}) as agent:
            for _ in range(2):
                await agent.prompt("x")
    assert of(coverage)["hooks"] == (1, 1)


def test_the_gate_is_a_percentage_of_one_measure_or_of_each() -> None:
    assert least_of(["90", "edges=100"]) == {"states": 90, "edges": 100, "guards": 90, "pairs": 90}
    assert least_of(["hooks=50.5"]) == {"hooks": 50.5}
    coverage = LifecycleCoverage()
    assert coverage.below({"pairs": 1}) == ("pairs 0.0 % is less than 1 %",)
    assert coverage.below({"hooks": 100, "edges": 0}) == ()
    for wrong in ("many", "edges=x", "rows=90", "101", "-1", "="):
        with pytest.raises(ValueError, match=rf"neither .*, of: {', '.join(MEASURES)}"):
            least_of([wrong])


def test_a_table_of_ones_own_is_counted_by_its_own_paths() -> None:
    [reject] = [row for row in LIFECYCLE.rows if row.event == "reject"]
    coverage = LifecycleCoverage(LIFECYCLE.without(reject))
    assert "pre_step reject idle" not in missing(coverage, "edges")
    assert of(coverage)["edges"] == (0, 28)

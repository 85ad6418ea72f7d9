import pytest

from turnchart.machine import LIFECYCLE, Agent, Limits, State
from turnchart.machine.conducting import ID, PathFailure, drive, script_of
from turnchart.machine.points import AfterStep, PreStep, Reject, Stop
from turnchart.machine.walks import Path
from turnchart.testing import WalkDiffers, record

GUARDS = LIFECYCLE.paths("guards")


def path_to(*states: str) -> Path:
    """Return the first path with this walk."""
    return next(path for path in GUARDS if str(path) == ">".join(("idle", *states)))


DONE = path_to("claiming", "pre_step", "requesting", "stopping", "idle")


@pytest.mark.parametrize("path", LIFECYCLE.paths("pairs"), ids=str)
async def test_an_agent_walks_every_pair_of_rows_as_the_chart_says(path: Path) -> None:
    script = path.script()
    agent = Agent(script.model, tools=script.tools)
    recording = record(agent)
    driven = await path.drive(agent)
    assert (driven.path, driven.blocked_by, str(driven)) == (path, "", f"{path}: walked")
    recording.check()


@pytest.mark.parametrize("path", GUARDS, ids=str)
async def test_an_agent_takes_every_row(path: Path) -> None:
    agent = Agent(path.script().model)
    walked = agent.walk()
    await drive(path, agent)
    assert [row.guard for row in walked] == [
        LIFECYCLE.transition(step.state, step.event, step.facts).guard for step in path.steps
    ]


@pytest.mark.parametrize("to", [State.REQUESTING, State.RETRYING, State.TOOLING, State.MAINTENANCE])
async def test_a_path_may_end_before_the_turn_does(to: State) -> None:
    for path in LIFECYCLE.paths(to=to):
        assert (await path.drive(Agent(path.script().model))).blocked_by == ""


def test_a_script_says_what_everybody_does() -> None:
    script = script_of(path_to("claiming", "pre_step", "requesting", "retrying", "requesting", "idle"))
    assert (script.inputs[0].state, script.inputs[0].act) == (State.IDLE, "prompt")
    assert script.hooks.keys() == {"request_error"}
    assert [hook.id for hook in script.hooks["request_error"]] == [ID]
    assert [tool.name for tool in script.tools] == ["path_step"]


async def test_the_script_alone_makes_an_agent_walk_too() -> None:
    path = path_to("claiming", "pre_step", "requesting", "retrying", "idle")
    script = next(p for p in GUARDS if p.steps[-1].event == "give_up" and str(p) == str(path)).script()
    agent = Agent(script.model, tools=script.tools, hooks=script.hooks)
    walked = agent.walk()
    async with agent:
        turn = await agent.prompt("x")
    assert (turn.reason, [row.target for row in walked][-2:]) == ("error", [State.RETRYING, State.IDLE])


async def test_the_stub_of_the_call_does_nothing() -> None:
    [stub] = DONE.script().tools
    assert stub() == "done"


def no(payload: PreStep) -> Reject:
    return Reject("closed")


def stop(payload: AfterStep) -> Stop:
    return Stop("enough")


async def test_what_a_hook_of_the_agent_makes_impossible_is_blocked_not_failed() -> None:
    driven = await DONE.drive(Agent("none", hooks={"pre_step": [no]}))
    assert driven.blocked_by == "no"
    assert str(driven) == f"{DONE}: blocked by no"


async def test_a_hook_elsewhere_blocks_nothing() -> None:
    assert (await DONE.drive(Agent("none", hooks={"after_step": [stop]}))).blocked_by == ""


async def test_a_limit_can_block_a_path_too() -> None:
    path = next(path for path in GUARDS if any(step.facts.next_step_pending for step in path.steps))
    driven = await path.drive(Agent("none", limits=Limits(max_steps=1)))
    assert driven.blocked_by == "limits.max_steps"


async def test_another_walk_is_shown_beside_the_path() -> None:
    agent = Agent("none", poll_steering=lambda: "more" if agent.turning.step == 1 else None)
    with pytest.raises(WalkDiffers) as differs:
        await DONE.drive(agent)
    lines = str(differs.value).splitlines()
    assert lines[0] == f"the agent left the path {DONE}:"
    assert "    stopping settle claiming" not in lines[0]
    assert any(line.startswith("  > stopping settle idle") for line in lines)


def test_what_breaks_a_turn_on_purpose_says_so() -> None:
    assert str(PathFailure("the path says so")) == "the path says so"

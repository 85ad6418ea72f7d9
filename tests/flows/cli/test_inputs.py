import anyio
import pytest

from turnchart.flows.cli.inputs import meanwhile, own_prompts, play
from turnchart.flows.script import Action, ScriptInput
from turnchart.machine.agent import Agent
from turnchart.machine.messages import ToolCall
from turnchart.machine.scripted import Reply, ScriptedModel
from turnchart.machine.states import State
from turnchart.machine.tools import tool
from turnchart.machine.turn import Turn

ASKED = ScriptInput(State.IDLE, "follow_up", "go")


@tool
def nod() -> str:
    """Nod."""
    return "yes"


def test_what_is_said_while_idle_is_a_prompt() -> None:
    steered = ScriptInput(State.TOOLING, "steer", "quick")
    assert own_prompts([ASKED, steered]) == ["go"]
    assert meanwhile([ASKED, steered]) == [steered]


async def played(*inputs: ScriptInput) -> tuple[Turn, list[list[str]]]:
    """Play inputs to a turn of three steps, and return what each request newly showed."""
    model = ScriptedModel(
        [Reply(tool_calls=[ToolCall("nod")]), Reply(tool_calls=[ToolCall("nod")])], default="done"
    )
    turns: list[Turn] = []
    async with Agent(model, tools=[nod]) as agent, anyio.create_task_group() as group:
        group.start_soon(play, agent, inputs)
        await anyio.lowlevel.checkpoint()
        turns.append(await agent.prompt("go"))
        group.cancel_scope.cancel()
    said = [[m.text for m in request.messages if m.role == "user"] for request in model.requests]
    return turns[0], [now[len(before) :] for before, now in zip([[], *said], said, strict=False)]


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ([ScriptInput(State.TOOLING, "steer", "a")], [["go"], ["a"], []]),
        ([ScriptInput(State.TOOLING, "steer", "a", step=2)], [["go"], [], ["a"]]),
        ([ScriptInput(State.PRE_STEP, "steer", "a", step=1)], [["go"], ["a"], []]),
        (
            [ScriptInput(State.TOOLING, "inject", "a", 1), ScriptInput(State.TOOLING, "steer", "b", 2)],
            [["go"], ["a"], ["b"]],
        ),
        (
            [ScriptInput(State.TOOLING, "steer", "a", 1), ScriptInput(State.TOOLING, "inject", "b")],
            [["go"], ["a", "b"], []],
        ),
        ([ScriptInput(State.STOPPING, "follow_up", "next", 3)], [["go"], [], [], ["next"]]),
        ([ScriptInput(State.TOOLING, "steer", "never", step=9)], [["go"], [], []]),
    ],
)  # fmt: skip
async def test_inputs_come_at_their_state_and_step(inputs: list[ScriptInput], said: list[list[str]]) -> None:
    turn, requests = await played(*inputs)
    assert turn.reason == "completed"
    assert requests == said


@pytest.mark.parametrize("text", ["", "enough"])
async def test_an_input_may_cut_the_turn_off(text: str) -> None:
    action: Action = "abort"
    turn, requests = await played(ScriptInput(State.TOOLING, action, text, step=2))
    assert (turn.reason, len(requests)) == ("aborted", 2)

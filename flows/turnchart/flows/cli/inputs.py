"""The inputs of a script, played while its flow runs: what a person says at a state of a step.

What is said while the agent is idle is a prompt of its own: a demo needs nobody to begin.
"""

from collections.abc import Iterable

from turnchart.flows.script import ScriptInput
from turnchart.machine.agent import Agent
from turnchart.machine.states import State

_BEFORE_STEP = (State.CLAIMING, State.PRE_STEP)
"""Here the next step is on its way and does not count yet."""


def own_prompts(inputs: Iterable[ScriptInput]) -> list[str]:
    """Return the prompts that a script brings along."""
    return [given.text for given in inputs if given.state is State.IDLE and given.action == "follow_up"]


def meanwhile(inputs: Iterable[ScriptInput]) -> list[ScriptInput]:
    """Return what is said or done while a turn runs."""
    return [given for given in inputs if given.state is not State.IDLE]


async def play(agent: Agent, inputs: Iterable[ScriptInput]) -> None:
    """Give each input when the agent reaches its state, one after another; the driver waits there."""
    held = False
    for given in inputs:
        while not (held and agent.state is given.state and given.step in (None, _step(agent))):
            agent.go_on()
            await agent.until(given.state)
            held = True
        give(agent, given)
    agent.go_on()


def give(agent: Agent, given: ScriptInput) -> None:
    """Say or do it now."""
    match given.action:
        case "steer":
            agent.steer(given.text)
        case "follow_up":
            agent.follow_up(given.text)
        case "inject":
            agent.inject(given.text)
        case "abort":
            agent.abort(given.text or "user")


def _step(agent: Agent) -> int:
    return agent.turning.step + (agent.state in _BEFORE_STEP)

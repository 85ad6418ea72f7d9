"""What ``run --record`` and ``run --model script:FILE`` ask of the agent that is run."""

from pathlib import Path
from typing import TYPE_CHECKING

from turnchart.flows.checks import SCRIPT

if TYPE_CHECKING:
    from turnchart.flows.cassette import Cassette
    from turnchart.flows.load import Flow
    from turnchart.machine.agent import Agent
    from turnchart.machine.models import Model
    from turnchart.machine.session import Session


def tape_of(record: str | None) -> "Cassette | None":
    """Return where answers are recorded; None for nowhere.

    Raises:
        TurnchartError: If something else than a recording is there.
    """
    if record is None:
        return None
    from turnchart.flows.cassette import Cassette

    return Cassette(Path(record))


def made(
    flow: "Flow", model: str | None, tape: "Cassette | None", session: "Session", *, traces: bool = False
) -> "Agent":
    """Make the agent of a flow. A script that was chosen answers for every model; nobody is reached."""
    agent = flow.agent(session=session, model=model)
    played = agent.model
    if model is not None and model.startswith(SCRIPT) and played is not None:

        def find(id: str) -> "Model":
            del id
            return played

        agent.models = find
    if traces:
        from turnchart.flows.cli.tracing import traced

        traced(agent)
    return agent if tape is None else tape.attach(agent)

"""What the tests of compaction share: a tool that says much, and what the log says of compactions."""

from collections.abc import Sequence
from typing import Any

from tests.conformance.asking import (
    all_of,
    rebuilt,
    reloaded,
    resumed,
    seen,
)
from tests.machine.drive import calls

from turnchart.machine import (
    Agent,
    Failure,
    ScriptedModel,
    Session,
    Tool,
    tool,
)
from turnchart.machine.verify import verify

OVERFLOW = Failure("context_window")
COMPACTING = ("compaction/start", "compaction/prune", "compaction", "compaction/end")


def big(length: int) -> Tool:
    """Return a tool whose result is so long."""

    @tool(name="big", inline=True)
    def big_tool() -> str:
        """Say much."""
        return "r" * length

    return big_tool


BIG = calls(("big", {}))


def compacting(session: Session) -> list[str]:
    """Return the types of everything that a compaction wrote, with the results that were shortened."""
    return [
        entry.type
        for entry in session.entries
        if entry.type in COMPACTING or (entry.type == "tool/result" and entry.replaces)
    ]


def error_of(session: Session) -> str:
    """Return why the last compaction failed."""
    return str(all_of(session, "compaction/end")[-1].data.get("error", ""))


def summary_of(session: Session) -> str:
    """Return the last summary."""
    return str(all_of(session, "compaction")[-1].data["summary"])


def check(agent: Agent, requests: Sequence[Any] = ()) -> None:
    """Hold the log against the declarations, and every request against the log."""
    verdict = verify(agent.session.entries)
    assert verdict.ok, verdict.message
    for session in (agent.session.entries, reloaded(agent.session.entries)):
        again = rebuilt(session)
        assert again[len(again) - len(requests) :] == [seen(request) for request in requests]
    other = resumed(agent.session)
    assert list(other.context()) == list(agent.session.context())
    assert other.view.nodes == agent.session.view.nodes


def conversation(model: ScriptedModel) -> list[Any]:
    """Return the requests of the conversation, without those for summaries."""
    return [request for request in model.requests if "." not in request.session]

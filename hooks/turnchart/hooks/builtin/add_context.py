"""``add_context``: facts of the moment that the model should know."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from turnchart.hooks.builtin._subject import root_of
from turnchart.hooks.registry import hook
from turnchart.machine.points import AddContext

if TYPE_CHECKING:
    from turnchart.machine.points import Assemble, Payload, SessionStart

Fact = Literal["date", "cwd", "git_status", "user", "session_id", "agent"]
LONGEST_STATUS = 2000


@hook("add_context")
class AddFacts:
    """Tell the model `facts`: date, cwd, git_status, user, session_id, agent.

    On session_start they are told once, to a new session. On assemble they are told with the next step, and
    again only when they have changed.
    """

    facts: Annotated[list[Fact], Field(min_length=1)]

    async def session_start(self, payload: "SessionStart") -> AddContext | None:
        """Tell a new session."""
        if payload.source != "new":
            return None
        return AddContext("\n".join([f"{fact}: {await _told(fact, payload)}" for fact in self.facts]))

    async def assemble(self, payload: "Assemble") -> "Assemble":
        """Put the facts beside those of others."""
        told = {fact: await _told(fact, payload) for fact in self.facts}
        return payload.replace(contexts={**payload.contexts, **told})


async def _told(fact: Fact, payload: "Payload") -> str:
    match fact:
        case "date":
            return datetime.fromtimestamp(payload.now).date().isoformat()
        case "cwd":
            return root_of(payload)
        case "git_status":
            return await _git_status(payload)
        case "user":
            return _user()
        case "session_id":
            return payload.session
        case "agent":
            return payload.agent


async def _git_status(payload: "Payload") -> str:
    try:
        done = await payload.run(["git", "status", "--short", "--branch"])
    except OSError:
        return "git cannot be started"
    if done.exit_code:
        return "not a git repository"
    text = done.output.strip()
    return text if len(text) <= LONGEST_STATUS else text[:LONGEST_STATUS] + "\n..."


def _user() -> str:
    import getpass  # it loads what only a terminal needs

    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return "unknown"

"""What an agent can do with the tree of its session. Loaded when it is first done: see ``navigating``."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from turnchart.machine.agent import Agent
    from turnchart.machine.entries import Entry
    from turnchart.machine.navigating import Moved


class Moving:
    """Moves in the tree that may need the agent's model."""

    __slots__ = ()

    async def navigate(
        self,
        seq: int | None,
        summarize: bool = False,
        *,
        summary: str = "",
        instructions: str = "",
        replace_instructions: bool = False,
        label: str | None = None,
    ) -> Moved:
        """Move to where the conversation can go on from an entry; an aborted summary moves nothing.

        From the message of a user that is before it: the text comes back to be said again in another way. The
        current leaf is no move at all. ``Session.navigate`` moves right to an entry.

        Args:
            seq: The entry; None for before the first.
            summarize: Let the model sum up what is left, if anything was said there.
            summary: A summary of what is left, written by somebody else.
            instructions: What the model should look at when it sums up.
            replace_instructions: Ask for nothing but these instructions.
            label: Name the summary, or the entry that was moved to where there is none.

        Raises:
            AgentBusy: If a turn or another job is running.
            IndexError: If there is no such entry.
            RequestFailed: If the model cannot sum up; nothing has moved.
        """
        from turnchart.machine.navigating import Wish, navigate

        wish = Wish(summarize, summary, instructions, replace_instructions)
        return await navigate(cast("Agent", self), seq, wish, label)

    async def summarize(self, seq: int | None) -> Entry:
        """Do what ``session.navigate(seq, summarize=True)`` says."""
        from turnchart.machine.navigating import summarize

        return await summarize(cast("Agent", self), seq)

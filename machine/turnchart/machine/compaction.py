"""Compaction: a conversation that does not fit is made shorter, and the log keeps all of it.

Results that are too long are shortened first; only where that is not enough is the beginning replaced, by a
summary or by nothing. What was there stays in the log, and one entry says what stands in its place.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import anyio

from turnchart.machine.abort import AbortSignal
from turnchart.machine.context import RUNTIME_CONTEXT
from turnchart.machine.cutting import Cut, Long, Surface, long_results, seen
from turnchart.machine.driver import first_error
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.errors import (
    CompactionFailed,
    InternalError,
    RequestFailed,
    ScriptError,
    SessionError,
    TransitionError,
    TurnchartError,
    UnknownModel,
    named_text_of,
    text_of,
)
from turnchart.machine.messages import Message, UserMessage
from turnchart.machine.points import Compact, Summary, Veto
from turnchart.machine.summarising import Summarised, Summariser
from turnchart.machine.summary_prompt import Files
from turnchart.machine.tokens import CHARS_PER_TOKEN, Gauge, message_tokens, text_tokens

if TYPE_CHECKING:
    from turnchart.machine.agent import Agent
    from turnchart.machine.outfit import Outfit

_log = logging.getLogger("turnchart.compaction")

Trigger = Literal["threshold", "overflow", "manual"]
_OURS = (SessionError, InternalError, TransitionError, ScriptError)
"""Errors that end the turn also where a compaction that fails does not."""


class Compacted(NamedTuple):
    """What a compaction came to.

    Attributes:
        summary: What stands for what was replaced; empty where nothing was, or it was only left out.
        seq: The entry that replaces it; None where shortening results was enough.
        shortened: How many results were shortened.
        tokens_before: The estimate of the conversation before.
        tokens_after: And after it.
    """

    summary: str
    seq: int | None
    shortened: int
    tokens_before: int
    tokens_after: int


class Compactor:
    """What an agent remembers about its compactions; made when it first needs to.

    Attributes:
        gauge: Measures its conversation.
        failed: The turn in which one under pressure failed; there is no other try in the same turn.
        overflowed: Turn and step in which the window overflowed last; a step gets one compaction.
    """

    __slots__ = ("failed", "gauge", "overflowed")

    def __init__(self) -> None:
        self.gauge = Gauge()
        self.failed = 0
        self.overflowed: tuple[int, int] = (0, 0)


def compactor(agent: Outfit) -> Compactor:
    """Return what an agent remembers about its compactions."""
    if agent.compactor is None:
        agent.compactor = Compactor()
    return agent.compactor


def limit(agent: Outfit) -> int | None:
    """Return how many tokens a request may take before the conversation is compacted; None where unknown.

    What counts is the model that was asked last, as the log says it: its window, without its answer.
    """
    view = agent.session.view
    if view.window is None:
        return None
    settings: Mapping[str, Any] = view.header["settings"] if view.header is not None else Frozen()
    return int(agent.compaction.trigger * max(view.window - settings.get("max_tokens", 0), 0))


# -- who asks for it -----------------------------------------------------------------------------------


async def relieve(agent: Outfit) -> None:
    """Compact before a step whose request would be too large. A failure is told, and the turn goes on.

    Facts that the model was told, and that were compacted away, are told again with the step.
    """
    now, own, most = agent.turning, compactor(agent), limit(agent)
    tokens = own.gauge.measure(agent.session) + sum(map(message_tokens, now.messages))
    if most is None or tokens <= most or own.failed == now.number:
        return
    facts = agent.session.view.facts
    await _attempt(agent, Job(agent, "threshold", tokens, most))
    told = any(each.get("source") == RUNTIME_CONTEXT for each in now.messages)
    if facts is not None and agent.session.view.facts is None and not told:
        id, time = f"f{len(agent.session.entries)}", agent.clock.now()
        now.messages = (*now.messages, UserMessage(facts, id=id, time=time, source=RUNTIME_CONTEXT))


async def overflow(agent: Outfit) -> bool:
    """Compact after a request that did not fit; return whether it is worth another try."""
    now, own = agent.turning, compactor(agent)
    if agent.compaction.strategy == "none" or own.overflowed == (now.number, now.step):
        return False
    own.overflowed = (now.number, now.step)
    generation = agent.session.view.generation
    await _attempt(agent, Job(agent, "overflow", own.gauge.measure(agent.session), limit(agent)))
    return agent.session.view.generation != generation


async def compact(agent: Agent, *, focus: str = "") -> Compacted:
    """Compact an idle agent's conversation, as a job of its maintenance.

    Raises:
        CompactionFailed: If it could not be made shorter.
    """
    if agent.compaction.strategy == "none":
        raise CompactionFailed("off", "compaction is off: its strategy is none")
    tokens = compactor(agent).gauge.measure(agent.session)
    job = Job(agent, "manual", tokens, limit(agent), focus)
    came: Compacted | None = None
    stop = agent.session.validate(_stays)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_with, agent.turning.abort, group.cancel_scope)
            came = await job.run()
            group.cancel_scope.cancel()
    except BaseExceptionGroup as many:
        raise first_error(many) from None
    finally:
        stop()
    if came is None:
        raise CompactionFailed("aborted", f"the compaction was cut off ({agent.turning.abort.reason})")
    await agent.session.flush()
    return came


def _stays(entry: Entry) -> str | None:
    moves = entry.type in ("leaf", "branch_summary")
    return "the conversation is being compacted; move when that is over" if moves else None


async def _cancel_with(abort: AbortSignal, scope: anyio.CancelScope) -> None:
    await abort.wait()
    scope.cancel()


async def _attempt(agent: Outfit, job: Job) -> None:
    """Run a job of a turn. That it fails is told, and the turn goes on."""
    now = agent.turning
    try:
        await job.run()
    except _OURS:
        raise
    except Exception as error:
        if now.cause is not None:
            raise
        if job.unclosed:
            raise
        if isinstance(error, CompactionFailed) and error.code in ("nothing", "vetoed"):
            return
        compactor(agent).failed = now.number
        _log.warning("session %s could not be compacted: %s", agent.session.id, named_text_of(error))
        agent.notice(f"the conversation could not be compacted: {error}", "compaction")


# -- one compaction --------------------------------------------------------------------------------------


class Job:
    """One compaction, from the hooks that may veto it to the entry that says it is over.

    Attributes:
        unclosed: The log refused that entry.
    """

    def __init__(
        self, agent: Outfit, trigger: Trigger, tokens: int, limit: int | None, focus: str = ""
    ) -> None:
        """Look at the conversation; nothing is written yet.

        Args:
            agent: Whose conversation it is.
            trigger: Why it is compacted.
            tokens: The estimate of the next request.
            limit: What that may be; None where unknown.
            focus: What a summary should care about besides.
        """
        self._agent = agent
        self._trigger: Trigger = trigger
        self._before = self._after = tokens
        self._limit = limit
        self._focus = focus
        self._shortened = 0
        self._surface = self._look()
        self.unclosed = False

    async def run(self) -> Compacted:
        """Do it.

        Raises:
            CompactionFailed: If there is nothing to make shorter, a hook vetoed it, or it failed.
        """
        agent = self._agent
        cut = self._cut()
        first, last = self._affected(cut)
        verdict = await agent.ask(
            "compact",
            lambda: Compact(
                trigger=self._trigger, range=(first, last), tokens=self._before, **agent.common()
            ),
        )
        decision = agent.decided(verdict)
        if isinstance(decision, Veto):
            raise CompactionFailed(
                "vetoed", f"a hook vetoed the compaction: {decision.reason or 'no reason'}"
            )
        turn = None if self._trigger == "manual" else agent.turning.number
        agent.log("compaction/start", Frozen(turn=turn, trigger=self._trigger))
        error: str | None = "aborted"
        try:
            came = await self._work(turn, decision.text if isinstance(decision, Summary) else None)
            error = None
        except Exception as failed:
            error = text_of(failed) if isinstance(failed, TurnchartError) else named_text_of(failed)
            raise
        finally:
            if not agent.session.read_only:
                self.unclosed = True
                agent.log("compaction/end", Frozen(turn=turn, **({"error": error} if error else {})))
                self.unclosed = False
        return came

    async def _work(self, turn: int | None, given: str | None) -> Compacted:
        if given is None:
            self._shorten(turn)
        summary, seq = "", None
        if given is not None or self._needed():
            cut = self._cut()
            if cut is None and self._trigger == "manual" and not self._shortened:
                raise _nothing()
            if cut is not None:
                if self._agent.signals.waiting:
                    await self._agent.signals.deliver()
                summary, seq = await self._replace(cut, given)
        return Compacted(summary, seq, self._shortened, self._before, max(self._after, 0))

    def _needed(self) -> bool:
        """Shortening results was not enough, or nobody can say whether it was."""
        if self._trigger == "manual" or self._limit is None:
            return True
        wrong = self._trigger == "overflow" and self._before <= self._limit  # the estimate was too low
        return wrong or self._after > self._limit

    # -- looking -------------------------------------------------------------------------------------

    def _look(self) -> Surface:
        session = self._agent.session
        return Surface(tuple(session.view.nodes), session.entries)

    def _cut(self) -> Cut | None:
        """Return where the conversation is cut; None where nothing can be replaced."""
        surface, turns = self._surface, len(self._surface.turns)
        keep = self._agent.compaction.keep_last
        if self._trigger == "overflow":
            return surface.cut(1, self._limit or inf)
        if self._trigger == "manual":
            return surface.cut(min(keep, max(turns - 1, 0)), self._room())
        return surface.cut(max(keep, 1) if self._agent.turning.owed else keep, self._room())

    def _room(self) -> float:
        """Return how many tokens may stay: half of what fits, so that it lasts for a while."""
        return inf if self._limit is None else self._limit // 2

    def _affected(self, cut: Cut | None) -> tuple[int, int]:
        """Return the first and the last entry that may be replaced.

        Raises:
            CompactionFailed: If there is none.
        """
        nodes = self._surface.nodes
        if cut is not None:
            return nodes[0].seq, nodes[cut.at - 1].seq
        long = [each.at for each in self._long()]
        if not long:
            raise _nothing()
        return nodes[long[0]].seq, nodes[long[-1]].seq

    def _long(self) -> list[Long]:
        nodes = self._surface.nodes
        return list(long_results(nodes, len(nodes) if self._trigger == "overflow" else seen(nodes)))

    # -- shortening ------------------------------------------------------------------------------------

    def _shorten(self, turn: int | None) -> None:
        """Shorten results that are too long: those before the turns that stay, then the others if need be.

        What the model has not read yet stays whole, unless the window overflowed.
        """
        nodes = self._surface.nodes
        keep = self._agent.compaction.keep_last
        kept = (
            self._surface.turns[-keep] if 0 < keep <= len(self._surface.turns) else 0 if keep else len(nodes)
        )
        for each in sorted(self._long(), key=lambda each: each.at >= kept):
            if each.at >= kept and not self._needed_still():
                break
            self._prune(nodes[each.at].seq, each.message, each.saved, turn)
        if self._shortened:
            self._surface = self._look()

    def _needed_still(self) -> bool:
        return self._trigger == "overflow" or (self._limit is not None and self._after > self._limit)

    def _prune(self, seq: int, shorter: Message, saved: int, turn: int | None) -> None:
        agent = self._agent
        data = agent.session.entries[seq].data
        agent.log("compaction/prune", Frozen(turn=turn, chars=saved))
        agent.log("tool/result", Frozen(data, message=shorter), replaces=(seq, seq), sources=(seq,))
        self._shortened += 1
        self._after -= saved // CHARS_PER_TOKEN

    # -- replacing ---------------------------------------------------------------------------------------

    async def _replace(self, cut: Cut, given: str | None) -> tuple[str, int]:
        agent, surface = self._agent, self._surface
        generation = agent.session.view.generation
        old = [i for i in range(cut.at) if surface.is_summary(i)]
        earlier = [agent.session.entries[surface.nodes[i].seq].data for i in old]
        details = self._details(cut, earlier)
        previous = "\n\n".join(data["summary"] for data in earlier if data["summary"])
        usage: Mapping[str, int] = {}
        if given is not None:
            summary = given
        elif agent.compaction.strategy == "drop_oldest":
            summary, details["dropped"] = previous, True
        else:
            told = [surface.nodes[i].message for i in range(cut.split) if i not in old]
            begun = [each.message for each in surface.nodes[cut.split : cut.at]]
            summary, usage = await self._summarised(told, begun, previous)
            self._check(cut, summary, generation)
        return summary, self._commit(cut, summary, usage, details, by_hook=given is not None)

    async def _summarised(
        self, told: Sequence[Message], begun: Sequence[Message], previous: str
    ) -> Summarised:
        try:
            return await Summariser(self._agent, self._focus).summarise(told, begun, previous)
        except RequestFailed as error:
            code = "aborted" if error.failure.kind == "aborted" else "summary"
            raise CompactionFailed(code, f"no summary could be written: {error}") from error
        except UnknownModel as error:
            raise CompactionFailed("summary", f"no summary could be written: {error}") from error

    def _details(self, cut: Cut, earlier: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return which files were read and modified in what is replaced, and before that."""
        files = Files()
        for data in earlier:
            if not data.get("from_hook"):
                files.remember(data.get("details"))
        files.follow(each.message for each in self._surface.nodes[: cut.at])
        return files.details()

    def _check(self, cut: Cut, summary: str, generation: int) -> None:
        """Refuse a summary that helps nothing, or that is of a conversation which is another one by now."""
        view, nodes = self._agent.session.view, self._surface.nodes
        same = view.generation == generation and (self._trigger == "manual" or len(view.nodes) == len(nodes))
        if not same:
            raise CompactionFailed("changed", "the conversation changed while it was summarised")
        size = self._surface.size(0, cut.at)
        if text_tokens(summary) >= size:
            raise CompactionFailed(
                "not_shorter", f"the summary is not shorter than what it stands for ({size} tokens)"
            )

    def _commit(
        self, cut: Cut, summary: str, usage: Mapping[str, int], details: Mapping[str, Any], *, by_hook: bool
    ) -> int:
        nodes, agent = self._surface.nodes, self._agent
        gone = tuple(dict.fromkeys(node.seq for node in nodes[: cut.at]))
        kept = tuple(node.seq for node in agent.session.view.nodes[cut.at :])
        data: dict[str, Any] = {
            "summary": summary, "first_kept": kept[0] if kept else None, "retained_tail": kept,
            "tokens_before": self._before,
        }  # fmt: skip
        if usage:
            data["usage"] = Frozen(usage)
        if details:
            data["details"] = Frozen(details)
        if by_hook:
            data["from_hook"] = True
        entry = agent.log("compaction", Frozen(data), replaces=(gone[0], gone[-1]), sources=gone)
        self._after += text_tokens(summary) - self._surface.size(0, cut.at)
        return entry.seq


def _nothing() -> CompactionFailed:
    return CompactionFailed("nothing", "there is nothing in the conversation that could be made shorter")

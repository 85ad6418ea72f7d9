"""An agent in the hands of chance: whatever is done to it, in whatever order, the invariants hold.

The invariants: the log is legal, at most one turn is open,
turn numbers are consecutive, the state is idle iff no turn is open, what waits is a fold of the log, and no
message is ever a ghost: each one ends admitted, pending or discarded.
"""

import os
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, suppress
from typing import Any, ClassVar, cast

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.conformance.ledger import Ledger
from tests.conformance.puppets import ANSWERS, OUTCOMES, PLANNED, PLANS, Stage
from tests.machine.histories import Kept, folds

from turnchart.machine import (
    Agent,
    AgentBusy,
    AppendRefused,
    Failure,
    Item,
    Queues,
    Session,
    State,
    Turn,
    TurnFailed,
)
from turnchart.machine.inbox import MODES
from turnchart.machine.messages import FAILURE_KINDS
from turnchart.machine.models import BlockStart, Finish, TextDelta, ToolCallDelta
from turnchart.machine.states import TURN_STATES
from turnchart.machine.verify import Judge
from turnchart.testing import Recording, record

WAYS = ("follow_up", "steer", "inject", "next_turn")
TOOLS = ("together", "alone", "asked", "drains", "unknown")
LOGGED = (
    "assistant/message", "tool/call", "tool/result", "turn/start", "turn/end", "step/start", "step/end",
    "user/message", "assistant/attempt", "request/header", "agent/inbox/spliced", "hook/result", "llm/retry",
    "approval/asked", "approval/decided",
)  # fmt: skip
MEDDLING: dict[str, Callable[[Agent, str], object]] = {
    "abort": lambda agent, _: agent.abort("listener"),
    "abort and keep": lambda agent, _: agent.abort("listener", keep_inbox=True),
    "abort and send": lambda agent, text: (agent.abort("listener"), agent.follow_up(text)),
    "steer": lambda agent, text: agent.steer(text),
    "follow up": lambda agent, text: agent.follow_up(text),
    "inject": lambda agent, text: agent.inject(text),
    "ride": lambda agent, text: agent.next_turn(text),
    "clear": lambda agent, _: agent.clear(),
}
GOING: dict[str, Any] = {
    "names": st.lists(st.sampled_from(TOOLS), max_size=3),
    "reason": st.sampled_from(("stop", "stop", "stop", "max_tokens")),
    "which": st.integers(0, 9),
    "outcome": st.sampled_from(sorted(OUTCOMES)),
    "answer": st.sampled_from(ANSWERS),
}
ON_AND_ON: Callable[[Any], Any] = cast(Any, rule)(**GOING)
DISTURBING = ("cancel_prompts", "maintain", "reopen", "crash", "resume", "write", "set_queues")


class AnyAgent(RuleBasedStateMachine):
    """Sends an agent whatever people, models, tools, hooks and clocks can send it."""

    backend: ClassVar[str] = "asyncio"
    refuses: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._portals = start_blocking_portal(self.backend)
        self.portal: BlockingPortal = self._portals.__enter__()
        self.ledger, self.judge = Ledger(), Judge()
        self.sent = self.judged = 0
        self.sound = False
        self.prompts: dict[str, Future[Turn]] = {}
        self.woken: dict[str, int] = {}
        self.session = Session(Kept())

    @initialize()
    def open(self) -> None:
        """Open an agent over the session."""
        self.stage = self.portal.call(Stage, self.session)
        self._entered: AbstractContextManager[Any] = self.portal.wrap_async_context_manager(self.agent)
        self._entered.__enter__()
        self.recording: Recording = self.portal.call(record, self.agent)
        self.portal.call(self.stage.settle)

    @property
    def agent(self) -> Agent:
        agent: Agent = self.stage.agent
        return agent

    def do(self, act: Callable[[Agent], Any]) -> Any:
        """Do something; None where a validator was told to refuse it."""
        try:
            return self.portal.call(self.stage.do, act)
        except AppendRefused:
            assert self.stage.refused
            self.portal.call(self.stage.settle)
            return None

    @property
    def torn(self) -> bool:
        """A validator refused the end of a turn: the agent rests, and the next wake closes the log."""
        return self.stage.refused and self.ledger.open and self.is_in(State.IDLE)

    def text(self) -> str:
        self.sent += 1
        return f"message {self.sent}"

    def is_in(self, *states: State) -> bool:
        return self.agent.state in states

    # -- people ----------------------------------------------------------------------------------

    @rule(way=st.sampled_from(WAYS), count=st.integers(1, 3))
    def send(self, way: str, count: int) -> None:
        """Send something; one item, however many messages."""
        content = [{"role": "user", "content": self.text()} for _ in range(count)]
        turn, closing = (
            self.ledger.turn,
            self.agent.turning.cause is not None or self.is_in(State.MAINTENANCE),
        )
        item: Item | None = self.do(lambda agent: getattr(agent, way)(content))
        self.ledger.read(self.session.entries)
        ids = [said["id"] for said in item.messages] if item is not None else []
        assert all(id in self.ledger.fate for id in ids)
        if closing and way in ("follow_up", "steer"):
            self.woken |= dict.fromkeys(ids, turn)

    @rule()
    def prompt(self) -> None:
        """Prompt and wait; a busy agent refuses at once."""
        text, busy = self.text(), not self.is_in(State.IDLE)
        future: Future[Turn] = self.portal.start_task_soon(self.agent.prompt, text)
        self.portal.call(self.stage.settle)
        if busy:
            assert isinstance(future.exception(timeout=1), AgentBusy)
            self.send("follow_up", 1)
        else:
            self.prompts[text] = future

    def cancel_prompts(self) -> None:
        """Stop waiting for prompts: one that waits is taken back, the turn of another is aborted and closed."""
        waited = [text for text, future in self.prompts.items() if not future.done()]
        for text in waited:
            self.prompts[text].cancel()
        self.portal.call(self.stage.settle)
        self.ledger.read(self.session.entries)
        for id in [self.ledger.ids[text] for text in waited if not self.stage.refused]:
            assert self.ledger.fate[id] != "pending"
            over = not self.ledger.open or self.ledger.turns.get(id) != self.ledger.turn
            assert over or len(self.stage.draining)

    @rule(keep=st.booleans())
    def abort(self, keep: bool) -> None:
        """Abort, and keep what waits or not."""
        waiting = [*self.ledger.queued()[0], *self.ledger.queued()[1]]
        discarded = self.do(lambda agent: agent.abort("user", keep_inbox=keep))
        if keep:
            assert not discarded
        elif discarded is not None:
            assert [item.id for item in discarded][: len(waiting)] == waiting

    def resume(self) -> None:
        """Go on with what is parked."""
        if self.is_in(State.IDLE):
            parked = bool([*self.ledger.queued()[0], *self.ledger.queued()[1]])
            assert self.do(lambda agent: agent.resume()) in (parked, None)

    @precondition(lambda self: bool(self.agent.queued))
    @rule(which=st.integers(0, 99), how=st.sampled_from(("remove", "replace")))
    def change(self, which: int, how: str) -> None:
        """Take something back that waits, or say it in other words."""
        items = [item for each in self.agent.queued for item in each]
        item = items[which % len(items)]
        if how == "remove":
            assert self.do(lambda agent: agent.remove(item.id)) in (True, None)
        else:
            text = self.text()
            self.do(lambda agent: agent.replace(item.id, text))

    def set_queues(self) -> None:
        """Change how many messages are taken at once."""
        one, other = MODES[self.sent % 2], MODES[self.sent // 2 % 2]
        self.do(lambda agent: setattr(agent, "queues", Queues(one, other)))

    def write(self) -> None:
        """Write beside the turn."""
        self.do(lambda agent: agent.session.append_custom("note", self.sent))
        self.do(lambda agent: agent.append_message(self.text()))

    # -- the model ---------------------------------------------------------------------------------

    @precondition(lambda self: self.stage.model.waits)
    @rule(kind=st.none() | st.sampled_from(FAILURE_KINDS), retry_after=st.sampled_from((None, 3.0, 500.0)))
    def falter(self, kind: Any, retry_after: float | None) -> None:
        """Stream a part of an answer; or fail."""
        chunk = (
            TextDelta("part ") if kind is None else Finish("error", Failure(kind, retry_after=retry_after))
        )
        self.do(lambda _: self.stage.model.say(chunk))

    def finish(self, names: list[str], reason: Any) -> None:
        """End an answer, with calls or without."""
        chunks: list[Any] = [TextDelta("the end")]
        for i, name in enumerate(names, 1):
            chunks += [BlockStart("tool_call", i, "", name), ToolCallDelta(f'{{"n": {i}}}', i)]
        self.do(lambda _: self.stage.model.say(*chunks, Finish(reason)))

    # -- tools, hooks, time --------------------------------------------------------------------------

    def _go_on(self, names: list[str], reason: str, which: int, outcome: str, answer: Any) -> None:
        """Let whoever waits first go on: a held hook, a person, a tool body, the model."""
        stage = self.stage
        if len(stage.held):
            self.do(lambda _: stage.held.answer(which, None))
        elif len(stage.asked):
            self.do(lambda _: stage.asked.answer(which, answer))
        elif len(stage.running) + len(stage.draining):
            bodies = (
                stage.draining
                if len(stage.draining) and (which % 2 or not len(stage.running))
                else stage.running
            )
            self.do(lambda _: bodies.answer(which, outcome))
        elif stage.model.waits:
            self.finish(names if which % 2 else [], reason)
        elif len(stage.jobs):
            self.do(lambda _: stage.jobs.answer(0, True))
        else:
            self.portal.call(stage.pass_time, 8)

    go_on = ON_AND_ON(_go_on)
    and_on = ON_AND_ON(_go_on)
    still_on = ON_AND_ON(_go_on)
    ever_on = ON_AND_ON(_go_on)
    even_on = ON_AND_ON(_go_on)
    on_and_on = ON_AND_ON(_go_on)

    @rule(planned=st.lists(st.sampled_from(PLANNED), min_size=1, max_size=2))
    def plan(self, planned: list[tuple[str, str]]) -> None:
        """Say what the hooks of some points do the next time."""
        self.stage.plans |= planned

    @rule(points=st.lists(st.sampled_from(sorted(PLANS)), min_size=1, max_size=2), late=st.booleans())
    def hold(self, points: list[str], late: bool) -> None:
        """Let the hooks of some points wait the next time, until they are let go or cut off."""
        self.stage.plans |= dict.fromkeys(points, "late" if late else "hold")

    @rule(type=st.sampled_from(LOGGED[:8]), what=st.sampled_from(sorted(MEDDLING)))
    def meddle(self, type: str, what: str) -> None:
        """Say what a listener does at the next entry of a type."""
        text = self.text()
        self.stage.meddling[type] = lambda agent: MEDDLING[what](agent, text)

    @rule(type=st.sampled_from(("", "", *LOGGED)), seconds=st.sampled_from((1, 10, 35, 200)))
    def refuse(self, type: str, seconds: float) -> None:
        """Let a validator refuse the next entry of a type; or let time pass: waits, hooks and tools end."""
        if type and self.refuses:
            self.stage.refusing.add(type)
        else:
            self.pass_time(seconds)

    def pass_time(self, seconds: float) -> None:
        """Let time pass: waits end, hooks and tools take too long."""
        self.portal.call(self.stage.pass_time, seconds)

    def maintain(self) -> None:
        """Begin a maintenance job; a wake that comes meanwhile is honoured after it."""
        if not self.is_in(State.IDLE):
            return
        self.portal.start_task_soon(self.agent.maintain, self.stage.job)
        self.portal.call(self.stage.settle)
        assert self.is_in(State.MAINTENANCE) or self.torn

    # -- leaving -----------------------------------------------------------------------------------

    def leave(self) -> None:
        self.stage.refusing.clear()
        self.portal.call(self.stage.draining.end, "ok")
        self.portal.call(self.stage.jobs.end, True)
        self._entered.__exit__(None, None, None)
        assert self.is_in(State.IDLE)
        for each in self.prompts.values():
            with suppress(TurnFailed, CancelledError, AppendRefused):
                each.result(timeout=5)
        self.prompts, self.woken = {}, {}

    @rule(how=st.sampled_from(DISTURBING))
    def disturb(self, how: str) -> None:
        """Do what is not done often."""
        getattr(self, how)()

    def reopen(self) -> None:
        """Leave the agent and open another one over the same session."""
        self.leave()
        self.check_log()
        self.open()

    def crash(self) -> None:
        """Lose the process at this moment: what was logged is all that is left."""
        entries = list(self.session.entries)
        self.leave()
        self.session = Session(Kept(entries))
        self.open()

    def teardown(self) -> None:
        """Leave; then the log alone gives the same session again."""
        try:
            if hasattr(self, "stage"):
                self.leave()
            if self.sound:
                self.check_log()
                if not self.stage.refused:
                    self.recording.check()
                again = Session(Kept(self.session.entries))
                assert folds(again) == folds(self.session)
        finally:
            self._portals.__exit__(None, None, None)

    # -- what holds after each of these ----------------------------------------------------------------

    @invariant()
    def the_invariants_hold(self) -> None:
        if hasattr(self, "stage"):
            self.sound = False
            self.check_log()
            self.check_state()
            self.check_queues()
            self.check_fates()
            self.check_rest()
            self.sound = True

    def check_log(self) -> None:
        """The log is legal, at most one turn is open, and turn numbers are consecutive."""
        assert not self.session.read_only
        self.ledger.read(self.session.entries)
        for entry in self.session.entries[self.judged :]:
            refused = self.judge.take(entry)
            assert refused is None, refused.message
        self.judged = len(self.session.entries)

    def check_state(self) -> None:
        """The state is one of a turn iff a turn is open, and the statuses say so."""
        assert self.ledger.open == self.is_in(*TURN_STATES) or self.torn
        assert self.agent.status == ("running" if self.is_in(*TURN_STATES) else "idle")
        told = self.stage.statuses
        assert told == [("running", "idle")[i % 2] for i in range(len(told))]
        assert (told[-1] if told else "idle") == self.agent.status

    def check_queues(self) -> None:
        """What waits is a fold of the log."""
        queued = self.agent.queued
        assert tuple([item.id for item in each] for each in queued) == self.ledger.queued()
        waits = bool(queued.next_step or queued.next_turn)
        assert self.agent.parked == (waits and self.is_in(State.IDLE))

    def check_fates(self) -> None:
        """No message is a ghost: what is in the conversation was admitted, and what was not is said to be left.

        What a compaction replaced is in the conversation by its summary.
        """
        fates = self.ledger.fate
        claimed = {id for id, fate in fates.items() if fate == "claimed"}
        assert not claimed or self.torn or self.is_in(State.CLAIMING, State.PRE_STEP, State.REQUESTING)
        shown = {said.get("id") for said in self.session.context()}
        for entry in self.session.entries:
            if entry.type == "compaction":
                replaced = [self.session.entries[seq].data for seq in entry.sources or ()]
                shown |= {data["message"].get("id") for data in replaced if "message" in data}
        assert shown & fates.keys() == {id for id, fate in fates.items() if fate == "admitted"}
        last = self.agent.last_turn
        known = last is not None and last.number == self.ledger.turn and not self.stage.refused
        if self.is_in(State.IDLE) and last is not None and known:
            unread = [said["id"] for item in last.unadmitted for said in item.messages]
            assert [id for id in unread if fates[id] != "discarded"] == self.ledger.left
            assert not {fates[id] for id in unread} & {"pending", "claimed", "admitted"}
            assert last.reason == self.ledger.reason

    def check_rest(self) -> None:
        """An agent rests only where nothing says to go on, and nobody waits for one that rests."""
        assert not self.stage.wrong
        if self.is_in(State.IDLE):
            for id, turn in self.woken.items():
                lost = self.ledger.fate[id] == "pending" and self.ledger.turn == turn
                assert not lost or self.stage.refused, "a wake was lost"
            self.woken = {}
            assert all(each.done() for each in self.prompts.values())
            if self.agent.last_turn and self.ledger.reason == "completed" and not self.stage.refused:
                assert not self.agent.queued.next_turn  # max_tokens may have been told to stop as well


class AnyAgentOnTrio(AnyAgent):
    """The same on the other loop."""

    backend = "trio"


SHORT = settings(
    max_examples=60,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
FULL = os.environ.get("TURNCHART_TRIALS") == "full"
LONG = settings(SHORT, max_examples=1_000 if FULL else 100, stateful_step_count=80)


def _case(machine: type[AnyAgent], profile: settings) -> Any:
    case: Any = type(f"{machine.__name__}{profile.max_examples}", (machine.TestCase,), {})
    case.settings = profile
    return case


TestAnyAgent = _case(AnyAgent, SHORT)
TestAnyAgentOnTrio = _case(AnyAgentOnTrio, SHORT)
TestAnyAgentForLong = pytest.mark.slow(_case(AnyAgent, LONG))
TestAnyAgentOnTrioForLong = pytest.mark.slow(_case(AnyAgentOnTrio, LONG))

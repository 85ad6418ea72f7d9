"""Trying hooks outside of a run: one chain of a flow, one payload, and what every hook said to it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from turnchart.flows.problems import meant
from turnchart.flows.samples import WrongPayload
from turnchart.machine.chain import Chain
from turnchart.machine.clock import SYSTEM_CLOCK
from turnchart.machine.messages import Text
from turnchart.machine.payloads import Payload, PreTool
from turnchart.machine.points import ToolOutcome
from turnchart.machine.records import record
from turnchart.machine.verdict import Dispatch
from turnchart.machine.world import AgentWorld

if TYPE_CHECKING:
    from turnchart.flows.load import Flow

FAILED: Final = "failed"
NONE: Final = "none"


@record
class Tried:
    """What a chain came to.

    Attributes:
        decision: The word of what holds, ``none``, or ``failed`` where a hook failed and that ends it.
        reason: Why.
        trace: What each hook said, in the order in which they came to an end.
        changes: The fields that are other ones in the end, as JSON.
        notices: What hooks told the user.
    """

    decision: str
    reason: str
    trace: tuple[Dispatch, ...]
    changes: dict[str, Any]
    notices: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """Yield it in words, a hook a line."""
        width = max((len(each.id) for each in self.trace), default=0)
        for each in self.trace:
            yield f"  {each.id:<{width}}  {_said(each)}  ({1000 * each.seconds:.1f} ms)".rstrip()
            yield from (f"    stderr: {line}" for line in each.stderr.splitlines())
        for text in self.notices:
            yield f"  told the user: {text}"
        for name, value in self.changes.items():
            yield f"  {name} is now {value}"
        yield f"{self.decision}{f': {self.reason}' if self.reason else ''}"


def _said(each: Dispatch) -> str:
    told = not each.error or each.error in each.reason  # by a denial that is the failure
    did = [each.decision or "", each.reason, "" if told else f"failed: {each.error}"]
    did.append(f"changed {', '.join(each.changed)}" if each.changed else "")
    return ": ".join(part for part in did if part) or "no opinion"


async def try_hooks(flow: "Flow", point: str, payload: Payload, id: str | None = None) -> Tried:
    """Run the chain of a flow, or the one hook with an id, on a payload. Programs run as in a turn.

    Raises:
        NotTrusted: If a hook starts something, and nobody agreed to that.
        WrongPayload: If there is no hook with this id, or the point cannot be tried.
    """
    if point == "stream":
        raise WrongPayload("a stream cannot be tried without a model; test the hook in Python")
    chain = flow.chain(point)
    if id is not None:
        chain = Chain(point, [_only(chain, id)])
    notices: list[str] = []
    world = AgentWorld(flow.root, SYSTEM_CLOCK, notices.append, _no_model)
    payload = _with_subject(flow, replace(payload, flow=flow.name, agent=flow.name, world=world))
    trace: list[Dispatch] = []
    try:
        verdict = await chain.run(
            payload, inner=_body, timeout=SYSTEM_CLOCK.timeout, now=SYSTEM_CLOCK.now, trace=trace
        )
    except Exception as error:  # noqa: BLE001  # whatever a hook does, it is shown
        return Tried(FAILED, str(error), tuple(trace), {}, tuple(notices))
    decision = verdict.decision
    given, left = payload.json(), verdict.payload.json()
    changes = {name: left[name] for name in verdict.payload.changed(payload) if left[name] != given[name]}
    reason = getattr(decision, "reason", "") or getattr(decision, "text", "")
    word = decision.word if decision is not None else NONE
    if word == NONE and verdict.answers:
        word, reason = verdict.answers[-1].word, getattr(verdict.answers[-1], "text", "")
    return Tried(word, reason, verdict.trace, changes, tuple(notices))


def _only(chain: Chain, id: str) -> object:
    known = {hook.id: hook for hook in chain.hooks}
    if id not in known:
        help = meant(id, known) or f"the ids: {', '.join(known) or 'none'}"
        raise WrongPayload(f"no hook of {chain.point} has the id {id!r}; {help}")
    return known[id]


def _with_subject(flow: "Flow", payload: Payload) -> Payload:
    """Return a payload with the subject that the tool of the flow declares."""
    if not isinstance(payload, PreTool):
        return payload
    name = {tool.name: tool.subject for tool in flow.tools}.get(payload.tool, payload.subject_name)
    subject = payload.args.get(name) if name is not None else None
    return replace(payload, subject=None if subject is None else str(subject), subject_name=name)


async def _body(payload: Any) -> ToolOutcome:
    """Stand in for the body of a tool, which is not run."""
    return ToolOutcome((Text(f"{payload.tool} was not run"),))


async def _no_model(model: str, prompt: str) -> str:
    raise RuntimeError(f"no model is asked while hooks are tried; this one would ask {model}")

"""``audit_log``: a line for everything that a chain was asked."""

import json
from typing import TYPE_CHECKING, Any

from turnchart.hooks.params import InRoot
from turnchart.hooks.registry import hook
from turnchart.machine.points import POINTS

if TYPE_CHECKING:
    from turnchart.machine.points import Payload
    from turnchart.machine.verdict import Verdict

_POINT_OF = {point.payload_name: point.name for point in POINTS.values()}


@hook("audit_log", on=POINTS, observes=True)
def audit_log(payload: "Payload", verdict: "Verdict[Any]", *, path: InRoot) -> None:
    """Append one line of JSON to the file `path`, below the root, each time its chain has run.

    It observes: it sees the final payload and decision, and its failure is only reported.
    """
    if payload.world is None:
        raise RuntimeError("audit_log needs a world to write to")
    line = json.dumps(_line(payload, verdict), ensure_ascii=False, default=str)
    payload.world.append(path, line + "\n")


def _line(payload: "Payload", verdict: "Verdict[Any]") -> dict[str, Any]:
    own = payload.json()
    common = {name: own.pop(name) for name in ("session", "agent", "flow", "step")}
    turn, _ = own.pop("turn"), own.pop("id")
    told = {name: value for name, value in own.items() if name == "args" or _is_plain(value)}
    happened = [
        {
            "id": dispatch.id,
            "where": dispatch.where,
            "decision": dispatch.decision,
            "changed": dispatch.changed,
            "error": dispatch.error,
        }
        for dispatch in verdict.trace
        if dispatch.notable
    ]
    decision = verdict.decision
    return {
        "time": payload.now,
        "point": _POINT_OF[type(payload).__name__],
        **common,
        "turn": turn["number"],
        **told,
        "decision": decision.word if decision else None,
        "reason": getattr(decision, "reason", ""),
        "by": verdict.by,
        "hooks": happened,
    }


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)

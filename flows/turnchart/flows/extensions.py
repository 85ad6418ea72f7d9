"""``extensions``: one registered hook with a leg at each of its points; the legs share one object an agent.

A leg stands before the hooks that the chain of its point lists, in the order of ``extensions``: what it
rewrites is judged by the guards of the file.
"""

from collections.abc import Sequence

from turnchart.flows.parts import HookPart, Parts
from turnchart.flows.problems import Problem, meant, quoted, sentence
from turnchart.flows.schema import ExtensionEntry, HookEntry
from turnchart.flows.source import AnyNode, ListNode, Scalar
from turnchart.flows.validate import Loc, Reading, bad_value
from turnchart.hooks.registry import HOOKS
from turnchart.machine.points import POINTS


def add_legs(parts: Parts, reading: Reading) -> None:
    """Put the legs of the extensions in front of the chains; what is wrong goes to ``reading.problems``."""
    legs: dict[str, list[HookPart]] = {}
    for i, node in enumerate(_items(parts.root.get("extensions"), reading)):
        loc: Loc = ("extensions", i)
        entry = reading.valid(ExtensionEntry, node, loc, reading.plain(node))
        if entry is None:
            continue
        spec = HOOKS.get(entry.use)
        if spec is None:
            reading.problems.append(_unknown(node, entry.use))
            continue
        given = {"use": entry.use, "with": entry.arguments} | (
            {"id": entry.id} if entry.id is not None else {}
        )
        own = HookEntry.model_validate(given)
        for point in spec.points:
            legs.setdefault(point, []).append(HookPart(POINTS[point], loc, node, own, leg=True))
    if legs:
        parts.hooks = {
            point: [*legs.get(point, ()), *parts.hooks.get(point, ())]
            for point in dict.fromkeys((*legs, *parts.hooks))
        }


def _items(node: AnyNode | None, reading: Reading) -> Sequence[AnyNode]:
    if isinstance(node, ListNode):
        return node.items
    if node is not None and not (isinstance(node, Scalar) and node.broken):
        problem = bad_value(node, ("extensions",), "list_type", "", {})
        help = "write a list: - use: NAME"
        reading.problems.append(node.problem(problem.code, problem.message, help=help))
    return ()


def _unknown(node: AnyNode, name: str) -> Problem:
    known = HOOKS.names()
    help = sentence(
        meant(name, known),
        "Yours must be registered in code or by an installed package; a file cannot import",
    )
    at = HookPart(POINTS["on_signal"], (), node, HookEntry(use=name)).at("use")
    return at.problem("unknown-hook", f"no hook named {quoted(name)}", help=help)

"""What is well formed and does nothing, or not what was meant: found before anybody wonders why."""

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final

from turnchart.flows.parts import HookPart, Parts
from turnchart.flows.paths import Place
from turnchart.flows.problems import Problem, quoted
from turnchart.flows.source import AnyNode, ListNode, Scalar
from turnchart.flows.validate import find

_INTERPRETERS: Final = ("python", "python3", "node", "bash", "sh", "ruby", "perl", "deno", "bun", "uv", "npx")
_SCRIPTS: Final = (".py", ".js", ".mjs", ".cjs", ".ts", ".sh", ".rb", ".pl", ".bash")


def check_traps(parts: Parts, place: Place, used: Sequence[str]) -> Iterator[Problem]:
    """Find what an author would want to know.

    Args:
        parts: The flow.
        place: Where it lives.
        used: Its tools that run at the provider: no hook and no permission sees their calls.
    """
    for part in parts.chain():
        yield from _script(part, place)
        yield from _unseen(part.node, ("tools",), used, "hook")
    for verdict in ("deny", "ask"):
        node = find(parts.root, ("permissions", verdict))
        if node.exact:
            yield from _unseen(node.value, (), used, "permission")


def _script(part: HookPart, place: Place) -> Iterator[Problem]:
    """Find a script that an interpreter is given and that is not there."""
    node = part.at("run")
    argv = part.spec.run or []
    if len(argv) < 2 or not isinstance(node, ListNode) or part.spec.disabled:
        return
    if argv[0].rpartition("/")[2] not in _INTERPRETERS:
        return
    name = next((word for word in argv[1:] if not word.startswith("-")), "")
    at = node.items[argv.index(name)] if name else node
    folder = place.root / (part.spec.cwd or ".")
    if name.endswith(_SCRIPTS) and not os.path.isfile(folder / name):
        message = f"the script {quoted(name)} is not there"
        help = "programs start in the root of the project, so the path is relative to that"
        yield at.problem("run-file", message, help=help, level="warning")


def _unseen(node: AnyNode, loc: Sequence[str], used: Sequence[str], what: str) -> Iterator[Problem]:
    """Find a pattern that names a tool which runs at the provider, where nothing of ours sees it."""
    found = find(node, loc)
    items = found.value.items if found.exact and isinstance(found.value, ListNode) else ()
    for item in items:
        if not isinstance(item, Scalar):
            continue
        name = item.text.partition("(")[0]
        hit = next((tool for tool in used if fnmatchcase(tool, name)), None)
        if hit is not None and not name.startswith("*"):
            message = f"no {what} sees a call of {hit}: it runs at the provider"
            help = f"leave {hit} out of tools: to be sure that it is not called"
            yield item.problem("provider-tool", message, help=help, level="warning")

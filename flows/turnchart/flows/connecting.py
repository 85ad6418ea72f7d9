"""``check --connect``: the MCP servers of a flow are started and asked for their tools."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import anyio

from turnchart.flows.problems import NotTrusted, Problem, in_order, meant, quoted, sentence
from turnchart.flows.servers import may_fit, tool_patterns
from turnchart.flows.trust import not_agreed
from turnchart.machine.mcp.listing import Listing, list_tools

if TYPE_CHECKING:
    from turnchart.flows.check import Checked
    from turnchart.flows.parts import Parts


def connect(checked: "Checked", *, trust: bool = False) -> list[Problem]:
    """Return the problems of a flow without errors, with what its servers say.

    Raises:
        NotTrusted: If nobody agreed to what the flow starts or reaches.
    """
    parts = checked.parts
    servers = [each.server for each in checked.tools if each.server is not None]
    if parts is None or not servers:
        return checked.problems
    new = () if trust or checked.shipped else not_agreed(checked)
    if new:
        raise NotTrusted([reach.problem() for reach in new])
    listings = anyio.run(list_tools, servers, checked.place.root)
    known = [problem for problem in checked.problems if problem.code != "mcp-tools"]
    return in_order([*known, *_told(checked, listings), *_dead(checked, parts, listings)])


def _told(checked: "Checked", listings: Sequence[Listing]) -> Iterator[Problem]:
    """Tell what each entry of ``tools`` stands for."""
    named = [each.part for each in checked.tools if each.server is not None]
    for part, listing in zip(named, listings, strict=True):
        node = part.at("mcp")
        if listing.failure:
            said, _, words = listing.failure.partition("\n")
            yield node.problem("mcp-connect", said, help=words)
            continue
        for i, glob in enumerate(part.spec.only):
            if not any(fnmatchcase(name, glob) for name in listing.offered):
                help = sentence(meant(glob, listing.offered), f"its tools: {_list(listing.offered)}")
                message = f"pattern {quoted(glob)} matches no tool of the MCP server"
                yield part.at("only", i).problem("dead-matcher", message, help=help, level="warning")
        yield node.problem("mcp-tools", f"tools: {_list(listing.tools)}", level="note")


def _dead(checked: "Checked", parts: "Parts", listings: Sequence[Listing]) -> Iterator[Problem]:
    """Find patterns that seemed to be about tools of servers, and are about none."""
    if any(listing.failure for listing in listings):
        return
    names = [name for listing in listings for name in listing.tools]
    others = [each.name for each in checked.tools if each.server is None]
    for node, glob, permission in tool_patterns(parts):
        about = [listing.server for listing in listings if may_fit(listing.server, glob)]
        if about and not any(name == glob or fnmatchcase(name, glob) for name in (*names, *others)):
            what = "permission" if permission else "tool pattern"
            help = sentence(meant(glob, names), f"tools of MCP servers: {_list(names)}")
            yield node.problem(
                "dead-permission" if permission else "dead-matcher",
                f"{what} {quoted(glob)} matches no tool of this agent", help=help, level="warning",
            )  # fmt: skip


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"

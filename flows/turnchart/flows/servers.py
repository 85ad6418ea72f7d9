"""The MCP servers of a flow: what is wrong with them, and what can be said of their tools without asking them."""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from turnchart.flows.parts import Parts, ToolPart
from turnchart.flows.paths import Place
from turnchart.flows.problems import Problem, meant, quoted, sentence
from turnchart.flows.programs import argv_of, folder_problem, looked_up
from turnchart.flows.schema import COMMAND_ONLY, URL_ONLY, ServerSpec
from turnchart.flows.source import AnyNode, MapNode
from turnchart.flows.validate import Reading

if TYPE_CHECKING:
    from turnchart.machine.mcp.servers import McpServer

_KINDS: Final[Mapping[str, tuple[str, ...]]] = {"command": COMMAND_ONLY, "url": URL_ONLY}
"""The keys that say how a server is reached, with those that belong to each."""


def check_servers(parts: Parts, place: Place, env: Mapping[str, str] | None) -> Iterator[Problem]:
    """Find what is wrong with the servers. Nothing is started."""
    used = {part.spec.mcp for part in parts.tools}
    for name, spec in parts.file.mcp.items():
        node = parts.at("mcp", name)
        fields = node.fields if isinstance(node, MapNode) else {}
        yield from _kind(name, node)
        for key in fields.keys() & {"cwd"}:
            wrong = folder_problem(fields[key][1], spec.cwd or ".", place)
            yield from () if wrong is None else (wrong,)
        if spec.command:
            yield from looked_up(parts.at("mcp", name, "command", 0), spec.command[0], place)
        if env is not None:
            yield from _variables(parts, name, spec, env)
        if name not in used and parts.tools_complete:
            yield _unused(parts, name)


def _kind(name: str, node: AnyNode) -> Iterator[Problem]:
    """Find keys that say nothing, or two things, of how a server is reached."""
    given = node.fields if isinstance(node, MapNode) else {}
    kinds = [key for key in _KINDS if key in given]
    if not kinds:
        yield node.problem("missing-key", f"mcp.{name} needs one of: {', '.join(_KINDS)}")
    if len(kinds) > 1:
        message = f"mcp.{name} has both command and url"
        yield given["url"][0].problem(
            "key-not-here", message, help="a program is started, or an address reached"
        )
        return
    for kind, keys in _KINDS.items():
        for key in keys if kinds and kind not in kinds else ():
            if key in given:
                message = f"{key} is not allowed in mcp.{name}"
                yield given[key][0].problem(
                    "key-not-here", message, help=f"{key} belongs to servers with {kind}"
                )


def _variables(parts: Parts, name: str, spec: ServerSpec, env: Mapping[str, str]) -> Iterator[Problem]:
    named = [(ours, ("env_from", i)) for i, pair in enumerate(spec.env_from) for ours in pair.values()]
    headers = [(ours, ("headers_env", header)) for header, ours in spec.headers_env.items()]
    bearer = [(spec.bearer_env, ("bearer_env",))] if spec.bearer_env is not None else []
    for variable, loc in (*named, *headers, *bearer):
        if variable not in env:
            node = parts.at("mcp", name, *loc)
            message = f"environment variable {variable} is not set here"
            yield node.problem("key-variable", message, level="warning")


def _unused(parts: Parts, name: str) -> Problem:
    key = parts.root.fields["mcp"][1]
    node = key.fields[name][0] if isinstance(key, MapNode) else key
    own = node.source.name == (parts.tools_source or parts.root.source.name)
    return node.problem(
        "unused-server", f"no tool of the MCP server {quoted(name)} is used",
        help=f"write - mcp: {name} in tools:, or delete it", level="warning" if own else "note",
    )  # fmt: skip


def server_of(part: ToolPart, parts: Parts, reading: Reading, place: Place) -> "McpServer | None":
    """Return the server that an entry of ``tools`` names; None where there is none, or it is wrong."""
    del place
    name = part.spec.mcp or ""
    spec = parts.file.mcp.get(name)
    if spec is None:
        node, known = part.at("mcp"), _declared(parts)
        if name not in known:  # else something is wrong with it, which is reported
            help = sentence(meant(name, known), f"servers: {', '.join(known) or 'none'}. They stand in mcp:")
            problem = node.problem("unknown-server", f"no MCP server named {quoted(name)}", help=help)
            reading.problems.append(problem)
        return None
    if (spec.command is None) == (spec.url is None):
        return None
    from turnchart.machine.mcp.servers import TIMEOUT, McpServer  # few flows have servers

    common = {
        "timeout": spec.timeout or TIMEOUT, "only": tuple(part.spec.only),
        "execution": part.spec.execution or "exclusive",
    }  # fmt: skip
    if spec.url is not None:
        return McpServer.http(
            part.name, spec.url, bearer_env=spec.bearer_env or "", headers_env=spec.headers_env, **common
        )
    first = parts.at("mcp", name, "command", 0)
    passed = {theirs: ours for pair in spec.env_from for theirs, ours in pair.items()}
    return McpServer.stdio(
        part.name, argv_of(first, spec.command or [""]), env=spec.env, env_from=passed, cwd=spec.cwd or ".",
        **common,
    )  # fmt: skip


def _declared(parts: Parts) -> tuple[str, ...]:
    node = parts.root.get("mcp")
    return tuple(node.fields) if isinstance(node, MapNode) else ()


def may_fit(server: "McpServer", glob: str) -> bool:
    """Tell whether a pattern on names may be about a tool of a server.

    Its tools are known where ``only`` names each of them; else any name that it lets through may be one.
    """
    if server.known is not None:
        return any(name == glob or fnmatchcase(name, glob) for name in server.known)
    start, before = server.named(""), _literal(glob)
    if before == glob:
        return glob.startswith(start) and server.wants(glob.removeprefix(start))
    return before.startswith(start) or start.startswith(before)


def _literal(glob: str) -> str:
    """Return what a pattern begins with before its first wildcard."""
    for i, char in enumerate(glob):
        if char in "*?[":
            return glob[:i]
    return glob

"""The MCP servers of a flow: what is wrong with them, and what is known of their tools unasked."""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from turnchart.flows.parts import Parts, ToolPart
from turnchart.flows.paths import Place
from turnchart.flows.problems import Problem, meant, quoted, sentence
from turnchart.flows.programs import argv_of, folder_problem, looked_up
from turnchart.flows.schema import COMMAND_ONLY, TOOL_NAME, URL_ONLY, ServerSpec
from turnchart.flows.source import AnyNode, MapNode, Scalar
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
        fields = _fields(node)
        if not re.fullmatch(TOOL_NAME, name):
            message = f"{quoted(name)} is no name for an MCP server"
            help = "it takes letters, digits, _ and -: the names of its tools begin with it, and a dot"
            yield _key(parts, name).problem("bad-value", message, help=help)
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
    given = _fields(node)
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
    """Find variables that it is given and that are not set."""
    named: list[tuple[str | None, AnyNode]] = [(spec.bearer_env, parts.at("mcp", name, "bearer_env"))]
    for header, ours in spec.headers_env.items():
        named.append((ours, parts.at("mcp", name, "headers_env", header)))
    for i, pair in enumerate(spec.env_from):
        named += [(ours, parts.at("mcp", name, "env_from", i)) for ours in pair.values()]
    for variable, node in named:
        if variable is not None and variable not in env:
            message = f"environment variable {variable} is not set here"
            yield node.problem("key-variable", message, level="warning")


def _unused(parts: Parts, name: str) -> Problem:
    node = _key(parts, name)
    own = node.source.name == (parts.tools_source or parts.root.source.name)
    return node.problem(
        "unused-server", f"no tool of the MCP server {quoted(name)} is used",
        help=f"write - mcp: {name} in tools:, or delete it", level="warning" if own else "note",
    )  # fmt: skip


def _fields(node: AnyNode) -> Mapping[str, tuple[Scalar, AnyNode]]:
    return node.fields if isinstance(node, MapNode) else {}


def _key(parts: Parts, name: str) -> AnyNode:
    servers = parts.root.fields["mcp"][1]
    return servers.fields[name][0] if isinstance(servers, MapNode) else servers


def server_of(part: ToolPart, parts: Parts, reading: Reading) -> "McpServer | None":
    """Return the server that an entry of ``tools`` names; None where there is none, or it is wrong."""
    name = part.spec.mcp or ""
    spec = parts.file.mcp.get(name)
    if spec is None:
        node, known = part.at("mcp"), _declared(parts)
        if name not in known:  # else something is wrong with it, which is reported
            help = sentence(meant(name, known), f"servers: {', '.join(known) or 'none'}. They stand in mcp:")
            problem = node.problem("unknown-server", f"no MCP server named {quoted(name)}", help=help)
            reading.problems.append(problem)
        return None
    if (spec.command is None) == (spec.url is None) or not re.fullmatch(TOOL_NAME, part.name):
        return None
    from turnchart.machine.mcp.servers import TIMEOUT, McpServer  # few flows have servers

    limit, only, execution = spec.timeout or TIMEOUT, part.spec.only, part.spec.execution or "exclusive"
    if spec.url is not None:
        return McpServer.http(
            part.name, spec.url, bearer_env=spec.bearer_env or "", headers_env=spec.headers_env,
            timeout=limit, only=only, execution=execution,
        )  # fmt: skip
    first = parts.at("mcp", name, "command", 0)
    passed = {theirs: ours for pair in spec.env_from for theirs, ours in pair.items()}
    return McpServer.stdio(
        part.name, argv_of(first, spec.command or [""]), env=spec.env, env_from=passed, cwd=spec.cwd or ".",
        timeout=limit, only=only, execution=execution,
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


def tool_patterns(parts: Parts) -> Iterator[tuple[AnyNode, str, bool]]:
    """Yield the patterns of hooks and permissions: the node, names of tools, whether it is a permission."""
    for part in parts.chain():
        for i, glob in enumerate(part.spec.tools or ()):
            yield part.at("tools", i), glob, False
    rules = parts.file.permissions
    for verdict in ("deny", "ask", "allow") if rules is not None else ():
        for i, text in enumerate(getattr(rules, verdict)):
            yield parts.at("permissions", verdict, i), text.partition("(")[0], True


def check_names(parts: Parts, servers: "Sequence[McpServer]") -> Iterator[Problem]:
    """Find names of single tools of servers that nobody can look up without asking the server."""
    for node, name, _ in tool_patterns(parts):
        for server in servers:
            if server.known is None and _literal(name) == name and may_fit(server, name):
                message = f"whether there is a tool {quoted(name)} only its MCP server knows"
                yield node.problem("mcp-tools", message, help="check --connect asks it", level="note")


def _literal(glob: str) -> str:
    """Return what a pattern begins with before its first wildcard."""
    for i, char in enumerate(glob):
        if char in "*?[":
            return glob[:i]
    return glob

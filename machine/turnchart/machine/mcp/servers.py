"""Which MCP server an agent uses, and which of its tools. Nothing is started by making one."""

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias, cast

from turnchart.machine.addresses import without_login
from turnchart.machine.records import record

if TYPE_CHECKING:  # a flow with servers is checked without the code of tools
    from turnchart.machine.tools import Execution

TIMEOUT: Final = 60.0
"""Seconds that a server has to start and list its tools, and then for each call."""
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_EXECUTIONS: Final[tuple["Execution", ...]] = ("exclusive", "parallel")
Passed: TypeAlias = Mapping[str, str] | Iterable[str]
"""Variables by name; a mapping renames them: ``{THEIRS: OURS}``."""


class Program(NamedTuple):
    """A server that is started, and talked to over its stdin and stdout.

    Attributes:
        argv: The program and its arguments; no shell reads them.
        env: What it sees of variables, besides the usual ones: name and value.
        env_from: Variables of ours that are passed on: the name there, and ours.
        cwd: The folder that it starts in, relative to the root of the agent.
    """

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    env_from: tuple[tuple[str, str], ...] = ()
    cwd: str = "."

    def __str__(self) -> str:
        return self.argv[0]  # the rest may hold what nobody is to see


class Address(NamedTuple):
    """A server that is reached over streamable HTTP.

    Attributes:
        url: Where it is.
        bearer_env: The variable of ours that holds its token; empty where it wants none.
        headers_env: Further headers, and the variables of ours that hold their values.
    """

    url: str
    bearer_env: str = ""
    headers_env: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return without_login(self.url).partition("?")[0]  # as above


@record
class McpServer:
    """An MCP server whose tools an agent has; ``McpServer.stdio(...)`` and ``McpServer.http(...)`` make one.

    Servers of one agent that are reached in the same way share one connection.

    Attributes:
        name: Stands before the name of each of its tools: ``name.tool``.
        where: How it is reached.
        timeout: Seconds that it has to start and list its tools, and then for each call.
        only: Globs on its own names of its tools; none means all.
        execution: How calls of its tools run.
    """

    name: str
    where: Program | Address
    timeout: float = TIMEOUT
    only: tuple[str, ...] = ()
    execution: "Execution" = "exclusive"

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is no name for an MCP server; it takes letters, digits, _ and -")
        if not self.timeout > 0:
            raise ValueError(f"MCP server {self.name}: timeout is {self.timeout!r}; it must be more than 0")
        if self.execution not in _EXECUTIONS:
            wrong = f"execution is {self.execution!r}; it must be exclusive or parallel"
            raise ValueError(f"MCP server {self.name}: {wrong}")
        if isinstance(self.where, Program) and not (self.where.argv and self.where.argv[0]):
            raise ValueError(f"MCP server {self.name}: argv is empty; it must begin with a program")

    @classmethod
    def stdio(
        cls,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        env_from: Passed = (),
        cwd: str = ".",
        timeout: float = TIMEOUT,
        only: Sequence[str] = (),
        execution: "Execution" = "exclusive",
    ) -> Self:
        """Return a server that is a program, started once for each agent.

        Args:
            name: Stands before the names of its tools.
            argv: The program and its arguments.
            env: Variables that it sees besides PATH, HOME and the like.
            env_from: Variables of ours that it sees too; a mapping renames them.
            cwd: The folder that it starts in, relative to the root of the agent.
            timeout: Seconds that it has to start, and then for each call.
            only: Globs on its own names of its tools; none means all.
            execution: How calls of its tools run.

        Raises:
            TypeError: If ``argv`` is one text.
            ValueError: If one of these is no such thing.
        """
        if isinstance(argv, str):
            raise TypeError(f"MCP server {name}: argv is a text; write a list, as in ['npx', '-y', 'server']")
        where = Program(tuple(argv), _items(env), _pairs(env_from), cwd)
        return cls(name, where, timeout, tuple(only), execution)

    @classmethod
    def http(
        cls,
        name: str,
        url: str,
        *,
        bearer_env: str = "",
        headers_env: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT,
        only: Sequence[str] = (),
        execution: "Execution" = "exclusive",
    ) -> Self:
        """Return a server that is reached over streamable HTTP.

        Args:
            name: Stands before the names of its tools.
            url: Where it is.
            bearer_env: The variable of ours that holds its token.
            headers_env: Further headers, and the variables of ours that hold their values.
            timeout: Seconds that it has to answer at first, and then for each call.
            only: Globs on its own names of its tools; none means all.
            execution: How calls of its tools run.

        Raises:
            ValueError: If one of these is no such thing.
        """
        if not url.startswith(("http://", "https://")):
            raise ValueError(
                f"MCP server {name}: {url!r} is no address; it must begin with http:// or https://"
            )
        where = Address(url, bearer_env, _items(headers_env))
        return cls(name, where, timeout, tuple(only), execution)

    def wants(self, tool: str) -> bool:
        """Tell whether the agent has a tool, by the server's own name of it."""
        return not self.only or any(fnmatchcase(tool, glob) for glob in self.only)

    def named(self, tool: str) -> str:
        """Return what hooks, permissions and logs call one of its tools."""
        return f"{self.name}.{tool}"

    @property
    def known(self) -> tuple[str, ...] | None:
        """The names of its tools, where these are known without asking it; else None."""
        if not self.only or any(is_glob(each) for each in self.only):
            return None
        return tuple(self.named(each) for each in self.only)


def is_glob(text: str) -> bool:
    """Tell whether a pattern stands for more than one name."""
    return any(char in text for char in "*?[")


def _items(given: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    return tuple(given.items()) if given is not None else ()


def _pairs(env_from: Passed) -> tuple[tuple[str, str], ...]:
    if isinstance(env_from, Mapping):
        return _items(cast("Mapping[str, str]", env_from))
    return tuple((name, name) for name in env_from)

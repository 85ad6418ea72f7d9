"""What of a table can never happen, or goes wrong when it does; alone, or with a flow applied to it.

Pure: it reads a table and what is given of a flow, and looks at nothing else.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from itertools import product
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from turnchart.machine.config import Compaction, Limits, Queues, RetryPolicy
from turnchart.machine.permissions import Permissions
from turnchart.machine.points import POINTS
from turnchart.machine.records import record
from turnchart.machine.states import TURN_STATES, Event, Facts, State
from turnchart.machine.table import LIFECYCLE, Row, Table

Code = Literal[
    "no-cancel", "state-unreachable", "state-stuck", "row-guard", "row-shadowed", "row-partial",
    "edge-unreachable", "hook-never", "queue-starved", "tool-denied", "setting-unused",
]  # fmt: skip
Key = tuple[str | int, ...]


class Finding(NamedTuple):
    """One thing that is probably not meant.

    Attributes:
        code: What kind of thing; the reference of problems has an anchor for each.
        message: What can never happen, and why, in one line.
        help: What would be right.
        key: Which setting causes it, as a path into the flow: ``("limits", "max_steps")``; empty where the
            table itself does.
    """

    code: Code
    message: str
    help: str = ""
    key: Key = ()


class GivenHook(NamedTuple):
    """A hook of a flow.

    Attributes:
        point: Where it stands.
        id: Its id.
        key: Where the flow says so.
        tools: The patterns of the tools that it is asked about; None for all.
        timeout: Seconds that it may take; None where it does not say.
    """

    point: str
    id: str
    key: Key = ()
    tools: Sequence[str] | None = None
    timeout: float | None = None


@record
class Given:
    """What a flow says that bears on the table; what it leaves out has its default.

    Attributes:
        tools: The names of its tools, each with the place of its entry.
        more_tools: It has others, whose names only a server knows; or its tools are not known at all.
        hooks: Its hooks, without the disabled ones.
        limits: What one turn may spend.
        queues: How many waiting messages are taken at once.
        retry: When a failed request is tried again.
        compaction: How a conversation is made shorter.
        fallback: The models that are asked when one fails.
        permissions: What tools may do.
        written: The settings that the flow writes itself: ``retry.base_delay``.
    """

    tools: Mapping[str, Key] = field(default_factory=lambda: MappingProxyType(dict[str, Key]()))
    more_tools: bool = False
    hooks: Sequence[GivenHook] = ()
    limits: Limits = field(default_factory=Limits)
    queues: Queues = field(default_factory=Queues)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    compaction: Compaction = field(default_factory=Compaction)
    fallback: Sequence[str] = ()
    permissions: Permissions = field(default_factory=Permissions)
    written: frozenset[str] = frozenset()

    def at(self, point: str) -> list[GivenHook]:
        """Return the chain of a point."""
        return [hook for hook in self.hooks if hook.point == point]


def lint(table: Table = LIFECYCLE, given: Given | None = None) -> tuple[Finding, ...]:
    """Return what is probably not meant, in the order of the table and then of the settings.

    Args:
        table: The lifecycle, or a table of one's own.
        given: What a flow says; None judges the table alone.
    """
    found = [*_guards(table)]
    if not found:  # what a guard asks cannot be tried where it is no fact
        found += [*_rows(table), *_states(table)]
    return (*found, *(_flow(table, given) if given is not None else ()))


# -- the table alone ------------------------------------------------------------------------------


def _guards(table: Table) -> Iterator[Finding]:
    for row in table.rows:
        if row.guard is not None and not hasattr(Facts(), row.guard):
            text = f"`{_named(row)}` asks for {row.guard!r}, which is no fact"
            yield Finding("row-guard", text, f"guards are names of: {', '.join(_facts())}")


def _facts() -> list[str]:
    derived = [name for name, value in vars(Facts).items() if isinstance(value, property)]
    return [*Facts._fields, *derived]


def _rows(table: Table) -> Iterator[Finding]:
    groups: dict[tuple[State, Event], list[Row]] = {}
    for row in table.rows:
        groups.setdefault((row.source, row.event), []).append(row)
    for rows in groups.values():
        taken, refused = _taken(rows)
        for row in rows:
            if row not in taken:
                before = ", ".join(f"`{_named(other)}`" for other in rows[: rows.index(row)])
                text = f"`{_named(row)}` is never taken: what would take it takes a row before it"
                yield Finding("row-shadowed", text, f"before it: {before}. Move it up, or delete it")
        if refused is not None:
            facts = ", ".join(name for name in Facts._fields if getattr(refused, name)) or "no facts"
            text = f"`{rows[-1].source} {rows[-1].event}` is refused under {facts}"
            yield Finding("row-partial", text, "the last row of an event needs no guard")


def _taken(rows: Sequence[Row]) -> tuple[set[Row], Facts | None]:
    """Return the rows that some facts take, and facts that take none."""
    taken: set[Row] = set()
    refused: Facts | None = None
    for values in product((False, True), repeat=len(Facts._fields)):
        facts = Facts(*values)
        row = next((row for row in rows if row.guard is None or getattr(facts, row.guard)), None)
        if row is not None:
            taken.add(row)
        elif refused is None:
            refused = facts
    return taken, refused


def _states(table: Table) -> Iterator[Finding]:
    reached = reachable(table)
    home = {State.IDLE}
    while True:
        more = {row.source for row in table.rows if row.target in home} - home
        if not more:
            break
        home |= more
    for state in State:
        if state not in reached:
            text = f"state {state.shown} is never reached"
            yield Finding("state-unreachable", text, "no row that can be taken leads there from idle")
            continue
        if state not in home:
            yield Finding("state-stuck", f"no way leads from state {state.shown} back to idle")
        for event in (Event.CANCEL, Event.FAIL):
            if state in TURN_STATES and event not in table.accepts(state):
                text = f"state {state.shown} takes no {event}"
                help = f"a turn that is {'cut off' if event is Event.CANCEL else 'broken'} there cannot end"
                yield Finding("no-cancel", text, help)


def reachable(table: Table) -> frozenset[State]:
    """Return the states that rows lead to from idle."""
    seen = {State.IDLE}
    while True:
        more = {row.target for row in table.rows if row.source in seen} - seen
        if not more:
            return frozenset(seen)
        seen |= more


# -- with a flow ----------------------------------------------------------------------------------

_IN_A_TURN: Final = frozenset(
    point.name for point in POINTS.values() if point.states and set(point.states) <= TURN_STATES
)
"""The points at which the time of the turn runs."""


class _Cause(NamedTuple):
    """Rows that a setting makes impossible."""

    rows: tuple[Row, ...]
    key: Key
    why: str
    help: str


def applied(table: Table, given: Given) -> Table:
    """Return a table without the rows that the settings of a flow make impossible."""
    dead = {row for cause in _causes(table, given) for row in cause.rows}
    return Table([row for row in table.rows if row not in dead], table.says)


def _causes(table: Table, given: Given) -> Iterator[_Cause]:
    if given.limits.max_steps == 1:
        rows = _of(table, Event.SETTLE, ("results_due", "input_due"))
        tools = "what tools return never reaches the model: " if given.tools or given.more_tools else ""
        help = f"{tools}write 2 or more"
        yield _Cause(rows, ("limits", "max_steps"), "limits.max_steps is 1", help)
    key, why = _no_retry(given)
    if why:
        help = "one failed request ends the turn: write 2 or more, or name a fallback"
        yield _Cause(_of(table, Event.RETRY, (None,)), key, why, help)


def _of(table: Table, event: Event, guards: Iterable[str | None]) -> tuple[Row, ...]:
    wanted = set(guards)
    return tuple(row for row in table.rows if row.event is event and row.guard in wanted)


def _no_retry(given: Given) -> tuple[Key, str]:
    """Return what keeps every failed request from another try, and that in words; empty where it may come."""
    if given.at("request_error") or given.fallback or given.compaction.strategy != "none":
        return (), ""
    others = "no hook, fallback or compaction tries again"
    if given.retry.max_attempts == 1:
        return ("retry", "max_attempts"), f"retry.max_attempts is 1, and {others}"
    if not given.retry.retry_on:
        return ("retry", "retry_on"), f"retry.retry_on is empty, and {others}"
    return (), ""


def _flow(table: Table, given: Given) -> Iterator[Finding]:
    for cause in _causes(table, given):
        if cause.rows:
            named = " and ".join(f"`{_named(row)}`" for row in cause.rows)
            many = "are" if len(cause.rows) > 1 else "is"
            yield Finding(
                "edge-unreachable", f"{cause.why}: {named} {many} never taken", cause.help, cause.key
            )
    yield from _answers(given)
    yield from _queues(given)
    yield from _hooks(table, given)
    yield from _tools(given)
    yield from _unused(given)


def _answers(given: Given) -> Iterator[Finding]:
    """Find limits under which an answer of a hook is never followed."""
    for point, name, said in (
        (
            "turn_stopping",
            "max_continues",
            "send the turn on: it ends as max_continues, and prompts are parked",
        ),
        ("request_error", "max_retries", "have a request tried again: it ends the turn with the error"),
    ):
        chain = given.at(point)
        if chain and getattr(given.limits, name) == 0:
            ids = ", ".join(hook.id for hook in chain)
            text = f"limits.{name} is 0: no hook at {point} ({ids}) can {said}"
            yield Finding("edge-unreachable", text, "write 1 or more, or delete the hooks", ("limits", name))


def _queues(given: Given) -> Iterator[Finding]:
    if given.limits.max_steps != 1:
        return
    text = (
        "limits.max_steps is 1: what is steered into a running turn is never read in it, and parks the inbox"
    )
    help = "write 2 or more; or take prompts only, which wait for a turn of their own"
    yield Finding("queue-starved", text, help, ("limits", "max_steps"))
    if given.queues.steering == "one-at-a-time" and "queues.steering" in given.written:
        text = "queues.steering is one-at-a-time and a turn has one step: each turn reads one steered message"
        yield Finding("queue-starved", text, "write steering: all, or let turns have more steps",
                      ("queues", "steering"))  # fmt: skip


def _hooks(table: Table, given: Given) -> Iterator[Finding]:
    reached = reachable(applied(table, given))
    for hook in given.hooks:
        point = POINTS.get(hook.point)
        why = ""
        if point is not None and point.states and not reached & set(point.states):
            why = f"state {' and '.join(state.shown for state in point.states)} is never reached"
        elif hook.tools is not None and not hook.tools:
            why = "its list of tools is empty"
        elif hook.point == "compact" and given.compaction.strategy == "none":
            why = "compaction.strategy is none"
        elif hook.point in ("pre_tool", "tool") and not given.more_tools:
            if not given.tools:
                why = "the flow has no tools"
            elif hook.point == "tool" and not _left(hook, given):
                why = "permissions deny every tool that it is asked about"
        if why:
            yield Finding("hook-never", f"hook {hook.id} at {hook.point} never runs: {why}",
                          "delete it, or change that", hook.key)  # fmt: skip


def _left(hook: GivenHook, given: Given) -> list[str]:
    """Return the tools that a hook is asked about and that may run."""
    names = [name for name in given.tools if not _denied(name, given.permissions)]
    return [
        name for name in names if hook.tools is None or any(fnmatchcase(name, glob) for glob in hook.tools)
    ]


def _tools(given: Given) -> Iterator[Finding]:
    for name, key in given.tools.items():
        why = _denied(name, given.permissions)
        if why:
            text = f"no call of tool {name} ever runs: {why}"
            yield Finding("tool-denied", text, "leave the tool out, so that the model does not try", key)


def _denied(name: str, rules: Permissions) -> str:
    """Return why no call of a tool can run; empty where one can."""
    denies = next((rule for rule in rules.deny if "(" not in rule and fnmatchcase(name, rule)), None)
    if denies is not None:
        return f"permissions.deny has {denies}"
    about = [rule for rule in (*rules.ask, *rules.allow) if fnmatchcase(name, rule.partition("(")[0])]
    return "permissions.default is deny, and no rule is about it" if _closed(rules) and not about else ""


def _closed(rules: Permissions) -> bool:
    return rules.default == "deny" and not rules.by_effects


def _unused(given: Given) -> Iterator[Finding]:
    """Find settings that another one keeps from ever counting."""
    if given.retry.max_attempts == 1 or not given.retry.retry_on:
        why = "retry.max_attempts is 1" if given.retry.max_attempts == 1 else "retry.retry_on is empty"
        for name in ("base_delay", "max_delay", "honor_retry_after", "retry_on"):
            if f"retry.{name}" in given.written and not why.startswith(f"retry.{name}"):
                text = f"retry.{name} never counts: {why}, so the policy tries nothing again"
                yield Finding("setting-unused", text, "delete it", ("retry", name))
    most = given.limits.max_seconds
    for hook in given.hooks:
        if (
            most is not None
            and hook.timeout is not None
            and hook.timeout >= most
            and hook.point in _IN_A_TURN
        ):
            own = f"the timeout of hook {hook.id} ({hook.timeout:g} s)"
            text = f"{own} never counts: the turn ends after {most:g} s"
            help = "write less than limits.max_seconds, or delete it"
            yield Finding("setting-unused", text, help, (*hook.key, "timeout"))


def _named(row: Row) -> str:
    guard = f" if {row.guard}" if row.guard else ""
    return f"{row.source} {row.event}{guard}"

"""The declarations of a table as one automaton: which names may follow which.

It is made of what states and rows say (``says``), how often (``times``, ``Silent.anywhere``) and of the
reasons of the rows. Nothing else in this project knows the order of entries, so a log or a trace that it
accepts is a walk of the chart.

A *letter* is one thing performed. ``letter`` and ``step_name`` write it; the driver records the same words:

    log entry       its type: ``turn/start``, ``tool/call``; an end of turn with its reason:
                    ``turn/end blocked``
    inbox splice    ``agent/inbox/spliced`` where it claims; an arrival (it inserts, or has an outcome) has
                    no letter, because people may write to the inbox at any moment
    live signal     its name, two of them with a variant: ``agent/status running|idle`` and
                    ``agent/assistant-stream start|chunk|end``
    hook chain      the point, once per dispatch, also where the chain is empty: ``assemble``, ``pre_tool``
    call            the name in ``does``: ``prepare``, ``stream``, ``poll_steering``
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from turnchart.machine.entries import ENTRIES, SIGNALS, WRITES, Entry
from turnchart.machine.says import Arrow, Block, Kind, Line, Note, Part, Silent, log, names, silent
from turnchart.machine.states import TURN_STATES, Event, State
from turnchart.machine.table import Row, Table

LOGGED = frozenset((Kind.LOG,))
"""What a log shows of a walk."""
PERFORMED = frozenset(Kind) - {Kind.REPLY}
"""What a trace shows of a walk; a reply is drawn and performs nothing."""

INBOX = "agent/inbox/spliced"
RECOVERED = "interrupted"
"""The reason of a turn that was closed after a crash."""
RECOVERY: tuple[Line, ...] = (
    silent(Kind.LOG, "tool/result", times="*", reason="calls that a crash left without a result"),
    silent(Kind.LOG, "step/end", times="?", reason="only where a step was open"),
    log("turn/end"),
)
"""What opening a session says to close a turn that a crash left open, wherever that turn stood."""

CUTS = frozenset((Event.CANCEL, Event.FAIL, Event.MAINTAINED))
"""The events that may come before a state has said all it has to say."""
_ORDERED = TURN_STATES | {State.MAINTENANCE}
"""The states that say what they say in order; the others say it in any."""

_FAMILIES: Mapping[str, tuple[str, ...]] = {"writes": WRITES}
_VARIANTS = {"turn/end": "reason", "agent/status": "status", "agent/assistant-stream": "frame"}
_OUTSIDERS = frozenset((Part.USER, Part.AGENT))


def letter(name: str, data: Mapping[str, Any]) -> str:
    """Return the letter of an entry type or a live signal with this data."""
    field = _VARIANTS.get(name)
    return f"{name} {data.get(field)}" if field else name


def step_name(entry: Entry) -> str | None:
    """Return the letter of an entry, or None where it is legal anywhere.

    Legal anywhere are arrivals in the inbox, imported entries, and ignorable entries of a foreign type.
    """
    if entry.foreign_id is not None or (entry.ignorable and entry.type not in ENTRIES):
        return None
    if entry.type == INBOX and (entry.data.get("inserted") or "outcome" in entry.data):
        return None
    return letter(entry.type, entry.data)


class Automaton:
    """Nodes, and which node follows on which letter. Node numbers stand for places between two letters.

    Attributes:
        edges: Per node: letter -> following nodes, each with the line that performs the letter there.
        jumps: Per node: the nodes that are reached without a letter.
        state: Per node: the state that the walk is in.
        row: Per node: the row that begins there, or None.
        on: Per node: the row that the walk is on, or None where it is in a state.
        entry: Where each state begins.
        recovery: Where the closing after a crash begins.
        start: Every node in which a walk can begin.
        anywhere: Letters that tell nothing about the order, because they are legal at any moment.
    """

    def __init__(self, table: Table, kinds: frozenset[Kind]) -> None:
        self._kinds = kinds
        self._fails: dict[State, list[int]] = {}
        self._ended: set[int] = set()
        self._steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self.edges: list[dict[str, dict[int, Line]]] = []
        self.jumps: list[list[int]] = []
        self.state: list[State] = []
        self.row: list[Row | None] = []
        self.on: list[Row | None] = []
        self._on: Row | None = None
        self.entry = {state: self._node(state) for state in State}
        self.anywhere = _anywhere(table)
        for state in State:
            self._add_state(state, table)
        last = len(self.edges)
        self.recovery = self._node(State.IDLE)
        self._jump(self._say(self.recovery, RECOVERY, (RECOVERED,)), self.entry[State.IDLE])
        for node in range(last):
            if self.state[node] in TURN_STATES and node not in self._ended:
                self._jump(node, self.recovery)
        mute = {State.MAINTENANCE, *(state for state in State if not table.says[state])}
        self._unseen = frozenset((
            *range(last, len(self.edges)), *self._ended,
            *(node for node in range(last) if self.state[node] in mute),
        ))  # fmt: skip
        self.start = self.close({self.entry[State.IDLE]})

    # -- walking -------------------------------------------------------------------------------

    def close(self, nodes: Iterable[int]) -> frozenset[int]:
        """Return these nodes and all that are reached from them without a letter."""
        seen = set(nodes)
        todo = list(seen)
        while todo:
            for node in self.jumps[todo.pop()]:
                if node not in seen:
                    seen.add(node)
                    todo.append(node)
        return frozenset(seen)

    def step(self, nodes: frozenset[int], name: str) -> frozenset[int]:
        """Return where the walk can be after one more letter; empty where the letter is illegal."""
        found = self._steps.get((nodes, name))
        if found is None:
            found = self.close(to for node in nodes for to in self.edges[node].get(name, ()))
            self._steps[nodes, name] = found
        return found

    def expected(self, nodes: Iterable[int]) -> tuple[str, ...]:
        """Return the letters that may come next, sorted."""
        return tuple(sorted({name for node in nodes for name in self.edges[node]}))

    def where(self, nodes: Iterable[int]) -> tuple[State, ...]:
        """Return the states that the walk can be in, in the order of a turn.

        Counted only where nothing else fits: recovery, a row that has ended its turn, a state that says
        nothing, and maintenance, which begins and ends without a letter.
        """
        nodes = frozenset(nodes)
        seen = {self.state[node] for node in (nodes - self._unseen or nodes)}
        return tuple(state for state in State if state in seen)

    # -- making --------------------------------------------------------------------------------

    def _node(self, state: State, row: Row | None = None) -> int:
        self.edges.append({})
        self.jumps.append([])
        self.state.append(state)
        self.row.append(row)
        self.on.append(self._on)
        return len(self.edges) - 1

    def _jump(self, source: int, target: int) -> None:
        self.jumps[source].append(target)

    def _edge(self, source: int, names: Iterable[str], target: int, line: Line) -> int:
        for name in names:
            self.edges[source].setdefault(name, {})[target] = line
        return target

    def _add_state(self, state: State, table: Table) -> None:
        entry, first = self.entry[state], len(self.edges)
        if state in _ORDERED:
            out = self._say(entry, table.says[state])
            inside = [entry, *range(first, len(self.edges))]
        else:
            out, inside = entry, [entry]
        for line in _flat(table.says[state]):
            if state not in _ORDERED or _roams(line):
                for node in inside:
                    self._edge(node, self._letters(line), node, line)
        rows = [row for row in table.rows if row.source is state]
        for row in sorted(rows, key=lambda row: row.event is not Event.FAIL):
            self._add_row(row, inside if row.event in CUTS else [out])

    def _add_row(self, row: Row, sources: Iterable[int]) -> None:
        self._on = row
        head = self._node(row.source, row)
        for node in sources:
            self._jump(node, head)
        out = self._say(head, row.says, row.reasons)
        self._on = None
        self._jump(out, self.entry[row.target])
        fails = self._fails.setdefault(row.source, [])
        if row.event is Event.FAIL:
            fails.append(head)
        elif row.target is not State.IDLE:
            for node in range(head + 1, out):  # where a line of the row is refused, the turn fails there
                for fail in fails if node not in self._ended else ():
                    self._jump(node, fail)

    def _say(self, at: int, lines: Iterable[Line], reasons: tuple[str, ...] = ()) -> int:
        for line in lines:
            if isinstance(line, Block):
                at = self._block(at, line)
            elif not isinstance(line, Note) and not _roams(line):
                at = self._line(at, line, reasons)
        return at

    def _block(self, at: int, block: Block) -> int:
        end = self._say(at, block.lines)
        if block.kind == "loop":
            self._jump(end, at)
        out = self._node(self.state[at])
        self._jump(at, out)
        self._jump(end, out)
        return out

    def _line(self, at: int, line: Arrow | Silent, reasons: tuple[str, ...]) -> int:
        for name in self._names(line):
            to = self._node(self.state[at])
            letters = [f"turn/end {reason}" for reason in reasons] if name == "turn/end" else _family(name)
            if line.times == "*":
                self._jump(at, to)
                at = to
            elif line.times == "?":
                self._jump(at, to)
            if name == "turn/end" or (at in self._ended and name != "turn/start"):
                self._ended.add(to)
            at = self._edge(at, letters, to, line)
        return at

    def _names(self, line: Line) -> tuple[str, ...]:
        if not isinstance(line, Arrow | Silent) or line.kind not in self._kinds or _arrives(line):
            return ()
        return line.does

    def _letters(self, line: Line) -> Iterable[str]:
        return (name for each in self._names(line) for name in _family(each))


def _family(name: str) -> tuple[str, ...]:
    return _FAMILIES.get(name, (name,))


def _flat(lines: Iterable[Line]) -> Iterable[Line]:
    for line in lines:
        if isinstance(line, Block):
            yield from _flat(line.lines)
        else:
            yield line


def _roams(line: Line) -> bool:
    return isinstance(line, Silent) and line.anywhere


def _arrives(line: Line) -> bool:
    return isinstance(line, Arrow) and line.source in _OUTSIDERS


def _anywhere(table: Table) -> frozenset[str]:
    says = [*table.says.values(), *(row.says for row in table.rows)]
    declared = {name.split(" ")[0] for lines in says for name in names(lines)}
    arrivals = {name for lines in says for line in _flat(lines) if _arrives(line) for name in names([line])}
    claims = {name for lines in says for line in _flat(lines) if not _arrives(line) for name in names([line])}
    return frozenset(arrivals - claims | (SIGNALS.keys() - declared) | {"on_signal"})


@lru_cache(maxsize=16)
def automaton(table: Table, kinds: frozenset[Kind]) -> Automaton:
    """Return the automaton of a table; made once."""
    return Automaton(table, kinds)

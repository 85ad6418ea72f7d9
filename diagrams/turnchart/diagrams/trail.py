"""Which rows a recorded session took: the shortest walk of the automaton that explains its log.

Rows that log nothing leave no trace, so some logs have several explanations. What the entries tell settles
most of them (``Known``); among the rest the walk with the fewest rows is taken, and of equals the one whose
rows stand first in the table.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import takewhile
from typing import NamedTuple, TypeAlias

from turnchart.machine.automaton import LOGGED, Automaton, automaton, step_name
from turnchart.machine.books import as_list, as_object
from turnchart.machine.entries import Entry
from turnchart.machine.says import Line
from turnchart.machine.states import State
from turnchart.machine.table import Row, Table


class Known(NamedTuple):
    """What a log tells of the guards; None where it does not."""

    has_tool_calls: bool | None = None
    results_due: bool | None = None
    prompt_due: bool | None = None
    dispatched: bool | None = None
    has_text: bool | None = None


class Took(NamedTuple):
    """One entry of the log, explained.

    Attributes:
        seq: The entry.
        state: The state that wrote it.
        line: The line that it performs.
    """

    seq: int
    state: State
    line: Line


class Trail(NamedTuple):
    """A walk: the rows and the entries in the order in which they happened.

    Attributes:
        items: Rows taken and entries explained.
        refused: The seq of the first entry that no walk explains; None where all are explained.
    """

    items: tuple[Row | Took, ...]
    refused: int | None


_Chain: TypeAlias = "tuple[Row | Took, _Chain] | None"


class _Place(NamedTuple):
    """Where the walk can be: at what cost, by which way, and through which rows since the last entry."""

    cost: int
    chain: _Chain
    rows: tuple[Row, ...]


_Layer: TypeAlias = dict[int, _Place]


def trail(entries: Sequence[Entry], table: Table) -> Trail:
    """Return the walk that explains a log."""
    walk = _Walk(automaton(table, LOGGED), table)
    known = _known(entries)
    layer = walk.spread({walk.start: _Place(0, None, ())}, known[0])
    for index, entry in enumerate(entries):
        name = step_name(entry)
        if name is not None:
            taken = walk.take(layer, name, index)
            if not taken:
                return Trail(walk.chosen(layer), index)
            layer = taken
        layer = walk.spread(layer, known[index + 1])
    return Trail(walk.chosen(layer), None)


class _Walk:
    def __init__(self, made: Automaton, table: Table) -> None:
        self._made = made
        self._table = table
        self._reached: dict[tuple[int, Known], tuple[tuple[int, tuple[Row, ...]], ...]] = {}
        self.start = made.entry[State.IDLE]

    def spread(self, layer: _Layer, known: Known) -> _Layer:
        """Return all places that are reached from these without an entry."""
        spread: _Layer = {}
        for node, place in layer.items():
            if place.rows:
                continue  # reached from another place of this layer
            for target, rows in self._reach(node, known):
                _offer(spread, target, _Place(place.cost + len(rows), place.chain, rows))
        return spread

    def take(self, layer: _Layer, name: str, seq: int) -> _Layer:
        """Return the places behind one entry."""
        taken: _Layer = {}
        for node, place in layer.items():
            for target, line in self._made.edges[node].get(name, {}).items():
                took = Took(seq, self._made.state[node], line)
                _offer(taken, target, _Place(place.cost, (took, _longer(place)), ()))
        return taken

    def chosen(self, layer: _Layer) -> tuple[Row | Took, ...]:
        """Return the cheapest way: to rest where the walk can be at rest."""
        place = layer.get(self.start) or min(layer.values(), key=lambda place: place.cost)
        chain, items = _longer(place), list[Row | Took]()
        while chain is not None:
            item, chain = chain
            items.append(item)
        return tuple(reversed(items))

    def _reach(self, node: int, known: Known) -> tuple[tuple[int, tuple[Row, ...]], ...]:
        found = self._reached.get((node, known))
        if found is None:
            found = self._reached[node, known] = tuple(self._search(node, known).items())
        return found

    def _search(self, node: int, known: Known) -> dict[int, tuple[Row, ...]]:
        """Return the rows to each node ahead: the fewest, and of equals the first ones of the table."""
        rows = self._table.rows
        found: dict[int, tuple[Row, ...]] = {}
        todo: list[tuple[int, tuple[int, ...], int]] = [(0, (), node)]
        while todo:
            cost, path, at = heappop(todo)
            if at in found:
                continue
            found[at] = tuple(rows[place] for place in path)
            for target in self._made.jumps[at]:
                row = self._made.row[target]
                if row is None:
                    heappush(todo, (cost, path, target))
                elif self._allowed(row, known):
                    heappush(todo, (cost + 1, (*path, rows.index(row)), target))
        return found

    def _allowed(self, row: Row, known: Known) -> bool:
        """Whether a row may be the first whose guard holds."""
        before = takewhile(lambda other: other is not row, self._table.rows)
        if any(_holds(other, known) for other in before if other[:2] == row[:2]):
            return False
        return _holds(row, known) is not False


def _holds(row: Row, known: Known) -> bool | None:
    holds: bool | None = getattr(known, row.guard, None) if row.guard else None
    return holds


def _offer(layer: _Layer, node: int, place: _Place) -> None:
    if node not in layer or place.cost < layer[node].cost:
        layer[node] = place


def _longer(place: _Place) -> _Chain:
    chain = place.chain
    for row in place.rows:
        chain = (row, chain)
    return chain


def _known(entries: Sequence[Entry]) -> list[Known]:
    """Return what is known before each entry, and after the last."""
    owed, due = False, [False]
    for entry in entries:
        if entry.type == "step/start":
            owed = False
        elif entry.type == "tool/result" and entry.foreign_id is None:
            owed = owed or not as_object(entry.data.get("message")).get("terminate", False)
        due.append(owed)
    ahead = _ahead(entries)
    return [
        known._replace(results_due=None if owed else False) for known, owed in zip(ahead, due, strict=True)
    ]


def _ahead(entries: Sequence[Entry]) -> list[Known]:
    """Return before each entry what the next answer, failed attempt and end of turn tell."""
    known, following = Known(prompt_due=False), ""
    found = [known]
    for entry in reversed(entries):
        if entry.type == "turn/end":
            known = known._replace(prompt_due=following == "turn/start")
        elif entry.type == "assistant/attempt":
            known = known._replace(dispatched=False if entry.data.get("failure") else None)
        elif entry.type == "assistant/message" and entry.foreign_id is None:
            cut = None if entry.data.get("interrupted") else False
            known = known._replace(has_tool_calls=_asks(entry), has_text=cut)
        following = entry.type
        found.append(known)
    return found[::-1]


def _asks(entry: Entry) -> bool:
    message = as_object(entry.data.get("message"))
    if entry.data.get("interrupted") or message.get("stop_reason") == "max_tokens":
        return False
    return any(as_object(block).get("type") == "tool_call" for block in as_list(message.get("content")))

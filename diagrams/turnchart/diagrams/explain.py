"""Why a log is illegal, in words and as the walk that leads to its first illegal entry."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from turnchart.diagrams.session_view import label_of
from turnchart.diagrams.trail import Took, trail
from turnchart.machine.entries import WRITES, Entry
from turnchart.machine.states import Event
from turnchart.machine.table import LIFECYCLE, Row, Table
from turnchart.machine.verify import Verdict, Way, listed

SHOWN: Final = 40
"""So many lines of the walk are shown; of a longer one, the beginning and the end."""
_WRITES: Final = "an own entry or a setting"
"""What the entries are called that anybody may ask for; no table names one of them alone."""


def explain(verdict: Verdict, entries: Sequence[Entry], table: Table = LIFECYCLE) -> str:
    """Return the walk of the last turn up to the first illegal entry, and what could have come there.

    Args:
        verdict: Why the log is illegal; where no single entry is, nothing is said of what could have come.
        entries: The log, the illegal entry included.
        table: The declarations.
    """
    legal, came = entries[: verdict.entries], entries[verdict.entries : verdict.entries + 1]
    begun = turn_of(legal)
    before = f" ({begun} entries before this turn)" if begun else ""
    lines = [f"the walk up to there{before}:", *_folded(list(_walk(legal, begun, table)))]
    lines += [f">{entry.seq:>6}  {label_of(entry)}" for entry in came]
    if came:
        lines += _legal(verdict)
    return "\n".join(lines)


def turn_of(entries: Sequence[Entry]) -> int:
    """Return where what belongs to the last turn begins: behind the end of the turn before."""
    last = next((i for i in range(len(entries) - 1, -1, -1) if entries[i].type == "turn/start"), 0)
    return next((i for i in range(last, 0, -1) if entries[i - 1].type == "turn/end"), 0)


def walk_of(entries: Sequence[Entry], table: Table = LIFECYCLE) -> list[Row | Took]:
    """Return the last turn of a legal log: rows, and entries with their seq, in the order of the walk."""
    shown = turn_of(entries)
    begun = turn_of(entries[:shown])  # the turn before tells whether this one began at rest
    items = trail(entries[begun:], table).items
    taken = [item._replace(seq=item.seq + begun) if isinstance(item, Took) else item for item in items]
    first = next((i for i, item in enumerate(taken) if isinstance(item, Took) and item.seq >= shown), 0)
    rows = [item for item in taken[:first] if isinstance(item, Row)]
    if rows and not isinstance(taken[first - 1], Row):
        return [rows[-1], *taken[first:]]  # one row ended the turn before and began this one
    while first and isinstance(taken[first - 1], Row):
        first -= 1
    return taken[first:]


def record_of(verdict: Verdict, entries: Sequence[Entry], table: Table = LIFECYCLE) -> dict[str, Any]:
    """Return what ``explain`` tells, for a program."""
    return {
        "seq": verdict.seq, "type": verdict.type, "came": verdict.came, "state": verdict.state,
        "message": verdict.message, "expected": list(verdict.expected),
        "ways": [
            {"state": way.state.value, **_record(way.row), "recovery": way.recovery,
             "letters": list(way.letters)}
            for way in verdict.ways
        ],
        "walk": [
            {"seq": item.seq, "type": entries[item.seq].type, "state": item.state.value}
            if isinstance(item, Took) else {"state": item.source.value, **_record(item)}
            for item in walk_of(entries[: verdict.entries], table)
        ],
    }  # fmt: skip


def _record(row: Row | None) -> Mapping[str, str | None]:
    if row is None:
        return {}
    return {"event": row.event.value, "guard": row.guard, "target": row.target.value}


def _walk(entries: Sequence[Entry], begun: int, table: Table) -> Iterator[str]:
    """Yield the rows, and below each what was written on it and in the state that it leads to."""
    told = begun
    for item in walk_of(entries, table):
        if isinstance(item, Row):
            yield f"  {item.source.shown} to {item.target.shown}: {_event(item)}"
            continue
        for entry in entries[told : item.seq + 1]:  # arrivals in the inbox are on no row
            yield f" {entry.seq:>6}  {label_of(entry)}"
        told = item.seq + 1
    for entry in entries[told:]:
        yield f" {entry.seq:>6}  {label_of(entry)}"


def _folded(lines: list[str]) -> list[str]:
    if len(lines) <= SHOWN:
        return lines
    head, tail = lines[: SHOWN // 4], lines[-(SHOWN - SHOWN // 4) :]
    return [*head, f"         ({len(lines) - SHOWN} more lines)", *tail]


def _legal(verdict: Verdict) -> Iterator[str]:
    """Yield what could have come instead, and below each where that leads."""
    found: dict[str, list[Way]] = {}
    for way in sorted(verdict.ways, key=_breaks):
        for name in _names(way):
            found.setdefault(name, []).append(way)
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, ways in found.items():
        alike.setdefault(_where(ways), []).append(name)
    yield "legal there:" if alike else f"legal there: {', '.join(verdict.expected) or 'nothing'}"
    for places, names in alike.items():
        yield f"  {listed(sorted(names))}"
        yield from (f"      {place}" for place in places)


def _breaks(way: Way) -> bool:
    """Whether it would only be the end of a turn that is cut off or broken; told last."""
    return way.recovery or (way.row is not None and way.row.event in (Event.CANCEL, Event.FAIL))


def _names(way: Way) -> list[str]:
    own = set(WRITES) <= set(way.letters)
    names = [name for name in way.letters if not (own and name in WRITES)]
    return [*names, _WRITES] if own else names


def _where(ways: Sequence[Way]) -> tuple[str, ...]:
    """Return places in words, those of one event from several states together."""
    found: dict[str, list[str]] = {}
    for way in ways:
        found.setdefault(_place(way), []).append(way.state.shown)
    return tuple(place.format(" or ".join(dict.fromkeys(states))) for place, states in found.items())


def _place(way: Way) -> str:
    """Return a place in words, with braces for the name of the state."""
    if way.recovery:
        return "closing what a crash left open"
    if way.row is None:
        return "in {}"
    return f"on {_event(way.row)}, {{}} to {way.row.target.shown}"


def _event(row: Row) -> str:
    guard = f" if {row.guard}" if row.guard else ""
    return f"{row.event.replace('_', ' ')}{guard}"

"""What changed between two things that can be drawn: one picture of both."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from difflib import SequenceMatcher

from turnchart.diagrams.overlay import Drawable, Overlay, Record, acts_in, overlay_of
from turnchart.machine.states import State
from turnchart.machine.table import Row

ADDED, REMOVED = "+ ", "\N{MINUS SIGN} "
"""What a line begins with that only the new one has, and one that only the old one had."""


def difference(old: Drawable, new: Drawable) -> Overlay:
    """Return the new one with what it adds and what it lacks marked, line by line.

    Hooks count as the same where only their place in the file moved. Of two recorded sessions, the rows that
    were taken more or less often say so.

    Returns:
        An overlay: its ``changed`` states are coloured, and its ``row_notes`` stand at the edges.
    """
    before, after = overlay_of(old), overlay_of(new)
    changed: set[State] = set()
    notes: dict[State, tuple[str, ...]] = {}
    for state in State:
        notes[state], marked = _merged(before.notes_at(state), after.notes_at(state), _same)
        changed |= {state} if marked else set()
    hooks: dict[str, tuple[str, ...]] = {}
    for point in (*after.points(), *before.points()):
        hooks[point], marked = _merged(before.hooks.get(point, ()), after.hooks.get(point, ()), _unplaced)
        changed |= set(acts_in(point)) if marked else set()
    return replace(
        after,
        title=_title(before.title, after.title),
        notes=notes,
        hooks=hooks,
        changed=frozenset(changed),
        row_notes=dict(_counts(before.record, after.record)),
    )


def differs(overlay: Overlay) -> bool:
    """Whether a difference holds anything."""
    return bool(overlay.changed or overlay.row_notes)


def _merged(
    old: tuple[str, ...], new: tuple[str, ...], key: Callable[[str], str]
) -> tuple[tuple[str, ...], bool]:
    """Return the lines of both, those of one alone marked, and whether any is."""
    matcher = SequenceMatcher(None, [key(line) for line in old], [key(line) for line in new], autojunk=False)
    lines: list[str] = []
    steps = matcher.get_opcodes()
    for kind, first, last, start, end in steps:
        if kind == "equal":
            lines += new[start:end]
        else:
            lines += [REMOVED + line for line in old[first:last]]
            lines += [ADDED + line for line in new[start:end]]
    return tuple(lines), any(kind != "equal" for kind, *_ in steps)


def _same(line: str) -> str:
    return line


def _unplaced(label: str) -> str:
    """Return the label of a hook without the file and line that it ends with."""
    return label.rpartition(" (")[0] or label


def _counts(old: Record | None, new: Record | None) -> Iterator[tuple[Row, str]]:
    if old is None or new is None:
        return
    rows: Mapping[Row, None] = dict.fromkeys((*new.rows, *old.rows))
    for row in rows:
        before, after = old.rows.get(row, 0), new.rows.get(row, 0)
        if before != after:
            yield row, f"before {before}, now {after}"


def _title(old: str, new: str) -> str:
    return f"{old} \N{RIGHTWARDS ARROW} {new}" if old and new and old != new else new or old

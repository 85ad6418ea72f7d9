"""Views of one's own: which entries of a branch the model sees, and what it sees of custom entries.

A session's context is made in order: the path to the leaf; what compaction and pruning leave of it; the
transforms, each of which sees what the one before it gave; then every entry becomes its messages. Without
transforms and projectors none of this runs, and the view is kept entry by entry (``context``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from turnchart.machine.context import Context
from turnchart.machine.entries import CONTEXT_TYPES, Entry
from turnchart.machine.message_fields import plain
from turnchart.machine.messages import Message

Transform = Callable[[Sequence[Entry]], Sequence[Entry]]
"""Returns the entries that the model sees, of those that it would see without it; it changes none."""
Projector = Callable[[Entry, int, Sequence[Entry]], "Message | Sequence[Message] | None"]
"""Returns the messages of a ``custom`` entry; it gets the entry, its position and all entries."""

NO_PROJECTORS: Mapping[str, Projector] = {}


class Projection(NamedTuple):
    """What a session was told to show otherwise."""

    transforms: tuple[Transform, ...] = ()
    projectors: Mapping[str, Projector] = NO_PROJECTORS


class Projecting:
    """How the context of a session is read.

    Attributes:
        projection: Transforms and projectors; None where there are none, which costs nothing.
    """

    __slots__ = ("projection",)

    projection: Projection | None

    if TYPE_CHECKING:
        entries: list[Entry]
        view: Context

        def path(self, leaf: int | None = None) -> list[Entry]:
            """Return the entries of a branch."""
            ...

    def context(
        self, transforms: Sequence[Transform] = (), projectors: Mapping[str, Projector] = NO_PROJECTORS
    ) -> Sequence[Message]:
        """Return the messages of the current branch; a snapshot.

        Args:
            transforms: Applied after those of the session, for this call only.
            projectors: Used before those of the session, for this call only.

        Raises:
            TypeError: If a transform or projector gives something else than entries or messages.
        """
        own = self.projection
        if own is None and not transforms and not projectors:
            return self.view.messages()
        own = own or Projection()
        ways = Projection((*own.transforms, *transforms), {**own.projectors, **projectors})
        return _project(ways, self.context_entries(), self.view)

    def context_entries(self) -> list[Entry]:
        """Return the entries that the context is made of: messages, summaries, custom ones.

        What compaction and pruning replaced is not among them, and no transform was asked.
        """
        found: list[Entry] = []
        for entry in self.path():
            if entry.type not in CONTEXT_TYPES and entry.type != "custom":
                continue
            places = _replaced(entry, found)
            found[places.start : places.stop] = [entry]
        return found

    def transform(self, fn: Transform) -> Callable[[], None]:
        """Let ``fn`` say which entries the model sees; return a function that stops that.

        Transforms are applied in the order in which they came, at every request. What a model saw because of
        them is in the log as ``request/rewritten``.
        """
        own = self.projection or Projection()
        self.projection = own._replace(transforms=(*own.transforms, fn))

        def stop() -> None:
            left = self.projection or Projection()
            self._project_as(
                left._replace(transforms=tuple(each for each in left.transforms if each is not fn))
            )

        return stop

    def project(self, kind: str, fn: Projector) -> Callable[[], None]:
        """Let ``fn`` give the messages of ``custom`` entries of a kind; return a function that stops that.

        The last one of a kind counts. Without one the model sees nothing of such an entry.
        """
        own = self.projection or Projection()
        self.projection = own._replace(projectors={**own.projectors, plain("kind", kind): fn})

        def stop() -> None:
            left = self.projection or Projection()
            kept = {name: each for name, each in left.projectors.items() if each is not fn}
            self._project_as(left._replace(projectors=kept))

        return stop

    def _project_as(self, projection: Projection) -> None:
        self.projection = projection if projection.transforms or projection.projectors else None


def _replaced(entry: Entry, before: Sequence[Entry]) -> range:
    """Return the places that an entry takes; an empty range at the end where it replaces nothing."""
    if entry.replaces is not None:
        ends = [i for i, each in enumerate(before) if each.seq in entry.replaces]
        return range(ends[0], ends[-1] + 1)
    if entry.type != "compaction":
        return range(len(before), len(before))
    kept = entry.data.get("first_kept")
    return range(next((i for i, each in enumerate(before) if each.seq == kept), len(before)))


def _project(ways: Projection, entries: Sequence[Entry], view: Context) -> list[Message]:
    known: dict[int, list[Message]] = {}
    for node in view.nodes:
        known.setdefault(node.seq, []).append(node.message)
    own = {entry.seq: entry for entry in entries}
    shown: Sequence[Entry] = entries
    for transform in ways.transforms:
        shown = _entries(transform, shown)
    found: list[Message] = []
    for index, entry in enumerate(shown):
        if entry is own.get(entry.seq) and entry.type != "custom":
            found += known.get(entry.seq, ())
        else:
            found += _messages(ways, entry, index, shown)
    return [each for each in found if each["content"] or each["role"] not in ("assistant", "system")]


def _entries(transform: Transform, shown: Sequence[Entry]) -> Sequence[Entry]:
    given = transform(shown)
    for each in given:
        if not isinstance(each, Entry):  # pyright: ignore[reportUnnecessaryIsInstance]  # foreign
            named = getattr(transform, "__name__", transform)
            raise TypeError(
                f"the transform {named} gave a {type(cast(object, each)).__name__}; it must give entries"
            )
    return tuple(given)


def _messages(ways: Projection, entry: Entry, index: int, shown: Sequence[Entry]) -> Sequence[Message]:
    """Return the messages of an entry that the view does not know: a custom one, or one that was made up."""
    if entry.type != "custom":
        alone = Context()
        alone.add(entry._replace(replaces=None))
        return [node.message for node in alone.nodes]
    kind = entry.data["kind"]
    projector = ways.projectors.get(kind)
    given = projector(entry, index, shown) if projector is not None else None
    if given is None:
        return ()
    messages = (given,) if isinstance(given, Message) else tuple(given)
    for each in messages:
        if not isinstance(each, Message):  # pyright: ignore[reportUnnecessaryIsInstance]  # foreign
            raise TypeError(
                f"the projector of {kind!r} gave a {type(cast(object, each)).__name__};"
                " it must give a message, messages, or None"
            )
    return messages

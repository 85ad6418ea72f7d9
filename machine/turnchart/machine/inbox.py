"""The inbox: what waits for the agent, as lists that only log entries change.

Pure. A method that changes something returns the data of the ``agent/inbox/spliced`` entries that do it; the
change itself happens in ``apply``, when the entry is in the log. So what waits is a fold over the whole log.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast, get_args

from turnchart.machine.entries import Frozen
from turnchart.machine.messages import Message, message

Target = Literal["next-step", "next-turn", "rider"]
Origin = Literal["prompt", "follow_up", "steer", "inject", "next_turn", "hook", "tool"]
Mode = Literal["all", "one-at-a-time"]

TARGETS: tuple[Target, ...] = get_args(Target)
MODES: tuple[Mode, ...] = get_args(Mode)


class Item(Frozen):
    """What one call put into the inbox: one or more messages that are claimed together."""

    __slots__ = ()

    def __init__(self, id: str, origin: Origin, messages: tuple[Message, ...]) -> None:
        super().__init__(id=id, origin=origin, messages=messages)

    @property
    def id(self) -> str:
        """Unique in the session."""
        value: str = self["id"]
        return value

    @property
    def origin(self) -> Origin:
        """Which call put it there."""
        value: Origin = self["origin"]
        return value

    @property
    def messages(self) -> tuple[Message, ...]:
        """At least one message."""
        value: tuple[Message, ...] = self["messages"]
        return value

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> "Item":
        """Return the item of a parsed entry."""
        if isinstance(raw, Item):
            return raw
        return cls(raw["id"], raw["origin"], tuple([message(each) for each in raw["messages"]]))


class Queued(NamedTuple):
    """What waits, list by list, oldest first."""

    next_step: tuple[Item, ...]
    next_turn: tuple[Item, ...]
    riders: tuple[Item, ...]

    def __bool__(self) -> bool:
        return bool(self.next_step or self.next_turn or self.riders)


class Splice(NamedTuple):
    """One change of one list, and what it removes."""

    data: Frozen
    removed: tuple[Item, ...]


class Inbox:
    """Three lists: for the next step, for the next turn, and riders that go along with the next prompt.

    Read the lists; only ``apply`` changes them.

    Attributes:
        next_step: What the next claim takes.
        next_turn: The prompts that wait for a turn.
        riders: What goes along with the next prompt that opens a turn.
        said: The ids of the messages that are in the conversation.
    """

    __slots__ = (
        "_ids", "_others", "_taken", "_waiting", "next_step", "next_turn", "riders", "said",
    )  # fmt: skip

    def __init__(self) -> None:
        self.next_step: list[Item] = []
        self.next_turn: list[Item] = []
        self.riders: list[Item] = []
        self._ids: dict[str, Item] = {}
        """What waits, by the id of the item."""
        self._waiting: dict[str, Item] = {}
        """What waits, by the ids of its messages."""
        self._others = 0
        """How many items for the next step nobody steered."""
        self._taken: tuple[Item, ...] = ()
        """What was claimed since somebody gave up the rest, admitted or not."""
        self.said: dict[str, None] = {}

    @property
    def claimed(self) -> list[Item]:
        """What was claimed and is not yet admitted or given up; recovery puts it back."""
        return unread(self._taken, self.said) if self._taken else []

    def queued(self) -> Queued:
        """Return what waits."""
        return Queued(tuple(self.next_step), tuple(self.next_turn), tuple(self.riders))

    def find(self, id: str) -> tuple[Target, int] | None:
        """Return the list and position of an item, or None; the id of one of its messages will do too."""
        item = self._ids.get(id) or self._waiting.get(id)
        if item is None:
            return None
        return next(
            (target, i) for target in TARGETS for i, each in enumerate(self._list(target)) if each is item
        )

    def item(self, id: str) -> Item | None:
        """Return an item that waits, found as ``find`` does, or None."""
        return self._ids.get(id) or self._waiting.get(id)

    def knows(self, id: str) -> bool:
        """A message with this id waits, was claimed and is not yet given up, or is in the conversation."""
        return id in self._waiting or id in self.said or (bool(self._taken) and id in _messages(self._taken))

    def _list(self, target: str) -> list[Item]:
        if target == "next-step":
            return self.next_step
        if target == "next-turn":
            return self.next_turn
        if target == "rider":
            return self.riders
        raise ValueError(f"there is no inbox list {target!r}")

    # -- changes, as entries ------------------------------------------------------------------

    def insert(self, target: Target, item: Item) -> Frozen:
        """Return the splice that puts an item at the end of a list."""
        return Frozen(target=target, start=len(self._list(target)), inserted=(item,))

    def put_back(self, items: Sequence[Item]) -> list[Frozen]:
        """Return the splices that put claimed items back to the front of the lists they came from."""
        by_target: dict[Target, list[Item]] = {}
        for item in items:
            by_target.setdefault(home(item), []).append(item)
        return [
            Frozen(target=target, start=0, inserted=tuple(back), outcome="returned")
            for target, back in by_target.items()
        ]

    def drop(self, claimed: Sequence[Item]) -> list[Frozen]:
        """Return the splices that discard for good what was claimed: it waits again, then it is gone."""
        return [
            splice
            for back in self.put_back(claimed)
            for splice in (
                back,
                Frozen(
                    target=back["target"], start=0, removed_count=len(back["inserted"]), outcome="discarded"
                ),
            )
        ]

    def remove(self, id: str) -> Splice | None:
        """Return the splice that discards one waiting item, or None where it does not wait."""
        found = self.find(id)
        if found is None:
            return None
        target, at = found
        return Splice(
            Frozen(target=target, start=at, removed_count=1, outcome="discarded"), (self._list(target)[at],)
        )

    def replace(self, old: Item, messages: tuple[Message, ...]) -> Splice:
        """Return the splice that gives an item that waits other messages."""
        target, at = cast("tuple[Target, int]", self.find(old.id))
        new = Item(old.id, old.origin, messages)
        data = Frozen(target=target, start=at, removed_count=1, inserted=(new,), outcome="replaced")
        return Splice(data, (old,))

    def clear(self) -> list[Splice]:
        """Return the splices that discard everything but the riders: next-step first."""
        return [
            Splice(
                Frozen(target=target, start=0, removed_count=len(items), outcome="discarded"), tuple(items)
            )
            for target in TARGETS[:2]
            if (items := self._list(target))
        ]

    def claim(self, *, opens: bool, steering: Mode, follow_up: Mode) -> list[Splice]:
        """Return the splices that one claim takes, in the order of reading: steps, riders, prompts.

        Args:
            opens: The claim opens a turn, so prompts and riders are taken too.
            steering: ``one-at-a-time`` holds back all but the first message that a person steered.
            follow_up: ``all`` takes every waiting prompt into this turn.
        """
        taken = self._steps(steering)
        if opens:
            prompts = len(self.next_turn) if follow_up == "all" else min(1, len(self.next_turn))
            if self.riders and (prompts or taken):
                taken.append(self._delete("rider", 0, len(self.riders)))
            if prompts:
                taken.append(self._delete("next-turn", 0, prompts))
        return taken

    def _steps(self, mode: Mode) -> list[Splice]:
        items = self.next_step
        if not items:
            return []
        if mode == "all":
            return [self._delete("next-step", 0, len(items))]
        if not self._others:
            return [self._delete("next-step", 0, 1)]
        held = set(_steered(items)[1:])
        found: list[Splice] = []
        start = kept = 0
        for i in range(len(items) + 1):
            if i == len(items) or i in held:
                if i > start:
                    found.append(
                        Splice(
                            Frozen(target="next-step", start=kept, removed_count=i - start),
                            tuple(items[start:i]),
                        )
                    )
                kept += 1
                start = i + 1
        return found

    def _delete(self, target: Target, start: int, count: int) -> Splice:
        items = self._list(target)
        return Splice(
            Frozen(target=target, start=start, removed_count=count), tuple(items[start : start + count])
        )

    # -- the fold ------------------------------------------------------------------------------

    def check(self, data: Mapping[str, Any]) -> tuple[Item, ...]:
        """Return the items that a splice inserts; nothing changes.

        Raises:
            ValueError: If it removes what is not there, or inserts what waits already.
        """
        items = self._list(data["target"])
        start, count = data["start"], data.get("removed_count", 0)
        if not 0 <= start <= len(items) or not 0 <= count <= len(items) - start:
            raise ValueError(
                f"the splice [{start}:{start + count}] is outside the {len(items)} items waiting"
            )
        if "inserted" not in data:
            return ()
        inserted, removed = _inserted(data), items[start : start + count]
        _check_ids("item", [item["id"] for item in inserted], self._ids, removed)
        _check_ids("message", _messages(inserted), self._waiting, removed)
        return inserted

    def apply(self, data: Mapping[str, Any]) -> None:
        """Take one splice into the lists; ``check`` has let it pass."""
        items = self._list(data["target"])
        start, count = data["start"], data.get("removed_count", 0)
        removed = items[start : start + count]
        inserted = _inserted(data) if "inserted" in data else ()
        for item in removed:
            del self._ids[item["id"]]
            for id in _messages((item,)):
                del self._waiting[id]
        for item in inserted:
            self._ids[item["id"]] = item
            for id in _messages((item,)):
                self._waiting[id] = item
        outcome = data.get("outcome")
        if outcome is None:
            self._taken += tuple(removed)
        elif outcome == "returned":
            self._taken = tuple([item for item in self._taken if item["id"] not in self._ids])
        if items is self.next_step:
            self._others += _not_steered(inserted) - _not_steered(removed)
        items[start : start + count] = inserted

    def admitted(self, id: str) -> None:
        """Note that a message is in the conversation now, and claimed no more."""
        if id:
            self.said[id] = None

    def give_up(self) -> None:
        """Note that what was claimed and not admitted will not be."""
        self._taken = ()


def _inserted(data: Mapping[str, Any]) -> tuple[Item, ...]:
    return tuple([raw if raw.__class__ is Item else Item.of(raw) for raw in data["inserted"]])


def unread(items: Iterable[Item], said: Container[object]) -> list[Item]:
    """Return what of these items is no part of the conversation yet; ``said`` are the ids of what is."""
    left: list[Item] = []
    for item in items:
        waiting = tuple([each for each in item.messages if each.get("id") not in said])
        if waiting:
            left.append(item if len(waiting) == len(item.messages) else Item(item.id, item.origin, waiting))
    return left


def home(item: Item) -> Target:
    """Return the list that an item of this origin waits in."""
    if item.origin in ("prompt", "follow_up"):
        return "next-turn"
    return "rider" if item.origin == "next_turn" else "next-step"


def _check_ids(what: str, ids: Sequence[str], waiting: Mapping[str, Item], going: Sequence[Item]) -> None:
    twice = len(ids) > 1 and len(set(ids)) < len(ids)
    for id in ids:
        if (id in waiting and waiting[id] not in going) or (twice and ids.count(id) > 1):
            raise ValueError(f"the {what} {id!r} waits already")


def _messages(items: Iterable[Item]) -> list[str]:
    """Return the ids of the messages of these items."""
    return [said["id"] for item in items for said in item.messages if "id" in said]


def _not_steered(items: Iterable[Item]) -> int:
    return sum([item.origin != "steer" for item in items])


def _steered(items: Iterable[Item]) -> list[int]:
    return [i for i, item in enumerate(items) if item.origin == "steer"]

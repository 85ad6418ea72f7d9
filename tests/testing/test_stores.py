"""``check_store`` finds what is wrong with a store, and says which rule it breaks."""

from collections.abc import Callable, Iterable
from typing import ClassVar

import pytest
from anyio.lowlevel import checkpoint

from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.errors import SessionLocked
from turnchart.machine.stores import Durability
from turnchart.testing import check_store


class Shelf:
    """A right store: logs in one dictionary, locks in another."""

    where = "a shelf"
    durability: Durability = "flush"
    dropped = ""

    def __init__(self, logs: dict[str, list[Entry]], writers: dict[str, "Shelf"], id: str) -> None:
        self.logs, self.writers, self.id = logs, writers, id
        self.known: int | None = None

    @property
    def log(self) -> list[Entry]:
        return self.logs.get(self.id, [])

    def load(self) -> Iterable[Entry]:
        self.known = len(self.log)
        return tuple(self.log)

    def lock(self) -> None:
        if self.writers.setdefault(self.id, self) is not self:
            raise SessionLocked("somebody writes it")
        if self.known not in (None, len(self.log)):
            del self.writers[self.id]
            raise SessionLocked("somebody wrote it")

    def append(self, entry: Entry) -> None:
        self.lock()
        if entry.seq != len(self.log):
            raise ValueError("it is not the next one")
        self.logs.setdefault(self.id, []).append(entry)
        self.known = len(self.log)

    async def flush(self) -> None:
        pass

    def close(self) -> None:
        if self.writers.get(self.id) is self:
            del self.writers[self.id]


def shelves(store: type[Shelf]) -> Callable[[str], Shelf]:
    logs: dict[str, list[Entry]] = {}
    writers: dict[str, Shelf] = {}
    return lambda id: store(logs, writers, id)


class Nameless(Shelf):
    ids: ClassVar[list[str]] = []

    def __init__(self, logs: dict[str, list[Entry]], writers: dict[str, Shelf], id: str) -> None:
        super().__init__(logs, writers, id)
        self.ids.append(id)
        self.id = f"{id}-{len(self.ids)}"


class Placeless(Shelf):
    where = ""


class Complaining(Shelf):
    dropped = "something"


class Filled(Shelf):
    def load(self) -> Iterable[Entry]:
        return super().load() or (Entry(0, None, "custom", 1.0, Frozen()),)


class Forgetful(Shelf):
    def load(self) -> Iterable[Entry]:
        return ()


class Late(Shelf):
    late: tuple[Entry, ...] = ()

    def append(self, entry: Entry) -> None:
        self.late += (entry,)

    def load(self) -> Iterable[Entry]:
        return (*super().load(), *self.late)

    def close(self) -> None:
        for entry in self.late:
            super().append(entry)
        self.late = ()
        super().close()


class Rounding(Shelf):
    def append(self, entry: Entry) -> None:
        super().append(entry._replace(time=round(entry.time, 3)))


class Untidy(Shelf):
    def load(self) -> Iterable[Entry]:
        return [each._replace(data=Frozen(sorted(each.data.items()))) for each in super().load()]


class Careless(Shelf):
    def append(self, entry: Entry) -> None:
        self.lock()
        self.logs.setdefault(self.id, []).append(entry)
        self.known = len(self.log)


class Locking(Shelf):
    def load(self) -> Iterable[Entry]:
        found = tuple(super().load())
        self.lock()
        return found


class Open(Shelf):
    def lock(self) -> None:
        pass


class Shared(Shelf):
    def __init__(self, logs: dict[str, list[Entry]], writers: dict[str, Shelf], id: str) -> None:
        super().__init__(logs, writers, id.replace("-one", "").replace("-other", ""))


class Stubborn(Shelf):
    def close(self) -> None:
        pass


class Blind(Shelf):
    def lock(self) -> None:
        self.known = None
        super().lock()


class Vague(Shelf):
    durability = "perhaps"  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]  # on purpose


class Alphabetical(Shelf):
    def load(self) -> Iterable[Entry]:
        return tuple(sorted(super().load(), key=lambda entry: str(entry.seq)))


class Restless(Shelf):
    def load(self) -> Iterable[Entry]:
        self.known = len(self.log)
        i = 0
        while i < len(self.log):
            yield self.log[i]
            i += 1 + (len(self.log) > self.known)


class Picky(Shelf):
    def append(self, entry: Entry) -> None:
        if entry.type == "agent/inbox/spliced":
            raise ValueError("what is that?")
        super().append(entry)


class Impatient(Shelf):
    waits = 0

    async def flush(self) -> None:
        self.waits += 1
        await checkpoint()
        assert self.waits == 1, "one at a time"
        self.waits -= 1


def test_a_right_store_passes() -> None:
    check_store(shelves(Shelf))


@pytest.mark.parametrize(
    ("store", "rule"),
    [
        (Nameless, "a store has an `id`, the same one whenever it is opened"),
        (Placeless, "a store says in `where` where the log is kept"),
        (Complaining, "`dropped` is empty where nothing was left out"),
        (Filled, "a new session has no entries"),
        (Forgetful, "`load` sees what the writer has appended"),
        (Late, "`load` sees what the writer has appended"),
        (Rounding, "the writer can load what it appended"),
        (Untidy, "the writer can load what it appended"),
        (Careless, "`append` refuses what is not the next entry"),
        (Locking, "`load` takes no lock and needs none"),
        (Open, "`lock` raises SessionLocked while somebody else is the writer"),
        (Shared, r"Two sessions can be written at the same time .* It raised SessionLocked"),
        (Stubborn, "A session that is opened again goes on where it ended. It raised SessionLocked"),
        (Vague, "`durability` is `flush` or `fsync`"),
        (Alphabetical, "not of their digits"),
        (Restless, "what is read while somebody writes is a beginning of the log"),
        (Picky, "A session whose program was killed .* It raised .*what is that"),
        (Impatient, "one at a time"),
        (Blind, "`lock` raises SessionLocked where somebody else wrote after the load"),
    ],
)
def test_a_wrong_store_is_told_its_rule(store: type[Shelf], rule: str) -> None:
    with pytest.raises(AssertionError, match=rule):
        check_store(shelves(store))


def test_a_store_that_forgets_is_asked_for_less() -> None:
    check_store(shelves(Forgetful), durable=False)

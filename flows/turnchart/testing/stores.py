"""What every store must do, as one function that the author of a store calls in a test."""

from collections.abc import Callable, Sequence
from typing import get_args
from uuid import uuid4

import anyio
from anyio.lowlevel import checkpoint

from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.errors import SessionLocked
from turnchart.machine.inbox import Item
from turnchart.machine.messages import AssistantMessage, ToolCall, UserMessage
from turnchart.machine.session import Session
from turnchart.machine.stores import Durability, Store

Make = Callable[[str], Store]
"""Opens the session with this id. The same id again opens the same session; the store may exist or not."""


def check_store(make: Make, *, durable: bool = True) -> None:
    """Try what a session asks of a store.

        def test_my_store(tmp_path):
            check_store(lambda id: MyStore(tmp_path / id))

    Args:
        make: Opens a store; called several times for each of some new ids.
        durable: The store keeps what it is given. False for one that forgets, as ``MemoryStore`` does.

    Raises:
        AssertionError: If the store does something else; the message says which rule it breaks.
    """
    checks = [_names_itself, _is_empty_when_new, _takes_entries_in_order, _lets_go_twice, _flushes]
    if durable:
        checks += [
            _loads_without_a_trace,
            _gives_back_what_it_took,
            _keeps_the_order,
            _can_be_read_while_it_is_written,
            _goes_on_after_a_reload,
            _keeps_sessions_apart,
            _refuses_what_does_not_follow,
            _has_one_writer,
            _writes_again_after_it_let_go,
            _refuses_to_write_behind_a_stranger,
            _carries_a_session_over_a_crash,
        ]
    run = uuid4().hex[:8]
    for check in checks:
        try:
            check(_Named(make, f"{run}{check.__name__.replace('_', '-')}"))
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"{check.__doc__} It raised {error!r}") from error


class _Named:
    """Gives a check sessions of its own."""

    def __init__(self, make: Make, check: str) -> None:
        self._make = make
        self._check = check

    def __call__(self, which: str = "") -> Store:
        return self._make(f"{self._check}{which}")


def _say(holds: object, rule: str) -> None:
    if not holds:
        raise AssertionError(rule)


def _fill(store: Store, entries: Sequence[Entry]) -> None:
    for entry in entries:
        store.append(entry)


def _loaded(store: Store) -> list[Entry]:
    return list(store.load())


def _names_itself(make: _Named) -> None:
    """A store says who it is, and where."""
    store = make()
    _say(store.id and store.id == make().id, "a store has an `id`, the same one whenever it is opened")
    _say(store.where, "a store says in `where` where the log is kept")
    _say(store.durability in get_args(Durability), "`durability` is `flush` or `fsync`")
    _say(store.dropped == "", "`dropped` is empty where nothing was left out")


def _is_empty_when_new(make: _Named) -> None:
    """A new session is empty."""
    _say(_loaded(make()) == [], "a new session has no entries")


def _takes_entries_in_order(make: _Named) -> None:
    """A store that was loaded and locked takes one entry after the other."""
    store = make()
    _loaded(store)
    store.lock()
    store.lock()  # does nothing
    _fill(store, SAMPLE)
    store.close()


def _lets_go_twice(make: _Named) -> None:
    """`close` may be called at any time and more than once."""
    store = make()
    store.close()  # it never had anything
    store.append(SAMPLE[0])
    store.close()
    store.close()


def _flushes(make: _Named) -> None:
    """`flush` may be called at any time, and waits until all is safe."""
    store = make()
    anyio.run(store.flush)
    _fill(store, SAMPLE[:1])
    anyio.run(_flush_together, store)
    anyio.run(store.flush)
    store.close()
    anyio.run(store.flush)


async def _flush_together(store: Store) -> None:
    async with anyio.create_task_group() as tasks:
        for entry in SAMPLE[1:]:
            for _ in range(2):
                tasks.start_soon(store.flush)
            await checkpoint()
            store.append(entry)


def _gives_back_what_it_took(make: _Named) -> None:
    """A store gives back what it took, to itself and to others, at once."""
    store = make()
    _fill(store, SAMPLE)
    expected = [entry.line() for entry in SAMPLE]
    _say([entry.line() for entry in _loaded(store)] == expected, "the writer can load what it appended")
    reader = make()
    _say([entry.line() for entry in _loaded(reader)] == expected, "an append is stored when it returns")
    store.close()
    found = _loaded(make())
    _say(found == list(SAMPLE), "what comes back equals what went in, field by field")
    _say([entry.line() for entry in found] == expected, "what comes back is the same line, byte for byte")


def _keeps_the_order(make: _Named) -> None:
    """Entries come back in the order of their numbers, however many there are."""
    store = make()
    notes = [Entry(i, i - 1 if i else None, "custom", 1.0, Frozen(kind="note", data=i)) for i in range(120)]
    _fill(store, notes)
    store.close()
    _say(_loaded(make()) == notes, "entries come back in the order of their numbers, not of their digits")


def _can_be_read_while_it_is_written(make: _Named) -> None:
    """What is read while somebody writes is a beginning of the log."""
    writer = make()
    _fill(writer, SAMPLE[:3])
    reading = iter(make().load())
    found = [next(reading)]
    _fill(writer, SAMPLE[3:])
    found += reading
    writer.close()
    rule = "what is read while somebody writes is a beginning of the log, with all that was there before"
    _say(len(found) >= 3 and found == list(SAMPLE[: len(found)]), rule)


def _loads_without_a_trace(make: _Named) -> None:
    """`load` takes no lock and needs none."""
    _loaded(make())
    writer = make()
    writer.lock()
    _say(_loaded(make()) == [], "`load` takes no lock and needs none")
    writer.append(SAMPLE[0])
    _say(len(_loaded(make())) == 1, "`load` sees what the writer has appended")
    writer.close()


def _goes_on_after_a_reload(make: _Named) -> None:
    """A session that is opened again goes on where it ended."""
    for entry in SAMPLE:
        store = make()
        _say(len(_loaded(store)) == entry.seq, "a reopened session has what was appended before")
        store.append(entry)
        store.close()
    _say(_loaded(make()) == list(SAMPLE), "a session goes on where it ended")


def _keeps_sessions_apart(make: _Named) -> None:
    """Two sessions can be written at the same time and do not touch each other."""
    one, other = make("-one"), make("-other")
    one.lock()
    other.lock()  # no matter that the first is being written
    for entry in SAMPLE:
        one.append(entry)
        if entry.seq < 2:
            other.append(entry)
    one.close()
    other.close()
    _say(len(_loaded(make("-one"))) == len(SAMPLE), "a session keeps its own entries")
    _say(len(_loaded(make("-other"))) == 2, "a session has no entries of another one")


def _refuses_what_does_not_follow(make: _Named) -> None:
    """`append` refuses what is not the next entry, and stores nothing of it."""
    store = make()
    store.append(SAMPLE[0])
    for wrong in (SAMPLE[0], SAMPLE[2]):
        _say(_refuses(store, wrong), "`append` refuses what is not the next entry: no gaps, no copies")
    store.append(SAMPLE[1])
    store.close()
    _say(_loaded(make()) == list(SAMPLE[:2]), "a refused append stores nothing, and the next one works")


def _refuses(store: Store, entry: Entry) -> bool:
    try:
        store.append(entry)
    except Exception:  # noqa: BLE001  # whichever error fits the medium
        return True
    return False


def _has_one_writer(make: _Named) -> None:
    """A session has one writer, until it is closed."""
    writer, second = make(), make()
    _loaded(second)
    writer.lock()
    _locked(second.lock, "`lock` raises SessionLocked while somebody else is the writer")
    _locked(lambda: second.append(SAMPLE[0]), "so does the `append` that would have to lock")
    writer.append(SAMPLE[0])
    writer.close()
    third = make()
    _loaded(third)
    third.lock()  # the lock is free again
    third.close()


def _writes_again_after_it_let_go(make: _Named) -> None:
    """`append` after `close` locks again and goes on."""
    store = make()
    store.append(SAMPLE[0])
    store.close()
    store.append(SAMPLE[1])
    store.close()
    _say(_loaded(make()) == list(SAMPLE[:2]), "`append` after `close` locks again and goes on")


def _refuses_to_write_behind_a_stranger(make: _Named) -> None:
    """Who loaded before somebody else wrote is not the next writer."""
    early, other = make(), make()
    _loaded(early)
    other.append(SAMPLE[0])
    other.close()
    rule = "`lock` raises SessionLocked where somebody else wrote after the load: the log moved on"
    _locked(early.lock, rule)
    _say(_loaded(make()) == [SAMPLE[0]], "a refused lock changes nothing")


def _carries_a_session_over_a_crash(make: _Named) -> None:
    """A session whose program was killed is opened again, closed and gone on with."""
    session = Session(make())
    item = Item("i0", "prompt", (UserMessage("hello", id="m0"),))
    session.append("agent/inbox/spliced", session.inbox.insert("next-turn", item))
    session.append("turn/start", Frozen(turn=1))
    for splice in session.inbox.claim(opens=True, steering="all", follow_up="all"):
        session.append("agent/inbox/spliced", splice.data)
    session.store.close()  # as the end of its process does
    again = Session(make())
    _say(len(again.entries) == len(session.entries), "a session has after a crash what was appended before")
    again.attach()
    waiting = [each.id for each in again.inbox.next_turn]
    _say(waiting == ["i0"], "what was claimed and not read waits again after a crash")
    _say(again.brackets.reason == "interrupted", "a turn that a crash left open is closed as interrupted")
    again.append_custom("note", "goes on")
    again.close()
    last = Session(make()).entries
    _say([each.line() for each in last] == [each.line() for each in again.entries], "a session goes on")


def _locked(act: Callable[[], object], rule: str) -> None:
    try:
        act()
    except SessionLocked:
        return
    raise AssertionError(rule)


def _sample() -> tuple[Entry, ...]:
    call = ToolCall("add", {"a": 1, "b": [2.5, None, {"c": True}]}, id="c1")
    said = UserMessage("Grüße \u2028 \N{SNOWMAN} \0 \n \"'\\ \U0001f600", id="m1", time=1.5)
    answer = AssistantMessage([call], model="m", stop_reason="tool_calls", usage={"input": 1})
    return (
        Entry(0, None, "session_info", 1.0, Frozen(name="a sample")),
        Entry(1, 0, "user/message", 1790000000.123456, Frozen(message=said)),
        Entry(2, 1, "assistant/message", 1e-7, Frozen(message=answer), attempt=2),
        Entry(3, 2, "compaction", 2.0, Frozen(), replaces=(1, 2), sources=(1, 2)),
        Entry(4, 3, "custom", 3.0, Frozen(kind="empty", data=Frozen(none=None, list=(), text="x" * 70_000))),
        Entry(5, None, "of another program", 4.0, Frozen(), ignorable=True, foreign_id="id-5"),
        Entry(6, 5, "custom", 5.0, Frozen(kind="half a pair", data="\ud800")),
    )


SAMPLE = _sample()
"""A log with everything that an entry can hold; it is no walk of the chart."""

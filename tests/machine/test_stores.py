"""Every store gives back what it took, and a session that was loaded knows what the first one knew."""

import os
import signal
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from tests.machine.histories import ACTS, Act, folds, history, lines
from tests.machine.processes import WRITER, python, run

from turnchart.machine.agent import Agent
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.errors import SessionError, SessionLocked, SessionReadOnly
from turnchart.machine.jsonl import JsonlStore
from turnchart.machine.scripted import ScriptedModel
from turnchart.machine.session import Session
from turnchart.machine.sqlite import SqliteStore
from turnchart.machine.stores import MemoryStore, Store
from turnchart.testing.stores import check_store

Open = Callable[[Path], Store]

OPEN: dict[str, Open] = {
    "jsonl": lambda folder: JsonlStore(folder / "some" / "log.jsonl"),
    "jsonl-fsync": lambda folder: JsonlStore(folder / "some" / "log.jsonl", durability="fsync"),
    "sqlite": lambda folder: SqliteStore(folder / "some" / "log.sqlite", "log"),
    "sqlite-fsync": lambda folder: SqliteStore(folder / "some" / "log.sqlite", "log", durability="fsync"),
}
each_store = pytest.mark.parametrize("opens", [OPEN["jsonl"], OPEN["sqlite"]], ids=["jsonl", "sqlite"])


@contextmanager
def fresh(opens: Open) -> Generator[Callable[[], Store]]:
    """Give a function that opens the same store again and again."""
    with tempfile.TemporaryDirectory() as folder:
        yield lambda: opens(Path(folder))


@pytest.mark.parametrize("name", OPEN)
def test_it_does_what_every_store_must_do(name: str, tmp_path: Path) -> None:
    check_store(lambda id: OPEN[name](tmp_path / id))


def test_many_sessions_of_one_file_do_what_every_store_must_do(tmp_path: Path) -> None:
    check_store(lambda id: SqliteStore(tmp_path / "all.sqlite", id))


def test_memory_does_what_a_store_that_forgets_must_do() -> None:
    check_store(MemoryStore, durable=False)
    assert MemoryStore().id != MemoryStore().id


@each_store
@settings(deadline=None, max_examples=60)
@given(acts=ACTS)
def test_any_log_comes_back_byte_for_byte_and_folds_to_the_same(opens: Open, acts: list[Act]) -> None:
    with fresh(opens) as reopen:
        written = history(acts, reopen())
        written.close()
        loaded = Session(reopen())
        assert lines(loaded.entries) == lines(written.entries)
        assert folds(loaded) == folds(written)
        assert loaded.store.dropped == ""


@settings(deadline=None, max_examples=60)
@given(acts=ACTS)
def test_both_stores_load_the_same(acts: list[Act]) -> None:
    with fresh(OPEN["jsonl"]) as one, fresh(OPEN["sqlite"]) as other:
        first, second = history(acts, one()), history(acts, other())
        assert list(one().load()) == list(other().load()) == first.entries == second.entries
        first.close()
        second.close()


@each_store
@settings(deadline=None, max_examples=40)
@given(acts=ACTS)
def test_recovery_closes_any_log_for_good(opens: Open, acts: list[Act]) -> None:
    with fresh(opens) as reopen:
        killed = history(acts, reopen())
        waiting = killed.inbox.queued()
        lost = list(killed.inbox.claimed) if killed.brackets.turn_open else []
        killed.close()
        session = Session(reopen())
        session.attach()
        assert not session.brackets.turn_open
        assert not session.brackets.step_open
        assert not session.inbox.claimed
        now = [*session.inbox.next_step, *session.inbox.next_turn, *session.inbox.riders]
        assert sorted(each.id for each in now) == sorted(
            each.id for each in [*waiting.next_step, *waiting.next_turn, *waiting.riders, *lost]
        )
        closed = lines(session.entries)
        session.close()
        again = Session(reopen())
        again.attach()
        assert lines(again.entries) == closed
        again.close()


# -- several processes -------------------------------------------------------------------------


@each_store
def test_a_second_writer_is_refused_until_the_first_is_gone(opens: Open, tmp_path: Path) -> None:
    store = opens(tmp_path)
    path = store.where
    with python(WRITER, path, "log", -1) as (process, output):
        assert output.readline() == "attached\n"
        refused = rf"session log \(.*\) is being written by process {process.pid} on \S+; close it there"
        with pytest.raises(SessionLocked, match=refused):
            store.lock()
        early = Session(opens(tmp_path))
        with pytest.raises(SessionLocked, match=refused):
            early.append_custom("mine", 1)
        assert not early.read_only
        while int(output.readline()) < len(early.entries):
            pass
        process.kill()
        process.wait()
        with pytest.raises(SessionLocked, match="written by somebody else since it was opened here; open it"):
            early.attach()
        session = Session(opens(tmp_path))
        session.attach()
        assert len(session.entries) > len(early.entries)
        session.append_custom("mine", 1)
        assert session.entries[-1].type == "custom"
        session.close()


@each_store
@pytest.mark.parametrize("after", [1, 30, 200])
def test_what_was_acknowledged_survives_kill_9(opens: Open, after: int, tmp_path: Path) -> None:
    path = opens(tmp_path).where
    with python(WRITER, path, "log", -1) as (process, output):
        for _ in range(after + 1):
            output.readline()
        process.kill()
        process.wait()
        last = (output.read().split() or [str(after - 1)])[-1]
    found = list(opens(tmp_path).load())
    assert len(found) >= int(last) + 1
    assert [entry.seq for entry in found] == list(range(len(found)))


FORKED = """
import os, sys, time
from pathlib import Path
from turnchart.machine.errors import SessionError, SessionLocked
from turnchart.machine.session import Session

path = Path(sys.argv[1])
session = Session.sqlite(path, "log") if path.suffix == ".sqlite" else Session.jsonl(path)
session.append_custom("mine", "of the parent")
if child := os.fork():
    os.waitpid(child, 0)
    session.append_custom("mine", "of the parent again")
    if not os.fork():
        print(os.getpid(), flush=True)
        time.sleep(60)
    time.sleep(60)
try:
    session.append_custom("mine", "of the child")
except SessionLocked:
    print("refused", flush=True)
os._exit(0)
"""


@each_store
def test_a_forked_child_is_no_writer_and_keeps_no_lock(opens: Open, tmp_path: Path) -> None:
    path = opens(tmp_path).where
    with python(FORKED, path) as (process, output):
        assert output.readline() == "refused\n"
        second_child = int(output.readline())
        process.kill()
        process.wait()
        session = Session(opens(tmp_path))
        session.attach()
        os.kill(second_child, signal.SIGKILL)
        assert [entry.data["data"] for entry in session.entries] == ["of the parent", "of the parent again"]
        session.close()


@each_store
def test_a_session_that_nobody_closed_is_free_when_its_program_ends(opens: Open, tmp_path: Path) -> None:
    store = opens(tmp_path)
    run(WRITER, store.where, "log", 3)
    assert len(list(store.load())) == 3
    store.lock()
    store.close()
    assert [path.name for path in Path(store.where).parent.iterdir()] == [Path(store.where).name]


@each_store
def test_a_session_that_is_dropped_is_free(opens: Open, tmp_path: Path) -> None:
    session = Session(opens(tmp_path))
    session.append_custom("mine", 1)
    del session
    again = Session(opens(tmp_path))
    again.attach()
    again.close()


@each_store
def test_looking_leaves_no_trace(opens: Open, tmp_path: Path) -> None:
    assert Session(opens(tmp_path)).entries == []
    assert list(tmp_path.iterdir()) == []
    store = opens(tmp_path)
    store.append(Entry(0, None, "custom", 1.0, Frozen(kind="mine", data=1)))
    store.close()
    before = [(path, path.stat().st_mtime_ns) for path in sorted(tmp_path.rglob("*"))]
    assert len(Session(opens(tmp_path)).entries) == 1
    assert [(path, path.stat().st_mtime_ns) for path in sorted(tmp_path.rglob("*"))] == before


def test_a_session_says_whether_agents_wait_for_its_store(tmp_path: Path) -> None:
    assert Session.jsonl(tmp_path / "s.jsonl", durability="fsync").barriers
    assert Session.sqlite(tmp_path / "s.db", "s", durability="fsync").barriers
    for session in (Session.memory(), Session.jsonl(tmp_path / "s.jsonl"), Session.sqlite(tmp_path / "s.db")):
        assert not session.barriers


@each_store
def test_an_id_that_no_store_could_hold_is_refused(opens: Open, tmp_path: Path) -> None:
    kind: Any = type(opens(tmp_path))
    with pytest.raises(SessionError, match=r"id '\\udcff' is no text that UTF-8 can hold; choose another"):
        kind(tmp_path / "new", id="\udcff")
    assert kind(tmp_path / "new", id="\0 / \n \N{SNOWMAN}").id == "\0 / \n \N{SNOWMAN}"


@each_store
def test_what_is_no_file_is_refused_at_once(opens: Open, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    kind: Any = type(opens(tmp_path))
    with pytest.raises(SessionError, match="pipe cannot be read: it is no file"):
        tuple(kind(tmp_path / "pipe", id="x").load())


def _deleted(path: Path) -> None:
    path.unlink()


def _replaced(path: Path) -> None:
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)


def _emptied(path: Path) -> None:
    os.truncate(path, 0)


def _grown(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"{}\n")


@pytest.mark.parametrize(
    ("opens", "touch"),
    [(OPEN[kind], touch) for kind in ("jsonl", "sqlite") for touch in (_deleted, _replaced)]
    + [(OPEN["jsonl"], _emptied), (OPEN["jsonl"], _grown)],
)
async def test_no_turn_begins_in_a_file_that_somebody_else_touched(
    opens: Open, touch: Callable[[Path], None], tmp_path: Path
) -> None:
    session = Session(opens(tmp_path))
    async with Agent(ScriptedModel(["one", "two"]), session=session) as agent:
        assert (await agent.prompt("x")).ok
        assert isinstance(session.store, JsonlStore | SqliteStore)
        touch(session.store.path)
        with pytest.raises(SessionReadOnly, match="was deleted, replaced or changed by somebody else"):
            await agent.prompt("y")
        assert [message.text for message in session.context()] == ["x", "one"]
        assert isinstance(agent.model, ScriptedModel)
        agent.model.drop()

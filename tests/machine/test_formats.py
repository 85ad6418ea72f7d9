"""Files of every format that ever was: today's program opens them, goes on with them and loses nothing.

``formats/N.jsonl`` and ``formats/N.db`` were written by the program of that format, which was killed while a
tool ran. They are never changed; a new format gets two more.
"""

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from tests.machine.drive import add, slow
from tests.machine.histories import folds, lines

from turnchart.machine import Agent, ScriptedModel, Session, jsonl, sqlite
from turnchart.machine.errors import SessionCorrupt, SessionError
from turnchart.machine.jsonl import JsonlStore
from turnchart.machine.sqlite import SqliteStore, list_sessions
from turnchart.machine.verify import verify
from turnchart.testing import FakeClock

FORMATS = Path(__file__).parent / "formats"
NEWEST = {"jsonl": jsonl.VERSION, "db": sqlite.VERSION}
FILES = [f"{number}.{kind}" for kind, newest in NEWEST.items() for number in range(1, newest + 1)]


@pytest.fixture(params=FILES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a file of some format."""
    return Path(shutil.copy(FORMATS / request.param, tmp_path / f"gold.{request.param}"))


def opened(path: Path) -> Session:
    return Session.jsonl(path) if path.suffix == ".jsonl" else Session.sqlite(path)


def test_there_is_a_file_of_every_format() -> None:
    assert sorted(path.name for path in FORMATS.iterdir()) == sorted(FILES)


def test_it_says_what_it_said_when_it_was_written(path: Path) -> None:
    session = opened(path)
    assert (session.id, session.brackets.turn, session.brackets.turn_open) == ("gold", 3, True)
    said = [message.text for message in session.context() if message.role in ("user", "custom")]
    assert said == ["a fact", "a rider", "first", "third"]
    assert [item.messages[0].text for item in session.inbox.next_turn] == ["waits"]
    assert (session.view.thinking, session.view.generation > 0) == ("low", True)
    judged = verify(session.entries)
    assert (judged.ok, judged.open, judged.turns) == (True, True, 3), judged.message


def test_it_is_the_same_log_in_every_kind_of_store(path: Path) -> None:
    other = opened(FORMATS / f"{path.name.split('.')[1]}.jsonl")
    assert lines(opened(path).entries) == lines(other.entries)
    assert folds(opened(path)) == folds(other)


def test_looking_at_it_changes_nothing(path: Path) -> None:
    before = path.read_bytes()
    opened(path)
    assert path.read_bytes() == before == (FORMATS / path.name.removeprefix("gold.")).read_bytes()


def test_it_is_gone_on_with(path: Path) -> None:
    before = lines(opened(path).entries)
    anyio.run(_go_on, opened(path))
    session = opened(path)
    assert lines(session.entries[: len(before)]) == before
    judged = verify(session.entries)
    assert (judged.ok, judged.open, judged.turns) == (True, False, 4), judged.message
    [result] = [e for e in session.entries[len(before) :] if e.type == "tool/result"]
    assert result.data["message"]["details"] == {"recovered": "unknown"}
    assert not session.inbox.queued()


async def _go_on(session: Session) -> None:
    async with Agent(ScriptedModel(["done"]), tools=[add, slow], session=session, clock=FakeClock()) as agent:
        agent.resume()
        await agent.idle()


def newer_jsonl(path: Path) -> None:
    header = json.dumps({"turnchart": jsonl.VERSION + 1, "session": "gold", "anything": ["new"]})
    path.write_text(f"{header}\nwhatever stands in it\n", "utf-8")


def newer_sqlite(path: Path) -> None:
    shutil.copy(FORMATS / f"{sqlite.VERSION}.db", path)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("UPDATE meta SET version = version + 1")
    db.close()


@pytest.mark.parametrize(
    ("make", "name", "looks"),
    [
        (newer_jsonl, "new.jsonl", (JsonlStore, Session.jsonl)),
        (newer_sqlite, "new.db", (SqliteStore, Session.sqlite, list_sessions)),
    ],
)
def test_a_newer_one_is_refused_by_its_number_and_left_alone(
    make: Callable[[Path], None], name: str, looks: tuple[Callable[[Path], object], ...], tmp_path: Path
) -> None:
    path = tmp_path / name
    make(path)
    before = path.read_bytes()
    newest = NEWEST[name.partition(".")[2]]
    said = rf"newer Turnchart \(format {newest + 1}, this one reads up to {newest}\); upgrade Turnchart"
    for look in looks:
        with pytest.raises(SessionError, match=said) as caught:
            look(path)
        assert not isinstance(caught.value, SessionCorrupt)
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", [0, -1])
def test_there_is_none_before_the_first(version: int, tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_text(json.dumps({"turnchart": version, "session": "gold"}) + "\n", "utf-8")
    with pytest.raises(SessionCorrupt, match="this is no Turnchart session"):
        JsonlStore(path)
    shutil.copy(FORMATS / "1.db", tmp_path / "old.db")
    db = sqlite3.connect(tmp_path / "old.db", isolation_level=None)
    db.execute("UPDATE meta SET version = ?", (version,))
    db.close()
    with pytest.raises(SessionCorrupt, match="does not say which format it has"):
        SqliteStore(tmp_path / "old.db")

"""Damaged media: torn tails at every byte, full and read-only disks, what stands in the middle of a file.

After each the session opens, or says what is wrong and how to repair it, and nothing acknowledged is lost.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from random import Random
from typing import TypeVar

import anyio
import pytest
from tests.trials.busy import KINDS, Model, alone, work

from turnchart.machine import Agent, Entry, Session
from turnchart.machine.errors import SessionCorrupt, SessionError, SessionReadOnly
from turnchart.machine.jsonl import JsonlStore
from turnchart.machine.repairing import Salvage, salvage_jsonl, salvage_sqlite, write_copy
from turnchart.machine.verify import verify

pytestmark = pytest.mark.slow

FULL = os.environ.get("TURNCHART_TRIALS") == "full"
SEED = os.environ.get("TURNCHART_SEED", "0")
TAIL = 2048
"""Bytes at the end of a file, each of which it is cut at."""
EVERY = 1 if FULL else 41
DAMAGES = 200 if FULL else 10
T = TypeVar("T")
each_kind = pytest.mark.parametrize("kind", ["jsonl", "sqlite"])


async def _record(session: Session, turns: int) -> None:
    async with Agent(Model(Random(SEED)), tools=[work, alone], session=session) as agent:
        for _ in range(turns):
            agent.follow_up("do something")
            agent.steer("and this")
            await agent.idle()
            session.append_custom("note", "between two turns")


def recorded(kind: str, path: Path, turns: int = 3) -> Sequence[Entry]:
    session = Session(KINDS[kind](path))
    anyio.run(_record, session, turns)
    return tuple(session.entries)


def goes_on(kind: str, path: Path) -> Session:
    """Open a session for writing, write, and see that it is legal when it is opened again."""
    session = Session(KINDS[kind](path))
    session.attach()
    session.append_custom("mine", "after")
    session.close()
    again = Session(KINDS[kind](path))
    judged = verify(again.entries)
    assert judged.ok, judged.message
    assert not again.brackets.turn_open
    assert not again.inbox.claimed
    return again


# -- torn tails --------------------------------------------------------------------------------


def test_a_file_torn_at_any_byte_of_its_tail_opens_with_every_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "whole"
    log = recorded("jsonl", path)
    whole = path.read_bytes()
    for cut in range(len(whole) - TAIL, len(whole) + 1, EVERY):
        torn = tmp_path / "torn"
        torn.write_bytes(whole[:cut])
        lines = whole[:cut].count(b"\n") - 1
        session = Session(KINDS["jsonl"](torn))
        assert tuple(session.entries) == log[:lines], cut
        assert bool(session.store.dropped) == (not whole[:cut].endswith(b"\n")), cut
        assert tuple(goes_on("jsonl", torn).entries[:lines]) == log[:lines], cut
        torn.with_name("torn.torn").unlink(missing_ok=True)


KILLED_WRITER = """
import os, sys
from pathlib import Path
from tests.trials.busy import KINDS
from turnchart.machine import Session
session = Session(KINDS["sqlite"](Path(sys.argv[1])))
for i in range(60):
    session.append_custom("note", f"{i} " + "x" * 40)
os.kill(os.getpid(), 9)
"""


def python(code: str, *args: object) -> "subprocess.CompletedProcess[str]":
    root = str(Path(__file__).resolve().parents[2])
    search = os.pathsep.join([root, *(entry for entry in sys.path if entry)])
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, args)],
        env=os.environ | {"PYTHONPATH": search}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_log_of_changes_torn_at_any_byte_of_its_tail_opens_with_what_was_before(tmp_path: Path) -> None:
    path = tmp_path / "whole"
    assert python(KILLED_WRITER, path).returncode == -9
    changes = Path(f"{path}-wal").read_bytes()
    counts: list[int] = []
    for cut in range(len(changes) - TAIL, len(changes) + 1, EVERY):
        folder = tmp_path / "torn"
        folder.mkdir()
        shutil.copy(path, folder / "torn")
        (folder / "torn-wal").write_bytes(changes[:cut])
        entries = Session(KINDS["sqlite"](folder / "torn")).entries
        assert [entry.data["data"].split()[0] for entry in entries] == [str(i) for i in range(len(entries))]
        assert len(goes_on("sqlite", folder / "torn").entries) == len(entries) + 1
        counts.append(len(entries))
        shutil.rmtree(folder)
    assert counts == sorted(counts)
    assert counts[0] >= 58, "a torn frame costs its own append, and no other"


# -- what stands in the middle -----------------------------------------------------------------


def nul_block(line: bytes, random: Random) -> bytes:
    return b"\0" * random.randrange(1, 4096) + line


def nul_instead(line: bytes, random: Random) -> bytes:
    at = random.randrange(len(line))
    return line[:at] + b"\0" * (len(line) - at)


def half_then_whole(line: bytes, random: Random) -> bytes:
    return line[: random.randrange(1, len(line) - 1)] + line


def half_on_its_own_line(line: bytes, random: Random) -> bytes:
    return line[: random.randrange(1, len(line) - 1)] + b"\n" + line


def no_utf8(line: bytes, random: Random) -> bytes:
    at = random.randrange(len(line) - 1)
    return line[:at] + random.choice((b"\xff", b"\xc3\x28", b"\xed\xa0\x80")) + line[at + 1 :]


def half(line: bytes, random: Random) -> bytes:
    return line[: random.randrange(1, len(line) - 1)] + b"\n"


HARMLESS = (nul_block, half_then_whole, half_on_its_own_line)
DAMAGE: Sequence[Callable[[bytes, Random], bytes]] = (*HARMLESS, nul_instead, no_utf8, half)


@pytest.mark.parametrize("damage", DAMAGE, ids=[each.__name__ for each in DAMAGE])
def test_what_is_wrong_in_the_middle_is_said_and_can_be_repaired(
    damage: Callable[[bytes, Random], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "busy.jsonl"
    log = recorded("jsonl", path)
    lines = path.read_bytes().splitlines(keepends=True)
    random = Random(f"{SEED} {damage.__name__}")
    for number in range(DAMAGES):
        at = random.randrange(1, len(lines) - 1)
        wrong = b"".join([*lines[:at], damage(lines[at], random), *lines[at + 1 :]])
        path.write_bytes(wrong)
        said = rf"busy\.jsonl:{at + 1}: no .*run `turnchart sessions repair {re.escape(str(path))}`"
        with pytest.raises(SessionCorrupt, match=said):
            Session(KINDS["jsonl"](path))
        found = salvage_jsonl(path)
        assert found.problems, "what is left out is said"
        copied(found, tmp_path / f"copy{number}")
        assert path.read_bytes() == wrong, "nothing is changed in place"
        if damage in HARMLESS:
            assert found.entries == log
        else:
            assert found.entries[: at - 1] == log[: at - 1], "what stands before the damage is kept"


def copied(found: Salvage, path: Path) -> None:
    """Write the copy, and see that it is legal and can be gone on with."""
    write_copy(found, JsonlStore(path, id=found.id))
    entries = Session(KINDS["jsonl"](path)).entries
    assert tuple(entries) == found.entries
    judged = verify(entries)
    assert judged.ok, judged.message
    goes_on("jsonl", path)


def test_a_sqlite_file_with_random_damage_opens_or_says_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "busy.db"
    log = recorded("sqlite", path)
    whole = path.read_bytes()
    random = Random(f"{SEED} sqlite")
    outcomes: set[str] = set()
    for number in range(DAMAGES):
        wrong, at = bytearray(whole), random.randrange(len(whole) - 64)
        wrong[at : at + 64] = random.choice((b"\0" * 64, random.randbytes(64)))
        path.write_bytes(wrong)
        opened = tried(lambda: Session(KINDS["sqlite"](path)))
        outcomes.add(type(opened).__name__)
        if isinstance(opened, Session):
            assert len(opened.entries) <= len(log)
            continue
        found = tried(lambda: salvage_sqlite(path, "busy"))
        if isinstance(found, Salvage):
            copied(found, tmp_path / f"copy{number}")
        assert path.read_bytes() == wrong, "nothing is changed in place"
    assert len(outcomes) > 1


def tried(act: Callable[[], T]) -> T | SessionError:
    """Do something that must work, or say what is wrong and what can be done."""
    try:
        return act()
    except SessionError as error:
        said = error
    assert re.search("restore a copy|cannot be read|newer Turnchart", str(said)), said
    return said


# -- a disk that is full, and one that is read-only --------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    """A disk of 1 MB of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@each_kind
def test_a_full_disk_loses_nothing_and_works_again_with_room(kind: str, small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 886_000)
    path = small_disk / "busy.log"
    session = Session(KINDS[kind](path))
    said = ""
    try:
        anyio.run(_record, session, 1_000)
    except SessionReadOnly as error:
        said = str(error)
    assert re.search(r"session busy .*(No space left|disk is full)", said), said
    acknowledged = tuple(session.entries)
    session.close()
    left = Session(KINDS[kind](path))
    assert tuple(left.entries) == acknowledged
    assert verify(left.entries).ok
    ballast.unlink()
    assert tuple(goes_on(kind, path).entries[: len(acknowledged)]) == acknowledged


@each_kind
def test_a_read_only_disk_is_read_and_says_why_it_is_not_written(kind: str, small_disk: Path) -> None:
    path = small_disk / "busy.log"
    log = recorded(kind, path, turns=1)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    session = Session(KINDS[kind](path))
    assert tuple(session.entries) == log
    with pytest.raises(SessionError, match=r"cannot be locked for writing: .*Read-only file system"):
        session.attach()
    subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    goes_on(kind, path)


READ_ONLY = """
import os, sys
from pathlib import Path
from tests.trials.busy import KINDS
from turnchart.machine import Session
from turnchart.machine.errors import SessionError
os.setgid(65534), os.setuid(65534)
session = Session(KINDS[sys.argv[1]](Path(sys.argv[2])))
print(len(session.entries))
try:
    session.attach()
    session.append_custom("mine", 1)
except SessionError as error:
    print(error)
"""


@each_kind
def test_a_read_only_file_is_read_and_says_why_it_is_not_written(kind: str, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody who may not write a file")
    folder = tmp_path / "everybodys"
    folder.mkdir()
    path = folder / "busy.log"
    log = recorded(kind, path, turns=1)
    folder.chmod(0o777)
    path.chmod(0o444)
    for above in folder.parents:
        if above.stat().st_uid == os.geteuid() and above.is_relative_to(tmp_path.parents[1]):
            above.chmod(above.stat().st_mode | 0o055)
    ended = python(READ_ONLY, kind, path)
    if not ended.stdout:
        pytest.skip(f"that user cannot run this program here: {ended.stderr.strip()[-200:]}")
    count, said = ended.stdout.splitlines()
    assert int(count) == len(log)
    assert re.search("cannot be written: Permission denied; let this user|readonly database", said), said
    path.chmod(0o644)
    goes_on(kind, path)

"""The lock of a writer: one holder, no stale ones, no file left behind."""

import errno
import fcntl
import os
from pathlib import Path

import pytest
from tests.machine.processes import python, run

from turnchart.machine.errors import SessionError, SessionLocked
from turnchart.machine.locks import WriterLock

HOLDS = """
import sys, time
from pathlib import Path
from turnchart.machine.locks import WriterLock

lock = WriterLock(Path(sys.argv[1]), "it")
lock.acquire()
print("held", flush=True)
time.sleep(60)
"""

COUNTS = """
import sys, time
from pathlib import Path
from turnchart.machine.errors import SessionLocked
from turnchart.machine.locks import WriterLock

lock, counter = WriterLock(Path(sys.argv[1]), "it"), Path(sys.argv[2])
done = 0
while done < 50:
    try:
        lock.acquire()
    except SessionLocked:
        continue
    counter.write_text(str(int(counter.read_text()) + 1))
    lock.release()
    done += 1
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "log.lock"


def test_one_object_holds_it(path: Path) -> None:
    one, other = WriterLock(path, "session log"), WriterLock(path, "session log")
    one.acquire()
    one.acquire()  # does nothing
    assert (one.held, other.held) == (True, False)
    with pytest.raises(
        SessionLocked, match=r"^session log is being written by another object of this process"
    ):
        other.acquire()
    one.release()
    one.release()  # does nothing
    other.acquire()
    assert (one.held, other.held) == (False, True)
    other.release()


def test_the_file_names_the_holder_and_goes_with_the_lock(path: Path) -> None:
    lock = WriterLock(path, "it")
    lock.acquire()
    assert path.read_text() == f"{os.getpid()} {os.uname().nodename}\n"
    lock.release()
    assert list(path.parent.iterdir()) == []


def test_another_process_is_named_and_a_dead_one_does_not_block(path: Path) -> None:
    with python(HOLDS, path) as (process, output):
        output.readline()
        lock = WriterLock(path, "it")
        with pytest.raises(SessionLocked, match=rf"by process {process.pid} on \S+; close it there, or wait"):
            lock.acquire()
        process.kill()
        process.wait()
        assert path.exists()
        lock.acquire()
        lock.release()


def test_a_holder_that_did_not_say_its_name_is_another_process(path: Path) -> None:
    one, other = WriterLock(path, "it"), WriterLock(path, "it")
    one.acquire()
    path.write_text("")
    with pytest.raises(SessionLocked, match="it is being written by another process; close it there"):
        other.acquire()
    one.release()


def test_what_is_no_lock_is_taken_over(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("left by something that was killed, or copied from another machine")
    lock = WriterLock(path, "it")
    lock.acquire()
    assert path.read_text().startswith(f"{os.getpid()} ")
    lock.release()


def test_a_file_that_the_last_holder_removed_guards_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = WriterLock(path, "it"), WriterLock(path, "it")
    first.acquire()
    real = os.open

    def slowly(*args: object, **more: object) -> int:
        fd = real(*args, **more)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # as it came
        first.release()
        return fd

    monkeypatch.setattr(os, "open", slowly)
    second.acquire()
    assert second.held
    assert path.exists()
    second.release()


def test_processes_that_take_turns_never_hold_it_together(path: Path, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    with python(COUNTS, path, counter) as (first, _1), python(COUNTS, path, counter) as (second, _2):
        assert (first.wait(), second.wait()) == (0, 0)
    assert counter.read_text() == "100"


def test_a_lock_that_is_dropped_is_given_up(path: Path) -> None:
    lock = WriterLock(path, "it")
    lock.acquire()
    del lock
    assert not path.exists()


def test_a_lock_of_a_folder_that_is_gone_can_be_given_up(path: Path) -> None:
    lock = WriterLock(path, "it")
    lock.acquire()
    path.unlink()
    path.parent.rmdir()
    lock.release()
    assert not lock.held


def test_what_is_locked_is_locked_under_every_name_that_it_has(tmp_path: Path) -> None:
    log, twin = tmp_path / "log", tmp_path / "twin"
    log.write_text("")
    os.link(log, twin)
    one, other = (
        WriterLock(tmp_path / "log.lock", "session log"),
        WriterLock(tmp_path / "twin.lock", "session twin"),
    )
    for lock in (one, other):
        lock.acquire()
    one.guard(log)
    one.guard(log)  # does nothing
    with pytest.raises(SessionLocked, match=r"^session twin is being written under another name of its file"):
        other.guard(twin)
    assert open_files(log) == 1
    one.release()
    assert open_files(log) == 0
    other.guard(twin)
    other.release()


def test_a_log_that_another_program_locked_is_said_to_be_locked(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("")
    lock = WriterLock(tmp_path / "log.lock", "session log")
    lock.acquire()
    with log.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(SessionLocked, match=r"or its file was locked by another program"):
            lock.guard(log)
    lock.guard(log)
    lock.release()


def test_a_log_that_cannot_be_locked_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = WriterLock(tmp_path / "log.lock", "session log")
    lock.acquire()
    with pytest.raises(SessionError, match=r"^session log cannot be locked for writing: .*No such file"):
        lock.guard(tmp_path / "log")
    (tmp_path / "log").write_text("")

    def refuse(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with monkeypatch.context() as patch:
        patch.setattr("fcntl.flock", refuse)
        with pytest.raises(SessionError, match=r"^session log cannot be locked for writing: .*No locks"):
            lock.guard(tmp_path / "log")
    assert open_files(tmp_path / "log") == 0
    lock.release()


def open_files(path: Path) -> int:
    """Return how often this process has a file open."""
    found = path.stat()
    return sum(
        1
        for fd in os.listdir("/dev/fd")
        if Path(f"/dev/fd/{fd}").exists() and os.path.samestat(os.stat(f"/dev/fd/{fd}"), found)
    )


def test_where_nothing_can_be_made_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SessionError, match=r"^it cannot be locked for writing: .*Not a directory"):
        WriterLock(tmp_path / "file" / "folder" / "log.lock", "it").acquire()
    with pytest.raises(SessionError, match=r"^it cannot be locked for writing: .*Is a directory"):
        WriterLock(tmp_path, "it").acquire()


def test_a_file_system_without_locks_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_fd: int, _how: int) -> None:
        raise OSError("locks are not supported")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(SessionError, match=r"^it cannot be locked for writing: locks are not supported$"):
        WriterLock(path, "it").acquire()


def test_a_program_that_ends_leaves_no_file(path: Path) -> None:
    run(HOLDS.replace("time.sleep(60)", ""), path)
    assert list(path.parent.iterdir()) == []


def test_a_full_disk_keeps_the_name_of_the_holder_and_not_the_lock(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    one, other = WriterLock(path, "it"), WriterLock(path, "it")
    one.acquire()
    with pytest.raises(SessionLocked, match="it is being written by another process"):
        other.acquire()
    one.release()
    assert not path.exists()

"""The JSON-lines file: its format, its torn tails, what is corrupt, what a failing disk leaves, and fsync."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from tests.machine.processes import run

from turnchart.machine import disk
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.errors import SessionCorrupt, SessionError, SessionLocked, SessionReadOnly
from turnchart.machine.jsonl import JsonlStore
from turnchart.machine.session import Session

HEADER = b'{"turnchart":1,"session":"log","created":1.0}\n'


def entry(seq: int, text: str = "x") -> Entry:
    parent = seq - 1 if seq else None
    return Entry(seq, parent, "custom", float(seq), Frozen(kind="mine", data=text))


def line(seq: int, text: str = "x") -> bytes:
    return entry(seq, text).line().encode() + b"\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


@pytest.fixture
def filled(path: Path) -> Path:
    """A file of four entries; the last two hold characters of several bytes."""
    store = JsonlStore(path)
    for seq, text in enumerate(("one", "two", "drei \N{SNOWMAN}", "vier \U0001f600 \u2028")):
        store.append(entry(seq, text))
    store.close()
    return path


# -- the format --------------------------------------------------------------------------------


def test_it_is_a_header_and_a_line_an_entry(filled: Path) -> None:
    header, *rest = filled.read_bytes().split(b"\n")
    assert header == b'{"turnchart":1,"session":"log","created":0.0}'
    assert (
        rest[0] == b'{"seq":0,"parent":null,"type":"custom","time":0.0,"data":{"kind":"mine","data":"one"}}'
    )
    assert [json.loads(each)["seq"] for each in rest[:-1]] == [0, 1, 2, 3]
    assert rest[-1] == b""


def test_an_append_is_one_write(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    real = os.write

    def write(fd: int, data: bytes) -> int:
        written.append(data)
        return real(fd, data)

    store = JsonlStore(path)
    monkeypatch.setattr(os, "write", write)
    store.append(entry(0))
    store.append(entry(1))
    assert written == [b'{"turnchart":1,"session":"log","created":0.0}\n' + line(0), line(1)]
    store.close()


def test_the_id_is_that_of_the_header_then_the_given_one_then_the_name_of_the_file(path: Path) -> None:
    assert JsonlStore(path).id == "log"
    store = JsonlStore(path, id="mine")
    store.append(entry(0))
    store.close()
    renamed = path.rename(path.with_name("other.jsonl"))
    assert JsonlStore(renamed).id == Session.jsonl(renamed).id == "mine"
    with pytest.raises(SessionError, match=r"other\.jsonl holds the session 'mine', not 'log'"):
        JsonlStore(renamed, id="log")


def test_file_and_folder_are_made_by_the_first_append(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path / "new" / "folder" / "log.jsonl")
    assert list(store.load()) == []
    store.close()
    assert list(tmp_path.iterdir()) == []
    store.lock()
    assert not store.path.exists()
    store.append(entry(0))
    assert sorted(path.name for path in store.path.parent.iterdir()) == ["log.jsonl", "log.jsonl.lock"]
    store.close()
    assert [path.name for path in store.path.parent.iterdir()] == ["log.jsonl"]


def test_two_names_of_one_file_are_one_session(filled: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.jsonl"
    link.symlink_to(filled)
    writer, other = JsonlStore(filled), JsonlStore(link)
    writer.lock()
    with pytest.raises(SessionLocked, match="by another object of this process; close that one first"):
        other.lock()
    writer.close()


# -- torn tails --------------------------------------------------------------------------------


def test_a_tail_torn_at_any_byte_of_the_last_two_lines_is_dropped(filled: Path, tmp_path: Path) -> None:
    whole = filled.read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in range(len(whole) - len(lines[-1]) - len(lines[-2]), len(whole) + 1):
        torn = tmp_path / f"{cut}.jsonl"
        torn.write_bytes(whole[:cut])
        half = whole[:cut].rpartition(b"\n")[2]
        kept = whole[:cut].count(b"\n") - 1
        session = Session.jsonl(torn)
        assert len(session.entries) == kept
        assert bool(session.store.dropped) == bool(half), cut
        if half:
            assert session.store.dropped == f"a half-written last line ({torn}:{kept + 2}, {len(half)} bytes)"
        assert torn.read_bytes() == whole[:cut]  # looking writes nothing
        session.append_custom("mine", "after")
        session.close()
        aside = torn.with_name(f"{torn.name}.torn")
        assert (aside.read_bytes() if half else b"\n") == half + b"\n"
        assert len(Session.jsonl(torn).entries) == kept + 1
        assert session.store.dropped.endswith(f", kept in {cut}.jsonl.torn" if half else "")


@pytest.mark.parametrize("cut", range(len(HEADER)))
def test_a_torn_header_is_a_new_session(path: Path, cut: int) -> None:
    path.write_bytes(HEADER[:cut])
    store = JsonlStore(path)
    assert list(store.load()) == []
    assert store.dropped == (f"a half-written last line ({path}:1, {cut} bytes)" if cut else "")
    store.append(entry(0))
    store.close()
    assert list(JsonlStore(path).load()) == [entry(0)]


@pytest.mark.parametrize(
    "tail",
    [
        b"\0" * 300, b"\xff\xfe", line(2)[:-1], b"\n", b"{]\n", b"\xff\n", b'\0\0\0x"}}\n',
        b'{"seq":2,"data":{"seq":1}\n',
    ],
)  # fmt: skip
def test_what_is_no_line_at_the_very_end_is_dropped(path: Path, tail: bytes) -> None:
    path.write_bytes(HEADER + line(0) + line(1) + tail)
    store = JsonlStore(path)
    assert list(store.load()) == [entry(0), entry(1)]
    assert store.dropped == f"a half-written last line ({path}:4, {len(tail)} bytes)"
    store.lock()
    assert path.read_bytes() == HEADER + line(0) + line(1)
    assert path.with_name("log.jsonl.torn").read_bytes() == tail.removesuffix(b"\n") + b"\n"
    assert len(list(store.load())) == 2
    assert store.dropped.endswith(" bytes), kept in log.jsonl.torn")  # a look of the writer changes nothing
    store.close()


def test_what_is_set_aside_twice_is_kept_twice(path: Path) -> None:
    for tail in (b"first", b"second"):
        with path.open("ab") as file:
            file.write(tail if path.stat().st_size else HEADER + tail)
        store = JsonlStore(path)
        store.lock()
        store.close()
    assert path.with_name("log.jsonl.torn").read_bytes() == b"first\nsecond\n"


# -- what is corrupt ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "number", "what"),
    [
        (HEADER + line(0) + b"{]\n" + line(1), 3, "no valid JSON: Expecting"),
        (HEADER + line(0)[:30] + b"\n" + line(0), 2, "no valid JSON: Expecting value at character 32."),
        (HEADER + line(0) + line(1)[:30] + line(1) + line(2), 3, "no valid JSON"),
        (HEADER + line(0) + line(1)[:30] + line(1), 3, "no valid JSON"),
        (HEADER + line(0) + b"\0" * 20 + line(1) + line(2), 3, "no valid JSON"),
        (HEADER + line(0) + b'{"\xff":1}\n' + line(1), 3, "no valid JSON: 'utf-8' codec can't decode"),
        (HEADER + line(0) + b"\n" + line(1), 3, "no valid JSON"),
        (HEADER + b"[" * 100_000 + b"\n" + line(1), 2, "no valid JSON: it is nested too deeply"),
        (HEADER + line(0).replace(b'"x"', b"NaN") + line(1), 2, "no valid JSON: NaN is no JSON"),
        (HEADER + line(1), 2, "seq 1 stands where 0 belongs"),
        (HEADER + line(0) + line(0), 3, "seq 0 stands where 1 belongs"),
        (HEADER + line(0) + line(2), 3, "seq 2 stands where 1 belongs"),
        (HEADER + b"1\n", 2, "no entry: "),
        (HEADER + b"{}\n", 2, "no entry: it lacks 'seq'"),
        (HEADER + line(0).replace(b'"time":0.0', b'"time":"0"'), 2, "no entry: time must be a number"),
        (HEADER + line(0).replace(b'"time":0.0', b'"time":1' + b"0" * 400), 2, "no entry: int too large"),
    ],
)  # fmt: skip
def test_anything_else_is_corrupt_and_names_the_line(
    path: Path, content: bytes, number: int, what: str
) -> None:
    path.write_bytes(content)
    with pytest.raises(SessionCorrupt) as caught:
        list(JsonlStore(path).load())
    assert str(caught.value).startswith(f"{path}:{number}: {what}")
    assert f"run `turnchart sessions repair {path}`" in str(caught.value)
    with pytest.raises(SessionCorrupt):
        JsonlStore(path).lock()
    assert path.read_bytes() == content
    assert [each.name for each in path.parent.iterdir()] == ["log.jsonl"]


@pytest.mark.parametrize(
    "content",
    [
        b"notes of mine", b"notes of mine\n", b"{}\n", b"1\n", b"\xff\n", line(0), b'{"turnchart":1}\n',
        b'{"turnchart":1,"session":7}\n', b'{"turnchart":"1","session":"log"}\n', b'{"turnchart":1\n',
    ],
)  # fmt: skip
def test_a_file_that_is_no_session_is_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(SessionCorrupt, match=r"log\.jsonl:1: this is no Turnchart session"):
        JsonlStore(path)
    assert path.read_bytes() == content


def test_a_newer_format_is_refused_by_its_number(path: Path) -> None:
    path.write_bytes(HEADER.replace(b":1,", b":2,"))
    with pytest.raises(
        SessionError, match=r"newer Turnchart \(format 2, this one reads up to 1\); upgrade"
    ) as caught:
        JsonlStore(path)
    assert not isinstance(caught.value, SessionCorrupt)


def test_what_cannot_be_read_or_locked_says_so(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="cannot be read: Is a directory"):
        JsonlStore(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(SessionError, match="cannot be read: Not a directory"):
        JsonlStore(tmp_path / "file" / "log.jsonl")


# -- a failing disk ----------------------------------------------------------------------------

FULL = """
import resource, signal, sys
from turnchart.machine.errors import SessionReadOnly
from turnchart.machine.session import Session

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
session = Session.jsonl(sys.argv[1])
session.append_custom("mine", "fits")
size = session.store.path.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    session.append_custom("mine", "does not fit" * 10)
except SessionReadOnly as error:
    print(error)
assert session.store.path.stat().st_size == size
assert (len(session.entries), session.read_only) == (1, True)
"""


@pytest.mark.parametrize("room", [0, 1, 50])
def test_a_full_disk_leaves_no_half_line(path: Path, room: int) -> None:
    said = run(FULL, path, room)
    assert "session log could not be written: " in said
    assert "File too large" in said
    assert len(Session.jsonl(path).entries) == 1


def _half(monkeypatch: pytest.MonkeyPatch, after: Callable[[], object]) -> None:
    real = os.write

    def write(fd: int, data: bytes) -> int:
        written = real(fd, data[: len(data) // 2])
        after()
        return written

    monkeypatch.setattr(os, "write", write)


def test_an_interrupted_append_is_taken_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    store = JsonlStore(path)
    store.append(entry(0))
    with monkeypatch.context() as patch:
        _half(patch, interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.append(entry(1))
    store.append(entry(1))
    store.close()
    assert list(JsonlStore(path).load()) == [entry(0), entry(1)]


def test_a_half_line_that_cannot_be_taken_back_is_set_aside_later(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_fd: int, _size: int) -> None:
        raise OSError("no")

    store = JsonlStore(path)
    store.append(entry(0))
    with monkeypatch.context() as patch:
        _half(patch, lambda: None)
        patch.setattr(os, "ftruncate", refuse)
        with pytest.raises(OSError, match="only"):
            store.append(entry(1))
    store.append(entry(1, "again"))
    store.close()
    assert list(JsonlStore(path).load()) == [entry(0), entry(1, "again")]
    assert path.with_name("log.jsonl.torn").exists()


# -- fsync -------------------------------------------------------------------------------------


async def test_flushes_at_the_same_time_share_one_sync(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []

    def sync(fd: int) -> None:
        synced.append(os.fstat(fd).st_size)
        time.sleep(0.02)

    monkeypatch.setattr(disk, "sync_data", sync)
    store = JsonlStore(path, durability="fsync")

    async def writer(seq: int) -> None:
        await store.flush()
        assert synced[-1] >= sizes[seq]

    sizes: list[int] = []
    async with anyio.create_task_group() as tasks:
        for seq in range(20):
            store.append(entry(seq))
            sizes.append(os.stat(path).st_size)
            tasks.start_soon(writer, seq)
            if seq == 10:
                await anyio.sleep(0.01)
    assert len(synced) <= 3
    before = len(synced)
    await store.flush()
    store.close()
    assert len(synced) == before  # there was nothing left to wait for
    await store.flush()


async def test_without_fsync_nobody_waits_for_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(disk, "sync_data", synced.append)
    store = JsonlStore(path)
    store.append(entry(0))
    await store.flush()
    store.close()
    assert synced == []


async def test_close_waits_for_what_was_not_flushed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(disk, "sync_data", synced.append)
    store = JsonlStore(path, durability="fsync")
    store.append(entry(0))
    store.close()
    assert len(synced) == 1


async def test_a_disk_that_refuses_a_sync_makes_the_session_read_only(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_fd: int) -> None:
        raise OSError("the disk is gone")

    session = Session(JsonlStore(path, durability="fsync"))
    session.append_custom("mine", 1)
    with monkeypatch.context() as patch:
        patch.setattr(disk, "sync_data", fail)
        with pytest.raises(SessionReadOnly, match="session log could not be written: the disk is gone"):
            await session.flush()
    with pytest.raises(SessionReadOnly, match="reopen it"):
        session.append_custom("mine", 2)
    session.close()


def test_a_file_with_two_names_has_one_writer(tmp_path: Path) -> None:
    one = JsonlStore(tmp_path / "one.jsonl")
    one.append(Entry(0, None, "custom", 1.0, Frozen(kind="x", data=1)))
    os.link(one.path, tmp_path / "twin.jsonl")
    twin = JsonlStore(tmp_path / "twin.jsonl")
    for _ in range(2):
        with pytest.raises(
            SessionLocked, match=r"twin\.jsonl\) is being written under another name of its file"
        ):
            twin.lock()
    one.close()
    twin.lock()
    with pytest.raises(SessionLocked, match="under another name"):
        JsonlStore(one.path).lock()
    twin.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.jsonl", "twin.jsonl"]

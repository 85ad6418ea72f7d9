"""The demo's session is a walk of the chart; after a small change it is none, and verify names the entry."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from anyio.lowlevel import checkpoint

from turnchart.flows.cli import main
from turnchart.machine.clock import SystemClock
from turnchart.machine.entries import Entry, Frozen, encode, freeze
from turnchart.machine.session import Session
from turnchart.machine.sqlite import SqliteStore

Log = list[Entry]
Change = Callable[[Log], tuple[Log, int]]
"""Gives a changed log, and where it stops being legal."""


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    text: str


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> Ended:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    out, err = capsys.readouterr()
    return Ended(end.value.code if isinstance(end.value.code, int) else 1, out + err)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """The entries of one run of the demo."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch, (folder / "empty").open("w+", encoding="utf-8") as nothing:
        patch.chdir(folder)
        patch.setattr(sys, "stdin", nothing)
        patch.setattr(SystemClock, "sleep", lambda *_: checkpoint())  # what it waits for comes at once
        with pytest.raises(SystemExit) as end:
            main(["run", "demo", "--store", "demo.jsonl"])
        assert end.value.code == 0
        return Session.jsonl("demo.jsonl").entries


# -- changes ---------------------------------------------------------------------------------------


def at(log: Log, type: str, nth: int = 0) -> int:
    """Return the place of the nth entry of a type; from the end where negative."""
    return [i for i, entry in enumerate(log) if entry.type == type][nth]


def joined(log: Log) -> Log:
    """Return the entries numbered anew, one after the other."""
    return [entry._replace(seq=i, parent=i - 1 if i else None) for i, entry in enumerate(log)]


def dropped(type: str, nth: int, seen_at: int) -> Change:
    """Leave one entry out; the change is seen so many entries later."""

    def change(log: Log) -> tuple[Log, int]:
        i = at(log, type, nth)
        return joined(log[:i] + log[i + 1 :]), i + seen_at

    return change


def doubled(type: str, nth: int) -> Change:
    def change(log: Log) -> tuple[Log, int]:
        i = at(log, type, nth)
        return joined([*log[: i + 1], *log[i:]]), i + 1

    return change


def swapped(type: str, nth: int) -> Change:
    """Let an entry change places with the next one."""

    def change(log: Log) -> tuple[Log, int]:
        i = at(log, type, nth)
        return joined([*log[:i], log[i + 1], log[i], *log[i + 2 :]]), i

    return change


def altered(type: str, nth: int, **data: Any) -> Change:
    """Give one entry other data."""

    def change(log: Log) -> tuple[Log, int]:
        i = at(log, type, nth)
        return [*log[:i], log[i]._replace(data=Frozen({**log[i].data, **freeze(data)})), *log[i + 1 :]], i

    return change


def renumbered_attempt(log: Log) -> tuple[Log, int]:
    i = at(log, "assistant/message")
    return [*log[:i], log[i]._replace(attempt=9), *log[i + 1 :]], i


def foreign_call(log: Log) -> tuple[Log, int]:
    i = at(log, "tool/result")
    message = Frozen({**log[i].data["message"], "call_id": "c9.9.9"})
    return altered("tool/result", 0, message=message)(log)


def stranger(log: Log) -> tuple[Log, int]:
    """Let a user message enter that never waited: the one that waited is missed when the answer comes."""
    i = at(log, "user/message")
    changed, _ = altered("user/message", 0, message=Frozen({**log[i].data["message"], "id": "m99"}))(log)
    return changed, at(log, "assistant/attempt")


CHANGES: Mapping[str, Change] = {
    "a step that did not start": dropped("step/start", 1, 0),
    "an attempt that did not fail": dropped("assistant/attempt", 0, 0),
    "a call without its result": dropped("tool/result", 1, 0),
    "a result without its call": dropped("tool/call", 0, 0),
    "a step that did not end": dropped("step/end", 0, 0),
    "a turn that starts twice": doubled("turn/start", 0),
    "a result that comes twice": doubled("tool/result", 0),
    "a turn that ends twice": doubled("turn/end", 0),
    "a result before its call": swapped("tool/call", 0),
    "a user before the step": swapped("step/start", 0),
    "another turn's number": altered("step/start", 1, turn=2),
    "another step's number": altered("step/start", 1, step=3),
    "a reason that the end cannot have": altered("turn/end", 0, reason="blocked"),
    "a wrong count of steps": altered("turn/end", 0, steps=9),
    "a retry that was not announced": altered("llm/retry-started", 0, retry=2),
    "an attempt out of order": renumbered_attempt,
    "a result of an unknown call": foreign_call,
    "a message that never waited": stranger,
}


# -- judging ---------------------------------------------------------------------------------------


def as_jsonl(log: Log) -> str:
    lines = [encode({"turnchart": 1, "session": "changed", "created": 1.0}), *(entry.line() for entry in log)]
    Path("changed.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return "changed.jsonl"


def as_sqlite(log: Log) -> str:
    store = SqliteStore("changed.db", "changed")
    for entry in log:
        store.append(entry)
    store.close()
    return "changed.db"


@pytest.fixture(params=[as_jsonl, as_sqlite], ids=["jsonl", "sqlite"])
def stored(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Log], str]:
    """Store a log, in a folder of its own, and return the file."""
    monkeypatch.chdir(tmp_path)
    store: Callable[[Log], str] = request.param
    return store


def test_the_log_of_the_demo_is_legal(
    demo: Log, stored: Callable[[Log], str], capsys: pytest.CaptureFixture[str]
) -> None:
    ended = run("verify", stored(demo), capsys=capsys)
    assert ended.code == 0
    assert f"{len(demo)} entries, 1 turn: legal" in ended.text


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_log_is_refused_at_its_first_illegal_entry(
    demo: Log, change: Change, stored: Callable[[Log], str], capsys: pytest.CaptureFixture[str]
) -> None:
    changed, seq = change(demo)
    ended = run("verify", stored(changed), capsys=capsys)
    assert ended.code == 1
    assert f"illegal: entry {seq} `{changed[seq].type}" in ended.text
    assert "in state " in ended.text
    assert "legal there:" in ended.text


def test_a_line_that_is_missing_in_the_file_is_named(
    demo: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path(as_jsonl(demo[:5] + demo[6:]))
    ended = run("verify", str(file), capsys=capsys)
    assert ended.code == 1
    assert "seq 6 stands where 5 belongs" in ended.text
    assert "after 5 legal entries, in state " in ended.text
    first = json.loads(file.read_text("utf-8").splitlines()[1])
    assert first["seq"] == 0, "looking changes nothing"

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.flows.cli.recorded import recorded

Cli = Callable[..., Any]


def listed(cli: Cli, store: str) -> list[str]:
    return [line.split()[0] for line in cli("sessions", "list", "--store", store).out.splitlines()]


@pytest.mark.parametrize("store", ["some.db", "many/"])
def test_a_session_is_gone(cli: Cli, store: str) -> None:
    for id in ("one", "two"):
        recorded(store, id)
    ended = cli("sessions", "delete", "one", "--store", store, "--yes")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("deleted session one (")
    assert listed(cli, store) == ["two"]
    assert cli("sessions", "delete", "one", "--store", store, "--yes").code == 1


def test_nobody_to_ask_is_no_yes(cli: Cli) -> None:
    recorded("one.jsonl", "one")
    ended = cli("sessions", "delete", "one.jsonl", stdin="y\n")
    assert (ended.code, "nobody can be asked here; give --yes" in ended.err) == (2, True)
    assert Path("one.jsonl").exists()


@pytest.mark.parametrize(("typed", "code", "left"), [("n\n", 1, True), ("y\n", 0, False), ("", 1, True)])
def test_a_person_is_asked(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, typed: str, code: int, left: bool
) -> None:
    class Person(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    recorded("one.jsonl", "one")
    monkeypatch.setattr(io, "TextIOWrapper", Person)
    ended = cli("sessions", "delete", "one.jsonl", stdin=typed)
    assert ended.code == code
    assert "Delete session one (" in ended.err
    assert Path("one.jsonl").exists() is left
    assert isinstance(sys.stdin, Person)


@pytest.mark.parametrize("store", ["some.db", "many/"])
def test_what_somebody_writes_stays(cli: Cli, store: str) -> None:
    session = recorded(store, "one")
    session.attach()
    ended = cli("sessions", "delete", "one", "--store", store, "--yes")
    assert (ended.code, "is being written by" in ended.err) == (1, True)
    session.close()
    assert listed(cli, store) == ["one"]

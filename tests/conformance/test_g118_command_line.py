"""Scenarios 118 to 120 as people meet them: sessions are listed, opened, forked and deleted on the command line."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conformance.places import answer, user

from turnchart.flows.cli import main
from turnchart.flows.cli.places import shelf

Run = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TURNCHART_HOME", raising=False)

    def command(line: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main(shlex.split(line))
        assert isinstance(end.value.code, int)
        out, err = capsys.readouterr()
        return end.value.code, out, err

    return command


STORES = ("some.db", "many/")


def talk(store: str, id: str) -> None:
    session = shelf(store).open(id, "x")
    user(session, "one")
    answer(session, "two")
    user(session, "three")
    session.close()


@pytest.mark.parametrize("store", STORES)
def test_g118_sessions_are_listed_and_one_that_is_deleted_is_not_found(run: Run, store: str) -> None:
    for id in ("b", "a"):
        talk(store, id)
    listed = json.loads(run(f"sessions list --json --store {store}")[1])
    assert [each["id"] for each in listed] == ["b", "a"], "the oldest first"
    code, out, _ = run(f"sessions show a --store {store}")
    assert (code, out.startswith("session a (")) == (0, True)
    assert run(f"sessions delete a --yes --store {store}")[0] == 0
    code, _, err = run(f"sessions show a --store {store}")
    assert code == 1
    assert "there is no session 'a' in " in err
    assert "the sessions are: b" in err


@pytest.mark.parametrize("store", STORES)
def test_g119_a_fork_of_all_or_up_to_before_a_message(run: Run, store: str) -> None:
    talk(store, "a")
    assert run(f"sessions fork a --store {store} --id whole")[:2] == (0, "whole\n")
    assert run(f"sessions fork a --store {store} --id part --before 6")[:2] == (0, "part\n")
    texts = {id: said(run(f"sessions show {id} --store {store}")[1]) for id in ("a", "whole", "part")}
    assert texts == {"a": ["one", "two", "three"], "whole": ["one", "two", "three"], "part": ["one", "two"]}


def said(shown: str) -> list[str]:
    """Return what people and models said, as a session is shown."""
    lines = (line.removesuffix("  <- here").split() for line in shown.splitlines())
    return [
        text
        for _, label, text, *_ in (line for line in lines if len(line) == 3)
        if label in ("user", "assistant")
    ]


@pytest.mark.parametrize("store", STORES)
def test_g120_before_something_else_than_the_message_of_a_user_is_wrong_usage(run: Run, store: str) -> None:
    talk(store, "a")
    code, out, err = run(f"sessions fork a --store {store} --before 3")
    assert (code, out) == (2, "")
    assert "entry 3 is a `assistant/message`; a fork goes back to before a `user/message` only" in err
    assert len(json.loads(run(f"sessions list --json --store {store}")[1])) == 1

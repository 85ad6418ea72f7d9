import subprocess
from collections.abc import Callable
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from turnchart.diagrams import (
    difference,
    sequence_diagram,
    sequence_table,
    session_overlay,
    state_diagram,
    state_table,
)
from turnchart.flows import load_flow
from turnchart.machine.session import Session

Cli = Callable[..., Any]


def test_the_bare_lifecycle(cli: Cli) -> None:
    assert cli("diagram") == (0, state_diagram(), "")
    assert cli("diagram", "--view", "sequence") == (0, sequence_diagram(), "")
    assert cli("diagram", "--format", "dot", "--detail") == (0, state_diagram(format="dot", detail=True), "")


def test_a_flow(cli: Cli) -> None:
    assert cli("diagram", "demo", "--view", "sequence").out == sequence_diagram(load_flow("demo"))


@pytest.mark.usefixtures("renderer")
def test_a_session_of_a_flow(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "kept.yaml").write_text("version: 1\nmodel: test\nsession: {store: jsonl, path: logs}\n")
    assert cli("run", "kept.yaml", "hi", "--session", "mine").code == 0
    drawn = cli("diagram", "--session", "mine", "--flow", "kept.yaml")
    assert drawn == cli("diagram", "--session", "logs/mine.jsonl")
    assert cli("view", "mine", "--flow", "kept.yaml", "--no-open", "-o", "page.html").code == 0
    alone = cli("diagram", "--flow", "kept.yaml")
    assert (alone.code, "name that with --session" in alone.err) == (2, True)


def test_a_session(cli: Cli) -> None:
    session = Session.sqlite("some.db", "mine")
    session.set_name("x")
    session.close()
    expected = sequence_diagram(session_overlay(session.entries, "session mine"))
    command = ("diagram", "--session", "mine", "--view", "sequence", "--store", "some.db")
    assert cli(*command) == (0, expected, "")
    assert cli("diagram", "--session", "some.db", "--view", "sequence").out == expected
    missing = cli("diagram", "--session", "yours", "--store", "some.db")
    assert (missing.code, "no session 'yours'" in missing.err) == (1, True)


@pytest.mark.skipif(which("dot") is None, reason="the program dot is not installed")
def test_an_image(cli: Cli, tmp_path: Path) -> None:
    assert cli("diagram", "--format", "svg").out.startswith("<?xml")
    assert cli("diagram", "--format", "png", "-o", "new/picture.png").code == 0
    assert (tmp_path / "new/picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        (("--view", "sequence", "--format", "svg"), "there is no svg of a sequence view"),
        (("--view", "sequence", "--format", "dot"), "there is no dot of a sequence view"),
        (("demo", "--session", "x"), "not both"),
        (("--check",), "name that with -o"),
        (("--view", "sideways"), "sideways"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(cli: Cli, options: tuple[str, ...], wrong: str) -> None:
    ended = cli("diagram", *options)
    assert (ended.code, wrong in ended.err.replace("\n", " ")) == (2, True)


def test_a_file_is_written_and_compared(cli: Cli, tmp_path: Path) -> None:
    check = ("diagram", "-o", "made.mmd", "--check")
    assert cli(*check) == (1, "", "made.mmd is not there\n")
    assert cli("diagram", "-o", "made.mmd") == (0, "", "")
    assert cli(*check) == (0, "", "")
    made = tmp_path / "made.mmd"
    made.write_text(made.read_text("utf-8").replace("wake", "waken", 1), "utf-8")
    ended = cli(*check)
    assert (ended.code, ended.out) == (1, "")
    assert "made.mmd is stale\n" in ended.err
    assert "-  idle --> claiming : waken\n+  idle --> claiming : wake\n" in ended.err


def test_a_long_difference_is_cut(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "made.mmd").write_text("something else\n" * 50, "utf-8")
    ended = cli("diagram", "-o", "made.mmd", "--check")
    assert ended.err.splitlines()[-1].endswith("more lines")
    assert len(ended.err.splitlines()) < 25


def test_markdown(cli: Cli) -> None:
    assert cli("diagram", "--format", "md") == (0, state_table(), "")
    assert cli("diagram", "demo", "--view", "sequence", "--format", "md").out == sequence_table(
        load_flow("demo")
    )


OLD = "version: 1\nmodel: test:x\nqueues:\n  steering: all\n"
NEW = OLD.replace("all", "one-at-a-time")


def test_two_flows_in_one_picture(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "old.yaml").write_text(OLD)
    (tmp_path / "new.yaml").write_text(NEW)
    made = cli("diagram", "new.yaml", "--diff", "old.yaml").out
    assert made == state_diagram(difference(load_flow("old.yaml"), load_flow("new.yaml")))
    assert "class claiming changed" in made


def test_a_flow_beside_itself_in_a_git_revision(cli: Cli, tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "--quiet")
    (tmp_path / "agent.yaml").write_text(OLD)
    git("add", "agent.yaml")
    git("commit", "--quiet", "-m", "first")
    (tmp_path / "agent.yaml").write_text(NEW)
    made = cli("diagram", "agent.yaml", "--diff", "HEAD").out
    assert "+ steering#58; one-at-a-time" in made
    assert "agent (HEAD) \N{RIGHTWARDS ARROW} agent" in made
    (tmp_path / "later.yaml").write_text(NEW)
    later = cli("diagram", "later.yaml", "--diff", "HEAD")
    assert (later.code, later.err) == (1, "turnchart: later.yaml is not in revision HEAD\n")


def test_sessions_in_one_picture(cli: Cli) -> None:
    for name in ("a", "b"):
        session = Session.sqlite("some.db", name)
        session.set_name("x")
        session.close()
    made = cli("diagram", "--session", "a", "--diff", "b", "--store", "some.db")
    assert (made.code, "session b \N{RIGHTWARDS ARROW} session a" in made.out) == (0, True)


def test_a_difference_needs_two(cli: Cli) -> None:
    assert cli("diagram", "--diff", "demo").code == 2

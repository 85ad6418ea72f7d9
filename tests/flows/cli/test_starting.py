from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from turnchart.flows.cli.starting import start
from turnchart.machine.session import Session

Cli = Callable[..., Any]
Write = Callable[..., str]


def test_it_runs_a_flow_and_returns_the_exit_code(flow: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert start(flow("[hi]"), "hello") == 0
    assert capsys.readouterr().out == "hi\n"


def test_a_run_that_ends_otherwise_has_another_code(flow: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert start(flow("[{fail: auth}]"), "hello") == 1
    assert capsys.readouterr().out == ""


def test_the_log_goes_where_it_is_told(flow: Write, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    assert start(flow("[hi]"), "hello", store=str(path)) == 0
    assert Session.jsonl(path).entries[-1].type == "turn/end"


def test_what_does_not_fit_is_refused_before_anything_runs(flow: Write, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with pytest.raises(typer.BadParameter, match="name it with --session ID"):
        start(flow("[hi]"), compact=True, store=str(path))
    with pytest.raises(typer.BadParameter, match="no hook has the id 'none'"):
        start(flow("[hi]"), "hello", disabled=["none"], store=str(path))
    assert not path.exists()


def test_a_recording_is_written_even_if_the_run_fails(flow: Write, tmp_path: Path) -> None:
    path = tmp_path / "recorded.yaml"
    assert start(flow("[{fail: auth}]"), "hello", record=str(path)) == 1
    assert "auth" in path.read_text("utf-8")


OUTPUT = "output: {schema: {type: integer}}\nlimits: {max_continues: 1}\n"


def test_with_an_output_stdout_has_the_answer_that_fits_and_nothing_else(cli: Cli, flow: Write) -> None:
    file = flow("[{text: First I look., call: shell, args: {command: ls}}, many, '42']", OUTPUT)
    ended = cli("run", file, "hi", "--approve", "all")
    assert (ended.code, ended.out) == (0, "42\n")
    assert "  said before the call:\n    First I look.\n" in ended.err
    assert "  not accepted:\n    many\n" in ended.err


def test_without_an_answer_that_fits_stdout_stays_empty(cli: Cli, flow: Write) -> None:
    ended = cli("run", flow("[many, more]", OUTPUT), "hi")
    assert (ended.code, ended.out) == (1, "")
    assert "  not accepted:\n    more\n" in ended.err

"""``turnchart worker``: what keeps a flow from running is said before the first turn."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dbos")

Cli = Callable[..., Any]


def test_an_address_that_is_no_url_is_refused(cli: Cli, tmp_path: Path) -> None:
    flow = tmp_path / "reviewer.yaml"
    flow.write_text("version: 1\nmodel: test\nprompt: Hi.\n", "utf-8")
    ended = cli("worker", str(flow), "--store", "sessions.db")
    assert ended.code == 1
    assert "an address like postgres://user@host/database or sqlite:PATH, not 'sessions.db'" in ended.err


def test_a_flow_that_cannot_run_is_refused(cli: Cli, tmp_path: Path) -> None:
    flow = tmp_path / "nameless.yaml"
    flow.write_text("version: 1\nprompt: Hi.\n", "utf-8")
    ended = cli("worker", str(flow), "--store", "postgres://me@localhost/agents")
    assert ended.code != 0
    assert "model" in ended.err


def test_the_store_has_to_be_named(cli: Cli) -> None:
    ended = cli("worker", "demo")
    assert (ended.code, "--store" in ended.out + ended.err) == (2, True)


def test_a_server_that_is_not_there_is_named(cli: Cli, tmp_path: Path) -> None:
    flow = tmp_path / "reviewer.yaml"
    flow.write_text("version: 1\nmodel: test\nprompt: Hi.\n", "utf-8")
    ended = cli("worker", str(flow), "--store", "postgres://nobody@127.0.0.1:1/x")
    assert ended.code == 1
    assert "the database cannot be reached" in ended.err

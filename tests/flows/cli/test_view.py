"""``turnchart view``: where the page goes, and what is opened."""

import os
import signal
import webbrowser
from collections.abc import Callable
from pathlib import Path
from socket import socket
from typing import Any

import pytest

from turnchart.flows.cli.serving import ADDRESS, Server
from turnchart.machine.session import Session

Cli = Callable[..., Any]

pytestmark = pytest.mark.usefixtures("renderer")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that a browser was asked to open."""
    asked: list[str] = []

    def open(url: str) -> bool:
        asked.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", open)
    return asked


def test_a_flow_is_written_and_opened(cli: Cli, tmp_path: Path, opened: list[str]) -> None:
    ended = cli("view", "demo", "-o", "page/demo.html")
    assert (ended.code, ended.out) == (0, "page/demo.html\n")
    assert "<title>demo</title>" in (tmp_path / "page/demo.html").read_text(encoding="utf-8")
    assert opened == [(tmp_path / "page/demo.html").as_uri()]


def test_a_session_goes_to_a_folder_of_its_own(cli: Cli, opened: list[str]) -> None:
    session = Session.sqlite("some.db", "mine")
    session.set_name("x")
    session.close()
    ended = cli("view", "mine", "--store", "some.db", "--no-open")
    file = Path(ended.out.strip())
    assert (ended.code, file.name, opened) == (0, "mine.html", [])
    assert "<title>session mine</title>" in file.read_text(encoding="utf-8")
    assert file.parent.stat().st_mode & 0o077 == 0


def test_html_is_a_format_of_diagram_too(cli: Cli) -> None:
    assert cli("diagram", "demo", "--format", "html").out.startswith("<!doctype html>")
    assert '"view":"sequence"' in cli("diagram", "--view", "sequence", "--format", "html").out


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        (("demo", "--live"), "only a session can be followed"),
        (("x", "--live", "-o", "f.html"), "a page that is served is not written"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(cli: Cli, options: tuple[str, ...], wrong: str) -> None:
    ended = cli("view", *options)
    assert (ended.code, wrong in ended.err.replace("\n", " ")) == (2, True)


def test_what_is_not_there_is_said(cli: Cli) -> None:
    ended = cli("view", "nobody")
    assert (ended.code, "nobody" in ended.err) == (1, True)


def test_a_browser_that_cannot_be_opened_is_said(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_url: str) -> bool:
        return False

    monkeypatch.setattr(webbrowser, "open", fail)
    ended = cli("view", "demo", "-o", "demo.html")
    assert (ended.code, ended.err) == (0, "no browser could be opened; open it by hand\n")


@pytest.mark.usefixtures("hangs_up")
@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGHUP])
def test_who_ends_the_process_ends_the_server(
    cli: Cli, opened: list[str], monkeypatch: pytest.MonkeyPatch, by: signal.Signals
) -> None:
    session = Session.sqlite("some.db", "mine")
    session.set_name("x")
    session.close()
    ports: list[int] = []

    def run(server: Server) -> None:
        ports.append(server.port)
        os.kill(os.getpid(), by)
        raise AssertionError("it would go on")

    monkeypatch.setattr(Server, "run", run)
    before = signal.getsignal(by)
    ended = cli("view", "some.db", "--live", "--no-open")
    assert (ended.code, ended.err) == (128 + by, "it follows the session; Ctrl-C ends it\n")
    assert signal.getsignal(by) is before
    with socket() as again:  # the port is free
        again.bind((ADDRESS, *ports))

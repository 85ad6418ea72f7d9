"""A page that follows a running session: who gets an answer, and which."""

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from threading import Thread
from urllib.request import urlopen

import pytest

from turnchart.diagrams import session_overlay, state_diagram
from turnchart.flows.cli.serving import Server
from turnchart.machine.entries import Frozen
from turnchart.machine.jsonl import JsonlStore
from turnchart.machine.session import Session
from turnchart.machine.sqlite import SqliteStore
from turnchart.machine.stores import Store

pytestmark = pytest.mark.usefixtures("renderer")


@pytest.fixture(params=["jsonl", "sqlite"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Session, Callable[[], Store]]]:
    """A session that is being written, and how a reader opens it."""
    again: Callable[[], Store]
    if request.param == "jsonl":
        file = tmp_path / "one.jsonl"
        session, again = Session.jsonl(file), partial(JsonlStore, file)
    else:
        file = tmp_path / "some.db"
        session, again = Session.sqlite(file, "one"), partial(SqliteStore, file, "one")
    session.attach()
    session.append("turn/start", Frozen(turn=1))
    yield session, again
    session.close()


@contextmanager
def serving(again: Callable[[], Store]) -> Generator[Server]:
    with Server(again(), again) as server:
        yield server


def ask(server: Server, path: str = "", host: str = "") -> tuple[HTTPStatus, str, str]:
    token = server.url.split("/")[3]
    return server.answer(host or f"127.0.0.1:{server.port}", f"/{token}/{path}")


def test_entries_that_come_later_are_told(kept: tuple[Session, Callable[[], Store]]) -> None:
    session, again = kept
    with serving(again) as server:
        status, kind, text = ask(server, "entries?from=0")
        assert (status, kind) == (HTTPStatus.OK, "application/json")
        assert [entry["type"] for entry in json.loads(text)["entries"]] == ["turn/start"]
        assert json.loads(ask(server, "entries?from=1")[2])["entries"] == []
        session.append("turn/end", Frozen(turn=1, reason="completed", steps=0))
        told = json.loads(ask(server, "entries?from=1")[2])
        assert [(entry["seq"], entry["type"]) for entry in told["entries"]] == [(1, "turn/end")]
        assert any(row[5] == "once" for row in told["rows"])
        assert told["state"] == state_diagram(session_overlay(session.entries, "session one"))


def test_a_session_that_cannot_be_read_any_more_is_said(tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl"
    session = Session.jsonl(file)
    session.set_name("x")
    session.close()
    with serving(lambda: JsonlStore(file)) as server:
        assert ask(server, "entries")[0] == HTTPStatus.OK
        file.write_text("nonsense\n", encoding="utf-8")
        status, kind, text = ask(server, "entries")
        assert (status, kind) == (HTTPStatus.SERVICE_UNAVAILABLE, "text/plain")
        assert "one.jsonl" in text
        assert ask(server)[0] == HTTPStatus.SERVICE_UNAVAILABLE


def test_a_browser_that_goes_away_is_nothing_to_tell(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    Session.jsonl(tmp_path / "one.jsonl").close()
    with serving(lambda: JsonlStore(tmp_path / "one.jsonl")) as server:
        for error, told in ((ConnectionResetError(), False), (ValueError("why"), True)):
            try:
                raise error
            except (OSError, ValueError):
                server._http.handle_error(None, ("127.0.0.1", 1))  # pyright: ignore[reportPrivateUsage]
            assert ("why" in capfd.readouterr().err) is told


def test_the_page_asks_this_server_alone(kept: tuple[Session, Callable[[], Store]]) -> None:
    with serving(kept[1]) as server:
        status, kind, text = ask(server)
        assert (status, kind) == (HTTPStatus.OK, "text/html")
        assert "connect-src 'self'" in text
        assert '"live":"entries"' in text


def test_nobody_without_the_token_gets_anything(kept: tuple[Session, Callable[[], Store]]) -> None:
    with serving(kept[1]) as server:
        host = f"127.0.0.1:{server.port}"
        for path in ("/", "/entries", "/x/", "/x/entries?from=0", "//", f"/{'a' * 32}/"):
            assert server.answer(host, path)[0] == HTTPStatus.NOT_FOUND


@pytest.mark.parametrize("host", ["", "evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example"])
def test_a_name_that_was_pointed_here_gets_nothing(
    kept: tuple[Session, Callable[[], Store]], host: str
) -> None:
    with serving(kept[1]) as server:
        token = server.url.split("/")[3]
        assert server.answer(host, f"/{token}/")[0] == HTTPStatus.FORBIDDEN


@pytest.mark.parametrize("start", ["x", "-1", "1.5", "\N{SUPERSCRIPT TWO}"])
def test_a_number_that_is_none_is_refused(kept: tuple[Session, Callable[[], Store]], start: str) -> None:
    with serving(kept[1]) as server:
        assert ask(server, f"entries?from={start}")[0] == HTTPStatus.BAD_REQUEST


def test_it_listens_on_this_machine_alone_and_says_nothing(
    kept: tuple[Session, Callable[[], Store]], capfd: pytest.CaptureFixture[str]
) -> None:
    with serving(kept[1]) as server:
        running = Thread(target=server.run)
        running.start()
        try:
            with urlopen(server.url) as answer:
                assert answer.headers["Cache-Control"] == "no-store"
                assert b"<!doctype html>" in answer.read()
        finally:
            server.stop()
            running.join()
        assert server.url.startswith("http://127.0.0.1:")
    assert capfd.readouterr() == ("", "")

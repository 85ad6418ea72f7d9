from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from turnchart.flows.cli.places import shelf, usual
from turnchart.flows.cli.sessions_place import chosen, found
from turnchart.flows.problems import FlowError
from turnchart.machine.errors import SessionError
from turnchart.machine.session import Session

Flow = Callable[..., str]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TURNCHART_HOME", raising=False)


def fill(session: Session) -> None:
    session.set_name("x")
    session.close()


def test_nothing_chosen() -> None:
    assert chosen(None, None) is None


def test_a_flow_says_where_its_sessions_are(flow: Flow) -> None:
    path = flow("[hi]", "session: {store: sqlite, path: logs/mine.db}\n")
    place = chosen(None, path)
    assert place is not None
    assert (place.kind, place.path.resolve()) == ("sqlite", Path("logs/mine.db").resolve())
    fill(Session.sqlite(place.path, "one"))
    assert found("one", None, path).id == "one"


def test_a_flow_that_says_nothing_uses_the_usual_place(flow: Flow) -> None:
    assert chosen(None, flow("[hi]")) == usual()


def test_a_flow_is_asked_although_its_hooks_are_not_here(flow: Flow) -> None:
    more = "hooks: {pre_tool: [{use: of_a_plugin}]}\nsession: {store: jsonl, path: logs}\n"
    place = chosen(None, flow("[hi]", more))
    assert place is not None
    assert (place.kind, place.path.name) == ("folder", "logs")


def test_a_flow_that_keeps_nothing(flow: Flow) -> None:
    with pytest.raises(SessionError, match=r"keeps no sessions: its `session.store` is memory"):
        chosen(None, flow("[hi]", "session: {store: memory}\n"))


@pytest.mark.parametrize("session", ["{store: nowhere}", '{store: sqlite, path: "${env:NOT_SET}/x.db"}'])
def test_a_flow_whose_place_is_wrong(flow: Flow, session: str) -> None:
    with pytest.raises(FlowError):
        chosen(None, flow("[hi]", f"session: {session}\n"))


def test_two_places_are_one_too_many(flow: Flow) -> None:
    with pytest.raises(typer.BadParameter, match="give --store or --flow, not both"):
        chosen("some.db", flow("[hi]"))


def test_how_an_id_begins_is_enough() -> None:
    for id in ("demo-1a", "demo-2b", "other", "oth"):
        fill(Session.sqlite("some.db", id))
    assert found("demo-2", "some.db", None).id == "demo-2b"
    assert found("oth", "some.db", None).id == "oth", "an id itself counts first"
    with pytest.raises(SessionError, match="'demo' begins the ids of several sessions: demo-1a, demo-2b"):
        found("demo", "some.db", None)
    with pytest.raises(SessionError, match=r"no session '' in some.db; the sessions are: demo-1a"):
        found("", "some.db", None)


def test_a_file_or_a_folder_with_one_session_needs_no_id() -> None:
    fill(Session.sqlite("some.db", "one"))
    assert found("some.db", None, None).id == "one"
    fill(Session.sqlite("some.db", "two"))
    with pytest.raises(
        SessionError, match=r"holds 2 sessions; name one of them with --store some.db: one, two"
    ):
        found("some.db", None, None)
    fill(Session.jsonl("many/one.jsonl"))
    assert found("many/", None, None).id == "one"
    fill(Session.jsonl("many/two.jsonl"))
    with pytest.raises(SessionError, match=r"holds 2 sessions; name one of them .*: one, two"):
        found("./many", None, None)
    Path("none").mkdir()
    with pytest.raises(SessionError, match="there are no sessions in none"):
        found("none/", None, None)


def test_a_folder_of_the_same_name_does_not_hide_a_session() -> None:
    Path("mine").mkdir()
    usual().prepare()
    fill(usual().open("mine", "x"))
    assert found("mine", None, None).id == "mine"
    assert found("mine", shelf(None).given or None, None).id == "mine"

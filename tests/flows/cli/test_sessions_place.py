import builtins
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest
import typer

from turnchart.flows.cli.places import shelf, usual
from turnchart.flows.cli.registered import Registered
from turnchart.flows.cli.sessions_place import chosen, found
from turnchart.flows.problems import FlowError, NotTrusted
from turnchart.hooks.stores import STORES, Sessions
from turnchart.machine.errors import SessionError
from turnchart.machine.jsonl import JsonlStore
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


SHARED = '''
from turnchart.hooks import session_store


@session_store("shared_drawer")
def shared_drawer(id, *, folder):
    """Keep sessions nowhere."""
    raise AssertionError("opened")
'''


def test_a_store_that_a_tool_shares_is_asked_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STORES, "_specs", {})
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("shared_drawers.py").write_text(SHARED)
    Path("house.yaml").write_text("version: 1\nsession: {store: shared_drawer, with: {folder: logs}}\n")
    Path("inner.yaml").write_text("version: 1\nextends: house.yaml\nmodel: test\n")
    Path("main.yaml").write_text(
        "version: 1\nextends: house.yaml\nmodel: test\n"
        "tools: [{use: agent, as: helper, with: {file: inner.yaml}}]\n"
    )
    with pytest.raises(NotTrusted, match=r'reaches the session store shared_drawer \(folder "logs"\)'):
        chosen(None, "main.yaml", ["shared_drawers"])
    agreed = chosen(None, "main.yaml", ["shared_drawers"], trust=True)
    assert agreed is not None
    assert agreed.kind == "registered"


class Counted(JsonlStore):
    """A store that tells whether it is open."""

    left: ClassVar[set[int]] = set()

    def __init__(self, id: str) -> None:
        super().__init__(Path(f"{id}.log"), id=id)
        self.left.add(builtins.id(self))

    def close(self) -> None:
        super().close()
        self.left.discard(builtins.id(self))


class Listing:
    """Opens them, and tells what there is."""

    asked = 0

    def open(self, id: str) -> Counted:
        return Counted(id)

    def ids(self) -> list[str]:
        Listing.asked += 1
        return sorted(path.stem for path in Path().glob("*.log"))


def test_a_registered_store_that_was_only_looked_into_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    listing, hatch = (
        Registered("registered", Path("mine"), "mine.yaml", sessions=Sessions("mine", made))
        for made in (Listing(), Counted)
    )
    for id in ("one", "two"):
        fill(Session(listing.new(id)))
    monkeypatch.setattr(Listing, "asked", 0)
    assert [info.id for info in listing.list()] == ["one", "two"]
    assert Listing.asked == 1
    hatch.new_id("flow")
    with pytest.raises(SessionError, match="no session 'three' in mine, which lists none"):
        hatch.look("three")
    with pytest.raises(SessionError, match="there is a session 'one' in mine already"):
        hatch.new("one")
    assert Counted.left == set()


def test_a_registered_store_with_several_sessions_lists_them() -> None:
    place = Registered("registered", Path("mine"), "mine.yaml", sessions=Sessions("mine", Listing()))
    for id in ("one", "two"):
        fill(Session(place.new(id)))
    with pytest.raises(SessionError, match=r"mine holds 2 sessions; name one .* --flow mine.yaml: one, two"):
        place.only()

from pathlib import Path

import pytest

from turnchart.flows.cli.places import Shelf, declared, fill, find, home, shelf, usual
from turnchart.machine.entries import Entry
from turnchart.machine.errors import SessionError
from turnchart.machine.jsonl import JsonlStore
from turnchart.machine.session import Session


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TURNCHART_HOME", raising=False)


def filled(place: Shelf, id: str | None = None) -> str:
    """Put a session with one entry there, and return its id."""
    place.prepare()
    session = place.open(id, "my flow")
    session.set_name("a name")
    session.close()
    return session.id


@pytest.mark.parametrize(
    ("store", "kind"),
    [
        ("one.jsonl", "file"),
        ("many/", "folder"),
        ("there", "folder"),
        ("some.db", "sqlite"),
        ("no-ending", "sqlite"),
    ],
)
def test_what_an_option_names(store: str, kind: str) -> None:
    Path("there").mkdir()
    place = shelf(store)
    assert place.kind == kind
    assert place.options() == f" --store {store}"
    id = filled(place)
    assert [(info.id, info.name, info.entries, info.turns) for info in place.list()] == [(id, "a name", 1, 0)]
    assert [entry.type for entry in place.look(id).load()] == ["session_info"]
    again = place.open(id, "other")
    assert (again.id, len(again.entries)) == (id, 1)


def test_an_address_is_no_file() -> None:
    with pytest.raises(
        SessionError, match=r"--store takes a file or a folder, no address .* Session\.postgres"
    ):
        shelf("postgres://me:secret@host/agents")


def test_sessions_are_kept_in_no_memory() -> None:
    with pytest.raises(
        SessionError, match=r"^no session is kept in memory; a file of that name is \./memory$"
    ):
        shelf("memory")
    assert shelf("./memory").kind == "sqlite"


def test_the_usual_place_is_kept_out_of_repositories() -> None:
    place = usual()
    assert (place.path, place.options()) == (Path(".turnchart/sessions.db"), "")
    assert place.list() == []
    assert not home().exists(), "looking makes nothing"
    filled(place)
    assert Path(".turnchart/.gitignore").read_text("utf-8") == "*\n"


def test_the_usual_place_can_be_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNCHART_HOME", "else/where")
    filled(shelf(None))
    assert {path.name for path in Path("else/where").iterdir()} >= {".gitignore", "sessions.db"}


def test_a_new_session_is_named_after_its_flow() -> None:
    first, second = filled(usual()), filled(usual())
    assert first != second
    assert first.startswith("my-flow-")
    assert filled(usual(), "mine") == "mine"


def test_what_a_flow_declares(tmp_path: Path) -> None:
    assert declared("sqlite", None, tmp_path) == usual()
    assert declared("memory", None, tmp_path).open(None, "x").id.startswith("memory")
    assert declared("sqlite", "data/log.db", tmp_path) == Shelf(
        "sqlite", tmp_path / "data/log.db", "data/log.db"
    )
    folder = declared("jsonl", "logs", tmp_path)
    assert folder == Shelf("folder", tmp_path / "logs", "logs/")
    assert shelf("logs/").look(filled(folder)).where == str(
        tmp_path / "logs" / f"{folder.list()[0].id}.jsonl"
    )
    assert declared("jsonl", None, tmp_path).options() == " --store .turnchart/sessions/"


def test_a_session_that_is_not_there() -> None:
    place = usual()
    with pytest.raises(SessionError, match=r"no session 'x' in .*; the sessions are: none"):
        place.look("x")
    id = filled(place)
    with pytest.raises(SessionError, match=f"the sessions are: {id}"):
        place.look("x")
    for _ in range(20):
        filled(place)
    with pytest.raises(SessionError, match=r"the last 20 of 21"):
        place.look("x")


def test_an_id_that_cannot_be_a_file() -> None:
    with pytest.raises(SessionError, match="cannot be the name of a file"):
        shelf("many/").open("../out", "x")


def test_a_session_is_named_by_id_or_by_file() -> None:
    id = filled(usual())
    assert find(id, None).id == id
    assert find(".turnchart/sessions.db", None).id == id
    filled(shelf("one.jsonl"), "mine")
    assert find("one.jsonl", None).id == "mine"
    assert find("mine", "one.jsonl").id == "mine"
    Session.sqlite("other.db", "a").set_name("x")
    Session.sqlite("other.db", "b").set_name("x")
    with pytest.raises(SessionError, match="name one of them"):
        find("other.db", None)


def test_a_file_with_another_id() -> None:
    filled(shelf("one.jsonl"), "mine")
    with pytest.raises(SessionError, match="holds the session 'mine'"):
        shelf("one.jsonl").open("yours", "x")


def test_a_session_comes_before_a_file_of_its_name() -> None:
    filled(usual(), "notes")
    Path("notes").write_text("of mine")
    assert find("notes", None).id == "notes"
    with pytest.raises(SessionError, match="notes is no SQLite file"):
        find("./notes", None)
    Path(".turnchart/sessions.db").write_text("damaged")
    filled(shelf("one.jsonl"), "mine")
    assert find("one.jsonl", None).id == "mine", "a damaged usual place keeps nobody from a file"


def test_ids_are_listed_on_one_line_and_command_no_terminal() -> None:
    for id in ("new\nline", "\x1b[31mred"):
        filled(usual(), id)
    with pytest.raises(SessionError, match=r"the sessions are: new line, \N{SYMBOL FOR ESCAPE}\[31mred$"):
        usual().look("x")


def test_a_folder_that_cannot_be_made_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("file").touch()
    monkeypatch.setenv("TURNCHART_HOME", "file/in the way")
    with pytest.raises(
        SessionError, match=r"way cannot be made: Not a directory; name another place .* --store"
    ):
        usual().prepare()


def never(_: Path) -> bool:
    return False


def test_a_folder_that_another_program_makes_meanwhile_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    home().mkdir()
    monkeypatch.setattr(Path, "exists", never)
    usual().prepare()
    assert (home() / ".gitignore").is_file()


class Half(JsonlStore):
    """A store that takes two entries."""

    def append(self, entry: Entry) -> None:
        if entry.seq > 1:
            raise OSError("the disk is full")
        super().append(entry)


def test_half_a_session_is_taken_back_where_the_store_deletes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(JsonlStore, "create")
    kept = Session.memory()
    for name in "abc":
        kept.set_name(name)
    with pytest.raises(OSError, match="the disk is full"):
        fill(Half(Path("half.log"), id="half"), kept.entries)
    assert not Path("half.log").exists()
    fill(Half(Path("half.log"), id="half"), kept.entries[:2])
    writer = JsonlStore(Path("half.log"))
    list(writer.load())
    writer.lock()
    with pytest.raises(SessionError):
        fill(Half(Path("half.log"), id="half"), kept.entries)
    writer.close()
    assert len(list(JsonlStore(Path("half.log")).load())) == 2, "what somebody else wrote is no half of ours"

"""Sessions in a store that a plug-in registers: run, read, forked and searched on the command line."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from turnchart.flows.agreements import agree
from turnchart.flows.check import examine
from turnchart.flows.trust import reaches_of
from turnchart.hooks.stores import STORES

Cli = Callable[..., Any]

PLUGIN = '''
from pathlib import Path

from turnchart.hooks import session_store
from turnchart.machine.jsonl import JsonlStore


@session_store("drawer")
class Drawer:
    """Keep sessions in a drawer."""

    folder: str

    def open(self, id):
        return Plain(Path(self.folder) / f"{id}.log", id=id)

    def ids(self):
        return sorted(path.stem for path in Path(self.folder).glob("*.log"))


@session_store("hatch")
def hatch(id, *, folder):
    """Keep sessions behind a hatch, which tells nobody what there is."""
    return Plain(Path(folder) / f"{id}.log", id=id)


class Plain:
    """Only what a store needs: nothing is created at once, and nothing is deleted."""

    def __init__(self, path, id):
        self._inner = JsonlStore(path, id=id)
        self.id, self.where = id, f"drawer {id}"

    durability = property(lambda self: self._inner.durability)
    dropped = property(lambda self: self._inner.dropped)

    def load(self):
        return self._inner.load()

    def lock(self):
        self._inner.lock()

    def append(self, entry):
        self._inner.append(entry)

    async def flush(self):
        await self._inner.flush()

    def close(self):
        self._inner.close()
'''
FLOW = "version: 1\nname: small\nmodel: test\nsession: {store: STORE, with: {folder: logs}}\n"


@pytest.fixture(name="project")
def _project(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project whose plug-in is agreed to, as are its flows."""
    del cli
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path.parent / f"{tmp_path.name}-state"))
    monkeypatch.setattr(STORES, "_specs", {})
    monkeypatch.delitem(sys.modules, "drawers", raising=False)
    (tmp_path / "pyproject.toml").write_text('[tool.turnchart]\nplugins = ["drawers"]\n')
    (tmp_path / "drawers.py").write_text(PLUGIN)
    for store in ("drawer", "hatch"):
        (tmp_path / f"{store}.yaml").write_text(FLOW.replace("STORE", store))
        checked = examine(tmp_path / f"{store}.yaml", trust=True)
        digests = {reach.digest for reach in reaches_of(checked)}
        agree(checked.path, checked.place.root, digests)
        assert checked.plugins is not None
        agree(checked.plugins.path, checked.plugins.root, digests)
    yield tmp_path
    sys.modules.pop("drawers", None)


def test_a_run_keeps_its_session_there_and_says_how_it_is_read(cli: Cli, project: Path) -> None:
    ran = cli("run", "drawer.yaml", "hi", "--session", "one")
    assert (ran.code, ran.out) == (0, "ok\n")
    assert "session one is kept in drawer\n" in ran.err
    assert "sessions show one --flow drawer.yaml" in ran.err
    assert (project / "logs" / "one.log").is_file()
    assert not (project / ".turnchart").exists()
    again = cli("run", "drawer.yaml", "and again", "--session", "one")
    assert "session one goes on in drawer\n" in again.err
    new = cli("run", "drawer.yaml", "hi")
    assert "session small-" in new.err
    assert len(list((project / "logs").glob("*.log"))) == 2


@pytest.mark.usefixtures("renderer")
def test_the_commands_find_it_by_its_flow(cli: Cli, project: Path) -> None:
    cli("run", "drawer.yaml", "hello there", "--session", "one")
    flow = ("--flow", "drawer.yaml")
    [info] = json.loads(cli("sessions", "list", *flow, "--json").out)
    assert (info["id"], info["turns"]) == ("one", 1)
    assert "user       hello there" in cli("sessions", "show", "on", *flow).out
    assert "hello there" in cli("sessions", "search", "hello", *flow).out
    assert cli("verify", "one", *flow).code == 0
    assert "idle" in cli("diagram", "--session", "one", *flow).out
    assert cli("view", "one", *flow, "--no-open", "-o", "page.html").code == 0
    assert cli("sessions", "export", "one", *flow, "-o", "copy.jsonl").code == 0
    assert cli("sessions", "fork", "one", *flow, "--id", "two").out == "two\n"
    assert cli("sessions", "import", "copy.jsonl", *flow, "--id", "three").out == "three\n"
    assert (project / "logs" / "three.log").is_file()
    again = cli("sessions", "import", "copy.jsonl", *flow, "--id", "three")
    assert "there is a session 'three' in drawer already" in again.err
    assert (
        "no session 'nine' in drawer; the sessions are: one, three, two"
        in cli("sessions", "show", "nine", *flow).err
    )
    assert "deletes nothing" in cli("sessions", "delete", "one", *flow, "--yes").err
    assert "only files can be repaired" in cli("sessions", "repair", "one", *flow).err


def test_a_store_that_lists_nothing_knows_whole_ids(cli: Cli, project: Path) -> None:
    cli("run", "hatch.yaml", "hi", "--session", "one")
    assert cli("run", "hatch.yaml", "hi").code == 0
    flow = ("--flow", "hatch.yaml")
    assert "user       hi" in cli("sessions", "show", "one", *flow).out
    assert "no session 'on' in hatch, which lists none" in cli("sessions", "show", "on", *flow).err
    listed = cli("sessions", "list", *flow)
    assert (listed.code, listed.out) == (1, "")
    assert "the session store 'hatch' does not list its sessions" in listed.err
    assert cli("sessions", "fork", "one", *flow).code == 0


def test_nothing_is_opened_before_somebody_agreed(cli: Cli, project: Path) -> None:
    (project / "drawer.yaml").write_text(FLOW.replace("STORE", "drawer").replace("logs", "elsewhere"))
    for arguments in (("run", "drawer.yaml", "hi"), ("sessions", "list", "--flow", "drawer.yaml")):
        ended = cli(*arguments)
        assert ended.code == 3
        assert 'reaches the session store drawer (folder "elsewhere")' in ended.err
    assert not (project / "elsewhere").exists()


def test_without_its_plug_in_the_store_is_not_known(cli: Cli, project: Path) -> None:
    (project / "pyproject.toml").write_text("")
    STORES.__dict__["_specs"].clear()
    ended = cli("sessions", "list", "--flow", "drawer.yaml")
    assert ended.code == 1
    assert 'no session store named "drawer" [unknown-store]' in ended.err
    assert "[unknown-store]" in cli("check", "drawer.yaml").out


def test_show_and_schema_know_it(cli: Cli, project: Path) -> None:
    assert "store: drawer" in cli("show", "drawer.yaml", "--resolved").out
    schema = json.loads(cli("schema").out)
    assert "drawer" in json.dumps(schema["$defs"]["SessionSpec"])
    assert "drawer" not in cli("check", "drawer.yaml").out.replace("drawer.yaml", "")


@pytest.mark.usefixtures("renderer")
def test_a_plug_in_of_the_command_line_is_named_there_again(
    cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "pyproject.toml").write_text("")
    monkeypatch.setattr(STORES, "_specs", {})
    sys.modules.pop("drawers", None)
    (project / "drawer.yaml").write_text(FLOW.replace("STORE", "drawer").replace("logs", "fresh"))
    ran = cli("run", "drawer.yaml", "hi", "--session", "one", "--plugin", "drawers", "--trust")
    assert (ran.code, ran.out) == (0, "ok\n")
    assert "sessions show one --flow drawer.yaml --plugin drawers\n" in ran.err
    where = ("--flow", "drawer.yaml", "--plugin", "drawers")
    assert cli("sessions", "show", "one", *where).code == 3
    assert "user       hi" in cli("sessions", "show", "one", *where, "--trust").out
    assert "one" in cli("sessions", "list", *where, "--trust").out
    assert cli("verify", "one", *where, "--trust").code == 0
    assert cli("diagram", "--session", "one", *where, "--trust").code == 0
    assert cli("view", "one", *where, "--trust", "--no-open", "-o", "page.html").code == 0

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from turnchart.machine.agent import Agent
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.jsonl import JsonlStore
from turnchart.machine.scripted import ScriptedModel
from turnchart.machine.session import Session

Cli = Callable[..., Any]


async def record(path: Path) -> None:
    async with Agent(ScriptedModel(["one", "two"]), session=Session.jsonl(path)) as agent:
        await agent.prompt("a")
        await agent.prompt("b")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    anyio.run(record, path)
    return path


def lines(log: Path) -> list[str]:
    return log.read_text("utf-8").splitlines()


def test_a_good_log(cli: Cli, log: Path) -> None:
    entries = len(lines(log)) - 1
    assert cli("verify", str(log)) == (0, f"session log: {entries} entries, 2 turns: legal\n", "")
    assert cli("verify", "log", "--store", "log.jsonl").code == 0


def test_an_open_turn_is_legal(cli: Cli, log: Path) -> None:
    kept = lines(log)[:-1]
    log.write_text("\n".join(kept) + "\n", "utf-8")
    ended = cli("verify", "log.jsonl")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"session log: {len(kept) - 1} entries, 2 turns: legal, ends inside turn 2")


def test_a_torn_tail_is_reported(cli: Cli, log: Path) -> None:
    before = log.read_bytes()
    log.write_bytes(before + b'{"seq":99,"par')
    ended = cli("verify", "log.jsonl")
    assert (ended.code, "; left out: a half-written last line" in ended.out) == (0, True)
    assert log.read_bytes() == before + b'{"seq":99,"par', "it only looks"


def test_the_first_illegal_entry_is_named(cli: Cli, log: Path) -> None:
    at = next(i for i, line in enumerate(lines(log)) if '"type":"step/start"' in line)
    changed = [*lines(log)[:at], *(_renumbered(line) for line in lines(log)[at + 1 :])]
    log.write_text("\n".join(changed) + "\n", "utf-8")
    ended = cli("verify", "log.jsonl")
    assert (ended.code, ended.out) == (1, "")
    said, _, walk = ended.err.partition("\n\n")
    assert said == (
        f"session log: illegal: entry {at - 1} `system/message` in state claiming or pre-step:"
        " it cannot come here"
    )
    assert walk.splitlines()[:5] == [
        "the walk up to there:",
        "  idle to claiming: wake",
        "      0  agent/inbox/spliced next-turn",
        "      1  turn/start 1",
        "      2  agent/inbox/spliced next-turn",
    ]
    assert "  step/start\n      on enter if request_due, pre-step to requesting\n" in walk


def test_a_program_is_told_the_same(cli: Cli, log: Path) -> None:
    whole = json.loads(cli("verify", "log.jsonl", "--format", "json").out)
    assert whole == {
        "session": "log", "ok": True, "open": False, "entries": len(lines(log)) - 1, "turns": 2,
        "state": "idle", "damage": "", "dropped": "",
    }  # fmt: skip
    at = next(i for i, line in enumerate(lines(log)) if '"type":"step/start"' in line)
    changed = [*lines(log)[:at], *(_renumbered(line) for line in lines(log)[at + 1 :])]
    log.write_text("\n".join(changed) + "\n", "utf-8")
    ended = cli("verify", "log.jsonl", "--format", "json")
    found = json.loads(ended.out)
    assert (ended.code, found["ok"], found["entries"]) == (1, False, at - 1)
    illegal = found["illegal"]
    assert (illegal["seq"], illegal["type"]) == (at - 1, "system/message")
    assert illegal["walk"][0] == {"state": "idle", "event": "wake", "guard": None, "target": "claiming"}
    assert illegal["walk"][-1] == {"seq": 2, "type": "agent/inbox/spliced", "state": "claiming"}
    assert {
        "state": "pre_step", "event": "enter", "guard": "request_due", "target": "requesting",
        "recovery": False, "letters": ["step/start"],
    } in illegal["ways"]  # fmt: skip


def _renumbered(line: str) -> str:
    raw = json.loads(line)
    return json.dumps(raw | {"seq": raw["seq"] - 1, "parent": raw["parent"] - 1}, separators=(",", ":"))


def test_a_gap_in_the_file_is_named_with_what_came_before(cli: Cli, log: Path) -> None:
    log.write_text("\n".join(lines(log)[:4] + lines(log)[5:]) + "\n", "utf-8")
    ended = cli("verify", "log.jsonl")
    assert (ended.code, ended.out) == (1, "")
    assert "illegal: after 3 legal entries, in state " in ended.err
    said, _, walk = ended.err.partition("\n\n")
    assert "seq 4 stands where 3 belongs" in said
    assert walk.splitlines()[-1] == "      2  agent/inbox/spliced next-turn"
    found = json.loads(cli("verify", "log.jsonl", "--format", "json").out)
    assert (found["ok"], found["illegal"]["seq"], found["entries"]) == (False, None, 3)
    assert "seq 4 stands where 3 belongs" in found["damage"]


def test_nobody_has_to_stop_writing(cli: Cli) -> None:
    store = JsonlStore("busy.jsonl")
    store.append(Entry(0, None, "session_info", 1.0, Frozen(name="busy")))
    assert cli("verify", "busy.jsonl").code == 0
    store.close()


def test_a_session_that_is_not_there(cli: Cli) -> None:
    ended = cli("verify", "nothing")
    assert (ended.code, "there is no session 'nothing'" in ended.err) == (1, True)
    assert cli("verify").code == 2


async def test_a_session_where_a_flow_keeps_it(cli: Cli, flow: Callable[..., str]) -> None:
    path = flow("[hi]", "session: {store: jsonl, path: logs}\n")
    session = Session.jsonl("logs/mine.jsonl")
    session.set_name("x")
    session.close()
    ended = cli("verify", "mi", "--flow", path)
    assert (ended.code, ended.out) == (0, "session mine: 1 entry, 0 turns: legal\n")
    assert cli("verify", "mine", "--flow", path, "--store", "logs/").code == 2

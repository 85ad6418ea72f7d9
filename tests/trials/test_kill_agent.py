"""A busy agent is killed at random moments, again and again on one session: nothing acknowledged is lost."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random

import anyio
import pytest
from tests.trials.busy import KINDS, Model, alone, work

from turnchart.machine import Agent, Entry, Session
from turnchart.machine.verify import verify

pytestmark = pytest.mark.slow

FULL = os.environ.get("TURNCHART_TRIALS") == "full"
SEED = os.environ.get("TURNCHART_SEED", "0")
ROOT = Path(__file__).resolve().parents[2]
KILLS = 10 if FULL else 3
"""So often each session is killed; every run goes on with what the last one left."""
SESSIONS = (
    {"jsonl": 20, "sqlite": 20, "jsonl-fsync": 2, "sqlite-fsync": 2} if FULL else dict.fromkeys(KINDS, 1)
)
LONGEST = 0.3
"""Seconds after its first line in which a run is killed."""


class Promises:
    """What the runs of one session said, until they were killed."""

    def __init__(self) -> None:
        self.stored = -1
        self.sent: set[str] = set()
        self.gone: set[str] = set()
        self.began: set[str] = set()

    def read(self, lines: Iterable[str]) -> None:
        for line in lines:
            what, _, which = line.rstrip("\n").partition(" ")
            if not line.endswith("\n"):
                continue
            if what == "stored":
                self.stored = max(self.stored, int(which))
            else:
                {"sent": self.sent, "gone": self.gone, "began": self.began}.get(what, set[str]()).add(which)


def killed(kind: str, path: Path, seed: str, after: float) -> list[str]:
    """Let an agent work on a session, kill it so long after its first line, and return what it said."""
    search = os.pathsep.join([str(ROOT), *(entry for entry in sys.path if entry)])
    with subprocess.Popen(
        [sys.executable, "-m", "tests.trials.busy", kind, path, seed],
        env=os.environ | {"PYTHONPATH": search}, text=True, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first.startswith("ready "), "it said nothing before it ended"
        time.sleep(after)
        process.kill()
        return [first, *process.stdout.readlines()]


def kept(entries: list[Entry], promised: Promises, session: Session, which: str) -> None:
    """Hold a session that was opened, and not yet written, against what was promised."""
    assert len(entries) > promised.stored, f"{which}: entry {promised.stored} was stored, and is lost"
    judged = verify(entries)
    assert judged.ok, f"{which}: {judged.message}"
    called = {entry.data["call_id"] for entry in entries if entry.type == "tool/call"}
    assert promised.began <= called, f"{which}: a tool ran that the log knows nothing of"
    queued = session.inbox.queued()
    waiting = {
        said["id"] for items in (*queued, session.inbox.claimed) for item in items for said in item.messages
    }
    found = waiting | session.inbox.said.keys()
    assert not promised.gone & found, f"{which}: what was reported as discarded is there again"
    dropped = discarded(entries)
    assert promised.sent <= found | dropped, f"{which}: a message is lost"


def discarded(entries: list[Entry]) -> set[str]:
    """Return the messages that the log says were discarded while they waited; a fold of our own."""
    lists: dict[str, list[list[str]]] = {"next-step": [], "next-turn": [], "rider": []}
    gone: set[str] = set()
    for entry in entries:
        if entry.type == "agent/inbox/spliced":
            data, items = entry.data, lists[entry.data["target"]]
            end = data["start"] + data.get("removed_count", 0)
            if data.get("outcome") == "discarded":
                gone |= {id for item in items[data["start"] : end] for id in item}
            new = [[said["id"] for said in item["messages"]] for item in data.get("inserted", ())]
            items[data["start"] : end] = new
            gone -= {id for item in new for id in item}
    return gone


async def go_on(session: Session) -> None:
    """Let an agent read everything that waits, and rest."""
    async with Agent(Model(Random(0)), tools=[work, alone], session=session) as agent:
        for _ in range(1000):
            agent.follow_up("go on")
            await agent.idle()
            if not agent.queued:
                return
    raise AssertionError("it never came to rest with an empty inbox")


@pytest.mark.parametrize(
    ("kind", "number"), [(kind, number) for kind, count in SESSIONS.items() for number in range(count)]
)
def test_a_killed_agent_keeps_its_promises(kind: str, number: int, tmp_path: Path) -> None:
    path, promised = tmp_path / "busy.log", Promises()
    random = Random(f"{SEED} {kind} {number}")
    for kill in range(KILLS):
        after = random.uniform(0, LONGEST)
        which = f"seed {SEED}, kill {kill} of session {number}, after {after:.4f} s"
        promised.read(killed(kind, path, f"{SEED} {kind} {number} {kill}", after))
        session = Session(KINDS[kind](path))
        kept(session.entries, promised, session, which)

    session = Session(KINDS[kind](path))
    before = len(session.entries)
    anyio.run(go_on, session)
    assert len(session.entries) > before
    judged = verify(session.entries)
    assert judged.ok, judged.message
    results = Counter(
        entry.data["message"]["call_id"]
        for entry in session.entries
        if entry.type == "tool/result" and entry.replaces is None
    )
    assert max(results.values(), default=1) == 1, "each call has one result"
    assert promised.began <= results.keys(), "and each that began has it"
    said = Counter(entry.data["message"]["id"] for entry in session.entries if entry.type == "user/message")
    assert max(said.values(), default=1) == 1, "each message is told once"
    assert not promised.gone & said.keys()
    assert promised.sent <= said.keys() | discarded(session.entries)

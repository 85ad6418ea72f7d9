"""The demo is killed at random moments; its session can be read and gone on with, and no message is lost."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytestmark = pytest.mark.slow

TRIALS = 20 if os.environ.get("TURNCHART_TRIALS") == "full" else 3
SEED = os.environ.get("TURNCHART_SEED", "0")
LONGEST = 2.0
"""Seconds after its first signal in which the demo is killed; it takes about as long."""
PROGRAM = [sys.executable, "-c", "from turnchart.flows.cli import main; main()"]


def turnchart(*arguments: str, cwd: Path) -> "subprocess.Popen[str]":
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.Popen(
        [*PROGRAM, *arguments], cwd=cwd, env=os.environ | {"PYTHONPATH": path}, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def done(*arguments: str, cwd: Path) -> str:
    """Run a command that has to succeed, and return what it wrote."""
    with turnchart(*arguments, cwd=cwd) as process:
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, f"turnchart {' '.join(arguments)}: {out}{err}"
    return out


def killed(store: str, after: float, cwd: Path) -> str:
    """Start the demo, kill it so long after its first signal, and return the signals that got out."""
    run = ("run", "demo", "--json", "--session", "mine", "--store", store)
    with turnchart(*run, cwd=cwd) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(after)
        process.kill()
        return first + process.stdout.read()


def whole(lines: str) -> Iterable[dict[str, Any]]:
    """Yield the signals of the lines that are complete."""
    for line in lines.splitlines(keepends=True):
        if line.endswith("\n"):
            yield json.loads(line)


def text(message: dict[str, Any]) -> str:
    return "".join(block["text"] for block in message["content"])


@pytest.mark.parametrize("number", range(TRIALS))
@pytest.mark.parametrize("store", ["demo.jsonl", "demo.db"])
def test_a_killed_demo_loses_nothing(store: str, number: int, tmp_path: Path) -> None:
    after = Random(f"{SEED} {store} {number}").uniform(0, LONGEST)
    signals = list(whole(killed(store, after, tmp_path)))
    sent = [text(signal["message"]) for signal in signals if signal["type"] == "agent/inbox/inserted"]

    place = ("--store", store)
    shown = done("sessions", "show", "mine", *place, cwd=tmp_path)
    assert all(message in shown for message in sent), f"killed after {after:.3f} s"
    done("verify", "mine", *place, cwd=tmp_path)

    done("run", "demo", "Go on.", "--model", "test", "--session", "mine", *place, cwd=tmp_path)
    log = json.loads(done("sessions", "show", "mine", "--json", *place, cwd=tmp_path))
    users = [entry["data"]["message"] for entry in log["entries"] if entry["type"] == "user/message"]
    assert Counter(map(text, users)) >= Counter([*sent, "Go on."]), f"killed after {after:.3f} s"
    assert max(Counter(message["id"] for message in users).values()) == 1, "each is told once"
    assert "legal" in done("verify", "mine", *place, cwd=tmp_path)

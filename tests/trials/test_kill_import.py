"""An import is killed at random moments: the session is there as a whole, or not at all."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from turnchart.flows.cli.places import shelf

pytestmark = pytest.mark.slow

TRIALS = 40 if os.environ.get("TURNCHART_TRIALS") == "full" else 4
SEED = os.environ.get("TURNCHART_SEED", "0")
LINES = 3000
TIME = "2026-01-02T03:04:05.678Z"
COMMAND = (
    sys.executable,
    "-c",
    "from turnchart.flows.cli import main; main()",
    "sessions",
    "import",
    "pi.jsonl",
)


def write_file(path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"type": "session", "version": 3, "id": "big", "timestamp": TIME, "cwd": "/home/me"}
    ]
    for number in range(LINES):
        parent = str(number - 1) if number else None
        base = {"type": "custom", "id": str(number), "parentId": parent, "timestamp": TIME}
        rows.append({**base, "customType": "mine", "data": "x" * 500})
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def start(folder: Path, store: str) -> "subprocess.Popen[bytes]":
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.Popen(
        [*COMMAND, "--store", store], cwd=folder, env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", ["some.db", "many/"])
def test_a_killed_import_leaves_a_whole_session_or_none(tmp_path: Path, store: str) -> None:
    write_file(tmp_path / "pi.jsonl")
    (tmp_path / "whole").mkdir()
    began = time.monotonic()
    with start(tmp_path, f"whole/{store}") as process:
        assert process.wait() == 0, process.stderr and process.stderr.read()
    longest = time.monotonic() - began
    random = Random(SEED)
    for trial in range(TRIALS):
        (tmp_path / str(trial)).mkdir()
        with start(tmp_path, f"{trial}/{store}") as process:
            time.sleep(random.uniform(longest / 4, longest))
            process.kill()
        place = shelf(f"{tmp_path}/{trial}/{store}")
        if not place.ids():
            with start(tmp_path, f"{trial}/{store}") as process:
                assert process.wait() == 0, "what a killed import left is in nobody's way"
        assert place.ids() == ["big"]
        assert len(list(place.look("big").load())) == LINES + 1

"""Many agents in one process for a long time: memory stays flat, no task is left, and every log verifies.

`TURNCHART_TRIALS=full` takes 1,000 agents for ten minutes on asyncio, and for two on trio; else it takes
fewer of them for ten seconds on each. `soak.py` says what they do.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

pytestmark = pytest.mark.slow

FULL = os.environ.get("TURNCHART_TRIALS") == "full"
SEED = os.environ.get("TURNCHART_SEED", "0")
ROOT = Path(__file__).resolve().parents[2]
AGENTS = 1_000 if FULL else 50
SECONDS = {"asyncio": 600, "trio": 120} if FULL else {"asyncio": 10, "trio": 10}
GROWTH = 0.03
"""What the process may hold more in the last third of the eras than in the second; the first warms it up.

Trio lets go of limits that were not reached only now and then, which alone makes for half of this.
"""


def eras(loop: str) -> list[dict[str, int]]:
    """Let agents work, and return what was said of each era."""
    search = os.pathsep.join([str(ROOT), *(entry for entry in sys.path if entry)])
    arguments = [loop, SEED, str(SECONDS[loop]), str(AGENTS)]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.trials.soak", *arguments],
        env=os.environ | {"PYTHONPATH": search}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"seed {SEED}, after {done.stdout.count(chr(10))} eras:\n{done.stderr}"
    assert not done.stderr, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.timeout(900)  # longer than the limit of `make trials`
@pytest.mark.parametrize("loop", SECONDS)
def test_many_agents_leave_nothing_behind(loop: str) -> None:
    found = eras(loop)
    third = len(found) // 3
    assert third >= 2, "a third has to be more than one"
    for what in ("blocks", "bytes"):
        before = median(each[what] for each in found[third : 2 * third])
        after = median(each[what] for each in found[-third:])
        assert after <= before * (1 + GROWTH), f"{what} in the process: {before:,.0f}, later {after:,.0f}"
    assert sum(each["turns"] for each in found) > len(found) * AGENTS

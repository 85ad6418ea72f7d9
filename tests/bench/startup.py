"""What the command line takes to start, beside an import that no program with typed input can avoid."""

import subprocess
import sys
from collections.abc import Mapping
from statistics import median
from time import perf_counter

from tests.bench.environments import ROOT, with_turnchart

TIMES = 10
FLOOR = "import pydantic"
_TURNCHART = ("-c", "from turnchart.flows.cli import main; main()")
COMMANDS: Mapping[str, tuple[str, ...]] = {
    FLOOR: ("-c", "from pydantic import BaseModel"),
    "--help": (*_TURNCHART, "--help"),
    "check": (*_TURNCHART, "check", "flows/demo.yaml"),
    "diagram": (*_TURNCHART, "diagram"),
}


def measure() -> dict[str, dict[str, float]]:
    """Return the median seconds of each command, all taken in turn."""
    print(f"start-up, {TIMES} times each", file=sys.stderr, flush=True)
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for number in range(TIMES + 1):
        for name, arguments in COMMANDS.items():
            seconds = _run(arguments)
            if number:  # the first one compiles
                taken[name].append(seconds)
    return {name: {"value": median(times), "best": min(times)} for name, times in taken.items()}


def _run(arguments: tuple[str, ...]) -> float:
    environment = with_turnchart()
    begun = perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, check=True)
    return perf_counter() - begun

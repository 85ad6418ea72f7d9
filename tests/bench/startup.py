"""What the command line takes to start, beside an import that no program with typed input can avoid."""

import subprocess
import sys
from collections.abc import Mapping
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from tests.bench.environments import ROOT, with_turnchart

TIMES = 10
FLOOR = "import pydantic"
FIRST_LINE = "run demo, first line"
_TURNCHART = ("-c", "from turnchart.flows.cli import main; main()")
COMMANDS: Mapping[str, tuple[str, ...]] = {
    FLOOR: ("-c", "from pydantic import BaseModel"),
    "--help": (*_TURNCHART, "--help"),
    "check": (*_TURNCHART, "check", "flows/demo.yaml"),
    "check sketch": (*_TURNCHART, "check", "tests/corpus/sketch.agent.yaml"),
    "show --resolved": (*_TURNCHART, "show", "tests/corpus/sketch.agent.yaml", "--resolved"),
    "diagram": (*_TURNCHART, "diagram"),
    FIRST_LINE: (*_TURNCHART, "run", "demo"),
}


def measure() -> dict[str, dict[str, float]]:
    """Return the median seconds of each command, all taken in turn."""
    print(f"start-up, {TIMES} times each", file=sys.stderr, flush=True)
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for number in range(TIMES + 1):
        for name, arguments in COMMANDS.items():
            seconds = _first_line(arguments) if name == FIRST_LINE else _run(arguments)
            if number:  # the first one compiles
                taken[name].append(seconds)
    return {name: {"value": median(times), "best": min(times)} for name, times in taken.items()}


def _run(arguments: tuple[str, ...]) -> float:
    environment = with_turnchart()
    begun = perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, check=True)
    return perf_counter() - begun


def _first_line(arguments: tuple[str, ...]) -> float:
    """Return the seconds until something was said; then it is killed, in a folder of its own."""
    with TemporaryDirectory() as folder:
        environment = with_turnchart() | {"TURNCHART_HOME": folder}
        begun = perf_counter()
        with subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as running:
            assert running.stdout is not None
            line = running.stdout.readline()
            seconds = perf_counter() - begun
            running.kill()
    if not line.startswith(b"idle > "):
        raise ValueError(f"the demo began with {line!r}, not with its states")
    return seconds

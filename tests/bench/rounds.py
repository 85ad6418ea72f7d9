"""The rounds: row by row each peer in turn, every one in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Self

from tests.bench.environments import variables, with_turnchart

HERE = Path(__file__).parent
PATIENCE = 300
"""Seconds that a process may take for one row."""
COLD = 5
"""So often a process begins for row f in a round, after one that fills the caches."""


class Results:
    """What was found.

    Attributes:
        about: When and where it was found, in the words of a page.
        versions: The versions of the packages that were measured.
        left_out: The peers that were not measured, or not at every row, and why.
        rounds: The figures of every round, by peer and name.
    """

    def __init__(self) -> None:
        self.about: dict[str, str] = {}
        self.versions: dict[str, str] = {}
        self.left_out: list[str] = []
        self.rounds: dict[str, dict[str, list[Mapping[str, float]]]] = {}

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return what was written before."""
        said: dict[str, Any] = json.loads(path.read_text("utf-8"))
        results = cls()
        results.about, results.versions = said["about"], said["versions"]
        results.left_out, results.rounds = said["left_out"], said["figures"]
        return results

    def write(self, path: Path, **more: object) -> None:
        """Write it all as JSON, with what else is to be known."""
        said = {
            "about": self.about,
            "versions": self.versions,
            "left_out": self.left_out,
            "figures": self.rounds,
            **more,
        }
        path.write_text(json.dumps(said, indent=1) + "\n", "utf-8")

    def add(self, peer: str, figures: Mapping[str, Mapping[str, float]]) -> None:
        """Add the figures of one round."""
        known = self.rounds.setdefault(peer, {})
        for name, figure in figures.items():
            known.setdefault(name, []).append(figure)

    def leave_out(self, why: str) -> None:
        """Note that somebody is left out, and say so, once."""
        if why not in self.left_out:
            self.left_out.append(why)
            print(why, flush=True)

    def value(self, peer: str, name: str) -> float | None:
        """Return the median of the rounds; None where nothing was measured."""
        found = self.rounds.get(peer, {}).get(name)
        return median([figure["value"] for figure in found]) if found else None


def measure(
    results: Results,
    commands: Mapping[str, Sequence[str]],
    rows: Sequence[str],
    *,
    rounds: int,
    seconds: float,
    keep: Path | None = None,
) -> None:
    """Measure the rows with every peer. One that fails at a row is left out of it, and that is said.

    Args:
        results: Takes the figures.
        commands: What runs each peer.
        rows: The rows, in order.
        rounds: How often.
        seconds: How long one figure is sampled.
        keep: A file that gets what was found so far, after each row.
    """
    for number in range(1, rounds + 1):
        for row in rows:
            print(f"round {number} of {rounds}, row {row}", file=sys.stderr, flush=True)
            for peer, command in commands.items():
                try:
                    said = _cold(command, peer) if row == "f" else _run(command, peer, row, seconds)
                except (subprocess.SubprocessError, ValueError) as error:
                    results.leave_out(f"{peer} is left out of row {row}: {why(error)}")
                    continue
                results.versions |= said["versions"]
                results.add(peer, said["figures"])
            if keep is not None:
                results.write(keep)


def _run(command: Sequence[str], peer: str, row: str, seconds: float) -> dict[str, Any]:
    done = subprocess.run(
        [*command, row, str(seconds)],
        cwd=HERE,
        env=with_turnchart() if peer == "turnchart" else variables(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.strip().rpartition("\n")[2])
    return found


def _cold(command: Sequence[str], peer: str) -> dict[str, Any]:
    """Return how long a whole process takes that imports, makes an agent and takes a turn."""
    found = _run(command, peer, "f", 0)
    taken: list[float] = []
    for _ in range(COLD):
        begun = perf_counter()
        _run(command, peer, "f", 0)
        taken.append(perf_counter() - begun)
    return found | {"figures": {"f": {"value": median(taken), "best": min(taken)}}}


def why(error: Exception) -> str:
    """Return the last line that says something: a group of errors ends with a rule."""
    said: str | bytes = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
    said = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
    lines = [line.strip(" |") for line in (said or str(error)).splitlines()]
    return next((line for line in reversed(lines) if line.strip("+-")), "it said nothing")

"""The rounds: row by row each peer in turn, every one in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.environments import variables, with_turnchart

HERE = Path(__file__).parent
PATIENCE = 300
"""Seconds that a process may take for one row."""


class Results:
    """What was found.

    Attributes:
        versions: The versions of the packages that were measured.
        rounds: The figures of every round, by peer and name.
    """

    def __init__(self) -> None:
        self.versions: dict[str, str] = {}
        self.rounds: dict[str, dict[str, list[Mapping[str, float]]]] = {}

    def add(self, peer: str, figures: Mapping[str, Mapping[str, float]]) -> None:
        """Add the figures of one round."""
        known = self.rounds.setdefault(peer, {})
        for name, figure in figures.items():
            known.setdefault(name, []).append(figure)

    def value(self, peer: str, name: str) -> float | None:
        """Return the median of the rounds; None where nothing was measured."""
        found = self.rounds.get(peer, {}).get(name)
        return median([figure["value"] for figure in found]) if found else None


def measure(pythons: Mapping[str, str], rows: Sequence[str], *, rounds: int, seconds: float) -> Results:
    """Measure the rows with every peer. One that fails at a row is left out of it, and that is said."""
    results = Results()
    for number in range(1, rounds + 1):
        for row in rows:
            print(f"round {number} of {rounds}, row {row}", file=sys.stderr, flush=True)
            for peer, python in pythons.items():
                try:
                    said = _run(python, peer, row, seconds)
                except (subprocess.SubprocessError, ValueError) as error:
                    print(f"{peer} is left out of row {row}: {_why(error)}", flush=True)
                    continue
                results.versions |= said["versions"]
                results.add(peer, said["figures"])
    return results


def _run(python: str, peer: str, row: str, seconds: float) -> dict[str, Any]:
    done = subprocess.run(
        [python, "-m", f"peers.{peer}", row, str(seconds)],
        cwd=HERE,
        env=with_turnchart() if peer == "turnchart" else variables(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.strip().rpartition("\n")[2])
    return found


def _why(error: Exception) -> str:
    """Return the last line that says something: a group of errors ends with a rule."""
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
    lines = [line.strip(" |") for line in (said or str(error)).splitlines()]
    return next((line for line in reversed(lines) if line.strip("+-")), "it said nothing")

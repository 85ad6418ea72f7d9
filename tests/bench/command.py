"""The command: makes the environments, runs the rounds, prints the tables."""

import argparse
import json
import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.bench import growth, loading, pictures, report, startup, stores, terminal
from tests.bench.environments import PEERS, Missing, interpreter
from tests.bench.rounds import Results, measure

ALONE = {
    "s": stores.measure,
    "p": growth.measure,
    "draw": pictures.measure,
    "start": startup.measure,
    "load": loading.measure,
    "first": terminal.measure,
}
"""The rows that have no peers."""
ROWS = ("a", "b", "c", "d", "e", "g", "h", *ALONE)


def main() -> None:
    """Measure what the command line asks for and print it."""
    options = _options()
    rows = [row for row in options.rows if row not in ALONE]
    found: dict[str, str] = {}
    for peer in options.peers:
        try:
            found[peer] = interpreter(peer)
        except Missing as why:
            print(f"{peer} is left out: {why}", flush=True)
    results = measure(found, rows, rounds=options.rounds, seconds=options.seconds)
    for row in options.rows:
        if row in ALONE and "turnchart" in found:
            results.add("turnchart", ALONE[row]())
    goals = report.goals(results)
    print(_what(results, options.rounds))
    print(report.beside_peers(results))
    print(report.table_of_goals(goals))
    if options.json:
        _write(options.json, results, goals, options.rounds)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/bench", description="Measure speed beside the peers.")
    parser.add_argument("--rounds", type=_positive, default=3, help="how often each row is measured (3)")
    parser.add_argument("--peers", type=_Names(PEERS), default=list(PEERS), help=",".join(PEERS))
    parser.add_argument("--rows", type=_Names(ROWS), default=list(ROWS), help=",".join(ROWS))
    parser.add_argument("--seconds", type=float, default=0.8, help="how long one figure is sampled (0.8)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there too")
    return parser.parse_args()


def _positive(text: str) -> int:
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


class _Names:
    """Reads a list of names with commas, and gives them in the order in which they are known."""

    def __init__(self, known: Iterable[str]) -> None:
        self.known = tuple(known)

    def __call__(self, text: str) -> list[str]:
        given = text.split(",")
        for name in given:
            if name not in self.known:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(self.known)}")
        return [name for name in self.known if name in given]


def _what(results: Results, rounds: int) -> str:
    """Say what was measured, and whether the machine had something else to do."""
    versions = ", ".join(f"{name} {version}" for name, version in sorted(results.versions.items()))
    said = f"Python {platform.python_version()}, medians of {rounds} rounds; {versions or 'no other peers'}"
    load, processors = os.getloadavg()[1], os.cpu_count() or 1
    if load > processors:
        said += f"\nThe machine was busy (load {load:.1f}, {processors} processors): the times are too long."
    return f"{said}\n"


def _write(path: Path, results: Results, goals: Sequence[report.Judged], rounds: int) -> None:
    said = {
        "python": platform.python_version(),
        "rounds": rounds,
        "versions": results.versions,
        "figures": results.rounds,
        "goals": [each._asdict() for each in goals],
    }
    path.write_text(json.dumps(said, indent=1) + "\n", "utf-8")

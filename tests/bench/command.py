"""The command: makes the environments, runs the rounds, prints the tables."""

import argparse
import os
import platform
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from tests.bench import durable, growth, loading, page, pictures, report, startup, stores, terminal, wire
from tests.bench.environments import PEERS, ROOT, Missing, command
from tests.bench.rounds import Results, measure, why

ALONE = {
    "s": stores.measure,
    "p": growth.measure,
    "draw": pictures.measure,
    "start": startup.measure,
    "load": loading.measure,
    "first": terminal.measure,
    "wire": wire.measure,
    "durable": durable.measure,
}
"""The rows that have no peers."""
ROWS = ("a", "b", "c", "d", "e", "f", "g", "h", *ALONE)
PAGE = ROOT / "docs" / "benchmarks.md"


def main() -> None:
    """Measure what the command line asks for and print it."""
    options, parser = _options()
    if options.write and (options.peers != list(PEERS) or options.rows != list(ROWS)):
        parser.error("--write takes every peer and every row: leave --peers and --rows out")
    results = Results.read(options.read) if options.read else _measured(options)
    goals = report.goals(results)
    print(f"{_what(results)}\n")
    print(report.beside_peers(results))
    print(report.table_of_goals(goals))
    if options.json:
        results.write(options.json, goals=[each._asdict() for each in goals])
    if options.write:
        PAGE.write_text(page.page(results), "utf-8")
        print(f"written: {PAGE.relative_to(ROOT)}")


def _measured(options: argparse.Namespace) -> Results:
    results = Results()
    commands: dict[str, list[str]] = {}
    for peer in options.peers:
        try:
            commands[peer] = command(peer)
        except Missing as missing:
            results.leave_out(f"{peer} is left out: {missing}")
    results.about = {
        "date": f"{datetime.now(UTC):%-d %B %Y}",
        "python": platform.python_version(),
        "rounds": str(options.rounds),
        "machine": f"{_processor()}, {os.cpu_count()} processors, {platform.system()}",
    }
    loads = [os.getloadavg()[1]]
    rows = [row for row in options.rows if row not in ALONE]
    measure(results, commands, rows, rounds=options.rounds, seconds=options.seconds, keep=options.json)
    loads.append(os.getloadavg()[1])
    for row in options.rows:
        if row in ALONE and "turnchart" in commands:
            try:
                results.add("turnchart", ALONE[row]())
            except (subprocess.SubprocessError, ValueError) as error:
                results.leave_out(f"row {row} is left out: {why(error)}")
    loads.append(os.getloadavg()[1])
    if max(loads) > (os.cpu_count() or 1):
        results.about["busy"] = f"{max(loads):.1f}"
    return results


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _options() -> tuple[argparse.Namespace, argparse.ArgumentParser]:
    parser = argparse.ArgumentParser(prog="python tests/bench", description="Measure speed beside the peers.")
    parser.add_argument("--rounds", type=_positive, default=3, help="how often each row is measured (3)")
    parser.add_argument("--peers", type=_Names(PEERS), default=list(PEERS), help=",".join(PEERS))
    parser.add_argument("--rows", type=_Names(ROWS), default=list(ROWS), help=",".join(ROWS))
    parser.add_argument("--seconds", type=float, default=0.8, help="how long one figure is sampled (0.8)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there too")
    parser.add_argument("--read", type=Path, metavar="FILE", help="measure nothing: take what --json wrote")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    return parser.parse_args(), parser


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


def _what(results: Results) -> str:
    """Say what was measured, and whether the machine had something else to do."""
    versions = ", ".join(f"{name} {version}" for name, version in sorted(results.versions.items()))
    about = results.about
    said = f"Python {about['python']}, medians of {about['rounds']} rounds; {versions or 'no other peers'}"
    if "busy" in about:
        said += f"\nThe machine was busy (load {about['busy']}): the times are too long."
    return said

"""The page docs/benchmarks.md: the method, every row beside the peers, durable turns, and the goals."""

import os
from collections.abc import Mapping, Sequence

from tests.bench import durable as durable_turns
from tests.bench import report
from tests.bench.environments import PEERS
from tests.bench.report import FLOOR
from tests.bench.rounds import Results

ROWS = {
    "a": "one turn, one request, a two-letter answer",
    "b": "one turn: the model calls one tool, then answers",
    "c": "one turn: ten tool calls that may run in parallel, then the answer",
    "d": "a streamed answer of 1,000 chunks, per chunk",
    "e100": "row a on top of a conversation of 100 messages",
    "e10000": "row a on top of a conversation of 10,000 messages",
    "f": "a new process that imports, makes an agent and takes a turn",
    "g agent": "memory of an idle agent",
    "g conversation": "memory of a finished conversation of one turn, and of what holds it",
    "h": "1,000 agents at once, a turn each, the model taking 50 ms",
}
OURS = "turnchart"

METHOD = """\
# Benchmarks

What a turn costs beside the model: the same work for every framework, with a model that answers at once.
Every figure is a multiple of the floor, a loop written by hand over plain dicts, measured in the same run on
the same machine. Only these ratios mean something elsewhere; the microseconds do not.

`make bench ARGS=--write` measures everything and writes this page. The programs are in `tests/bench/`.

## Method

- Each framework runs in an environment of its own, with its telemetry and tracing off, and each row in a new
  process. The rounds are interleaved: row by row, everybody in turn.
- A figure is the median of {rounds} rounds; that of a round is the median of all turns that fit in its time,
  after a warm-up. Node warms up for as long as it is measured.
- Every framework does the least that it can: no storage, no checkpointer; a longer conversation is given to
  it with the run. Turnchart and pi's harness have no such mode: they keep every entry of the session, in
  memory or in the file that the row names. `pi, no session` is pi's agent class without its harness.
- burr has no models and tools of its own; it runs those of the floor.
- The memory of rows g is what Python's allocators gave, and in node what the heap holds after a collection.
"""


def page(results: Results) -> str:
    """Return the page, in Markdown."""
    ours = {name: results.value(OURS, name) or 0 for name in results.rounds.get(OURS, {})}
    lines = [METHOD.format(rounds=results.about["rounds"]), *_when(results), *_beside(results)]
    if durable_turns.STEP in ours:
        lines.append(durable(ours))
    return "\n".join([*lines, *_goals(results)])


def _when(results: Results) -> list[str]:
    about = results.about
    versions = ", ".join(f"{name} {version}" for name, version in sorted(results.versions.items()))
    lines = [f"Measured on {about['date']} with Python {about['python']} ({about['machine']}): {versions}."]
    if "busy" in about:
        lines.append(
            f"The machine had other work at the time (a load of {about['busy']}), which makes all times"
            " longer and the ratios less sure."
        )
    lines += [f"{each[:1].upper()}{each[1:]}." for each in results.left_out]
    return ["\n".join(lines), ""]


# -- beside the peers --------------------------------------------------------------------------


def _beside(results: Results) -> list[str]:
    known = dict.fromkeys((OURS, *PEERS))
    peers = [peer for peer in known if peer in results.rounds and peer != FLOOR]
    return [
        "## Beside its peers",
        "",
        "Multiples of the floor; less is better.",
        "",
        _table_of(results, peers),
        _ahead(results, peers[1:]),
    ]


def _table_of(results: Results, peers: Sequence[str]) -> str:
    titles = [PEERS[peer].title for peer in peers]
    lines: list[list[str]] = []
    for name in _shared(results, peers):
        floor = _floor(results, name)
        if floor:
            found = [results.value(peer, name) for peer in peers]
            cells = ["" if value is None else f"{report.number(value / floor)} x" for value in found]
            lines.append([_title(name), f"{report.number(floor)} {report.unit(name)}", *cells])
    return report.table(["row", "floor", *titles], lines)


def _shared(results: Results, peers: Sequence[str]) -> list[str]:
    """Return the figures of Turnchart that somebody else has too, those of a row together."""
    others = {name for peer in peers if peer != OURS for name in results.rounds[peer]}
    found = [name for name in results.rounds.get(OURS, {}) if name in others]
    order = list(ROWS)
    return sorted(found, key=lambda name: order.index(_row(name)))


def _row(name: str) -> str:
    return name if name in ROWS else name.split()[0]


def _title(name: str) -> str:
    row = _row(name)
    letter = row if name.startswith("g") else row.rstrip("0123456789")
    where = f", session as {name.removeprefix(row).strip().upper()}" if name != row else ""
    return f"{letter[:1]}: {ROWS[row]}{where}"


def _floor(results: Results, name: str) -> float | None:
    return results.value(FLOOR, _row(name))


def _ahead(results: Results, others: Sequence[str]) -> str:
    """Say where Turnchart is ahead of everybody, and where somebody is ahead of it."""
    names = _shared(results, [OURS, *others])
    behind: list[str] = []
    for name in names:
        ours = results.value(OURS, name) or 0
        faster = [
            (value, peer)
            for peer in others
            if (value := results.value(peer, name)) is not None and value < ours
        ]
        if faster:
            said = [f"{PEERS[peer].title}: {value / ours:.2f} x" for value, peer in sorted(faster)]
            behind.append(f"| {_title(name)} | {'; '.join(said)} |")
    if not behind:
        return "Turnchart is ahead of every peer on every line.\n"
    head = (
        f"Turnchart is ahead of every peer on {len(names) - len(behind)} of {len(names)} lines. On the others"
        " these take less, as multiples of what Turnchart takes:"
    )
    return "\n".join([head, "", "| row | who takes less |", "| --- | --- |", *behind, ""])


# -- durable turns -----------------------------------------------------------------------------

DURABLE = "## Durable turns\n"
HOW = """\
Turns in workers, over Postgres and DBOS; a turn is two requests and a tool. The server, the workers and
whoever asks for the turns share one machine, so turns a second are few.{busy}

{rates}
A step of a turn, with all that is written on the way, takes {ours} ms: {ratio} times what one takes in the
same loop as a workflow of plain DBOS ({plain} ms). A chunk of a model is read in another process {median} ms
after it came, 95 of 100 within {most} ms; chunks are told of every 20 ms.

What makes a step durable is the session's log, to which everything that a turn writes in one go is one
statement; the journal of DBOS hears of several steps at once, and nobody waits for it.
"""


def durable(values: Mapping[str, float], load: float = 0) -> str:
    """Return the section on durable turns, of the figures of ``durable.py``.

    Args:
        values: The figures by name.
        load: Of the machine, where it is to be told of that it had other work.
    """
    rates = [
        [model, *[report.number(values[durable_turns.rate_of(many, pause)]) for many in (1, 2)]]
        for pause, model in durable_turns.MODELS.items()
    ]
    ours, plain = values[durable_turns.STEP], values[durable_turns.PLAIN]
    busy = f" The machine had other work (a load of {load:.1f})." if load > (os.cpu_count() or 1) else ""
    told = HOW.format(
        busy=busy, rates=report.table(["turns a second", "one worker", "two workers"], rates),
        ours=report.number(ours), plain=report.number(plain), ratio=report.number(ours / plain),
        median=report.number(values[durable_turns.CHUNK[50]]),
        most=report.number(values[durable_turns.CHUNK[95]]),
    )  # fmt: skip
    return f"{DURABLE}\n{told}"


def with_durable(text: str, section: str) -> str:
    """Return a page with this section on durable turns, before that on the goals."""
    before, _, goals = text.partition(f"{LEGEND.splitlines()[0]}\n")
    return f"{before.partition(DURABLE)[0]}{section}\n{LEGEND.splitlines()[0]}\n{goals}"


# -- beside its goals --------------------------------------------------------------------------

LEGEND = """\
## Beside its goals

Rows as above, and: `s` an entry appended to a store, or loaded from a log of 100,000; `p` a turn among the
first and the last of 2,000 in one session; `t` a turn on a branch of 100 and of 100,000 entries; `diagram`
and `verify` the whole command on a session of 10,000 entries; commands from their start to their end, and
`run demo` to its first line, beside an import of pydantic; a flow of 1,000 lines loaded; the first character
of an answer on a terminal; `wire` a chunk over HTTP in the format of a provider, beside the bare loop of
pydantic_ai.
"""


def _goals(results: Results) -> list[str]:
    return [LEGEND, report.table_of_goals(report.goals(results)).rstrip(), ""]

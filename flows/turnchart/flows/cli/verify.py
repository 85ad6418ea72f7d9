"""``turnchart verify``: whether a recorded session is a walk of the chart."""

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from turnchart.flows.cli.options import FlowName, FlowPlugins, FlowTrust, SessionName, StorePath
from turnchart.flows.cli.sessions_place import found

if TYPE_CHECKING:
    from turnchart.machine.entries import Entry
    from turnchart.machine.stores import Store
    from turnchart.machine.verify import Verdict


def verify(
    session: SessionName,
    store: StorePath = None,
    flow: FlowName = None,
    plugins: FlowPlugins = None,
    trust: FlowTrust = False,
    format: Annotated[Literal["text", "json"], typer.Option(help="For people, or for a program.")] = "text",
) -> None:
    """Judge the log of a session by the chart. The first entry that is illegal is explained. Only reads."""
    from turnchart.flows.cli.words import escaped, plain

    judged = judge(found(session, store, flow, plugins or (), trust=trust))
    if format == "json":
        typer.echo(escaped(json.dumps(judged.record(), ensure_ascii=False, indent=2)))
    else:
        typer.echo(plain(judged.text()), err=not judged.ok)
    raise typer.Exit(0 if judged.ok else 1)


class Judged(NamedTuple):
    """What is said of a log.

    Attributes:
        id: The session.
        verdict: What the entries are that could be read.
        entries: The log up to the first illegal entry, that one included.
        damage: What cannot be read behind them; empty where everything can.
        dropped: What was left out at the end, as a crash leaves it.
    """

    id: str
    verdict: "Verdict"
    entries: "tuple[Entry, ...]"
    damage: str
    dropped: str

    @property
    def ok(self) -> bool:
        """The log is legal, and all of it was read."""
        return self.verdict.ok and not self.damage

    def text(self) -> str:
        """Return it in words; of an illegal log with the walk up to there."""
        verdict = self.verdict
        if self.ok:
            said = f"session {self.id}: {verdict.message}"
            return f"{said}; left out: {self.dropped}" if self.dropped else said
        from turnchart.diagrams.explain import explain

        after = f"after {verdict.entries} legal entries, in state {verdict.state}: {self.damage}"
        came = f"entry {verdict.seq} `{verdict.came}` in state {verdict.state}: {verdict.why}"
        said = after if verdict.ok else came
        return f"session {self.id}: illegal: {said}\n\n{explain(verdict, self.entries)}"

    def record(self) -> dict[str, Any]:
        """Return it for a program."""
        verdict = self.verdict
        told: dict[str, Any] = {
            "session": self.id, "ok": self.ok, "open": verdict.open, "entries": verdict.entries,
            "turns": verdict.turns, "state": verdict.state, "damage": self.damage, "dropped": self.dropped,
        }  # fmt: skip
        if self.ok:
            return told
        from turnchart.diagrams.explain import record_of

        return told | {"illegal": record_of(verdict, self.entries)}


def judge(store: "Store") -> Judged:
    """Judge what a store holds."""
    from turnchart.machine.errors import SessionCorrupt
    from turnchart.machine.verify import Judge

    judge, entries, damage = Judge(), list["Entry"](), ""
    verdict: Verdict | None = None
    try:
        for entry in store.load():
            entries.append(entry)
            verdict = judge.take(entry)
            if verdict is not None:
                break
    except SessionCorrupt as error:
        damage = str(error)
    return Judged(store.id, verdict or judge.verdict(), tuple(entries), damage, store.dropped)

"""``run --verbose``: what a run leaves out. Every hook that was called, requests, tokens, times, stderr."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from turnchart.flows.cli.words import SHORT, hook_result, one_line, only_wrote, plain
from turnchart.machine.agent import Agent
from turnchart.machine.chain import Chain, Dispatch
from turnchart.machine.entries import Entry
from turnchart.machine.signals import Signal

Show = Callable[[str], None]
"""Writes one line for a person."""
Hear = Callable[[Dispatch], None]
"""Is told of every call of a hook, when it is over."""


def hear_hooks(agent: Agent, hear: Hear) -> None:
    """Tell of every hook that an agent calls from now on, also of those that had no opinion.

    An observer of signals is told of only where it failed or wrote something: it is called all the time.
    """
    agent.chains = {point: _Heard(chain, hear) for point, chain in agent.chains.items()}


class _Heard(Chain):
    """A chain that runs as ever (somebody may trace it), and whose hooks are told of."""

    __slots__ = ("_chain", "_hear")

    def __init__(self, chain: Chain, hear: Hear) -> None:
        super().__init__(chain.point, chain.hooks)
        self._chain = chain
        self._hear = hear

    async def run(self, payload: Any, *, trace: list[Dispatch] | None = None, **more: Any) -> Any:
        """Run the chain, and tell of its hooks, whatever came of it."""
        steps: list[Dispatch] = [] if trace is None else trace
        try:
            return await self._chain.run(payload, trace=steps, **more)
        finally:
            for each in steps:
                if self.point != "on_signal" or each.error or each.stderr:
                    self._hear(each)


def dispatch_record(each: Dispatch) -> dict[str, Any]:
    """Return a call of a hook as ``--json`` writes it: the fields of ``hook/result`` that say something."""
    seconds = round(each.seconds, 6)
    return {"type": "hook", "point": each.point, "id": each.id, **each.said(), "seconds": seconds}


def dispatch_lines(each: Dispatch) -> Iterator[str]:
    """Yield a call of a hook in words: what it said and how long it took, then what it wrote to stderr."""
    said = dispatch_record(each) | {"stderr": ""}
    told = hook_result(said | {"reason": "no opinion"} if only_wrote(said) else said, most=None)
    yield f"  {told}  ({_took(each.seconds)})"
    for line in plain(each.stderr).splitlines():
        yield f"    {each.id} | {line}"


def emit_hooks(agent: Agent, emit: Callable[[Mapping[str, Any]], None]) -> None:
    """Write every call of a hook as an object from now on."""
    hear_hooks(agent, lambda each: emit(dispatch_record(each)))


def tell_details(agent: Agent, show: Show) -> None:
    """Tell a person from now on what a run leaves out otherwise."""
    details = Details(agent, show)
    hear_hooks(agent, details.dispatched)
    agent.on("*", details)


class Details:
    """Hears the signals of one agent, and tells what else there is to know of requests, calls and turns.

    Args:
        agent: Whose.
        show: Writes a line.
    """

    def __init__(self, agent: Agent, show: Show) -> None:
        self._now = agent.clock.now
        self._show = show
        self._asked: float | None = None
        self._first: float | None = None
        self._began: float | None = None
        self._calls: dict[str, float] = {}
        self._spent: dict[str, int] = {}
        self._requests = 0

    def dispatched(self, each: Dispatch) -> None:
        """Tell of a hook that was called."""
        for line in dispatch_lines(each):
            self._show(line)

    def __call__(self, signal: Signal, abort: object) -> None:
        """Take one signal."""
        if signal.kind == "agent/assistant-stream":
            self._streamed(signal.data)
        elif signal.kind == "session/event":
            entry: Entry = signal.data["entry"]
            take = _ENTRIES.get(entry.type)
            if take is not None:
                take(self, entry)

    def _streamed(self, data: Mapping[str, Any]) -> None:
        if data["frame"] == "start":
            self._asked, self._first = self._now(), None
            self._requests += 1
        elif self._first is None and data["frame"] == "chunk":
            self._first = data["time"]

    def _turn(self, entry: Entry) -> None:
        self._began, self._spent, self._requests, self._calls = entry.time, {}, 0, {}

    def _header(self, entry: Entry) -> None:
        data = entry.data
        said = [f"model {one_line(data['model'])}"]
        if data.get("thinking"):
            said.append(f"thinking {data['thinking']}")
        settings: Mapping[str, Any] = data["settings"] or {}
        said += [f"{name} {one_line(str(value), 60)}" for name, value in settings.items()]
        names = [one_line(spec["name"]) for spec in data["tools"]]
        said.append(f"tools {', '.join(names)}" if names else "no tools")
        self._show(f"  request: {one_line('; '.join(said), 4 * SHORT)}")

    def _answered(self, entry: Entry) -> None:
        usage: Mapping[str, Any] = entry.data["message"].get("usage") or {}
        counts = {name: count for name, count in usage.items() if isinstance(count, int)}
        for name, count in counts.items():
            self._spent[name] = self._spent.get(name, 0) + count
        self._show(f"  answered {self._timed(entry)}{_tokens(counts)}")

    def _failed(self, entry: Entry) -> None:
        self._show(f"  attempt over {self._timed(entry)}")

    def _timed(self, entry: Entry) -> str:
        """Say how long the request that is over took."""
        if self._asked is None:
            return "at once"
        whole = f"after {_took(entry.time - self._asked)}"
        return (
            whole if self._first is None else f"{whole}, first piece after {_took(self._first - self._asked)}"
        )

    def _called(self, entry: Entry) -> None:
        self._calls[entry.data["call_id"]] = entry.time

    def _result(self, entry: Entry) -> None:
        message = entry.data["message"]
        began = self._calls.pop(message["call_id"], None)
        if began is not None:
            self._show(f"  {one_line(message['tool'])} took {_took(entry.time - began)}")

    def _retried(self, entry: Entry) -> None:
        self._show(f"  attempt {entry.data['retry'] + 1} begins")

    def _compacted(self, entry: Entry) -> None:
        self._show(f"  compacted: about {entry.data['tokens_before']} tokens before")

    def _ended(self, entry: Entry) -> None:
        requests = f"{self._requests} {'request' if self._requests == 1 else 'requests'}"
        whole = "" if self._began is None else f" in {_took(entry.time - self._began)}"
        self._show(f"  turn {entry.data['turn']}: {requests}{whole}{_tokens(self._spent)}")


def _took(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _tokens(counts: Mapping[str, int]) -> str:
    """Return how many tokens there were of each kind."""
    names = (
        ("input", "in"),
        ("cache_read", "from a cache"),
        ("cache_write", "into a cache"),
        ("output", "out"),
    )
    told = [f"{counts[name]:,} {word}" for name, word in names if counts.get(name)]
    return f": tokens {', '.join(told)}" if told else ""


# pyright: reportPrivateUsage=false
# The table names methods of the class above it.
_ENTRIES: Final[Mapping[str, Callable[[Details, Entry], None]]] = {
    "turn/start": Details._turn,
    "request/header": Details._header,
    "assistant/message": Details._answered,
    "assistant/attempt": Details._failed,
    "llm/retry-started": Details._retried,
    "tool/call": Details._called,
    "tool/result": Details._result,
    "compaction": Details._compacted,
    "turn/end": Details._ended,
}

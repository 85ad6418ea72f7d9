"""Logs made by hand, as the driver writes them: one of every kind of session."""

from collections.abc import Callable
from typing import Any

from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.messages import AssistantMessage, Text, ToolCall, ToolResultMessage, UserMessage

ENVELOPE = ("attempt", "replaces", "foreign_id", "ignorable")


class Log:
    """Writes entries as the driver does."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.turn = self.step = self.attempt = 0

    def add(self, type: str, **data: Any) -> "Log":
        """Append one entry of the open step."""
        more: dict[str, Any] = {name: data.pop(name) for name in ENVELOPE if name in data}
        parent = self.entries[-1].seq if self.entries else None
        self.entries.append(Entry(len(self.entries), parent, type, 1.0, Frozen(data), **more))
        return self

    def here(self, type: str, **data: Any) -> "Log":
        """Append one entry that names the open turn and step."""
        return self.add(type, turn=self.turn, step=self.step, **data)

    def insert(self, id: str, target: str = "next-turn", start: int = 0, **more: Any) -> "Log":
        item = Frozen(id=id, origin="prompt", messages=(UserMessage(id, id=f"m-{id}"),))
        return self.add("agent/inbox/spliced", target=target, start=start, inserted=(item,), **more)

    def claim(self, target: str = "next-turn", count: int = 1) -> "Log":
        return self.add("agent/inbox/spliced", target=target, start=0, removed_count=count)

    def open(self) -> "Log":
        self.turn, self.step = self.turn + 1, 0
        return self.add("turn/start", turn=self.turn)

    def enter(self) -> "Log":
        self.step, self.attempt = self.step + 1, 0
        return self.here("step/start")

    def user(self, id: str) -> "Log":
        return self.here("user/message", message=UserMessage(id, id=f"m-{id}"))

    def header(self, reason: str = "initial", model: str = "m", **more: Any) -> "Log":
        return self.here(
            "request/header", reason=reason, model=model, settings=Frozen(), thinking="off", tools=(), **more
        )

    def system(self, text: str = "be brief", **more: Any) -> "Log":
        return self.here(
            "system/message", message=Frozen(role="system", content=(Frozen(type="text", text=text),)), **more
        )

    def answer(self, *calls: str, **more: Any) -> "Log":
        self.attempt += 1
        content = (Text("hi"), *(ToolCall("add", {}, id=id) for id in calls))
        message = AssistantMessage(content, model="m", stop_reason="tool_calls" if calls else "stop")
        return self.here("assistant/message", attempt=self.attempt, message=message, stream=(), **more)

    def fails(self) -> "Log":
        self.attempt += 1
        return self.here("assistant/attempt", attempt=self.attempt, model="m", stream=())

    def call(self, id: str, execution: str = "exclusive") -> "Log":
        return self.here("tool/call", call_id=id, tool="add", arguments=Frozen(), execution=execution)

    def result(self, id: str, details: Any = None, **more: Any) -> "Log":
        said = ToolResultMessage(id, "add", "3", details=details)
        return self.here("tool/result", message=said, outcome="ok", **more)

    def leave(self) -> "Log":
        return self.here("step/end")

    def close(self, reason: str = "completed", **more: Any) -> "Log":
        return self.add("turn/end", turn=self.turn, reason=reason, steps=self.step, **more)

    def hooked(self, point: str, step: int | None = None) -> "Log":
        at = self.step if step is None else step
        return self.add("hook/result", turn=self.turn, step=at, point=point, id="h", seconds=0.1)


def simple() -> Log:
    """One prompt, one answer."""
    return opened().enter().system().user("a").header().answer().leave().close()


def opened() -> Log:
    return Log().insert("a").open().claim()


def tools() -> Log:
    """Two parallel calls and an exclusive one, then an answer; steered meanwhile."""
    log = opened().enter().system().user("a").header().answer("c1", "c2", "c3")
    log.call("c1", "parallel").call("c2", "parallel").insert("s", "next-step").result("c1").result("c2")
    log.call("c3").result("c3").leave().claim("next-step").enter().user("s").answer().leave()
    return log.close()


def asked() -> Log:
    """A call that a person allows."""
    log = opened().enter().user("a").header().answer("c1").call("c1")
    log.here("approval/asked", call_id="c1", tool="add", arguments=Frozen(), reason="r").hooked("pre_tool")
    return log.here("approval/decided", call_id="c1", outcome="allowed").result("c1").leave().close("stopped")


def retried() -> Log:
    """Two failed attempts, one of them announced, then an answer."""
    log = opened().enter().system().user("a").header().fails()
    log.here("llm/retry", retry=1, after=1.0, kind="rate_limit", by="policy").here(
        "llm/retry-started", retry=1
    )
    return log.header("change", "other").fails().answer().leave().close()


def gave_up() -> Log:
    return opened().enter().user("a").header().fails().leave().close("error")


def cut() -> Log:
    """Aborted with text on the screen; what waited is discarded."""
    log = opened().enter().user("a").header().insert("b")
    log.add("agent/inbox/spliced", target="next-turn", start=0, removed_count=1, outcome="discarded")
    return log.answer(interrupted=True).leave().close("aborted")


def cut_early() -> Log:
    """Aborted before anything was admitted; the batch goes back."""
    return opened().insert("a", outcome="returned").close("aborted").open().claim().close("aborted")


def queued() -> Log:
    """Two prompts, one turn after the other without idle between, then writes while idle."""
    log = Log().insert("a").insert("b", start=1).open().claim().enter().user("a").header().answer().leave()
    log.close().open().claim().enter().user("b").answer().leave()
    log.add("custom", kind="k", data=1).close()
    return log.add("session_info", name="n").add("user/message", message=UserMessage("typed in", id="x"))


def rejected() -> Log:
    return opened().hooked("pre_step", 1).close("blocked").open().close()


def dropped() -> Log:
    """A pre_step hook lets another message in than the one that was claimed."""
    log = opened().hooked("pre_step", 1).enter().here("user/message", message=UserMessage("x", source="hook"))
    return log.header().answer().leave().close()


def emptied() -> Log:
    """A pre_step hook leaves nothing to ask."""
    return opened().hooked("pre_step", 1).close()


def crashed() -> Log:
    """Killed while a tool ran; closed when the session was opened again."""
    log = opened().enter().user("a").header().answer("c1", "c2").call("c1").result("c1")
    log.result("c2", {"recovered": "not_started"}).leave().close("interrupted")
    return log.insert("b").open().claim().enter().user("b").header("resume").answer().leave().close()


def imported() -> Log:
    """Foreign entries before the first turn and in it."""
    log = Log().add("assistant/message", foreign_id="x1").add("fancy", ignorable=True, turn="first")
    log.insert("a").open().add("tool/result", foreign_id="x2").claim().enter().user("a").header()
    return log.answer().leave().close()


def moved() -> Log:
    """Back to the first prompt, and on from there: the same prompt text is news on that branch."""
    log = simple()
    log.add("leaf", target=1)
    entries = log.insert("b").open().claim().enter().system().user("b").answer().leave().close().entries
    at = next(i for i, entry in enumerate(entries) if entry.type == "leaf")
    entries[at + 1] = entries[at + 1]._replace(parent=1)
    return log


def pruned() -> Log:
    """A result that takes the place of an older one is no answer to a call."""
    log = opened().enter().user("a").header().answer("c1", "c2").call("c1").result("c1").call("c2")
    return log.result("c1", replaces=(8, 8)).result("c2").leave().close()


def cut_by_tokens() -> Log:
    """An answer that was cut by max-tokens owes nothing for the calls in it."""
    log = opened().enter().user("a").header()
    said = AssistantMessage((ToolCall("add", {}, id="c1"),), model="m", stop_reason="max_tokens")
    return log.here("assistant/message", attempt=1, message=said, stream=()).leave().close("max_tokens")


LEGAL: list[Callable[[], Log]] = [
    simple, tools, asked, retried, gave_up, cut, cut_early, queued, rejected, dropped, emptied, crashed,
    imported, moved, pruned, cut_by_tokens,
]  # fmt: skip

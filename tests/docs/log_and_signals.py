"""The page about log entries and live signals: and where in the chart each is written or told."""

from collections.abc import Iterable, Iterator

from tests.docs.markdown import code, codes, page, sentence, table

from turnchart.flows.cli.sessions_why import REASONS
from turnchart.machine import LIFECYCLE, State
from turnchart.machine.entries import CONTEXT_TYPES, ENTRIES, SIGNALS, WRITES
from turnchart.machine.says import names

HEAD = """\
# Entries and signals

What is written to the log of a session, and what is told while an agent runs. The names and fields are
those of the catalogue in the program; where each belongs is read from the chart. How a line of the log is
written is in [The format of a session](session-format.md).
"""
MEANS = {
    "turn/start": "a turn begins: the agent was woken, or takes the next prompt by itself",
    "turn/end": "it is over; `reason` says why, and `cause` which hook or limit",
    "step/start": "the model is about to be asked",
    "step/end": "the answer, its tools and all retries of one request are done",
    "system/message": "the system prompt, where it is new or has changed",
    "user/message": "what a person, a hook or a program said, as the model reads it",
    "assistant/message": "the answer of the model, with the run of its stream",
    "assistant/attempt": "a request that gave no answer that counts: failed, or cut off",
    "tool/call": "a tool begins, with the arguments that it really gets",
    "tool/result": "what the model reads of a tool",
    "request/header": "model, settings and tools of the requests from here on; only where they changed",
    "request/context": "facts about the request: the size of the window and what the model can do",
    "request/rewritten": "what hooks at `context` or `convert` made of the messages, where that differs",
    "agent/inbox/spliced": "the inbox changed: something was put in, taken, moved or discarded",
    "hook/result": "a hook decided, changed something or failed, or a program of one wrote to stderr",
    "approval/asked": "a person is asked whether a call may run",
    "approval/decided": "the answer of that person",
    "llm/retry": "the request will be tried again, after so many seconds",
    "llm/retry-started": "the wait is over",
    "compaction/start": "the conversation is about to be made shorter",
    "compaction/prune": "results that were too long are about to be shortened",
    "compaction": "the summary that stands for what came before",
    "compaction/end": "it is done, or could not be done",
    "branch_summary": "what was said on the branch that was left",
    "model_change": "another model from here on",
    "thinking_level_change": "another thinking level from here on",
    "active_tools_change": "these tools from here on",
    "custom": "data of a program; the model does not see it",
    "custom_message": "a message of a kind of one's own",
    "label": "a name for an entry; without `text` the name is taken away",
    "leaf": "the conversation goes on behind another entry",
    "session_info": "what the session is called, and which flow and program write it",
    "session/event": "an entry was written; this is it",
    "agent/status": "`running` or `idle`",
    "agent/inbox/inserted": "a message waits",
    "agent/inbox/claimed": "a message was taken into a turn",
    "agent/inbox/discarded": "a message that waited is gone",
    "agent/assistant-stream": "a piece of an answer, as it comes",
    "agent/error": "the turn failed",
    "tool/progress": "what a running tool tells of itself",
    "notice": "something that people should know, and the model need not",
}


ENDS = {
    "completed": "the model asked for no tool, and nothing waited for the turn",
    "max_tokens": "the answer was cut at the token limit of the model",
    "stopped": "a hook at `after_step` answered `Stop`",
    "blocked": "a hook at `pre_step` answered `Reject`",
    "aborted": "it was cut off: by `abort()`, Ctrl-C, or the end of the agent",
    "error": "a request failed for good, or a hook that must not fail did; `error` says which",
    "interrupted": "its program stopped inside it, and whoever opened the session next closed it",
    "max_steps": "`limits.max_steps` was reached",
    "max_tool_calls": "`limits.max_tool_calls` was reached",
    "max_continues": "`limits.max_continues`, or that of a hook, was reached",
    "max_seconds": "`limits.max_seconds` was reached",
}
"""Why a turn ends, by the reason."""


def log_and_signals() -> str:
    """Return the page."""
    return page(
        HEAD,
        "## Entries",
        "Fields with `?` may be absent. *model* marks what the model may see, *writers* what people and"
        " programs write beside the turn.",
        table(
            ("entry", "what it means", "fields of its data", "written in"),
            [
                (
                    code(name),
                    sentence(MEANS[name]),
                    _fields(fields),
                    ", ".join((*_marks(name), *_where(name))),
                )
                for name, fields in ENTRIES.items()
            ],
        ),
        "## Why a turn ends",
        "The `reason` of `turn/end`, of `Turn` in Python, and of `expect` in a test file. `Turn.ok` holds for"
        " the first two; `turnchart run` ends with 0 for the first alone.",
        table(("reason", "when"), [(code(name), sentence(ENDS[name])) for name in REASONS]),
        "## Signals",
        "They are told to `agent.on(name, listener)`, to `on_signal` hooks and by `turnchart run --json`,"
        " and are not stored.",
        table(
            ("signal", "what it means", "fields", "told in"),
            [
                (code(name), sentence(MEANS[name]), _fields(fields), ", ".join(_where(name)) or "any state")
                for name, fields in SIGNALS.items()
            ],
        ),
        "## Who writes what",
        "The chart, as it is declared: what each state performs while it lasts, and what each row performs"
        " when it is taken. `writes` stands for what was asked for while the step ran.",
        table(("state", "performs"), [(code(state.shown), _all(does)) for state, does in _of_states()]),
        table(
            ("from", "event", "if", "to", "performs"),
            [
                (
                    code(row.source.shown),
                    row.event.value,
                    row.guard or "",
                    code(row.target.shown),
                    _all(row.does),
                )
                for row in LIFECYCLE.rows
            ],
        ),
    )


def _fields(fields: str) -> str:
    return codes(name.strip() for name in fields.replace(";", ",").split(","))


def _marks(name: str) -> Iterator[str]:
    if name in CONTEXT_TYPES:
        yield "*model*"
    if name in WRITES:
        yield "*writers*"


def _of_states() -> Iterator[tuple[State, tuple[str, ...]]]:
    for state, says in LIFECYCLE.says.items():
        yield state, names(says)


def _where(name: str) -> Iterator[str]:
    """Yield the states in which something is performed, and those out of which a row does it."""
    for state, does in _of_states():
        if name in _bare(does):
            yield code(state.shown)
    rows = [row for row in LIFECYCLE.rows if name in _bare(row.does)]
    for event in dict.fromkeys(row.event.value for row in rows):
        yield f"on *{event}*"


def _bare(does: Iterable[str]) -> set[str]:
    return {name.partition(" ")[0] for name in does}


def _all(does: Iterable[str]) -> str:
    return codes(dict.fromkeys(does)) or "-"

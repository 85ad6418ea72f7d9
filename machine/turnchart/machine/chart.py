"""The lifecycle of one agent, declared once: states, rows, guards, and what each of them says.

Rule 1: every transition is a row here. Code that changes a state anywhere else is a bug.
Rule 2: nothing in this file awaits, reads a clock, logs or calls a model.
Rule 3: per state and event the first row whose guard holds is taken; the last one has no guard.

The class is a synchronous python-statemachine chart and the single source; ``table.py`` extracts it once and
the driver runs on the table. Guards are names of attributes of ``states.Facts``.
"""

from typing import Any, NamedTuple, cast

from statemachine import State as _State
from statemachine import StateMachine
from statemachine.transition import Transition
from statemachine.transition_list import TransitionList

from turnchart.machine.says import Kind, Line, Note, Part, call, emit, hook, log, loop, opt, reply, silent

D, SDK, LLM, TOOLS, HOOKS, SESSION = Part.DRIVER, Part.SDK, Part.LLM, Part.TOOLS, Part.HOOKS, Part.SESSION

ON_GOING = ("completed", "max_tokens")
"""The reasons after which the next queued prompt is taken by itself; any other one parks the inbox."""
CUT = ("aborted", "max_seconds", "interrupted")
BROKEN = ("error",)
NATURAL = (*ON_GOING, "stopped", "max_steps", "max_tool_calls", "max_continues")


class ChartState(_State):
    """A state of the engine that also says something."""

    says: tuple[Line, ...] = ()


class Way(NamedTuple):
    """What this project adds to a transition of the engine."""

    guard: str | None
    says: tuple[Line, ...]
    reasons: tuple[str, ...]
    """The reasons that its ``turn/end`` may give; empty where it ends no turn."""
    branch: str | None
    """The alternative of the sequence view that it belongs to."""
    undrawn: str
    """Why the bare sequence view leaves it out; empty where it is drawn."""


_ways: dict[Transition, Way] = {}


def way(transition: Transition) -> Way:
    """Return what was declared for a transition of ``Lifecycle``."""
    return _ways[transition]


def _state(title: str, *says: Line, initial: bool = False) -> ChartState:
    state = ChartState(title, initial=initial)
    state.says = says
    return state


def _row(
    source: ChartState,
    target: ChartState,
    when: str | None = None,
    *says: Line,
    reasons: tuple[str, ...] = (),
    branch: str | None = None,
    undrawn: str = "",
) -> TransitionList:
    rows: TransitionList = source.to(target, cond=when)
    (transition,) = cast("list[Transition]", cast(Any, rows).transitions)
    _ways[transition] = Way(when, says, reasons, branch, undrawn)
    return rows


_HOOK_RESULT = "a dispatch that decided, changed or failed writes down what it did"
_LEFT = "moving in the tree with a summary of what is left"
_EVERY_STATE = "leaves the main line from every state; the table view shows it"
_NEXT_TURN = "the next queued prompt: the same line once more, without idle between"
_WRITES_NOW = "what was asked for while the step ran, in order"

_STARTS = log("turn/start")
_OPENS = (emit("agent/status running", "running"), _STARTS)
_WRITES = silent(Kind.LOG, "writes", times="*", reason=_WRITES_NOW)
_TURN_ENDS = log("turn/end")
_RESTS = (_TURN_ENDS, emit("agent/status idle", "idle"))
_STEP_ENDS = log("step/end")
_FAILS = silent(Kind.EMIT, "agent/error", reason="the error is told before turn/end")
_COMMITTED = emit("agent/assistant-stream end", "committed end")
_CLOSES_STEP = (_STEP_ENDS, _WRITES, *_RESTS)
_FAILS_STEP = (_STEP_ENDS, _WRITES, _FAILS, *_RESTS)
_REMAINS = reply(D, D, "claimed batch stays removed, the open turn spends no step")

_REFUSED = "proposed step rejected, first batch empty, or pre-step failed"
_ENTERED = "enter proposed step"
_FAILED = "final adapter or terminal in-band request failure"
_SUCCEEDED = "model request succeeded"
_PROCEEDS = "next-step input is pending"


def _recorded() -> Line:
    return silent(Kind.LOG, "hook/result", times="*", reason=_HOOK_RESULT)


def _compacts() -> tuple[Line, ...]:
    """Return what making the conversation shorter says, wherever that happens."""
    needed = "only where the conversation is to be made shorter"
    return (
        silent(Kind.HOOK, "compact", times="?", reason=needed),
        _recorded(),
        opt(
            "the conversation is made shorter",
            silent(Kind.LOG, "compaction/start", reason=needed),
            loop(
                "results that are too long",
                silent(Kind.LOG, "compaction/prune", reason="shortened before anything else"),
                silent(Kind.LOG, "tool/result", times="?", reason="the shorter one, unless it was refused"),
            ),
            silent(Kind.CALL, "summarise", times="*", reason="only where a model writes the summary"),
            silent(Kind.LOG, "compaction", times="?", reason="only where that is not enough"),
            silent(Kind.LOG, "compaction/end", reason=needed),
        ),
    )


class Lifecycle(StateMachine):
    """The chart. Read top to bottom: what each state says, then the rows in the order of a turn."""

    idle = _state(
        "idle",
        call(Part.USER, Part.AGENT, "followup(content)"),
        log("agent/inbox/spliced", source=Part.AGENT, target=SDK, dashed=True),
        emit("agent/inbox/inserted", "{ message }", source=Part.AGENT),
        silent(Kind.HOOK, "session_start", times="*", reason="once per open, before any turn"),
        silent(Kind.HOOK, "session_end", times="*", reason="once per close, after every turn"),
        silent(Kind.LOG, "hook/result", times="*", reason=_HOOK_RESULT),
        silent(Kind.LOG, "writes", times="*", reason="written at once while no turn is open"),
        silent(Kind.LOG, "branch_summary", "leaf", times="*", reason="moving in the tree, between turns"),
        initial=True,
    )
    claiming = _state(
        "claiming",
        Note(Part.AGENT, D, "claim pending next-step input plus one queued prompt"),
        log("agent/inbox/spliced", target=SDK, text="pure deletion", dashed=True, times="*"),
        emit("agent/inbox/claimed", "{ message, turn } per message", again=True, times="*"),
        silent(Kind.CALL, "poll_steering", times="?", reason="the callback form of the inbox"),
        silent(Kind.CALL, "poll_follow_up", times="?", reason="the callback form of the inbox"),
        silent(Kind.LOG, "agent/inbox/spliced", times="*", reason="claims what the callbacks returned"),
        silent(Kind.EMIT, "agent/inbox/claimed", times="*", reason="claims what the callbacks returned"),
        hook("assemble", Part.PROMPT, "system-prompt/assemble"),
        _recorded(),
    )
    pre_step = _state(
        "pre-step",
        hook("pre_step", HOOKS, "agent/pre-step", again=True),
        _recorded(),
        *_compacts(),
        reply(HOOKS, D, "authoritative reject or enter(messages)", again=True),
    )
    requesting = _state(
        "requesting",
        hook("request", HOOKS, "agent/request"),
        _recorded(),
        call(D, LLM, "prepareCall(config, signal)", does=("prepare",)),
        Note(D, LLM, "cancellation during either async phase commits neither system nor users"),
        Note(D, SESSION, "synchronous admission using the prepared call capability"),
        log("system/message", text="ordered per-node reconciliation", times="*"),
        log("user/message", text="per entered message", times="*"),
        log("request/header", "request/context", text="as needed", times="?"),
        call(D, D, "derive and freeze request from the log"),
        silent(Kind.HOOK, "context", reason="rewrites what this request shows, never the log"),
        _recorded(),
        silent(Kind.HOOK, "convert", reason="rewrites what this request shows, never the log"),
        _recorded(),
        silent(Kind.LOG, "request/rewritten", times="?", reason="only when context or convert changed it"),
        call(D, LLM, "bound prepared call through `llm/stream` waterfall", does=("stream",)),
        _recorded(),
        silent(Kind.EMIT, "agent/assistant-stream start", times="?", reason="opens the frames below"),
        reply(LLM, D, "StreamChunk*"),
        emit("agent/assistant-stream chunk", "chunk*", times="*"),
        _recorded(),
    )
    retrying = _state(
        "retrying",
        hook("request_error", HOOKS, "agent/request-error"),
        _recorded(),
        *_compacts(),
        reply(HOOKS, D, "return retry action or preserve the original error"),
        silent(Kind.LOG, "llm/retry", times="?", reason="before the wait of a retry"),
        silent(Kind.LOG, "llm/retry-started", times="?", reason="after the wait of a retry"),
    )
    tooling = _state(
        "tooling",
        call(D, TOOLS, "classify pending call by executionMode"),
        loop(
            "barriers and bounded rolling pool, reclassify before start",
            opt(
                "call starts",
                log("tool/call"),
                call(D, TOOLS, "ordered pre, concurrent execute", does=("pre_tool",), times="?"),
                silent(Kind.LOG, "approval/asked", times="?", reason="only where a rule or a hook asks"),
                silent(Kind.LOG, "approval/decided", times="?", reason="only where a rule or a hook asks"),
                silent(Kind.HOOK, "tool", times="?", reason="the execute of the arrow above"),
                log(source=TOOLS, label="tool-owned events when applicable", dashed=True),
            ),
            opt(
                "next model-order result ready",
                call(D, TOOLS, "ordered post", does=("post_tool",), times="?"),
                log("tool/result"),
            ),
        ),
        silent(Kind.LOG, "hook/result", times="*", reason=_HOOK_RESULT, anywhere=True),
        silent(
            Kind.EMIT, "tool/progress", times="*", reason="whenever a running tool reports", anywhere=True
        ),
    )
    stopping = _state(
        "stopping",
        silent(Kind.HOOK, "after_step", reason="the boundary of every step"),
        _recorded(),
        opt(
            "natural stop and next-step inbox empty",
            hook("turn_stopping", HOOKS, "agent/turn-stopping", "serial terminal checkpoint"),
            _recorded(),
        ),
        silent(Kind.CALL, "poll_steering", times="?", reason="the callback form of the inbox"),
        silent(Kind.CALL, "poll_follow_up", times="?", reason="the callback form of the inbox"),
    )
    maintenance = _state(
        "maintenance",
        opt(
            "a branch is left with a summary",
            silent(Kind.CALL, "summarise", times="*", reason=_LEFT),
            silent(Kind.LOG, "leaf", "branch_summary", times="*", reason=_LEFT),
        ),
        *_compacts(),
        silent(Kind.LOG, "writes", times="*", reason="written at once while no turn is open", anywhere=True),
    )

    wake = _row(idle, claiming, None, call(Part.AGENT, D, "queued work wakes driver"), *_OPENS)
    claimed = _row(claiming, pre_step)
    reject = _row(pre_step, idle, None, _REMAINS, _WRITES, *_RESTS, reasons=("blocked",), branch=_REFUSED)
    enter = (
        _row(pre_step, requesting, "request_due", log("step/start"), branch=_ENTERED)
        | _row(
            pre_step, claiming, "prompt_due", _WRITES, _TURN_ENDS, _STARTS,
            reasons=ON_GOING, undrawn=_NEXT_TURN,
        )
        | _row(pre_step, idle, None, _REMAINS, _WRITES, *_RESTS, reasons=ON_GOING, branch=_REFUSED)
    )  # fmt: skip
    request_failed = _row(requesting, retrying, None, log("assistant/attempt"), _COMMITTED, branch=_FAILED)
    respond = _row(
        requesting, tooling, "has_tool_calls", log("assistant/message"), _COMMITTED, branch=_SUCCEEDED
    ) | _row(
        requesting, stopping, None, log("assistant/message"), _COMMITTED, _STEP_ENDS, _WRITES,
        branch=_SUCCEEDED,
    )  # fmt: skip
    retry = _row(
        retrying,
        requesting,
        None,
        Note(
            D,
            LLM,
            "retry in the open step: prepare and reconcile the same rendered assembly;"
            " no repeated pre-step or users",
        ),
    )
    give_up = _row(
        retrying, idle, None, _STEP_ENDS, _WRITES, _FAILS, *_RESTS,
        reasons=BROKEN, undrawn="the original error ends the turn; drawn beside retry it would hide it",
    )  # fmt: skip
    tools_done = _row(tooling, stopping, None, _STEP_ENDS, _WRITES)
    settle = (
        _row(stopping, claiming, "results_due")
        | _row(
            stopping, claiming, "input_due", reply(D, D, "claim pending next-step input"), branch=_PROCEEDS
        )
        | _row(
            stopping, claiming, "prompt_due", _WRITES, _TURN_ENDS, _STARTS,
            reasons=ON_GOING, undrawn=_NEXT_TURN,
        )
        | _row(stopping, idle, None, _WRITES, *_RESTS, reasons=NATURAL)
    )  # fmt: skip

    cancel = (
        _row(claiming, idle, None, _WRITES, *_RESTS, reasons=CUT, undrawn=_EVERY_STATE)
        | _row(pre_step, idle, None, _WRITES, *_RESTS, reasons=CUT, undrawn=_EVERY_STATE)
        | _row(
            requesting, idle, "has_text", log("assistant/message"), _COMMITTED, *_CLOSES_STEP,
            reasons=CUT, undrawn=_EVERY_STATE,
        )
        | _row(
            requesting, idle, "dispatched", log("assistant/attempt"), _COMMITTED, *_CLOSES_STEP,
            reasons=CUT, undrawn=_EVERY_STATE,
        )
        | _row(requesting, idle, None, *_CLOSES_STEP, reasons=CUT, undrawn=_EVERY_STATE)
        | _row(retrying, idle, None, *_CLOSES_STEP, reasons=CUT, undrawn=_EVERY_STATE)
        | _row(tooling, idle, None, *_CLOSES_STEP, reasons=CUT, undrawn=_EVERY_STATE)
        | _row(stopping, idle, None, _WRITES, *_RESTS, reasons=CUT, undrawn=_EVERY_STATE)
    )  # fmt: skip

    fail = (
        _row(claiming, idle, None, _WRITES, _FAILS, *_RESTS, reasons=BROKEN, undrawn=_EVERY_STATE)
        | _row(pre_step, idle, None, _WRITES, _FAILS, _REMAINS, *_RESTS, reasons=BROKEN, branch=_REFUSED)
        | _row(
            requesting, idle, "dispatched", log("assistant/attempt"), _COMMITTED, *_FAILS_STEP,
            reasons=BROKEN, undrawn=_EVERY_STATE,
        )
        | _row(requesting, idle, None, *_FAILS_STEP, reasons=BROKEN, undrawn=_EVERY_STATE)
        | _row(retrying, idle, None, *_FAILS_STEP, reasons=BROKEN, undrawn=_EVERY_STATE)
        | _row(tooling, idle, None, *_FAILS_STEP, reasons=BROKEN, undrawn=_EVERY_STATE)
        | _row(stopping, idle, None, _WRITES, _FAILS, *_RESTS, reasons=BROKEN, undrawn=_EVERY_STATE)
    )  # fmt: skip

    maintain = _row(idle, maintenance, undrawn="not part of a turn")
    maintained = _row(
        maintenance, claiming, "wake_latched", *_OPENS, undrawn="not part of a turn"
    ) | _row(maintenance, idle, undrawn="not part of a turn")  # fmt: skip

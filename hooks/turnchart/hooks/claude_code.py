"""The dialect ``claude_code``: programs that were written as hooks of Claude Code run unchanged.

They read that program's names of events, tools and arguments, and answer with an exit code (0: read stdout,
2: stderr is the reason to block) or with its JSON. Where a point is a gate, everything else is a failure, and
blocks: a guard that has crashed lets nothing pass.
"""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from turnchart.hooks.builtin._subject import root_of
from turnchart.hooks.command import CommandFailed
from turnchart.machine.messages import Text, UserMessage
from turnchart.machine.points import (
    AddContext,
    Allow,
    Ask,
    Compact,
    Continue,
    Decision,
    Deny,
    OnSignal,
    Payload,
    PostTool,
    PreStep,
    PreTool,
    Ran,
    Reject,
    SessionStart,
    TurnStopping,
    Veto,
)
from turnchart.machine.records import record

EVENTS: Final[Mapping[str, str]] = {
    "session_start": "SessionStart", "session_end": "SessionEnd", "pre_step": "UserPromptSubmit",
    "pre_tool": "PreToolUse", "post_tool": "PostToolUse", "turn_stopping": "Stop", "compact": "PreCompact",
    "on_signal": "Notification",
}  # fmt: skip
"""What that program calls our points; it has no word for the others."""

_PATH: Final = "file_path"
_TOOLS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "shell": ("Bash", {}),
    "read_file": ("Read", {"path": _PATH}),
    "write_file": ("Write", {"path": _PATH}),
    "edit_file": ("Edit", {"path": _PATH, "old_text": "old_string", "new_text": "new_string"}),
    "list_files": ("Glob", {}),
    "search_files": ("Grep", {}),
    "agent": ("Task", {}),
}  # fmt: skip
"""What it calls the built-in tools and those of their arguments that have another name there."""
_WORDS: Final[Mapping[str, str]] = {"approve": "allow", "block": "deny"}
BLOCKED: Final = 2
"""The exit code that blocks."""

Question = dict[str, Any]
Outcome = Payload | Decision | None


class DialectFailed(CommandFailed):
    """A program did not answer as a hook of Claude Code does."""


@record
class Said:
    """What a program said, however it said it.

    Attributes:
        decision: allow, ask or deny (which also stands for block); empty for none.
        reason: Why.
        context: What else the model should read.
        stop: ``continue`` was false: nothing should go on.
        changes: The answer that belongs to the event, for what only this event knows.
    """

    decision: str = ""
    reason: str = ""
    context: str = ""
    stop: bool = False
    changes: Mapping[str, Any] | None = None


# -- asking ---------------------------------------------------------------------------------------


def question(point: str, payload: Payload, names: Mapping[str, str], cwd: str) -> Question | None:
    """Return what the program reads; None where its event does not happen here.

    Args:
        point: One of ``EVENTS``.
        payload: Of this point.
        names: The built-in tools behind the names that a flow gave them.
        cwd: Where the program starts, relative to the root.
    """
    asked = _ASKED[point](payload, names)
    if asked is None:
        return None
    return {
        "session_id": payload.session,
        "transcript_path": "",
        "cwd": os.path.normpath(os.path.join(root_of(payload), cwd)),
        "permission_mode": "default",
        "hook_event_name": EVENTS[point],
        **asked,
    }


def _pre_tool(payload: Any, names: Mapping[str, str]) -> Question | None:
    call = cast(PreTool, payload)
    name, given = _translated(call, call.tool, call.args, names)
    return {"tool_name": name, "tool_input": given, "tool_use_id": call.call_id}


def _post_tool(payload: Any, names: Mapping[str, str]) -> Question | None:
    done = cast(PostTool, payload)
    if done.outcome in ("denied", "aborted"):
        return None
    name, given = _translated(done, done.tool, done.args, names)
    response: dict[str, Any] = {"content": done.text, "is_error": done.is_error}
    if name == "Bash":
        response |= {"stdout": done.text, "stderr": "", "interrupted": False}
    if _PATH in given:
        response |= {"filePath": given[_PATH], "success": not done.is_error}
    return {"tool_name": name, "tool_input": given, "tool_response": response, "tool_use_id": done.call_id}


def _pre_step(payload: Any, names: Mapping[str, str]) -> Question | None:
    said = [
        each.text
        for each in cast(PreStep, payload).messages
        if each.role == "user" and not each.get("source")
    ]
    return {"prompt": "\n\n".join(said)} if said else None


def _turn_stopping(payload: Any, names: Mapping[str, str]) -> Question | None:
    stopping = cast(TurnStopping, payload)
    return {"stop_hook_active": stopping.continues > 0, "last_assistant_message": stopping.text}


def _session_start(payload: Any, names: Mapping[str, str]) -> Question | None:
    return {"source": "startup" if cast(SessionStart, payload).source == "new" else "resume"}


def _session_end(payload: Any, names: Mapping[str, str]) -> Question | None:
    return {"reason": "other"}


def _compact(payload: Any, names: Mapping[str, str]) -> Question | None:
    manual = cast(Compact, payload).trigger == "manual"
    return {"trigger": "manual" if manual else "auto", "custom_instructions": ""}


def _on_signal(payload: Any, names: Mapping[str, str]) -> Question | None:
    signal = cast(OnSignal, payload)
    if signal.signal == "notice":
        return {"message": signal.data["text"]}
    entry = signal.data["entry"] if signal.signal == "session/event" else None
    if entry is None or entry.type != "approval/asked":
        return None
    return {"message": f"permission is needed to use {_name(entry.data['tool'], names)}"}


_ASKED: Final[Mapping[str, Callable[[Any, Mapping[str, str]], Question | None]]] = {
    "pre_tool": _pre_tool, "post_tool": _post_tool, "pre_step": _pre_step, "turn_stopping": _turn_stopping,
    "session_start": _session_start, "session_end": _session_end, "compact": _compact,
    "on_signal": _on_signal,
}  # fmt: skip


def _name(tool: str, names: Mapping[str, str]) -> str:
    own = names.get(tool, tool)
    if own in _TOOLS:
        return _TOOLS[own][0]
    server, dot, name = tool.partition(".")
    return f"mcp__{server}__{name}" if dot else tool


def _translated(
    payload: Payload, tool: str, args: Mapping[str, Any], names: Mapping[str, str]
) -> tuple[str, dict[str, Any]]:
    """Return the name of a tool and its arguments as that program has them; its paths are absolute."""
    other = _renamed(tool, names)
    given = {other.get(name, name): value for name, value in args.items()}
    if isinstance(given.get(_PATH), str):
        given[_PATH] = os.path.normpath(os.path.join(root_of(payload), given[_PATH]))
    return _name(tool, names), given


def _renamed(tool: str, names: Mapping[str, str]) -> Mapping[str, str]:
    own = names.get(tool, tool)
    return _TOOLS[own][1] if own in _TOOLS else dict[str, str]()


# -- answering ------------------------------------------------------------------------------------


def answer(point: str, payload: Payload, ran: Ran, names: Mapping[str, str]) -> Outcome:
    """Return what a program said, in our words.

    Raises:
        DialectFailed: If it is no answer.
    """
    said = _read(point, payload, ran)
    return _MEANT[point](payload, said, names)


def _read(point: str, payload: Payload, ran: Ran) -> Said:
    if ran.exit_code == BLOCKED:
        return Said("deny", ran.errors.strip())
    if ran.exit_code != 0:
        last = (ran.errors.strip().splitlines() or [""])[-1][:200]
        raise DialectFailed(f"it ended with exit code {ran.exit_code}{f': {last}' if last else ''}")
    text = ran.output.strip()
    if not text.startswith("{"):
        return Said(context=text if point in ("session_start", "pre_step") else "")
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        raise DialectFailed(f"stdout begins as JSON and is none: {text[:80]!r}") from None
    return _structured(point, payload, given)


def _structured(point: str, payload: Payload, given: dict[str, Any]) -> Said:
    own: Any = given.get("hookSpecificOutput") or {}
    if not isinstance(own, dict):
        raise DialectFailed("hookSpecificOutput must be an object")
    special = cast("dict[str, Any]", own)
    word = _text(special, "permissionDecision") or _text(given, "decision")
    word = _WORDS.get(word, word)
    if word not in ("", "allow", "ask", "deny", "defer"):
        raise DialectFailed(f"there is no decision {word!r}")
    message = _text(given, "systemMessage")
    if message and point != "on_signal":  # where a notice is what it answers
        payload.notice(message)
    stop = given.get("continue") is False
    reason = _text(special, "permissionDecisionReason") or _text(given, "reason")
    if stop:
        reason = _text(given, "stopReason") or reason
    return Said("" if word == "defer" else word, reason, _text(special, "additionalContext"), stop, special)


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if value is None or isinstance(value, str):
        return value or ""
    raise DialectFailed(f"{name} must be text, not {value!r:.80}")


def _judged(payload: Any, said: Said, names: Mapping[str, str]) -> Outcome:
    call = cast(PreTool, payload)
    if said.stop or said.decision == "deny":
        return Deny(said.reason)
    if said.context:
        payload.notice(f"hook `{payload.id}`: nothing can be told to the model before a tool: {said.context}")
    updated = (said.changes or {}).get("updatedInput")
    if updated is not None:
        if said.decision == "ask":
            raise DialectFailed("it asks and rewrites at once: make two hooks of it")
        return call.replace(args=_back(call, updated, names))
    kinds: Mapping[str, type[Allow | Ask]] = {"allow": Allow, "ask": Ask}
    return kinds[said.decision](said.reason) if said.decision else None


def _back(call: PreTool, updated: object, names: Mapping[str, str]) -> dict[str, Any]:
    """Return new arguments under our names; a path that stayed the same stays as the model wrote it."""
    if not isinstance(updated, dict):
        raise DialectFailed("updatedInput must be an object")
    given = cast("dict[str, Any]", updated)
    ours = {theirs: name for name, theirs in _renamed(call.tool, names).items()}
    _, before = _translated(call, call.tool, call.args, names)
    return {
        ours.get(name, name): call.args[ours.get(name, name)] if before.get(name) == value else value
        for name, value in given.items()
    }


def _told(payload: Any, said: Said, names: Mapping[str, str]) -> Outcome:
    done = cast(PostTool, payload)
    changes: dict[str, Any] = {}
    texts = [done.context, said.reason if said.decision == "deny" or said.stop else "", said.context]
    context = "\n\n".join(text for text in texts if text)
    if context != done.context:
        changes["context"] = context
    if said.stop:
        changes["terminate"] = True
    output = (said.changes or {}).get("updatedMCPToolOutput")
    if output is not None:
        text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
        changes["content"] = (Text(text),)
    return done.replace(**changes) if changes else None


def _let_in(payload: Any, said: Said, names: Mapping[str, str]) -> Outcome:
    step = cast(PreStep, payload)
    if said.stop or said.decision == "deny":
        return Reject(said.reason)
    if not said.context:
        return None
    return step.replace(messages=(*step.messages, UserMessage(said.context, source=payload.id)))


def _ended(payload: Any, said: Said, names: Mapping[str, str]) -> Outcome:
    return Continue(said.reason) if said.decision == "deny" and not said.stop else None


def _opened(payload: Any, said: Said, names: Mapping[str, str]) -> Outcome:
    _shown(payload, said, names)
    return AddContext(said.context) if said.context else None


def _shown(payload: Any, said: Said, names: Mapping[str, str]) -> Outcome:
    if said.decision == "deny" and said.reason:
        payload.notice(said.reason)
    return None


def _vetoed(payload: Any, said: Said, names: Mapping[str, str]) -> Outcome:
    return Veto(said.reason) if said.stop or said.decision == "deny" else None


def _heard(payload: Any, said: Said, names: Mapping[str, str]) -> Outcome:
    return None


_MEANT: Final[Mapping[str, Callable[[Any, Said, Mapping[str, str]], Outcome]]] = {
    "pre_tool": _judged, "post_tool": _told, "pre_step": _let_in, "turn_stopping": _ended,
    "session_start": _opened, "session_end": _shown, "compact": _vetoed, "on_signal": _heard,
}  # fmt: skip

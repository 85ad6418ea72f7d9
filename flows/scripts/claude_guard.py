#!/usr/bin/env python3
"""A hook for Claude Code, as one finds them: it knows nothing of Turnchart.

PreToolUse: `git push` and files with locks are blocked with exit code 2, a long command is asked about, and
`grep` becomes `rg`. Stop: an answer that promises something for later is sent back.
"""

import json
import re
import sys
from pathlib import Path

LOCKS = ("package-lock.json", "uv.lock", "poetry.lock", "Cargo.lock")


def pre_tool_use(tool: str, given: dict[str, str]) -> None:
    """Judge a call: block it, ask, or change it."""
    command = given.get("command", "")
    if tool == "Bash" and re.search(r"\bgit\s+push\b", command):
        block("People push.")
    if tool in ("Edit", "Write") and Path(given.get("file_path", "")).name in LOCKS:
        block("Lock files are written by their own tools.")
    if tool == "Bash" and command.count("\n") > 20:
        answer({"permissionDecision": "ask", "permissionDecisionReason": "The command is long."})
    if tool == "Bash" and command.startswith("grep "):
        answer({"permissionDecision": "allow", "updatedInput": {"command": f"rg {command[5:]}"}})


def stop(already: bool, transcript: str) -> None:
    """Send an answer back that leaves something for later."""
    if not already and "TODO" in transcript:
        print(json.dumps({"decision": "block", "reason": "You left a TODO. Do it now, or say why not."}))
        sys.exit()


def block(reason: str) -> None:
    """Deny the call; what stands on stderr is the reason."""
    print(reason, file=sys.stderr)
    sys.exit(2)


def answer(said: dict[str, object]) -> None:
    """Answer with JSON."""
    print(json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", **said}}))
    sys.exit()


event = json.load(sys.stdin)
if event["hook_event_name"] == "PreToolUse":
    pre_tool_use(event["tool_name"], event["tool_input"])
elif event["hook_event_name"] == "Stop":
    stop(event["stop_hook_active"], event.get("last_assistant_message", ""))

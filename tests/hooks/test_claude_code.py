import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.hooks.stub_world import StubWorld

from turnchart.hooks import (
    AddContext,
    Allow,
    Ask,
    Compact,
    Continue,
    Deny,
    OnSignal,
    Payload,
    PostTool,
    PreStep,
    PreTool,
    Reject,
    SessionEnd,
    SessionStart,
    TurnStopping,
    Veto,
    run_chain,
)
from turnchart.hooks.claude_code import EVENTS, DialectFailed, answer, question
from turnchart.hooks.command import Command
from turnchart.machine.clock import SYSTEM_CLOCK
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.errors import HookFailed
from turnchart.machine.messages import Text, UserMessage
from turnchart.machine.points import POINTS
from turnchart.machine.world import AgentWorld, Finished

pytestmark = pytest.mark.anyio

EDIT = Frozen(path="src/a.py", old_text="a", new_text="b")


def asked(point: str, payload: Payload, **names: str) -> dict[str, Any] | None:
    return question(point, payload, names, ".")


def said(point: str, payload: Payload, output: object = "", code: int = 0, errors: str = "") -> Any:
    text = output if isinstance(output, str) else json.dumps(output)
    return answer(point, payload, Finished(code, text, errors), {})


def special(event: str, **fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


# -- what the program reads ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "args", "name", "given"),
    [
        ("shell", {"command": "ls"}, "Bash", {"command": "ls"}),
        ("read_file", {"path": "a/../b"}, "Read", {"file_path": "/root/b"}),
        ("write_file", {"path": "/x", "content": "c"}, "Write", {"file_path": "/x", "content": "c"}),
        ("edit_file", EDIT, "Edit", {"file_path": "/root/src/a.py", "old_string": "a", "new_string": "b"}),
        ("search_files", {"pattern": "x"}, "Grep", {"pattern": "x"}),
        ("sh", {"command": "ls"}, "Bash", {"command": "ls"}),
        ("github.get_issue", {"n": 1}, "mcp__github__get_issue", {"n": 1}),
        ("own", {"path": "a"}, "own", {"path": "a"}),
    ],
)
def test_tools_have_the_names_of_that_program(
    tool: str, args: Mapping[str, Any], name: str, given: dict[str, Any]
) -> None:
    call = PreTool(tool=tool, args=Frozen(args), call_id="c1", session="s1", world=StubWorld("/root"))
    told = asked("pre_tool", call, sh="shell")
    assert told == {
        "session_id": "s1", "transcript_path": "", "cwd": "/root", "permission_mode": "default",
        "hook_event_name": "PreToolUse", "tool_name": name, "tool_input": given, "tool_use_id": "c1",
    }  # fmt: skip


def test_results() -> None:
    done = PostTool(tool="shell", args=Frozen(command="ls"), content=(Text("a"),), world=StubWorld("/root"))
    told = asked("post_tool", done)
    assert told is not None
    assert told["tool_response"] == {
        "content": "a", "is_error": False, "stdout": "a", "stderr": "", "interrupted": False,
    }  # fmt: skip
    told = asked("post_tool", PostTool(tool="edit_file", args=EDIT, is_error=True, world=StubWorld("/root")))
    assert told is not None
    assert told["tool_response"] == {
        "content": "", "is_error": True, "filePath": "/root/src/a.py", "success": False,
    }  # fmt: skip
    assert asked("post_tool", PostTool(outcome="denied")) is None, "there is no such event"


def test_the_other_events() -> None:
    mine, other = UserMessage("Hi"), UserMessage("context", source="hook x")
    told = {
        point: asked(point, payload)
        for point, payload in {
            "session_start": SessionStart(source="resumed"),
            "session_end": SessionEnd(),
            "pre_step": PreStep(messages=(other, mine)),
            "turn_stopping": TurnStopping(text="Done.", continues=1),
            "compact": Compact(trigger="overflow"),
            "on_signal": OnSignal(signal="notice", data=Frozen(text="Look.", source="")),
        }.items()
    }
    assert [each["hook_event_name"] for each in told.values() if each] == [
        "SessionStart", "SessionEnd", "UserPromptSubmit", "Stop", "PreCompact", "Notification",
    ]  # fmt: skip
    own = {point: {k: v for k, v in (each or {}).items() if k not in _COMMON} for point, each in told.items()}
    assert own == {
        "session_start": {"source": "resume"},
        "session_end": {"reason": "other"},
        "pre_step": {"prompt": "Hi"},
        "turn_stopping": {"stop_hook_active": True, "last_assistant_message": "Done."},
        "compact": {"trigger": "auto", "custom_instructions": ""},
        "on_signal": {"message": "Look."},
    }


_COMMON = {"session_id", "transcript_path", "cwd", "permission_mode", "hook_event_name"}


def test_what_is_no_event_there_asks_nobody() -> None:
    assert asked("pre_step", PreStep(messages=(UserMessage("context", source="hook x"),))) is None
    assert asked("on_signal", OnSignal(signal="agent/status", data=Frozen(status="idle"))) is None
    entry = Entry(0, None, "approval/asked", 0.0, Frozen(tool="shell"))
    told = asked("on_signal", OnSignal(signal="session/event", data={"entry": entry}))
    assert told is not None
    assert told["message"] == "permission is needed to use Bash"


def test_every_event_stands_on_a_point_that_takes_programs() -> None:
    assert all(POINTS[point].run for point in EVENTS)


# -- what it answers -----------------------------------------------------------------------------

CALL = PreTool(tool="edit_file", args=EDIT, id="guard", world=StubWorld("/root"))


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("", None),
        ("some text for the transcript", None),
        ({}, None),
        ({"suppressOutput": True, "unknown": 1}, None),
        (special("PreToolUse", permissionDecision="deny", permissionDecisionReason="no"), Deny("no")),
        (special("PreToolUse", permissionDecision="ask", permissionDecisionReason="hm"), Ask("hm")),
        (special("PreToolUse", permissionDecision="allow"), Allow("")),
        (special("PreToolUse", permissionDecision="defer"), None),
        ({"decision": "block", "reason": "no"}, Deny("no")),
        ({"decision": "approve", "reason": "yes"}, Allow("yes")),
        ({"continue": False, "stopReason": "enough"}, Deny("enough")),
    ],
)
def test_calls_are_judged(output: object, expected: object) -> None:
    assert said("pre_tool", CALL, output) == expected


def test_exit_code_2_blocks_and_another_is_a_failure() -> None:
    assert said("pre_tool", CALL, "ignored", 2, "not here\n") == Deny("not here")
    with pytest.raises(DialectFailed, match="exit code 1: Traceback"):
        said("pre_tool", CALL, "", 1, "Traceback\n")


def test_arguments_are_rewritten_under_their_names() -> None:
    new = {"file_path": "/root/src/a.py", "old_string": "a", "new_string": "c"}
    changed = said("pre_tool", CALL, special("PreToolUse", permissionDecision="allow", updatedInput=new))
    assert changed.args == {"path": "src/a.py", "old_text": "a", "new_text": "c"}
    changed = said("pre_tool", CALL, special("PreToolUse", updatedInput={**new, "file_path": "/root/b"}))
    assert changed.args["path"] == "/root/b"


@pytest.mark.parametrize(
    "output",
    [
        '{"decision": ',
        {"decision": "maybe"},
        {"decision": 1},
        {"hookSpecificOutput": "x"},
        special("PreToolUse", updatedInput="x"),
        special("PreToolUse", permissionDecision="ask", updatedInput={}),
    ],
)
def test_what_is_no_answer_is_a_failure(output: object) -> None:
    with pytest.raises(DialectFailed):
        said("pre_tool", CALL, output)


def test_the_user_is_shown_what_is_for_the_user() -> None:
    world = StubWorld("/root")
    call = PreTool(tool="shell", id="guard", world=world)
    said("pre_tool", call, {"systemMessage": "careful", **special("PreToolUse", additionalContext="x")})
    assert world.told == ["careful", "hook `guard`: nothing can be told to the model before a tool: x"]
    said("session_end", SessionEnd(world=world), "", 2, "bye")
    assert world.told[2:] == ["bye"]


def test_results_are_commented() -> None:
    done = PostTool(tool="shell", content=(Text("a"),), context="before")
    assert said("post_tool", done, {}) is None
    assert said("post_tool", done, {"decision": "block", "reason": "wrong"}).context == "before\n\nwrong"
    assert said("post_tool", done, "", 2, "wrong").content == done.content
    assert (
        said("post_tool", done, special("PostToolUse", additionalContext="more")).context == "before\n\nmore"
    )
    assert said("post_tool", done, {"continue": False, "stopReason": "stop"}).terminate
    changed = said("post_tool", done, special("PostToolUse", updatedMCPToolOutput={"a": 1}))
    assert changed.text == '{"a": 1}'


def test_prompts_turns_sessions_and_compaction() -> None:
    step = PreStep(messages=(UserMessage("Hi"),), id="guard")
    assert said("pre_step", step, "", 2, "no") == Reject("no")
    assert said("pre_step", step, {"decision": "block", "reason": "no"}) == Reject("no")
    entered = said("pre_step", step, "It is Monday.")
    assert [(each.text, each.get("source")) for each in entered.messages] == [
        ("Hi", None),
        ("It is Monday.", "guard"),
    ]
    assert said("turn_stopping", TurnStopping(), {"decision": "block", "reason": "test"}) == Continue("test")
    assert said("turn_stopping", TurnStopping(), "", 2, "test") == Continue("test")
    assert said("turn_stopping", TurnStopping(), {"continue": False, "decision": "block"}) is None
    assert said("session_start", SessionStart(), "Be kind.") == AddContext("Be kind.")
    assert said(
        "session_start", SessionStart(), special("SessionStart", additionalContext="x")
    ) == AddContext("x")
    assert said("compact", Compact(), "", 2, "not now") == Veto("not now")
    assert said("on_signal", OnSignal(), {"systemMessage": "x"}) is None


# -- real programs -------------------------------------------------------------------------------

VALIDATOR = """
import json, re, sys
data = json.load(sys.stdin)
if data.get("tool_name", "") != "Bash":
    sys.exit(0)
if re.match(r"^grep\\b(?!.*\\|)", data["tool_input"]["command"]):
    print("Use 'rg' instead of 'grep'", file=sys.stderr)
    sys.exit(2)
"""


async def _no_model(model: str, prompt: str) -> str:
    raise NotImplementedError


async def test_a_script_of_that_program_works_unchanged(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "validate.py").write_text(VALIDATOR)
    world = AgentWorld(tmp_path, SYSTEM_CLOCK, print, _no_model)
    command = Command("pre_tool", (sys.executable, "validate.py"), cwd="sub", dialect="claude_code")
    denied = await run_chain(
        "pre_tool", PreTool(tool="shell", args=Frozen(command="grep x .")), [command], world=world
    )
    assert denied.decision == Deny("Use 'rg' instead of 'grep'")
    passed = await run_chain(
        "pre_tool", PreTool(tool="shell", args=Frozen(command="grep x . | wc")), [command], world=world
    )
    assert passed.decision is None


async def test_the_program_knows_its_project_and_a_crash_blocks() -> None:
    world = StubWorld("/root", programs={"check": Finished(1, "", "crash")})
    verdict = await run_chain(
        "pre_tool", CALL, [Command("pre_tool", ("check",), dialect="claude_code")], world=world
    )
    assert isinstance(verdict.decision, Deny)
    assert "crash" in verdict.decision.reason
    with pytest.raises(HookFailed):
        await run_chain(
            "turn_stopping",
            TurnStopping(),
            [Command("turn_stopping", ("check",), dialect="claude_code")],
            world=world,
        )
    nobody = Command("post_tool", ("check",), dialect="claude_code")
    verdict_ = await run_chain("post_tool", PostTool(outcome="denied"), [nobody], world=world)
    assert not verdict_.decision
    assert len(world.ran) == 2

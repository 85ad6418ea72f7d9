import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import pytest
from anyio.lowlevel import checkpoint

from turnchart.flows.cli import main
from turnchart.machine.clock import SystemClock
from turnchart.machine.session import Session
from turnchart.machine.states import State

Cli = Callable[..., Any]
Write = Callable[..., str]
PROGRAM = [sys.executable, "-c", "from turnchart.flows.cli import main; main()"]
ASKS = "[{call: shell, args: {command: echo hi}}, done]"
WAITS = "[{call: shell, args: {command: sleep 60}}]"
ALLOWED = "permissions: {default: allow}\n"

HAIKU = (
    'The haiku has 14 words and begins with "A state, then a state".'
    " I may not delete folders, so it stays in .turnchart/demo/haiku.txt."
)
STATES = re.compile(rf"^({'|'.join(state.shown for state in State)})( > [a-z-]+)*$")


def states(err: str) -> list[str]:
    """The states that a run showed, in order."""
    return [name for line in err.splitlines() if STATES.match(line) for name in line.split(" > ")]


@contextmanager
def started(
    *arguments: str, cwd: Path, stdin: int | None = subprocess.DEVNULL
) -> Generator[subprocess.Popen[str]]:
    """Start the program in a process of its own."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    process = subprocess.Popen(
        [*PROGRAM, *arguments], cwd=cwd, env=os.environ | {"PYTHONPATH": path}, text=True,
        stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()


# -- the demo --


def test_the_demo_from_end_to_end(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    async def pass_at_once(_: SystemClock, seconds: float) -> None:
        assert seconds >= 0
        await checkpoint()

    monkeypatch.setattr(SystemClock, "sleep", pass_at_once)
    ended = cli("run", "demo")
    assert ended.code == 0
    assert ended.out.splitlines() == [
        "I shall write it and count the words.",
        "Now I tidy up.",
        HAIKU,
    ]
    to_request = ["claiming", "pre-step", "requesting"]
    assert states(ended.err) == [
        "idle", *to_request, "retrying", "requesting", "tooling", "stopping",
        *to_request, "tooling", "stopping", *to_request, "tooling", "stopping",
        *to_request, "stopping", "idle",
    ]  # fmt: skip
    assert "  rate_limit: again in 0.5 s (retry 1, policy)\n" in ended.err
    assert "  steering: Show me its first line, too.\n" in ended.err
    assert "  shell ok: 14 [exit code 0]\n" in ended.err
    assert "  read_file ok: A state, then a state" in ended.err
    assert re.search(r"  pre_tool no-destructive \(\S+demo.yaml:\d+\): deny: Whole folders", ended.err)
    assert (
        "  shell denied: Denied: Whole folders are deleted by people only. (hook no-destructive)\n"
        in ended.err
    )
    assert "\x1b" not in ended.err
    assert Path(".turnchart/demo/haiku.txt").read_text("utf-8").count("\n") == 3
    [listed] = json.loads(cli("sessions", "list", "--json").out)
    assert ended.err.splitlines()[-3:] == [
        f"  read it:   turnchart sessions show {listed['id']}",
        f"  draw it:   turnchart diagram --session {listed['id']} --view sequence",
        f"  verify it: turnchart verify {listed['id']}",
    ]
    for line in ended.err.splitlines()[-3:]:
        assert cli(*line.split("turnchart ")[1].split()).code == 0


# -- prompts and exit codes --


def test_a_prompt_may_be_an_argument_or_piped_in(cli: Cli, flow: Write) -> None:
    path = flow("[hello]")
    assert cli("run", path, "hi")[:2] == (0, "hello\n")
    assert cli("run", path, stdin="hi\n")[:2] == (0, "hello\n")
    assert cli("run", path, "-", stdin="hi\n")[:2] == (0, "hello\n")
    ended = cli("run", path)
    assert (ended.code, "pipe it in" in ended.err) == (2, True)


def test_a_turn_that_does_not_complete(cli: Cli, flow: Write) -> None:
    ended = cli("run", flow("[{fail: quota, message: spent}]"), "hi")
    assert (ended.code, ended.out) == (1, "")
    assert "  error: model request failed (quota): spent\n  turn 1 error after 1 step\n" in ended.err
    assert cli("run", flow("[{text: half, finish: max_tokens}]"), "hi").code == 1


def test_replies_that_nobody_asked_for_are_only_reported(cli: Cli, flow: Write) -> None:
    ended = cli("run", flow("[hello, more]"), "hi")
    assert (ended.code, "1 reply of the script" in ended.err) == (0, True)


def test_a_flow_that_is_wrong(cli: Cli, flow: Write) -> None:
    ended = cli("run", flow("[hi]", "quues: {}\n"), "hi")
    assert (ended.code, "[unknown-key]" in ended.err) == (1, True)
    assert cli("run", flow("[hi]"), "hi", "--model", "nobody:knows").code == 1
    assert not Path(".turnchart").exists()


def test_a_flow_that_nobody_agreed_to(cli: Cli, tmp_path: Path) -> None:
    text = "version: 1\nmodel: {id: test, base_url: 'https://example.org'}\n"
    (tmp_path / "far.yaml").write_text(text, "utf-8")
    ended = cli("run", "far.yaml", "hi")
    assert (ended.code, "[not-trusted]" in ended.err) == (3, True)
    assert cli("run", "far.yaml", "hi", "--trust")[:2] == (0, "ok\n")


def test_another_model(cli: Cli, flow: Write) -> None:
    assert cli("run", flow("[hello]"), "hi", "--model", "test").out == "ok\n"


def test_a_hook_can_be_left_out(cli: Cli, flow: Write) -> None:
    hook = "hooks:\n  pre_tool: [{use: deny_commands, id: no-echo, with: {patterns: [echo]}}]\n"
    path = flow(ASKS, ALLOWED + hook)
    assert "  shell denied: " in cli("run", path, "hi").err
    assert "  shell ok: hi" in cli("run", path, "hi", "--disable-hook", "no-echo").err
    assert cli("run", path, "hi", "--disable-hook", "x").code == 2


# -- approvals --


@pytest.mark.parametrize(
    ("options", "came"),
    [
        ((), "shell denied: Denied: no approver"),
        (("--approve", "all"), "shell ok: hi"),
        (("--approve", "none"), "shell denied: Denied: nobody approves calls here"),
        (("--approve", "reads"), "shell denied: Denied: only tools that read"),
    ],
)
def test_answers_beforehand(cli: Cli, flow: Write, options: tuple[str, ...], came: str) -> None:
    ended = cli("run", flow(ASKS), "hi", *options)
    assert (ended.code, came in ended.err) == (0, True)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ('{{"approve": "{id}"}}\n', "ok"),
        ('nonsense\n{{"refuse": "{id}", "reason": "not today"}}\n', "denied"),
        ("", "denied"),
    ],
)
def test_a_program_answers_on_stdin(
    answer: str, outcome: str, flow: Write, typed: Callable[[str], TextIO],
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", typed(answer.format(id="c1.1.0")))
    with pytest.raises(SystemExit) as end:
        main(["run", flow(ASKS), "hi", "--json"])
    out, err = capsys.readouterr()
    records = [json.loads(line) for line in out.splitlines()]
    [asked] = [record for record in records if record["type"] == "approval/asked"]
    assert (asked["id"], asked["tool"], asked["args"]) == ("c1.1.0", "shell", {"command": "echo hi"})
    entries = [record["entry"] for record in records if record["type"] == "session/event"]
    assert [entry["data"]["outcome"] for entry in entries if entry["type"] == "tool/result"] == [outcome]
    last = records[-1]
    assert (last["type"], last["reason"], last["text"], end.value.code, err) == (
        "turn",
        "completed",
        "done",
        0,
        "",
    )


def test_as_json_there_has_to_be_a_prompt(cli: Cli, flow: Write) -> None:
    assert cli("run", flow("[hello]"), "--json").code == 2
    records = [
        json.loads(line) for line in cli("run", flow("[hello]"), "--json", stdin="hi").out.splitlines()
    ]
    assert records[-1]["text"] == "hello"


# -- sessions --


@pytest.mark.parametrize("store", ["kept.jsonl", "kept/", "kept.db"])
def test_a_session_goes_on_where_it_was(cli: Cli, flow: Write, store: str) -> None:
    path = flow("[hello]")
    first = cli("run", path, "hi", "--store", store, "--session", "mine")
    assert f"  verify it: turnchart verify mine --store {store}\n" in first.err
    second = cli("run", path, "and", "--store", store, "--session", "mine")
    assert second.err.startswith("session mine goes on in ")
    assert "  turn 2 completed" in second.err
    assert "2 turns: legal" in cli("verify", "mine", "--store", store).out


def test_the_flow_may_say_where_sessions_are_kept(cli: Cli, flow: Write) -> None:
    ended = cli("run", flow("[hello]", "session: {store: jsonl, path: logs}\n"), "hi")
    [file] = Path("logs").glob("*.jsonl")
    assert f"turnchart verify {file.stem} --store logs/\n" in ended.err
    assert "kept" not in cli("run", flow("[hello]", "session: {store: memory}\n"), "hi").err


def test_a_session_knows_its_flow(cli: Cli, flow: Write) -> None:
    run = ("run", flow("[hello]"), "hi", "--store", "kept.db", "--session", "mine")
    cli(*run)
    cli(*run)
    flow("[hello]", "description: another one\n")
    assert "the flow is not the one that this session was last used with" in cli(*run).err
    said = [entry.data for entry in Session.sqlite("kept.db").entries if entry.type == "session_info"]
    assert [data["flow"] for data in said] == ["small", "small"]


COMPACT = ("--store", "kept.db", "--session", "mine", "--compact")


def grown(cli: Cli, flow: Write) -> None:
    """Have a session of two long turns more."""
    for prompt in ("one " * 50, "two " * 50):
        ended = cli("run", flow("[hello]"), prompt, *COMPACT[:-1], "--model", "test")
        assert ended.code == 0


def test_a_session_is_compacted_on_its_own_or_before_a_prompt(cli: Cli, flow: Write) -> None:
    grown(cli, flow)
    ended = cli("run", flow("[what was said]"), *COMPACT)
    assert (ended.code, ended.out) == (0, "what was said\n")
    assert re.search(r"^  about \d+ tokens became \d+$", ended.err, re.MULTILINE)
    ended = cli("run", flow("[shorter, hello]"), "hi", *COMPACT)
    assert (ended.code, ended.out) == (0, "hello\n")
    session = Session.sqlite("kept.db", "mine")
    kinds = [entry.type for entry in session.entries]
    assert kinds.count("compaction") == 2
    assert cli("verify", "mine", "--store", "kept.db").code == 0


def test_what_came_of_a_compaction_is_a_line_for_a_program(cli: Cli, flow: Write) -> None:
    grown(cli, flow)
    ended = cli("run", flow("[so far]"), "--json", *COMPACT)
    last = json.loads(ended.out.splitlines()[-1])
    assert ended.code == 0
    assert (last["type"], last["summary"], last["shortened"]) == ("compacted", "so far", 0)
    assert last["tokens_after"] < last["tokens_before"]


def test_a_compaction_that_cannot_be_says_why(cli: Cli, flow: Write) -> None:
    path = flow("[hello]")
    ended = cli("run", path, "--compact")
    assert (ended.code, "name it with --session ID" in ended.err) == (2, True)
    ended = cli("run", flow("[]"), *COMPACT)
    assert (ended.code, "there is nothing in the conversation" in ended.err) == (1, True)
    ended = cli("run", flow("[hello]"), "hi", *COMPACT)  # nothing to compact yet is no reason not to talk
    assert (ended.code, ended.out) == (0, "hello\n")
    grown(cli, flow)
    ended = cli("run", flow("[{fail: auth, message: no key}]"), "hi", *COMPACT)
    assert (ended.code, ended.out) == (1, "")
    assert "no summary could be written: model request failed (auth): no key" in ended.err


def test_a_session_has_one_writer(cli: Cli, flow: Write) -> None:
    busy = Session.sqlite("kept.db", "mine")
    busy.attach()
    ended = cli("run", flow("[hello]"), "hi", "--store", "kept.db", "--session", "mine")
    busy.close()
    assert (ended.code, "is being written by" in ended.err) == (1, True)


def test_what_a_crash_left_is_closed_and_told(cli: Cli, flow: Write) -> None:
    run = ("run", flow("[hello]"), "hi", "--store", "kept.jsonl")
    cli(*run)
    log = Path("kept.jsonl")
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]) + b'{"seq":')
    ended = cli(*run)
    assert "  left out: a half-written last line" in ended.err
    assert "  turn 1 was cut off; it is closed as interrupted\n" in ended.err
    assert "2 turns: legal" in cli("verify", "kept.jsonl").out


# -- a process of its own --


def test_an_interrupt_ends_the_turn_and_then_the_process(flow: Write, tmp_path: Path) -> None:
    with started("run", flow(WAITS, ALLOWED), "hi", "--store", "log.jsonl", cwd=tmp_path) as process:
        assert process.stderr is not None
        while "sleep 60" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=15)
    assert process.returncode == 130
    assert "  turn 1 aborted after 1 step\n" in err
    ends = [entry.data for entry in Session.jsonl(tmp_path / "log.jsonl").entries if entry.type == "turn/end"]
    assert [(end["reason"], end["cause"]) for end in ends] == [("aborted", "user")]


def test_stdin_may_be_closed(flow: Write, tmp_path: Path) -> None:
    flow("{at: [{state: idle, follow_up: go}], model: [hello]}")
    path = os.pathsep.join(entry for entry in sys.path if entry)
    ended = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *PROGRAM, "run", "small.yaml"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (0, "hello\n"), ended.stderr


def test_both_streams_may_lead_into_one_pipe(flow: Write, tmp_path: Path) -> None:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    ended = subprocess.run(
        [*PROGRAM, "run", flow("[{text: look, call: shell, args: {command: echo hi}}, done]", ALLOWED), "hi"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, text=True, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert ended.stdout.splitlines()[:5] == [
        "idle > claiming > pre-step > requesting",
        "look",
        "tooling",
        '  shell {"command": "echo hi"}',
        "  shell ok: hi [exit code 0]",
    ]


@contextmanager
def chat(*arguments: str, cwd: Path, term: str) -> Generator[tuple[int, subprocess.Popen[bytes]]]:
    """Start the program at a terminal of a kind; the terminal is yielded too."""
    person, terminal = pty.openpty()
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "NO_COLOR": "1",
        "TERM": term,
    }
    with subprocess.Popen(
        [*PROGRAM, *arguments], cwd=cwd, env=environment,
        stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
    ) as process:  # fmt: skip
        os.close(terminal)
        try:
            yield person, process
        finally:
            process.kill()
            os.close(person)


def test_a_chat_on_a_terminal_that_cannot_be_drawn_on(flow: Write, tmp_path: Path) -> None:
    with chat("run", flow(ASKS), "--store", "log.jsonl", cwd=tmp_path, term="dumb") as (person, process):
        seen = until(person, "> ", "")
        os.write(person, b"hi\n")
        seen = until(person, "why: ", seen)
        os.write(person, b"y\n")
        seen = until(person, "completed after 2 steps\r\n> ", seen)
        os.write(person, b"\x04")
        seen = until(person, "verify it", seen)
        assert process.wait(timeout=10) == 0
    assert "may shell run?" in seen
    assert "  shell ok: hi" in seen
    assert "\r\ndone\r\n" in seen


def test_a_chat_on_a_terminal(flow: Write, tmp_path: Path) -> None:
    with chat("run", flow(ASKS), "--store", "log.jsonl", cwd=tmp_path, term="xterm") as (person, process):
        seen = until(person, "idle", "")
        os.write(person, b"hi\r")
        seen = until(person, "and why:", seen)
        os.write(person, b"y\r")
        seen = until(person, "done", seen)
        os.write(person, b"\x04")
        seen = until(person, "verify it", seen)
        assert process.wait(timeout=10) == 0
    assert "may shell run?" in seen
    assert "  ok: hi" in seen


def until(terminal: int, text: str, seen: str) -> str:
    """Read from a terminal until a text has come."""
    deadline = time.monotonic() + 15
    begun = len(seen)
    while text not in seen[begun:]:
        assert time.monotonic() < deadline, seen
        seen += os.read(terminal, 4096).decode()
    return seen

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import anyio
import pytest

from turnchart.hooks.command import Command, CommandFailed, answer
from turnchart.machine.chain import Chain, Dispatch, run_chain
from turnchart.machine.clock import SYSTEM_CLOCK
from turnchart.machine.entries import Frozen
from turnchart.machine.errors import HookFailed
from turnchart.machine.points import (
    POINTS,
    AddContext,
    Ask,
    Call,
    Deny,
    OnSignal,
    Payload,
    PostTool,
    PreTool,
    Request,
    RequestError,
    Retry,
    SessionStart,
    TurnStopping,
)
from turnchart.machine.world import AgentWorld, cut_short
from turnchart.testing import FakeClock

CALL = PreTool(tool="shell", args=Frozen(command="ls"), session="s1")


@dataclass
class Finished:
    output: str = ""
    exit_code: int = 0
    errors: str = ""


@dataclass
class World:
    """Answers instead of a program, and keeps what it was asked."""

    finished: Finished
    asked: dict[str, Any] = field(default_factory=dict[str, Any])
    root: str = "/root"

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        timeout: float = 30,  # noqa: ASYNC109  # the protocol names it so
        env: Mapping[str, str] | None = None,
        cwd: str = ".",
    ) -> Finished:
        self.asked = {"argv": argv, "stdin": json.loads(stdin), "timeout": timeout, "env": env, "cwd": cwd}
        return self.finished

    def now(self) -> float:
        return 0.0

    async def ask_model(self, model: str, prompt: str) -> str:
        raise NotImplementedError

    def read(self, path: str) -> str:
        raise NotImplementedError

    def append(self, path: str, text: str) -> None:
        raise NotImplementedError

    def notice(self, text: str) -> None:
        raise NotImplementedError

    def inject(self, text: str, source: str) -> None:
        raise NotImplementedError


def said(point: str, payload: Payload, **answer_: Any) -> object:
    return answer(POINTS[point], payload, json.dumps(answer_))


@pytest.mark.parametrize("output", ["", " \n", "{}"])
def test_saying_nothing_is_no_opinion(output: str) -> None:
    assert answer(POINTS["pre_tool"], CALL, output) is None


def test_decisions_by_their_words() -> None:
    assert said("pre_tool", CALL, decision="deny", reason="no") == Deny("no")
    assert said("pre_tool", CALL, decision="ask") == Ask("")
    assert said("request_error", RequestError(), decision="retry", after=2, model="a:b") == Retry(2, "a:b")
    assert said("session_start", SessionStart(), context="Be kind.") == AddContext("Be kind.")


def test_changes() -> None:
    changed = said("pre_tool", CALL, set={"args": {"command": "ls -h"}})
    assert isinstance(changed, PreTool)
    assert changed.args == {"command": "ls -h"}
    assert said("pre_tool", CALL, decision="allow", set={"args": {"command": "ls -h"}}) == changed
    told = said("post_tool", PostTool(), context="Read it again.")
    assert isinstance(told, PostTool)
    assert told.context == "Read it again."


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("yes", "stdout is no JSON object: 'yes'"),
        ("[1]", "stdout is no JSON object but [1]"),
        ("[" * 100_000, "stdout is no JSON object"),
        ('{"decison": "deny"}', "unknown key 'decison'"),
        ('{"decision": "block"}', "no decision 'block' on pre_tool; decisions: allow, ask, deny"),
        ('{"set": {"tool": "x"}}', "'tool' cannot be set on pre_tool; it may change args"),
        ('{"decision": "deny", "reason": 1}', "reason must be text, not 1"),
        ('{"decision": ["deny"]}', "no decision ['deny']"),
        ('{"set": 1}', "set must be an object"),
        ('{"context": "x"}', "context cannot be added on pre_tool"),
        ('{"context": 1}', "context must be text"),
        ('{"decision": "deny", "set": {"args": {}}}', "give one of the two"),
        (json.dumps({"reason": "x" * 1024 * 1024}), "more than 1 MiB"),
    ],
)
def test_anything_else_is_a_failure(output: str, message: str) -> None:
    with pytest.raises(CommandFailed) as caught:
        answer(POINTS["pre_tool"], CALL, output)
    assert message in str(caught.value)


async def test_the_program_is_told_the_payload_and_what_it_may_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OURS", "1")
    world = World(Finished('{"decision": "deny", "reason": "no"}'))
    command = Command("pre_tool", ("check", "-x"), {"A": "b"}, {"THEIRS": "OURS", "NONE": "NOT_SET"}, 5)
    verdict = await run_chain("pre_tool", CALL, [command], world=world)
    assert verdict.decision == Deny("no")
    assert world.asked["argv"] == ("check", "-x")
    assert world.asked["timeout"] == 5
    assert world.asked["env"] == {
        "TURNCHART_ROOT": "/root", "TURNCHART_SESSION": "s1", "A": "b", "THEIRS": "1",
    }  # fmt: skip
    told = world.asked["stdin"]
    assert (told["protocol"], told["point"], told["tool"], told["args"]) == (
        1, "pre_tool", "shell", {"command": "ls"},
    )  # fmt: skip


async def test_it_starts_where_it_is_told() -> None:
    world = World(Finished())
    await run_chain("pre_tool", CALL, [Command("pre_tool", ("check",), cwd="sub")], world=world)
    assert world.asked["cwd"] == "sub"


async def test_a_failing_program_denies_at_a_gate_and_says_why() -> None:
    world = World(Finished("", 2, "first\ncan't open file\n"))
    verdict = await run_chain("pre_tool", CALL, [Command("pre_tool", ("check",))], world=world)
    assert isinstance(verdict.decision, Deny)
    assert "exit code 2: can't open file" in verdict.decision.reason
    with pytest.raises(HookFailed):
        await run_chain("turn_stopping", TurnStopping(), [Command("turn_stopping", ("check",))], world=world)


async def test_what_is_no_json_is_told_as_text_or_as_its_fields() -> None:
    world = World(Finished())
    call = Call("c1", "shell", Frozen(command="ls"))
    await run_chain("request", Request(calls=(call,)), [Command("request", ("check",))], world=world)
    assert world.asked["stdin"]["calls"][0]["tool"] == "shell"
    where = PreTool(args=Frozen(path=PurePosixPath("a")))
    await run_chain("pre_tool", where, [Command("pre_tool", ("check",))], world=world)
    assert world.asked["stdin"]["args"] == {"path": "a"}


async def test_without_a_world_it_fails_clearly() -> None:
    with pytest.raises(RuntimeError, match="needs a world"):
        await Command("pre_tool", ("check",))(CALL)


async def test_a_real_program(tmp_path: Path) -> None:
    (tmp_path / "check.py").write_text(
        "import json, os, sys\n"
        "call = json.load(sys.stdin)\n"
        "print(json.dumps({'decision': 'deny', 'reason': call['args']['command'] + str(os.listdir())}))\n"
    )

    async def ask(model: str, prompt: str) -> str:
        raise NotImplementedError

    world = AgentWorld(tmp_path, SYSTEM_CLOCK, print, ask)
    command = Command("pre_tool", (sys.executable, "check.py"))
    verdict = await run_chain("pre_tool", CALL, [command], world=world)
    assert verdict.decision == Deny("ls['check.py']")


# -- stderr --


async def test_what_a_program_writes_to_stderr_is_kept_in_the_trace_and_changes_nothing() -> None:
    world = World(Finished('{"decision": "ask", "reason": "sure?"}', 0, "looked\ntwice\n"))
    verdict = await run_chain("pre_tool", CALL, [Command("pre_tool", ("check",))], world=world)
    assert verdict.decision == Ask("sure?")
    assert [each.stderr for each in verdict.trace] == ["looked\ntwice"]
    world = World(Finished("", 0, "nothing to say"))
    verdict = await run_chain("pre_tool", CALL, [Command("pre_tool", ("check",))], world=world)
    assert (verdict.decision, verdict.payload.changed(CALL)) == (None, ())
    assert [(each.stderr, each.notable) for each in verdict.trace] == [("nothing to say", True)]


async def test_of_a_failure_all_of_stderr_is_kept() -> None:
    world = World(Finished("", 1, "Traceback\nValueError: x\n"))
    verdict = await run_chain("pre_tool", CALL, [Command("pre_tool", ("check",))], world=world)
    assert [each.stderr for each in verdict.trace] == ["Traceback\nValueError: x"]
    world = World(Finished("no json", 0, "debug"))
    done = await run_chain("post_tool", PostTool(), [Command("post_tool", ("check",))], world=world)
    (only,) = done.trace
    assert (only.error is not None, only.stderr) == (True, "debug")


async def test_of_much_the_end_is_kept() -> None:
    world = World(Finished("", 0, "a" * 20_000 + "the end"))
    verdict = await run_chain("pre_tool", CALL, [Command("pre_tool", ("check",))], world=world)
    kept = verdict.trace[0].stderr
    assert kept.startswith("[4,007 characters before this are left out]\na")
    assert kept.endswith("the end")
    assert len(kept) < 16_100


async def test_an_observer_of_signals_may_write_to_stderr() -> None:
    world = World(Finished("", 0, "heard"))
    signal = OnSignal(signal="notice", data=Frozen(text="x"))
    verdict = await run_chain("on_signal", signal, [Command("on_signal", ("check",))], world=world)
    assert [(each.error, each.stderr) for each in verdict.trace] == [(None, "heard")]


async def test_in_the_dialect_stderr_is_kept_unless_it_is_the_reason() -> None:
    for exit_code, kept, decision in ((0, "told", None), (2, "", Deny("told")), (1, "told", Deny)):
        world = World(Finished("", exit_code, "told"))
        command = Command("pre_tool", ("check",), dialect="claude_code")
        verdict = await run_chain("pre_tool", CALL, [command], world=world)
        assert verdict.trace[0].stderr == kept
        assert verdict.decision == decision or type(verdict.decision) is decision


async def test_a_value_that_only_the_program_was_handed_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_PASS", "hush-hush")
    monkeypatch.setenv("SHORT", "1")
    for exit_code in (0, 1):
        world = World(Finished("", exit_code, "with hush-hush and 1"))
        command = Command("pre_tool", ("check",), env_from={"PASS": "OUR_PASS", "SHORT": "SHORT"})
        verdict = await run_chain("pre_tool", CALL, [command], world=world)
        assert verdict.trace[0].stderr == "with [redacted PASS] and 1"
        assert "hush" not in f"{verdict.trace} {verdict.decision}"


async def test_no_value_of_its_environment_is_kept_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_KEY", "first line\nsecond line")
    wrote = "hush-hush-longer, hush-hush, second line"
    command = Command(
        "pre_tool", ("check",), env={"A": "hush-hush", "B": "hush-hush-longer"}, env_from={"KEY": "OUR_KEY"}
    )
    verdict = await run_chain("pre_tool", CALL, [command], world=World(Finished("", 0, wrote)))
    assert verdict.trace[0].stderr == "[redacted B], [redacted A], [redacted KEY]"


class Hangs(World):
    """A program that writes to stderr and never ends."""

    def __init__(self, errors: str, clock: FakeClock) -> None:
        super().__init__(Finished(errors=errors))
        self.clock = clock

    async def run(self, argv: Sequence[str], *, timeout: float = 30, **how: Any) -> Finished:  # noqa: ASYNC109
        try:
            with self.clock.timeout(timeout):
                await self.clock.sleep(3600)
        except BaseException as error:
            cut_short(error, self.finished.errors)
            raise
        return self.finished


@pytest.mark.parametrize("limit", [5, 30, 60])
async def test_of_one_whose_time_is_over_stderr_is_kept_without_secrets(limit: float) -> None:
    clock = FakeClock()
    world = Hangs("a" * 20_000 + " with hush-hush, at 3 of 9\n", clock)
    command = Command("pre_tool", ("check",), {"PASS": "hush-hush"}, timeout=limit)
    verdict = await run_chain("pre_tool", CALL, [command], world=world, clock=clock)
    (only,) = verdict.trace
    assert isinstance(verdict.decision, Deny)
    assert only.error is not None
    assert only.stderr.startswith("[4,032 characters before this are left out]\naaa")
    assert only.stderr.endswith(" with [redacted PASS], at 3 of 9")


async def test_of_one_that_is_cut_off_stderr_is_kept_without_a_verdict_or_a_failure() -> None:
    clock = FakeClock()
    for wrote, kept in (("asks hush-hush\n", ["asks [redacted PASS]"]), ("\n", [])):
        command = Command("pre_tool", ("check",), {"PASS": "hush-hush"})
        trace = await cut_off(Chain("pre_tool", [command]), PreTool(world=Hangs(wrote, clock)), clock)
        assert [each.stderr for each in trace] == kept
        assert {(each.decision, each.error) for each in trace} <= {(None, None)}


async def cut_off(chain: Chain, payload: Payload, clock: FakeClock) -> list[Dispatch]:
    """Run a chain for a second, and return what it left in its trace."""
    trace: list[Dispatch] = []

    async def run() -> None:
        await chain.run(payload, trace=trace)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await clock.sleep(1)
        group.cancel_scope.cancel()
    return trace


async def test_of_an_observer_that_is_cut_off_stderr_is_kept_too() -> None:
    clock = FakeClock()
    payload = OnSignal(signal="notice", data=Frozen(text="x"), world=Hangs("heard", clock))
    trace = await cut_off(Chain("on_signal", [Command("on_signal", ("check",))]), payload, clock)
    assert [(each.stderr, each.error) for each in trace] == [("heard", None)]

"""Real processes of a server written with the SDK, over stdin and stdout and over HTTP, on both loops."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import anyio
import pytest

from turnchart.machine import AbortSignal, Agent, McpServer, Reply, ScriptedModel, ToolCall
from turnchart.machine.models import PreparedCall, RequestConfig

pytestmark = pytest.mark.slow

OFFERING = [sys.executable, str(Path(__file__).parents[1] / "machine" / "mcp" / "offering.py")]
KILLS = 10 if os.environ.get("TURNCHART_TRIALS") == "full" else 2
SEED = os.environ.get("TURNCHART_SEED", "0")
# The SDK does not close the generators of streamed answers, which trio warns of; no connection stays open.
LEFT_TO_THE_COLLECTOR = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def ask(name: str, **arguments: Any) -> Reply:
    return Reply(tool_calls=[ToolCall(name, arguments)])


async def answers(server: McpServer, *replies: Reply) -> list[tuple[str, str]]:
    """Let an agent call tools, and return what came of each call."""
    return await came(Agent(ScriptedModel([*replies, "done"]), mcp=[server]))


async def came(agent: Agent) -> list[tuple[str, str]]:
    """Let an agent work, and return what came of each call."""
    async with agent:
        turn = await agent.prompt("x")
        assert turn.reason == "completed"
        return [
            (entry.data["outcome"], entry.data["message"].text)
            for entry in agent.session.entries
            if entry.type == "tool/result"
        ]


class Patient:
    """A model that calls a tool once it is offered, and others until then.

    Over HTTP a server says that its tools have changed on a stream of its own, so that may come after the
    result of the call that changed them.
    """

    id = "patient"

    def __init__(self, server: McpServer) -> None:
        self._before = ScriptedModel(CALLS[:-1], default=ask("off.add", a=1, b=2))
        self._after = ScriptedModel([CALLS[-1], "done"])
        self.agent = Agent(self, mcp=[server])

    async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
        """Bind one call."""
        model = self._after if "off.grown" in self.agent.known_tools else self._before
        return await model.prepare(config, abort)


CALLS = (
    ask("off.add", a=1, b=2),
    ask("off.issue.get by-id", ctx_id="7"),
    ask("off.slowly", steps=2),
    ask("off.fail"),
    ask("off.grow"),
    ask("off.grown"),
)


def judged(found: list[tuple[str, str]]) -> None:
    assert [outcome for outcome, _ in found] == ["ok", "ok", "ok", "error", *["ok"] * (len(found) - 4)]
    assert [text for _, text in found[1:3]] == ["issue 7", "done"]
    assert (found[4][1], found[-1][1]) == ("grown", "new")
    assert all(text.startswith("3 in ") for _, text in [found[0], *found[5:-1]])


@contextmanager
def listening(port: int = 0) -> Generator[tuple["subprocess.Popen[str]", int]]:
    """Run the server over HTTP, and give its process and its port."""
    with subprocess.Popen(
        [*OFFERING, "--port", str(port)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


async def test_a_program() -> None:
    judged(await came(Patient(McpServer.stdio("off", OFFERING)).agent))


@LEFT_TO_THE_COLLECTOR
async def test_an_address() -> None:
    with listening() as (_, port):
        judged(await came(Patient(McpServer.http("off", f"http://127.0.0.1:{port}/mcp")).agent))


async def test_a_program_that_dies_by_itself() -> None:
    server = McpServer.stdio("off", OFFERING)
    first, second, third = await answers(server, ask("off.add", a=1), ask("off.die"), ask("off.add", a=1))
    assert (first[0], second[0], third[0]) == ("ok", "error", "ok")
    assert second[1].endswith("\nI am dying")
    assert first[1] != third[1], "it is another process"


async def test_a_program_that_is_killed_at_random_moments() -> None:
    random = Random(SEED)
    replies = [reply for _ in range(KILLS) for reply in (ask("off.wait"), ask("off.add", a=1))]
    killed: list[int] = []

    async def kill(pid: int) -> None:
        await anyio.sleep(random.uniform(0, 0.05))
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)

    async with (
        Agent(
            ScriptedModel([ask("off.add", a=1), *replies, "done"]), mcp=[McpServer.stdio("off", OFFERING)]
        ) as agent,
        anyio.create_task_group() as group,
    ):

        def watch(signalled: Any, _: object) -> None:
            entry = signalled.data["entry"]
            if entry.type == "tool/call" and entry.data["tool"] == "off.wait":
                [last] = [each for each in agent.session.entries if each.type == "tool/result"][-1:]
                group.start_soon(kill, int(last.data["message"].text.rpartition(" ")[2]))

        agent.on("session/event", watch)
        assert (await agent.prompt("x")).reason == "completed"
    outcomes = [entry.data["outcome"] for entry in agent.session.entries if entry.type == "tool/result"]
    assert outcomes == ["ok", *["error", "ok"] * KILLS]
    assert len(set(killed)) == KILLS


@LEFT_TO_THE_COLLECTOR
async def test_an_address_whose_server_is_started_again() -> None:
    model = ScriptedModel([reply for _ in range(3) for reply in (ask("off.add", a=1), "done")])
    with listening() as (process, port):
        async with Agent(model, mcp=[McpServer.http("off", f"http://127.0.0.1:{port}/mcp")]) as agent:
            await agent.prompt("x")
            process.kill()
            process.wait()
            await agent.prompt("x")
            with listening(port):
                await agent.prompt("x")
    outcomes = [entry.data["outcome"] for entry in agent.session.entries if entry.type == "tool/result"]
    assert outcomes == ["ok", "error", "ok"]


def processes(mark: str) -> list[str]:
    """Return the command lines of processes that run and bear a mark."""
    run = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True)
    return [line for line in run.stdout.splitlines() if mark in line]


async def test_no_process_is_left_whatever_ends_the_agent() -> None:
    mark = f"mark={uuid4().hex}"  # others may run servers like it
    python, *offering = OFFERING
    server = McpServer.stdio("off", [python, "-X", mark, *offering])
    with pytest.raises(RuntimeError, match="ours"):
        async with Agent(ScriptedModel(["x"]), mcp=[server]):
            raise RuntimeError("ours")
    with anyio.move_on_after(60) as scope:
        async with (
            Agent(ScriptedModel([ask("off.wait")]), mcp=[server]) as agent,
            anyio.create_task_group() as group,
        ):
            group.start_soon(agent.prompt, "x")
            with anyio.fail_after(60):
                while not processes(mark):  # noqa: ASYNC110  # they are no tasks of ours
                    await anyio.sleep(0.01)
            scope.cancel()
    assert processes(mark) == []


def test_a_flow_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(
        "version: 1\nmodel: script:s.yaml\ntools: [{mcp: off, only: [add, issue*]}]\n"
        f"mcp: {{off: {{command: {json.dumps(OFFERING)}}}}}\n"
        "permissions: {allow: ['off.issue.get by-id']}\n"
    )
    (tmp_path / "s.yaml").write_text(
        "- {call: off.issue.get by-id, args: {ctx_id: '3'}}\n- {call: off.add, args: {a: 1}}\n- done\n"
    )
    path = os.pathsep.join(entry for entry in sys.path if entry)
    command = "from turnchart.flows.cli import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", command, "run", "flow.yaml", "x", "--trust", "--json", "--approve", "none"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=240,
        check=True,
    )  # fmt: skip
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    results = [
        line["entry"]["data"]["outcome"]
        for line in lines
        if line["type"] == "session/event" and line["entry"]["type"] == "tool/result"
    ]
    assert results == ["ok", "denied"]

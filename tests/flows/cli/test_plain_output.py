"""Whatever a model, a tool, a file or a session says: no command writes it to a terminal as a command."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnchart.flows.cli.words import escaped
from turnchart.machine.agent import Agent
from turnchart.machine.messages import Failure, ToolCall
from turnchart.machine.points import Deny, PreTool
from turnchart.machine.scripted import Reply, ScriptedModel
from turnchart.machine.session import Session
from turnchart.machine.tools import ToolFailed, tool

Cli = Callable[..., Any]

TITLE, CLEAR, C1, BELL, TURN = (
    "\x1b]0;owned\x07",
    "\x1b[2J",
    "\x9b2J\x9d0;x\x9c",
    "\x07\x08\x7f",
    "\u202e\u2066",
)
EVIL = f"{TITLE}{CLEAR}{C1}{BELL}{TURN}"
COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@tool(name="echo")
def echo(text: str) -> str:
    """Echo."""
    if text == "fail":
        raise ToolFailed(f"failed {EVIL}", EVIL)
    return f"result {EVIL}"


def no(payload: PreTool) -> Deny | None:
    return Deny(f"no {EVIL}") if payload.args.get("text") == "no" else None


async def record(path: Path) -> None:
    """Make a session in which everything that can hold such text does."""
    calls = [ToolCall("echo", {"text": text}, f"c{i}") for i, text in enumerate(("a", "fail", "no", EVIL))]
    unknown = ToolCall(f"echo{EVIL}", {EVIL: EVIL}, f"id{EVIL}")
    model = ScriptedModel(
        [
            Reply(f"text {EVIL}", thinking=EVIL, tool_calls=[*calls, unknown]),
            f"done {EVIL}",
            Failure("quota", message=f"spent {EVIL}"),
        ],
        id=f"model:{EVIL}",
    )
    session = Session.sqlite(path, "evil")
    async with Agent(model, tools=[echo], hooks={"pre_tool": [no]}, session=session) as agent:
        agent.inject(f"aside {EVIL}", source=f"plug-in {EVIL}")
        await agent.prompt(f"prompt {EVIL}")
        await agent.prompt("again")
        session.append_custom(f"kind{EVIL}", {EVIL: EVIL})
        session.append_custom_message("note", f"custom {EVIL}")
        session.append_label(0, f"label {EVIL}")
        session.set_name(f"name {EVIL}")


@pytest.fixture
async def store(cli: Cli, tmp_path: Path) -> Path:
    """Return the file of such a session."""
    await record(tmp_path / "log.db")
    return tmp_path / "log.db"


@pytest.mark.parametrize(
    "command",
    [
        "sessions list", "sessions show evil", "sessions show evil --why", "sessions search result",
        "sessions search prompt", "verify evil", "sessions show evil --json", "sessions list --json",
        "diagram --session evil --view sequence", "diagram --session evil --view sequence --format md",
        "diagram --session evil", "diagram --session evil --format dot --detail",
        "diagram --session evil --view sequence --detail", "sessions export evil",
        "sessions fork evil --at 1", "sessions show nobody", "sessions repair evil --store nowhere.db",
    ],
)  # fmt: skip
async def test_what_a_session_says(command: str, cli: Cli, store: Path) -> None:
    more = () if "--store" in command else ("--store", str(store))
    ended = cli(*command.split(), *more)
    assert ended.out or ended.err
    assert not COMMANDS.findall(ended.out + ended.err)


async def test_a_log_that_is_wrong(cli: Cli, tmp_path: Path) -> None:
    await record(tmp_path / "log.db")
    exported = cli("sessions", "export", "evil", "--store", "log.db", "-o", "log.jsonl")
    assert exported.code == 0, exported
    lines = (tmp_path / "log.jsonl").read_text("utf-8").splitlines(keepends=True)
    (tmp_path / "cut.jsonl").write_text("".join(lines[:4] + lines[5:]), "utf-8")
    (tmp_path / "torn.jsonl").write_text("".join(lines[:4]) + f'{{"a{EVIL}\n', "utf-8")
    for file in ("cut.jsonl", "torn.jsonl"):
        for command in (("verify",), ("sessions", "show"), ("sessions", "repair")):
            ended = cli(*command, file)
            assert not COMMANDS.findall(ended.out + ended.err), ended


async def test_the_name_of_a_file(cli: Cli, store: Path, tmp_path: Path) -> None:
    folder, name = tmp_path / "kept", f"evil{CLEAR}{C1}{TURN}"
    folder.mkdir()
    assert cli("sessions", "export", "evil", "--store", str(store), "-o", f"kept/{name}.jsonl").code == 0
    (tmp_path / f"{name}.yaml").write_text("version: 2\n", "utf-8")
    for command in (
        f"check {name}.yaml", f"check {name}.yaml --format json", f"check {name}.yaml --format sarif",
        f"check {name}.yaml --format github", f"show {name}.yaml", f"run {name}.yaml hi",
        "sessions list --store kept/", "sessions show evil --store kept/", "verify evil --store kept/",
        "verify evil --store kept/ --format json", "sessions fork evil --store kept/",
        "sessions search result --store kept/", "sessions repair evil --store kept/",
        f"sessions delete {name} --store kept/ --yes",
    ):  # fmt: skip
        ended = cli(*command.split())
        assert ended.out or ended.err
        assert not COMMANDS.findall(ended.out + ended.err), command


def test_a_run_and_its_errors(cli: Cli, flow: Callable[..., str]) -> None:
    evil = EVIL.encode("unicode_escape").decode().replace("\\u", "\\u")
    script = (
        f'[{{text: "hi {evil}", thinking: "{evil}"}}, {{call: "shell{evil}", args: {{x: "{evil}"}}}},'
        f' {{call: shell, args: {{command: "printf \'{evil}\'"}}}}, {{fail: quota, message: "no {evil}"}}]'
    )
    path = flow(script, "permissions: {default: allow}\n")
    for prompt in ("one", f"two {EVIL}"):
        ended = cli("run", path, prompt)
        assert not COMMANDS.findall(ended.out + ended.err), ended
    ended = cli("run", path, "one", "--json")
    assert not COMMANDS.findall(ended.out + ended.err)


@pytest.mark.parametrize(
    "text",
    [
        "version: 1\nmodel: test\nquues{evil}: {{}}\n",
        'version: 1\nmodel: test\nname: "{evil}"\ndescription: "{evil}"\nprompt: "{evil}"\n',
        'version: 1\nmodel: "no{evil}:body"\n',
        'version: 1\nmodel: test\ntools: ["{evil}"]\nhooks: {{pre_tool: [{{use: "{evil}"}}]}}\n',
        'version: 1\nmodel: test\nhooks: {{pre_tool: [{{run: ["./{evil}"]}}]}}\n',
        "{evil}",
    ],
)
@pytest.mark.parametrize("command", ["check", "show", "show --resolved", "show --hooks", "run", "diagram"])
def test_what_a_flow_says(text: str, command: str, cli: Cli, tmp_path: Path) -> None:
    for given in (EVIL, EVIL.encode("unicode_escape").decode()):
        (tmp_path / "evil.yaml").write_text(text.format(evil=given), "utf-8")
        ended = cli(*command.split(), "evil.yaml", *(["hi"] if command == "run" else []))
        assert not COMMANDS.findall(ended.out + ended.err), ended


@pytest.mark.parametrize(
    "arguments", [["run", EVIL], ["check", EVIL], ["sessions", "show", EVIL], ["verify", EVIL]]
)
def test_what_was_typed_wrongly(arguments: list[str], cli: Cli) -> None:
    ended = cli(*arguments)
    assert not COMMANDS.findall(ended.out + ended.err)


def test_the_pattern_finds_what_it_should() -> None:
    assert all(COMMANDS.search(char) for char in EVIL if not char.isprintable())


@pytest.mark.parametrize("text", [EVIL, "plain", "größe \x85 日本", "\u2028"])
def test_escaped_json_says_the_same(text: str) -> None:
    for ascii in (True, False):
        said = escaped(json.dumps([text], ensure_ascii=ascii, indent=1))
        assert json.loads(said) == [text]
        assert not COMMANDS.findall(said)

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from turnchart.flows import load_flow
from turnchart.flows.check import examine
from turnchart.flows.problems import NotTrusted
from turnchart.flows.subflows import FlowCycle, agent_tool
from turnchart.machine import (
    Agent,
    Failure,
    Model,
    Reply,
    ScriptedModel,
    Session,
    State,
    ToolCall,
    ToolContext,
)
from turnchart.machine.approvals import Answer, Approve, Question
from turnchart.machine.scripted import Scripted
from turnchart.testing import FakeClock

Found = Callable[..., list[tuple[str, int, int]]]
Write = Callable[..., Path]

OUTER = """
version: 1
model: outer:model
tools:
  - {use: agent, as: helper, with: {file: agents/inner.yaml}}
permissions:
  allow: [helper]
  deny: ['shell(rm *)']
  ask: ['shell(git *)']
"""
INNER = """
version: 1
description: Does what it is told.
model: inner:model
prompt: You help.
tools: [shell]
permissions: {allow: ['shell(*)'], deny: ['shell(cat *)']}
hooks:
  session_start: [{use: notify, with: {text: helper is here}}]
"""


@pytest.fixture(autouse=True)
def _files(write: Write) -> None:
    write(INNER, "agents/inner.yaml")
    write(OUTER)


def ask(prompt: str = "Help.", tool: str = "helper") -> Reply:
    return Reply(tool_calls=[ToolCall(tool, {"prompt": prompt})])


def shell(*commands: str) -> Reply:
    return Reply(tool_calls=[ToolCall("shell", {"command": command}) for command in commands])


def models(*replies: Scripted) -> dict[str, ScriptedModel]:
    return {"inner:model": ScriptedModel(replies, id="inner:model")}


def agent_of(inner: Mapping[str, Model], *replies: Scripted, **settings: Any) -> Agent:
    model = ScriptedModel(replies or (ask(), "Thanks."), id="outer:model")
    settings.setdefault("clock", FakeClock(autojump=False))
    return load_flow("flow.yaml").agent(model=model, models=dict(inner), **settings)


def results(session: Session) -> list[tuple[str, str]]:
    found = [entry.data for entry in session.entries if entry.type == "tool/result"]
    return [(each["outcome"], each["message"].text) for each in found]


async def test_a_flow_is_a_tool_with_one_argument() -> None:
    inner, notices = models(Reply("It is done.", usage={"input": 7})), list[str]()
    agent = agent_of(inner)
    agent.on("notice", lambda signal, _: notices.append(signal.data["text"]))
    async with agent:
        await agent.prompt("x")
    [spec] = agent.specs(("helper",))
    assert (spec["name"], spec["description"]) == ("helper", "Does what it is told.")
    assert list(spec["schema"]["properties"]) == ["prompt"]
    [request] = inner["inner:model"].requests
    assert (request.system, request.messages[-1].text) == ("You help.", "Help.")
    [result] = [entry.data["message"] for entry in agent.session.entries if entry.type == "tool/result"]
    assert (result.text, result["usage"]) == ("It is done.", {"input": 7})
    assert notices == ["helper is here"]


@pytest.mark.parametrize("kind", ["memory", "jsonl", "sqlite"])
async def test_its_session_is_a_child_of_the_caller_s(kind: str, tmp_path: Path) -> None:
    session = {
        "memory": lambda: Session.memory("s"),
        "jsonl": lambda: Session.jsonl(tmp_path / "s.jsonl"),
        "sqlite": lambda: Session.sqlite(tmp_path / "s.db", "s"),
    }[kind]()
    async with agent_of(models("One.", "Two."), ask(), ask(), "Thanks.", session=session) as agent:
        await agent.prompt("x")
    calls = [entry.seq for entry in session.entries if entry.type == "tool/call"]
    details = [entry.data["message"]["details"] for entry in session.entries if entry.type == "tool/result"]
    assert [each["session"] for each in details] == [f"s.{seq}" for seq in calls]
    assert [each["reason"] for each in details] == ["completed"] * 2
    if kind == "memory":
        return
    child = (
        Session.jsonl(tmp_path / f"s.{calls[1]}.jsonl")
        if kind == "jsonl"
        else Session.sqlite(tmp_path / "s.db", f"s.{calls[1]}")
    )
    assert [each.text for each in child.context()] == ["Help.", "Two."]
    infos = [entry.data for entry in child.entries if entry.type == "session_info"]
    assert infos[0]["flow"] == "inner"
    assert infos[1]["parent"]["session"] == "s"


async def test_the_caller_s_deny_and_ask_rules_hold_as_well() -> None:
    asked: list[Question] = []

    async def approver(question: Question) -> Answer:
        asked.append(question)
        return Approve()

    inner = models(shell("echo a", "rm x", "cat x", "git --version"), "Done.")
    agent = agent_of(inner, approver=approver)
    async with agent:
        await agent.prompt("x")
    request = inner["inner:model"].requests[-1]
    told = [each.text for each in request.messages if each.role == "tool_result"]
    assert told[0].startswith("a\n")
    assert told[1] == "Denied: the permission `shell(rm *)` denies it"
    assert told[2] == "Denied: the permission `shell(cat *)` denies it"
    assert [(each.tool, each.reason) for each in asked] == [
        ("shell", "inner: the permission `shell(git *)` asks first")
    ]


async def test_without_an_approver_it_is_denied() -> None:
    inner = models(shell("git --version"), "Done.")
    async with agent_of(inner) as agent:
        await agent.prompt("x")
    request = inner["inner:model"].requests[-1]
    assert [each.text for each in request.messages if each.role == "tool_result"] == ["Denied: no approver"]


async def test_what_failed_is_told() -> None:
    async with agent_of(models(Failure("auth", message="no key"))) as agent:
        await agent.prompt("x")
    [(outcome, text)] = results(agent.session)
    assert outcome == "error"
    assert text.startswith("[it did not finish: error (")
    assert "no key" in text


async def test_an_abort_goes_down() -> None:
    inner = ScriptedModel([Reply("never", delay=1000)], id="inner:model")
    async with agent_of({"inner:model": inner}, ask()) as agent, anyio.create_task_group() as group:
        group.start_soon(agent.prompt, "x")
        await agent.until(State.TOOLING)
        agent.go_on()
        while not inner.requests:
            await anyio.lowlevel.checkpoint()
        agent.abort("user")
    assert [outcome for outcome, _ in results(agent.session)] == ["aborted"]
    assert inner.requests[0].abort.aborted


async def test_two_agents_of_one_flow_do_not_share_it() -> None:
    flow = load_flow("flow.yaml")
    sessions = [Session.memory("a"), Session.memory("b")]
    for session in sessions:
        model = ScriptedModel([ask(), "Thanks."], id="outer:model")
        async with flow.agent(model=model, models=models("Done."), session=session) as agent:
            await agent.prompt("x")
    linked = [
        entry.data["message"]["details"]["session"].split(".")[0]
        for session in sessions
        for entry in session.entries
        if entry.type == "tool/result"
    ]
    assert linked == ["a", "b"]


async def test_it_works_without_a_caller(write: Write) -> None:
    write(INNER.replace("inner:model", "test"), "agents/inner.yaml")
    checked = examine("flow.yaml").tools[0].flow
    assert checked is not None
    made = agent_tool(checked)
    assert (await made.fn("Help.", ToolContext())).content[0]["text"] == "ok"


async def test_params_are_given_by_the_caller(write: Write) -> None:
    write(
        INNER.replace("You help.", "You help with ${param:what}.") + "params: {what: {}}\n",
        "agents/inner.yaml",
    )
    [problem] = examine("flow.yaml").problems
    assert (problem.code, problem.file) == ("param-missing", "agents/inner.yaml")
    write(OUTER.replace("inner.yaml}", "inner.yaml, params: {what: tests}}"))
    inner = models("Done.")
    async with agent_of(inner) as agent:
        await agent.prompt("x")
    assert inner["inner:model"].requests[0].system == "You help with tests."


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("{use: agent, as: a, with: {file: agents/inner.yaml}}", []),
        ("agent", [("missing-key", 2, 9)]),
        ("{use: agent, with: {file: none.yaml}}", [("file-missing", 2, 35)]),
        ("{use: agent, with: {file: ../x.yaml}}", [("path-outside", 2, 35)]),
        ("{use: agent, with: {file: flow.yaml}}", [("agent-cycle", 2, 35)]),
        ("{use: agent, with: {file: agents/inner.yaml, prompt: x}}", [("unknown-key", 2, 54)]),
        ("{use: agent, with: {file: agents/inner.yaml, params: {x: 1}}}", [("unknown-param", 1, 1)]),
    ],
)
def test_what_is_wrong(found: Found, entry: str, expected: list[tuple[str, int, int]]) -> None:
    assert found(f"tools: [{entry}]\n") == expected


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("{deny: ['shell(rm *)'], ask: [shell]}", []),
        ("{allow: [shell]}", [("dead-permission", 3, 23)]),
        ("{deny: [read_file]}", []),
        ("{deny: [readfile]}", [("dead-permission", 3, 22)]),
    ],
)
def test_deny_and_ask_rules_may_speak_of_inner_tools(
    found: Found, rules: str, expected: list[tuple[str, int, int]]
) -> None:
    tools = "tools: [{use: agent, as: a, with: {file: agents/inner.yaml}}]\n"
    assert found(f"{tools}permissions: {rules}\n") == expected


def test_what_is_wrong_in_the_inner_flow_is_told_with_its_place(write: Write) -> None:
    write(INNER.replace("[shell]", "[shel]"), "agents/inner.yaml")
    [first, *_] = examine("flow.yaml").problems
    assert (first.code, first.file, first.line) == ("unknown-tool", "agents/inner.yaml", 5)


def test_a_longer_cycle_is_found(write: Write) -> None:
    tools = "tools: [{use: agent, as: a, with: {file: ../flow.yaml}}]\n"
    write("version: 1\nmodel: test\n" + tools, "agents/inner.yaml")
    [problem] = [each for each in examine("flow.yaml").problems if each.code == "agent-cycle"]
    assert problem.file == "agents/inner.yaml"
    assert problem.help == str(FlowCycle([Path("flow.yaml"), Path("inner.yaml"), Path("flow.yaml")]))


def test_what_it_reaches_is_agreed_to_with_the_outer_flow(write: Write) -> None:
    write(INNER + "  pre_tool: [{run: [sh, -c, 'true']}]\n", "agents/inner.yaml")
    flow = load_flow("flow.yaml")
    assert [(reach.what, reach.where) for reach in flow.reaches] == [("sh -c true", "agents/inner.yaml:9")]
    with pytest.raises(NotTrusted):
        flow.agent(model="test")
    assert load_flow("flow.yaml", trust=True).agent(model="test").active_tools() == ("helper",)

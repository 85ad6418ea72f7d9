from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.flows import load_flow
from turnchart.flows.load import Flow, flow_to_show
from turnchart.flows.problems import FlowError, NotTrusted
from turnchart.hooks import Deny, PreTool
from turnchart.machine import Failure, Reply, ScriptedModel, Session, ToolCall, UnknownModel, tool
from turnchart.machine.config import Compaction, Limits, Queues, RetryPolicy
from turnchart.machine.permissions import Permissions
from turnchart.testing import FakeClock

Write = Callable[..., Path]

FLOW = """
version: 1
model: {id: test, settings: {max_tokens: 9, thinking: low}, fallback: [a:b]}
prompt: [{file: p.md}, Be brief.]
tools: [shell, read_file]
permissions: {allow: [read_file]}
hooks:
  pre_tool:
    - {use: deny_commands, id: no-sudo, tools: [shell], timeout: 5, with: {patterns: [sudo], message: 'No.'}}
    - {use: redact_secrets, disabled: true}
  post_tool: [{use: redact_secrets, on_error: warn}]
  turn_stopping:
    - {use: require_tool_call, with: {tool: shell, reason: Test.}}
    - {use: require_tool_call, id: five, with: {tool: shell, reason: Test.}, max_continues: 5}
queues: {steering: one-at-a-time}
retry: {max_attempts: 2, retry_on: [timeout]}
limits: {max_steps: 3}
"""


@pytest.fixture
def flow(write: Write) -> Flow:
    write("You are kind.\n", "p.md")
    write(FLOW)
    return load_flow("flow.yaml")


def test_a_flow_knows_what_it_is(flow: Flow, tmp_path: Path) -> None:
    assert (flow.name, flow.path, flow.root) == ("flow", tmp_path / "flow.yaml", tmp_path)
    assert flow.prompt == ("You are kind.\n", "Be brief.")
    assert [each.name for each in flow.tools] == ["shell", "read_file"]
    assert flow.model == "test"
    assert flow.description == ""
    assert flow.script is None
    assert flow.session is None
    assert flow.warnings == ()
    assert flow.info == {"flow": "flow", "path": str(tmp_path / "flow.yaml"), "digest": flow.digest}


def test_the_mark_that_some_editors_begin_a_file_with_is_no_prompt(write: Write) -> None:
    write("\ufeffYou are kind.", "p.md")
    flow = load_flow(write("\ufeffversion: 1\nprompt: [{file: p.md}]\n"))
    assert flow.prompt == ("You are kind.",)


def test_the_agent_gets_everything_that_the_file_says(flow: Flow, tmp_path: Path) -> None:
    agent = flow.agent()
    assert agent.queues == Queues("one-at-a-time", "one-at-a-time")
    assert agent.retry == RetryPolicy(2, retry_on=["timeout"])
    assert agent.limits == Limits(3)
    assert agent.permissions == Permissions("ask", allow=["read_file"])
    assert agent.settings == {"max_tokens": 9}
    assert agent.thinking == "low"
    assert agent.fallback == ("a:b",)
    assert agent.system_prompt == "You are kind.\n\n\nBe brief."
    assert agent.root == tmp_path
    assert (agent.name, agent.flow) == ("flow", "flow")
    hooks = {point: [hook.id for hook in chain.hooks] for point, chain in agent.chains.items()}
    assert hooks == {
        "pre_tool": ["no-sudo"],
        "post_tool": ["redact_secrets-2"],
        "turn_stopping": ["require_tool_call", "five"],
    }


def test_hooks_are_bound_as_their_entries_say(flow: Flow) -> None:
    (guard,) = flow.hooks("pre_tool")
    assert (guard.id, guard.where, guard.timeout, guard.tools) == ("no-sudo", "flow.yaml:8", 5, ("shell",))
    assert flow.hooks("post_tool")[0].on_error == "warn"
    assert [hook.max_continues for hook in flow.hooks("turn_stopping")] == [3, 5]
    assert flow.hooks("pre_tool")[0].call is not guard.call, "hooks are never shared"


async def test_a_chain_runs_without_an_agent(flow: Flow) -> None:
    verdict = await flow.chain("pre_tool").run(
        PreTool(tool="shell", args={"command": "sudo x"}, subject="sudo x")
    )
    assert verdict.decision == Deny("No.")
    assert verdict.by == "no-sudo"
    with pytest.raises(ValueError, match="no hook point"):
        flow.chain("pre-tool")


async def test_a_turn_runs_with_the_hooks_of_the_file(flow: Flow) -> None:
    sudo = Reply(tool_calls=[ToolCall("shell", {"command": "sudo x"})])
    session = Session.memory()
    async with flow.agent(model=ScriptedModel([sudo], default="Done"), session=session) as agent:
        assert (await agent.prompt("Hi")).text == "Done"
    results = [entry.data["outcome"] for entry in session.entries if entry.type == "tool/result"]
    assert results == ["denied"]


async def test_a_model_that_gave_up_is_left_alone_as_the_file_says(write: Write) -> None:
    write(
        "version: 1\nmodel: {id: 'a:b', fallback: ['c:d'], cooldown: 60}\n"
        "retry: {max_attempts: 1, retry_on: [timeout]}\n"
    )
    own, other = ScriptedModel([Failure("quota")], id="a:b"), ScriptedModel(default="ok", id="c:d")
    agent = load_flow("flow.yaml").agent(models={"a:b": own, "c:d": other}, clock=FakeClock())
    async with agent:
        texts = [(await agent.prompt(said)).text for said in ("One", "Two")]
    assert texts == ["ok", "ok"]
    assert (len(own.requests), len(other.requests)) == (1, 2)


async def test_tools_and_hooks_of_the_caller_come_beside(flow: Flow) -> None:
    @tool
    def shell(command: str) -> str:
        """Stand in for the shell."""
        return command

    @tool
    def add(a: int) -> int:
        """Add."""
        return a

    def mine(payload: PreTool) -> None: ...

    agent = flow.agent(tools=[shell, add], hooks={"pre_tool": [mine], "context": []})
    assert agent.active_tools() == ("shell", "read_file", "add")
    assert [hook.id for hook in agent.chains["pre_tool"].hooks] == ["no-sudo", "mine"]
    assert "context" not in agent.chains
    with pytest.raises(ValueError, match="no hook point"):
        flow.agent(hooks={"pre-tool": [mine]})


async def test_a_script_is_relative_to_the_file_that_wrote_it(write: Write) -> None:
    write("- Hello\n", "parents/s.yaml")
    write("version: 1\nmodel: script:s.yaml\n", "parents/base.yaml")
    write("version: 1\nextends: parents/base.yaml\n")
    flow = load_flow("flow.yaml")
    assert flow.script is not None
    assert len(flow.script.steps) == 1
    async with flow.agent() as agent:
        assert (await agent.prompt("Hi")).text == "Hello"


def test_another_model_may_be_given(flow: Flow, write: Write) -> None:
    write("- Hello\n", "s.yaml")
    own = ScriptedModel(id="x:y")
    assert flow.agent(model=own).model is own
    assert flow.agent(model="script:s.yaml").model_id == "script:s.yaml"
    assert flow.agent(model="x:y", models={"x:y": own}).model is own
    with pytest.raises(UnknownModel):
        flow.agent(model="x:z")


def test_a_flow_without_a_model_runs_with_a_given_one_only(write: Write) -> None:
    write("version: 1\n")
    flow = load_flow("flow.yaml")
    assert flow.model is None
    with pytest.raises(FlowError, match="the flow names no model"):
        flow.agent()
    assert flow.agent(model="test").model_id == "test"


def test_a_wrong_flow_is_refused_with_every_problem(write: Write) -> None:
    write("version: 1\nzz: 1\nyy: 1\n")
    with pytest.raises(FlowError) as caught:
        load_flow("flow.yaml")
    assert [problem.line for problem in caught.value.problems] == [2, 3]


def test_warnings_do_not_stop_it(write: Write) -> None:
    write("version: 1\nmodel: {id: test, api_key_env: NOT_SET}\n")
    assert [problem.code for problem in load_flow("flow.yaml", env={}).warnings] == ["key-variable"]


def test_the_digest_is_of_the_content(write: Write) -> None:
    def digest(text: str, prompt: str = "p", **env: str) -> str:
        write(prompt, "p.md")
        write(text)
        return load_flow("flow.yaml", env=env).digest

    base = digest("version: 1\nprompt: [{file: p.md}]\n")
    assert len(base) == 64
    assert digest("# other\nversion: 1\nx-y: 5\n\nprompt:\n  - file: p.md\n") == base
    assert digest("version: 1\nprompt: [{file: p.md}]\n", "q") != base
    assert digest("version: 1\nprompt: [{file: p.md}]\nname: n\n") != base
    with_variable = "version: 1\ndescription: ${env:A}\n"
    assert digest(with_variable, A="1") == digest(with_variable, A="2"), "references stay unexpanded"


def test_a_shipped_flow_is_found_by_name_and_trusted(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from turnchart.flows import shipped

    write(
        "version: 1\nmodel: test\nprompt: [{file: p.md}]\nhooks: {session_end: [{run: [sh]}]}\n",
        "pkg/shipped/demo.yaml",
    )
    write("Hi", "pkg/shipped/p.md")
    monkeypatch.setattr(shipped, "__file__", str(tmp_path / "pkg" / "shipped.py"))
    flow = load_flow("demo")
    assert (flow.name, flow.trusted, flow.root) == ("demo", True, tmp_path)
    assert flow.agent().name == "demo"


def test_compaction_and_the_window_reach_the_agent(write: Write) -> None:
    write(
        """
        version: 1
        model: {id: test, context_window: 1000}
        compaction: {strategy: drop_oldest, trigger: 0.5, keep_last: 1, model: test}
        """
    )
    agent = load_flow("flow.yaml").agent()
    assert agent.compaction == Compaction("drop_oldest", 0.5, 1, "test")
    assert agent.context_window == 1000
    write("version: 1\nmodel: test\n")
    bare = load_flow("flow.yaml").agent()
    assert (bare.compaction, bare.context_window) == (Compaction(), None)
    assert not bare.compaction_asked
    assert agent.compaction_asked


def test_a_flow_can_be_looked_at_without_the_values_of_variables(write: Callable[..., Path]) -> None:
    write(
        """
        version: 1
        model: test
        params: {SIZE: {type: integer}}
        prompt: [{file: "${env:NOT_SET}/prompt.md"}]
        limits: {max_steps: "${env:NOT_SET}", max_tool_calls: "${param:SIZE}"}
        hooks:
          pre_tool: [{run: [sh, "${env:NOT_SET}"]}, {use: redact_secrets}]
        """
    )
    flow = flow_to_show("flow.yaml")
    assert flow.overlay().hooks["pre_tool"] == ("sh (flow.yaml:7)", "redact_secrets (flow.yaml:7)")
    with pytest.raises(NotTrusted):
        flow.agent()
    write("version: 1\nhooks: {pre_tool: [{use: nobody}]}\n")
    with pytest.raises(FlowError):
        flow_to_show("flow.yaml")

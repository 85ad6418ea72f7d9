"""``outside:`` in a flow: checked, agreed to, and shut in tests."""

from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.flows import load_flow
from turnchart.flows.agreements import agree
from turnchart.flows.check import check_flow, examine
from turnchart.flows.openings import closed
from turnchart.flows.problems import NotTrusted, Problem
from turnchart.flows.trust import not_agreed, reaches_of
from turnchart.machine import Reply, ScriptedModel, ToolCall

Write = Callable[..., Path]
FLOW = "version: 1\nmodel: test\ntools:\n  - {use: read_file, with: {outside: [../open]}}\n  - write_file\n"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


@pytest.fixture(name="opened")
def _opened(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder beside the project, with a file; the flow opens it to read_file."""
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "a.txt").write_text("word")
    monkeypatch.chdir(project)
    (project / "flow.yaml").write_text(FLOW)
    return tmp_path / "open"


def test_it_is_listed_with_where_it_really_is_and_for_whom(opened: Path) -> None:
    (reach,) = reaches_of(examine("flow.yaml"))
    assert str(reach) == f"opens ../open ({opened}) to read_file"
    assert reach.where == "flow.yaml:4"
    with pytest.raises(NotTrusted, match=r"this flow opens \.\./open"):
        load_flow("flow.yaml").agent()


def test_a_link_that_leads_elsewhere_now_is_asked_about_again(opened: Path) -> None:
    checked = examine("flow.yaml")
    agree(checked.path, checked.place.root, {reach.digest for reach in reaches_of(checked)})
    assert not_agreed(examine("flow.yaml")) == ()
    opened.rename(opened.parent / "other")
    opened.symlink_to("other")
    assert len(not_agreed(examine("flow.yaml"))) == 1


def test_another_tool_or_folder_is_another_thing(opened: Path) -> None:
    first = {reach.digest for reach in reaches_of(examine("flow.yaml"))}
    for text in (FLOW.replace("../open", ".."), FLOW.replace("use: read_file", "use: list_files")):
        Path("flow.yaml").write_text(text)
        assert first.isdisjoint(reach.digest for reach in reaches_of(examine("flow.yaml")))


async def test_only_the_tool_that_says_so_reaches_it(opened: Path) -> None:
    calls = [
        ToolCall("read_file", {"path": "../open/a.txt"}),
        ToolCall("write_file", {"path": "../open/a.txt", "content": "new"}),
    ]
    flow = load_flow("flow.yaml", trust=True)
    async with flow.agent(model=ScriptedModel([Reply(tool_calls=calls), "done"]), hooks={}) as agent:
        agent.permissions = type(agent.permissions).all()
        await agent.prompt("go")
    read, written = [each for each in agent.session.context() if each.role == "tool_result"]
    assert (read.text, read["is_error"]) == ("word", False)
    assert written["is_error"] is True
    assert "leads out of the folder" in written.text
    assert (opened / "a.txt").read_text() == "word"


def test_what_is_not_there_is_a_warning(problems: Callable[..., list[Problem]]) -> None:
    [problem] = problems("tools: [{use: read_file, with: {outside: [../nowhere]}}]\n")
    assert (problem.code, problem.level, problem.line, problem.column) == ("run-file", "warning", 2, 43)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("tools: [{use: read_file, with: {outside: ['']}}]\n", "bad-value"),
        ("tools: [{use: read_file, with: {outside: ..}}]\n", "bad-value"),
        ('tools: [{use: read_file, with: {outside: ["a\\0b"]}}]\n', "bad-value"),
        ("tools: [{use: read_file, with: {outside: [~]}}]\n", "bad-value"),
        ("tools: [{use: read_file, with: {outside: [{a: b}]}}]\n", "bad-value"),
        ("tools: [{use: shell, with: {cwd: .., outside: [src]}}]\n", "path-outside"),
    ],
)
def test_what_is_no_folder_is_an_error(problems: Callable[..., list[Problem]], text: str, code: str) -> None:
    assert code in [each.code for each in problems(text) if each.level == "error"]


def test_no_tool_may_write_where_answers_are_kept(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path.parent / "state-of-test"
    state.mkdir(exist_ok=True)
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    write(f"version: 1\ntools: [{{use: write_file, with: {{outside: ['{state}']}}}}]\n")
    assert [(each.code, each.level) for each in check_flow("flow.yaml")] == [("path-outside", "error")]
    write(f"version: 1\ntools: [{{use: read_file, with: {{outside: ['{state}']}}}}]\n")
    assert check_flow("flow.yaml") == []


def test_a_test_shuts_it_also_in_the_flow_of_a_tool(opened: Path) -> None:
    Path("outer.yaml").write_text(
        "version: 1\nmodel: test\ntools: [{use: agent, as: inner, with: {file: flow.yaml}}]\n"
    )
    assert [str(each) for each in reaches_of(examine("outer.yaml"))] == [
        f"opens ../open ({opened}) to read_file"
    ]
    (named,) = closed(examine("outer.yaml")).tools
    assert named.flow is not None
    (tool, _) = [each.tool for each in named.flow.tools]
    assert tool is not None
    assert "Beside the project" not in tool.description
    assert named.tool is not None


def test_a_real_stub_does_not_reach_it(opened: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from turnchart.flows.cli import main

    Path("flow.test.yaml").write_text(
        "version: 1\nflow: flow.yaml\ntests:\n"
        "  - name: shut\n    prompt: go\n    approve: all\n"
        f"    model: [{{call: read_file, args: {{path: '{opened}/a.txt'}}}}, done]\n"
        "    tools: {read_file: {real: true}}\n"
        "    expect: {calls: [{tool: read_file, outcome: error}]}\n"
    )
    with pytest.raises(SystemExit) as end:
        main(["test", "flow.test.yaml", "--trust"])
    assert end.value.code == 0, capsys.readouterr().out


@pytest.mark.parametrize("cwd", ["../open", "sub"])
def test_a_program_that_would_start_there_starts_in_the_root_of_a_test(
    opened: Path, capsys: pytest.CaptureFixture[str], cwd: str
) -> None:
    from turnchart.flows.cli import main

    Path("sub").mkdir()
    tool = f"{{use: shell, with: {{cwd: {cwd}, outside: [../open]}}}}"
    Path("flow.yaml").write_text(f"version: 1\nmodel: test\ntools: [{tool}]\n")
    Path("flow.test.yaml").write_text(
        "version: 1\nflow: flow.yaml\ntests:\n"
        "  - name: elsewhere\n    prompt: go\n    approve: all\n"
        "    model: [{call: shell, args: {command: pwd}}, done]\n"
        "    tools: {shell: {real: true}}\n"
        "    expect: {calls: [{tool: shell, outcome: ok}]}\n"
    )
    with pytest.raises(SystemExit) as end:
        main(["test", "flow.test.yaml", "--trust"])
    assert end.value.code == 0, capsys.readouterr()


def test_what_can_be_no_path_is_listed_as_it_stands(write: Write) -> None:
    write('version: 1\ntools: [{use: read_file, with: {outside: ["a\\0b"]}}]\n')
    assert [reach.what for reach in reaches_of(examine("flow.yaml"))] == ["a\0b to read_file"]

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.flows.check import check_flow
from turnchart.flows.paths import beside, outside, place_of
from turnchart.flows.source import Scalar, Source, read_text

Write = Callable[..., Path]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".git").mkdir(parents=True)
    (tmp_path / "project" / "flows" / "deep").mkdir(parents=True)
    return tmp_path / "project"


def test_the_root_is_the_nearest_folder_with_a_mark(project: Path) -> None:
    assert place_of(project / "flows" / "deep" / "a.yaml").root == project
    (project / "flows" / "pyproject.toml").touch()
    assert place_of(project / "flows" / "deep" / "a.yaml").root == project / "flows"


def test_without_a_mark_it_is_the_folder_of_the_flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lone").mkdir()
    monkeypatch.chdir(tmp_path)
    assert place_of(Path("lone/a.yaml")).root == tmp_path / "lone"


def test_paths_are_relative_to_the_file_that_wrote_them() -> None:
    source = Source("flows/a.yaml", Path("/p/flows/a.yaml"), ())
    assert beside(source, "../prompts/x.md") == (Path("/p/flows/../prompts/x.md"), "prompts/x.md")


def test_nothing_leads_out_of_the_project(project: Path) -> None:
    os.symlink("/etc", project / "link")
    root = read_text("a: x", "a.yaml", project / "a.yaml").root
    assert root is not None
    node = Scalar(root.source, 1, 4, 1, "x")
    wrong = {
        text: outside(node, text, project / text, project)
        for text in ("flows/a.md", "../x.md", "link/passwd", "/etc/passwd", str(project / "x"), "nul\0")
    }
    assert {text: problem.code for text, problem in wrong.items() if problem} == {
        "../x.md": "path-outside", "link/passwd": "path-outside", "/etc/passwd": "path-outside",
        "nul\0": "bad-value",
    }  # fmt: skip


KEYS = [
    "prompt: [{file: PATH}]", "model: script:NAME", "extends: PATH", "output: {schema: PATH}",
    'output: {schema: "NAME.json"}', "tools: [{use: agent, with: {file: PATH}}]",
    "tools: [{use: read_file, with: {outside: [PATH]}}]", "tools: [{use: shell, with: {cwd: PATH}}]",
    "tools: [{use: script, with: {command: [PATH], description: x}}]", "session: {store: jsonl, path: PATH}",
    "hooks: {pre_tool: [{run: [PATH]}]}", "hooks: {pre_tool: [{run: [sh], cwd: PATH}]}",
    'hooks: {pre_tool: [{run: ["./NAME"]}]}', 'hooks: {pre_tool: [{run: ["/NAME"]}]}',
    "hooks: {pre_tool: [{run: [python, PATH]}]}", "hooks: {context: [{use: add_text, with: {file: PATH}}]}",
    "hooks: {pre_tool: [{use: audit_log, with: {path: PATH}}]}",
    "hooks: {turn_stopping: [{use: keep_going, with: {prompt_file: PATH}}]}",
    "mcp: {s: {command: [PATH], cwd: PATH}}\ntools: [{mcp: s}]",
]  # fmt: skip


@pytest.mark.parametrize("name", ["x" * 5000, "a/" * 3000 + "b", "x\\0y"], ids=["long", "deep", "nul"])
@pytest.mark.parametrize("key", KEYS)
def test_a_path_that_no_system_takes_is_a_problem_and_no_crash(write: Write, key: str, name: str) -> None:
    write("version: 1\n" + key.replace("PATH", f'"{name}"').replace("script:NAME", f'"script:{name}"')
          .replace("NAME", name) + "\n")  # fmt: skip
    for lint in (False, True):
        assert all(problem.line for problem in check_flow("flow.yaml", lint=lint))

from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.flows import FlowError
from turnchart.flows.testfiles.finding import load_suite


@pytest.mark.parametrize(
    ("keys", "code", "line", "says"),
    [
        ("prompt: x\ntools: {shel: {returns: a}}", "unknown-tool", 6, 'did you mean "shell"?'),
        ("prompt: x\napprove: ['shell(ls']", "permission-rule", 6, "write tool, server.tool"),
        ("prompt: x\napprove: [write_file]", "dead-permission", 6, "no tool is named `write_file`"),
        ("prompt: x\nexpect: {hooks: [{id: no}]}", "unknown-id", 6, "ids: no-destructive"),
        ("model: [a]", "missing-key", 4, "write prompt: TEXT"),
    ],
)  # fmt: skip
def test_names_that_the_flow_does_not_have_are_told(
    keys: str, code: str, line: int, says: str, suite: Callable[..., str]
) -> None:
    with pytest.raises(FlowError) as error:
        load_suite(suite(keys))
    [problem] = error.value.problems
    assert (problem.code, problem.line) == (code, line)
    assert says in f"{problem.message} {problem.help}"


def test_a_tool_that_runs_at_the_provider_has_no_stub(write: Callable[..., Path]) -> None:
    write("version: 1\nmodel: test\ntools: [web_search]\n", "searching.yaml")
    file = write(
        "version: 1\nflow: searching.yaml\ntests:\n  - name: a\n    prompt: x\n"
        "    tools: {web_search: {returns: a}}\n",
        "searching.test.yaml",
    )
    with pytest.raises(FlowError) as raised:
        load_suite(str(file))
    [problem] = raised.value.problems
    assert (problem.code, problem.line) == ("provider-tool", 6)
    assert "no stub of web_search is ever played" in problem.message

from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.flows.load import load_flow
from turnchart.flows.problems import NotTrusted

Write = Callable[..., Path]

FLOW = """
version: 1
model: {id: test, base_url: 'https://example.org', api_key_env: KEY}
hooks:
  session_start:
    - {run: [sh, -c, exit 0], env_from: [A, {B: C}]}
    - {run: [sh], disabled: true}
"""


def test_what_a_flow_reaches_is_listed_with_place_and_variables(write: Write) -> None:
    write(FLOW)
    reaches = load_flow("flow.yaml").reaches
    assert [(each.what, each.where, each.variables) for each in reaches] == [
        ("https://example.org", "flow.yaml:2", ("KEY",)),
        ("sh -c 'exit 0'", "flow.yaml:5", ("A", "C")),
    ]


def test_references_stay_unexpanded_in_the_list(write: Write) -> None:
    write("version: 1\nmodel:\n  id: test\n  base_url: https://${env:HOST}\n")
    (reach,) = load_flow("flow.yaml", env={"HOST": "secret.example"}).reaches
    assert reach.what == "https://${env:HOST}"


def test_nothing_is_made_before_somebody_agrees(write: Write) -> None:
    write(FLOW)
    with pytest.raises(NotTrusted) as caught:
        load_flow("flow.yaml").agent()
    assert [(p.code, p.line) for p in caught.value.problems] == [("not-trusted", 2), ("not-trusted", 5)]
    assert load_flow("flow.yaml", trust=True).agent().name == "flow"


def test_a_flow_that_reaches_nothing_needs_no_trust(write: Write) -> None:
    write("version: 1\nmodel: test\ntools: [shell]\n")
    flow = load_flow("flow.yaml")
    assert flow.reaches == ()
    assert flow.agent().name == "flow"


def test_every_command_of_a_parameter_is_listed(write: Write) -> None:
    code = """
        from turnchart.hooks import PreTool, hook
        from turnchart.hooks.params import Command

        @hook("trust_runs", on="pre_tool")
        def trust_runs(payload: PreTool, *, command: Command) -> None: ...
        """
    write(code, "trust_plugin.py")
    write("version: 1\nhooks: {pre_tool: [{use: trust_runs, with: {command: [sh, -c, 'a b']}}]}\n")
    flow = load_flow("flow.yaml", plugins=["trust_plugin"])
    assert [each.what for each in flow.reaches] == ["sh -c 'a b'"]

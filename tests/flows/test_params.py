from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnchart.flows import load_flow
from turnchart.flows.check import examine
from turnchart.flows.problems import FlowError

Found = Callable[..., list[tuple[str, int, int]]]
Write = Callable[..., Path]

FLOW = """
version: 1
model: test
params:
  language: {default: English, description: What to write in.}
  steps: {type: integer, default: 5}
  brief: {type: boolean}
prompt: Answer in ${param:language}. Brief? ${param:brief}
limits: {max_steps: '${param:steps}', max_tool_calls: "${param:steps}"}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("params: {a: {default: x}}\nname: ${param:a}\n", []),
        ("params: {a: {}}\nname: ${param:a}\n", []),
        ("params: {a: {default: 5}}\nlimits: {max_steps: '${param:a}'}\n", [("bad-value", 3, 21)]),
        ("params: {a: {default: x}}\nlimits: {max_steps: \"${param:a}\"}\n", [("bad-value", 3, 21)]),
        ("name: ${param:a}\n", [("unknown-param", 2, 7)]),
        ("params: {a: {default: '5', type: integer}}\n", []),
        ("params: {a: {default: 5.5, type: integer}}\n", [("bad-value", 2, 23)]),
        ("params: {a: {default: true, type: number}}\n", [("bad-value", 2, 23)]),
        ("params: {a: {default: [1]}}\n", [("bad-value", 2, 23)]),
        ("params: {a: {default: 1, typ: number}}\n", [("unknown-key", 2, 26)]),
        ("params: {a: text}\n", [("bad-value", 2, 13)]),
        ("params: {'a b': {}}\n", [("bad-value", 2, 17)]),
        ("params: {a: {default: '${param:a}'}}\n", []),
        ('params: {a: {default: "${param:b}"}, b: {}}\n', [("unknown-param", 2, 24)]),
        ("params: {a: {default: \"${env:A}\"}}\nname: ${param:a}\n", [("env-missing", 2, 24)]),
    ],
)  # fmt: skip
def test_what_is_declared_and_referred_to(
    found: Found, text: str, expected: list[tuple[str, int, int]]
) -> None:
    assert found(text) == expected


def test_values_are_those_given_else_the_defaults(write: Write) -> None:
    write(FLOW.replace("'${param:steps}'", "9"))
    flow = load_flow("flow.yaml", params={"brief": "true"})
    assert flow.prompt == ("Answer in English. Brief? true",)
    assert flow.file.limits.max_tool_calls == 5
    flow = load_flow("flow.yaml", params={"brief": False, "language": "Latin", "steps": 7})
    assert flow.prompt == ("Answer in Latin. Brief? false",)
    assert flow.file.limits.max_tool_calls == 7
    assert flow.agent().limits.max_tool_calls == 7


def test_single_quotes_keep_a_reference_as_text(write: Write) -> None:
    write("version: 1\nparams: {a: {default: x}}\nname: '${param:a}'\n")
    assert load_flow("flow.yaml").name == "${param:a}"


def test_a_value_that_nobody_gave_is_missed_when_an_agent_is_made(write: Write) -> None:
    write(FLOW.replace("'${param:steps}'", "9"))
    flow = load_flow("flow.yaml")
    with pytest.raises(FlowError) as caught:
        flow.agent()
    [problem] = caught.value.problems
    assert (problem.code, problem.line, problem.message) == (
        "param-missing",
        6,
        "the param brief has no value",
    )
    assert "--param brief=VALUE" in problem.help


@pytest.mark.parametrize(
    ("params", "code", "message"),
    [
        ({"steps": "many"}, "bad-value", 'the param steps is "many"; it must be a whole number'),
        ({"steps": "1.5"}, "bad-value", 'the param steps is "1.5"; it must be a whole number'),
        ({"brief": "yes"}, "bad-value", 'the param brief is "yes"; it must be true or false'),
        ({"stepps": "1"}, "unknown-param", 'the flow has no param named "stepps"'),
    ],
)
def test_wrong_values_are_told(write: Write, params: dict[str, Any], code: str, message: str) -> None:
    write(FLOW.replace("'${param:steps}'", "9"))
    with pytest.raises(FlowError) as caught:
        load_flow("flow.yaml", params=params)
    assert [(problem.code, problem.message) for problem in caught.value.problems] == [(code, message)]


def test_a_flow_without_params_takes_none(write: Write) -> None:
    write("version: 1\n")
    [problem] = examine("flow.yaml", params={"a": 1}).problems
    assert (problem.code, problem.help) == ("unknown-param", "params: none")


def test_a_parent_may_declare_and_use_them(write: Write) -> None:
    write("version: 1\nparams: {a: {}}\nprompt: ${param:a}\n", "base.yaml")
    write("version: 1\nextends: base.yaml\nmodel: test\nparams: {a: {default: x}}\n")
    assert load_flow("flow.yaml").prompt == ("x",)
    assert load_flow("flow.yaml", params={"a": "y"}).prompt == ("y",)


def test_the_digest_does_not_know_them(write: Write) -> None:
    write("version: 1\nparams: {a: {}}\nprompt: ${param:a}\n")
    first, second = (load_flow("flow.yaml", params={"a": each}).digest for each in "xy")
    assert first == second

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.flows import load_flow, output
from turnchart.flows.check import examine
from turnchart.machine import ScriptedModel, TurnchartError

Found = Callable[..., list[tuple[str, int, int]]]
Write = Callable[..., Path]

SCHEMA = {"type": "object", "properties": {"bugs": {"type": "integer"}}, "required": ["bugs"]}
FLOW = f"version: 1\nmodel: test\nprompt: Count.\noutput:\n  schema: {json.dumps(SCHEMA)}\n"


async def test_an_answer_that_does_not_fit_goes_back(write: Write) -> None:
    write(FLOW)
    flow = load_flow("flow.yaml")
    model = ScriptedModel(["Three.", '{"bugs": "3"}', '{"bugs": 3}'])
    async with flow.agent(model=model) as agent:
        turn = await agent.prompt("x")
    assert (turn.reason, turn.text, turn.steps) == ("completed", '{"bugs": 3}', 3)
    said = [each.text for each in agent.session.context() if each.role == "user"]
    assert "it is no JSON" in said[1]
    assert "at $.bugs: '3' is not of type 'integer'" in said[2]
    [first, *_] = [each.data for each in agent.session.entries if each.type == "hook/result"]
    assert (first["id"], first["where"]) == ("output", "flow.yaml:5")


async def test_a_model_that_never_fits_is_stopped_by_the_limit(write: Write) -> None:
    write(FLOW + "limits: {max_continues: 2}\n")
    async with load_flow("flow.yaml").agent(model=ScriptedModel(["no"] * 3)) as agent:
        turn = await agent.prompt("x")
    assert turn.reason == "max_continues"


def test_the_model_is_told(write: Write) -> None:
    write(FLOW)
    first, told = load_flow("flow.yaml").prompt
    assert first == "Count."
    assert told.endswith(json.dumps(SCHEMA, separators=(",", ":")))


@pytest.mark.parametrize(("name", "text"), [("s.json", json.dumps(SCHEMA)), ("s.yaml", "type: object\n")])
def test_the_schema_may_stand_in_a_file(write: Write, name: str, text: str) -> None:
    write(text, name)
    write(f"version: 1\nmodel: test\noutput: {{schema: {name}}}\n")
    flow = load_flow("flow.yaml")
    assert '"type":"object"' in flow.prompt[-1]
    assert [hook.id for hook in flow.hooks("turn_stopping")] == ["output"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("output: {}\n", [("missing-key", 2, 9)]),
        ("output: x\n", [("bad-value", 2, 9)]),
        ("output: {schema: 5}\n", [("bad-value", 2, 18)]),
        ("output: {schema: [x]}\n", [("bad-value", 2, 18)]),
        ("output: {schema: none.json}\n", [("file-missing", 2, 18)]),
        ("output: {schema: ../x.json}\n", [("path-outside", 2, 18)]),
        ("output: {schema: flow.yaml}\n", []),
        ("output: {schema: {type: objekt}}\n", [("json-schema", 2, 25)]),
        ("output: {schema: {properties: {a: {minimum: x}}}}\n", [("json-schema", 2, 45)]),
        ("output: {schema: {type: object}, strict: true}\n", [("unknown-key", 2, 34)]),
    ],
)
def test_what_is_wrong(found: Found, text: str, expected: list[tuple[str, int, int]]) -> None:
    assert found(text) == expected


def test_a_file_that_is_no_json(write: Write) -> None:
    write("{", "s.json")
    write("version: 1\noutput: {schema: s.json}\n")
    assert [each.code for each in examine("flow.yaml").problems] == ["json-schema"]
    write("a: [", "s.yaml")
    write("version: 1\noutput: {schema: s.yaml}\n")
    assert [each.code for each in examine("flow.yaml").problems] == ["yaml-syntax"]


async def test_a_schema_reads_nothing_from_elsewhere(write: Write) -> None:
    write("version: 1\nmodel: test\noutput: {schema: {$ref: 'http://example.org/s.json'}}\n")
    async with load_flow("flow.yaml").agent(model=ScriptedModel(["{}"])) as agent:
        turn = await agent.prompt("x")
    assert turn.reason == "error"
    assert "http://example.org/s.json" in str(turn.error)


def test_without_the_library_it_is_said_what_to_install(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(FLOW)

    def nowhere(name: str) -> None: ...

    monkeypatch.setattr(output, "find_spec", nowhere)
    monkeypatch.setitem(sys.modules, "jsonschema.validators", None)
    flow = load_flow("flow.yaml")
    assert [(each.code, each.level) for each in flow.warnings] == [("extra", "warning")]
    with pytest.raises(TurnchartError, match=r"pip install 'turnchart\[output\]'"):
        flow.agent()

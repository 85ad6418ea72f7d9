from typing import Any

import pytest

from turnchart.machine.json_parameters import ANYTHING, JsonParameters, plain_json
from turnchart.machine.tool_arguments import ToolArgumentError
from turnchart.machine.tools import Tool, ToolContext, run_tool

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "deep": {"type": "array", "items": {"$ref": "#/$defs/word"}}},
    "required": ["a"],
    "$defs": {"word": {"type": "string", "maxLength": 3}},
}


def wrong(schema: dict[str, Any], given: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    with pytest.raises(ToolArgumentError) as caught:
        JsonParameters("t", schema).parse(given)
    return caught.value.problems


def test_arguments_that_fit_come_back_as_plain_json() -> None:
    found = JsonParameters("t", SCHEMA)
    assert found.parse({"a": 1, "deep": ("x",), "more": None}) == {"a": 1, "deep": ["x"], "more": None}


def test_every_mistake_is_told_with_its_place() -> None:
    assert wrong(SCHEMA, {"deep": ["xxxx", 1]}) == (
        ("", "'a' is a required property"),
        ("deep[0]", "'xxxx' is too long"),
        ("deep[1]", "1 is not of type 'string'"),
    )


def test_a_long_message_is_cut() -> None:
    [(name, said)] = wrong({"properties": {"a b": {"type": "string"}}}, {"a b": list(range(500))})
    assert name == "['a b']"
    assert (len(said), said[-3:]) == (303, "...")


@pytest.mark.parametrize("reference", ["https://x.example/schema", "#/nowhere", "file:///etc/passwd"])
def test_a_reference_that_leads_elsewhere_refuses_the_arguments(reference: str) -> None:
    [(name, said)] = wrong({"properties": {"a": {"$ref": reference}}}, {"a": 1})
    assert name == ""
    assert said.startswith("they cannot be checked: ")


@pytest.mark.parametrize(
    "schema",
    [{"type": "array"}, {"properties": []}, {"properties": {"a": {"type": "many"}}}, {"required": "a"}],
)
def test_what_is_no_schema_of_an_object_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="tool `t`: "):
        JsonParameters("t", schema)


def test_where_anything_fits_nothing_is_checked() -> None:
    assert JsonParameters("t", {}).schema == ANYTHING
    assert JsonParameters("t", {}).parse({"x": [1]}) == {"x": [1]}


def test_the_spec_is_the_same_object_until_its_name_changes() -> None:
    found = JsonParameters("t", SCHEMA)
    first = found.spec("t", "d")
    assert first == {"name": "t", "description": "d", "schema": found.schema}
    assert found.spec("t", "d") is first
    assert found.spec("u", "d")["name"] == "u"
    assert plain_json(found.schema) == SCHEMA


async def test_a_tool_with_a_schema_of_its_own_gets_its_arguments_as_one_value() -> None:
    async def body(args: dict[str, Any], ctx: ToolContext) -> Any:
        return [args, ctx.call_id]

    tool = Tool("t", "", body, is_async=True, takes_ctx=True, input_schema={"required": ["ctx"]})
    args = tool.parse('{"ctx": 1, "self": 2}')
    outcome = await run_tool(tool, args, ToolContext("c1"))
    assert [block["text"] for block in outcome.content] == ['[{"ctx":1,"self":2},"c1"]']
    with pytest.raises(ToolArgumentError):
        tool.parse({})

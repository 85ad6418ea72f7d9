"""What is no matter of a single value: which keys go together, and what one mistake does not hide."""

from collections.abc import Callable

import pytest

from turnchart.flows.parts import ELSEWHERE, Parts, parts_of
from turnchart.flows.problems import Problem
from turnchart.flows.source import MapNode, read_text
from turnchart.flows.validate import Reading
from turnchart.machine.points import POINTS

Found = Callable[..., list[tuple[str, int, int]]]


def parts(text: str) -> tuple[Parts, list[Problem]]:
    root = read_text(text, "f").root
    assert isinstance(root, MapNode)
    reading = Reading({})
    return parts_of(root, reading), reading.problems


def test_a_wrong_part_does_not_hide_the_others() -> None:
    made, problems = parts(
        "queues: {x: 1}\ntools: [shell, 5]\nhooks: {pre_tool: [{use: a}, 5], zz: []}\nname: n\n"
    )
    assert [problem.code for problem in problems] == ["unknown-key", "bad-value", "bad-value", "unknown-key"]
    assert made.file.name == "n"
    assert [tool.name for tool in made.tools] == ["shell"]
    assert not made.tools_complete
    assert [hook.spec.use for hook in made.chain()] == ["a"]


def test_a_part_knows_its_place() -> None:
    made, _ = parts("hooks:\n  pre_tool:\n    - {use: a, tools: [x]}\n")
    (hook,) = made.chain()
    assert hook.where == "f:3"
    assert hook.at("tools", 0).column == 24
    assert hook.key("tools").column == 16


def test_variables_that_the_flow_names_are_hidden_from_commands() -> None:
    made, _ = parts(
        "model: {id: a:b, api_key_env: KEY}\ntools: [{use: shell, with: {env_from: [A, {B: C}, 5]}}]\n"
        "hooks: {pre_tool: [{run: [x], env_from: [D, {E: F}]}]}\n"
    )
    assert made.variables() == {"KEY", "A", "C", "D", "F"}
    assert parts("tools: [{use: shell, with: {env_from: 5}}]")[0].variables() == frozenset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x-a: {anything: goes}\n", []),
        ("hooks: 5\n", [("bad-value", 2, 8)]),
        ("hooks: !x 5\n", [("yaml-tag", 2, 8)]),
        ("hooks: {pre_tool: }\n", [("bad-value", 2, 19)]),
        ("hooks: {pre_tool: [[]]}\n", [("bad-value", 2, 20)]),
        ("hooks: {pre_tool: [{}]}\n", [("missing-key", 2, 20)]),
        ("hooks: {pre_tool: [{usee: x}]}\n", [("unknown-key", 2, 21)]),
        ("hooks: {pre_tool: [{use: }]}\n", [("bad-value", 2, 26)]),
        ("hooks: {session_start: [{run: [sh], with: {}}]}\n", [("key-not-here", 2, 37)]),
        ("tools: [{as: x}]\n", [("missing-key", 2, 9)]),
        ("tools: [{usee: shell}]\n", [("unknown-key", 2, 10)]),
        ("tools: [{use: shell, only: [a]}]\n", [("key-not-here", 2, 22)]),
        ("tools: {use: shell}\n", [("bad-value", 2, 8)]),
        (
            "params: []\nextensions: {}\noutput: x\nmcp: []\n",
            [("bad-value", 2, 9), ("bad-value", 3, 13), ("bad-value", 4, 9), ("bad-value", 5, 6)],
        ),
    ],
)
def test_shapes(found: Found, text: str, expected: list[tuple[str, int, int]]) -> None:
    assert found(text) == expected


def test_names_of_other_programs_lead_to_points_that_exist() -> None:
    assert set(ELSEWHERE.values()) <= set(POINTS)

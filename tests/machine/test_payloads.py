"""What hooks get: frozen payloads, changed with ``replace``, that reach the world through ``world``."""

import json
from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import MISSING, FrozenInstanceError, fields, replace
from inspect import Parameter, signature
from pickle import dumps, loads
from typing import Any, cast

import pytest

from turnchart.machine import Text, UserMessage
from turnchart.machine.entries import Frozen
from turnchart.machine.payloads import (
    Assemble,
    Context,
    Payload,
    PostTool,
    PreStep,
    PreTool,
    Request,
    RequestError,
    SessionStart,
    ToolOutcome,
    TurnStopping,
)
from turnchart.machine.points import POINTS
from turnchart.machine.turn_view import Ran
from turnchart.machine.world import Finished

EVERY = [point.payload for point in POINTS.values()]


class Stub:
    """A world that writes down what it was asked."""

    root = "/root"

    def __init__(self) -> None:
        self.asked: list[object] = []

    def now(self) -> float:
        return 12.5

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        timeout: float = 30,  # noqa: ASYNC109  # as the protocol says
        env: Mapping[str, str] | None = None,
        cwd: str = ".",
    ) -> Ran:
        self.asked.append((tuple(argv), stdin, timeout))
        return Finished(0, "out", "")

    async def ask_model(self, model: str, prompt: str) -> str:
        self.asked.append((model, prompt))
        return "yes"

    def read(self, path: str) -> str:
        return f"text of {path}"

    def append(self, path: str, text: str) -> None:
        self.asked.append((path, text))

    def notice(self, text: str) -> None:
        self.asked.append(text)

    def inject(self, text: str, source: str) -> None:
        self.asked.append((text, source))


@pytest.mark.parametrize("kind", EVERY)
def test_every_field_has_a_default_and_none_can_be_assigned(kind: type[Payload]) -> None:
    payload = kind()
    for field in fields(payload):
        with pytest.raises(FrozenInstanceError):
            setattr(payload, field.name, None)
        with pytest.raises(FrozenInstanceError):
            delattr(payload, field.name)


@pytest.mark.parametrize("kind", EVERY)
def test_a_payload_takes_its_fields_by_name_and_nothing_else(kind: type[Payload]) -> None:
    given: dict[str, Any] = {field.name: object() for field in fields(kind)}
    made = kind(**given)
    assert all(getattr(made, name) is value for name, value in given.items())
    with pytest.raises(TypeError, match="unexpected keyword argument 'wrong'"):
        cast(Any, kind)(wrong=1)


@pytest.mark.parametrize("kind", EVERY)
def test_a_payload_says_what_it_takes(kind: type[Payload]) -> None:
    asked = signature(kind).parameters
    assert list(asked) == [each.name for each in fields(kind)]
    made, plain = kind(), [each.name for each in fields(kind) if each.default_factory is MISSING]
    assert all(asked[name].default == getattr(made, name) for name in plain)
    assert {each.kind for each in asked.values()} == {Parameter.KEYWORD_ONLY}


def test_a_deep_copy_of_a_payload_shares_no_memory() -> None:
    payload = PreTool(memory={"seen": [1]})
    again = deepcopy(payload)
    again.memory["seen"].append(2)
    assert payload.memory == {"seen": [1]}


def test_a_payload_can_be_copied_and_kept() -> None:
    payload = PreTool(tool="shell", args={"command": "ls"}, call_id="c1")
    for again in (copy(payload), replace(payload)):
        assert again == payload
        assert again is not payload
    for again in (deepcopy(payload), loads(dumps(payload))):
        assert again.json() == payload.json()


@pytest.mark.parametrize("kind", EVERY)
def test_hooks_may_change_what_the_contract_names_and_nothing_else(kind: type[Payload]) -> None:
    payload = kind()
    for field in fields(payload):
        if field.name in kind.may_change:
            assert payload.replace(**{field.name: getattr(payload, field.name)}) == payload
        else:
            with pytest.raises(
                TypeError, match=rf"{kind.__name__}\.{field.name} cannot be changed by a hook"
            ):
                payload.replace(**{field.name: None})


def test_what_may_be_changed_is_told_to_whoever_tries_something_else() -> None:
    with pytest.raises(TypeError, match=r"PreTool\.tool cannot be changed by a hook; it may change args$"):
        PreTool().replace(tool="other")
    with pytest.raises(TypeError, match=r"it may change nothing$"):
        TurnStopping().replace(text="other")
    with pytest.raises(TypeError, match=r"Request\.wrong cannot be changed"):
        Request().replace(wrong=1)


def test_a_changed_payload_is_another_one_and_says_in_what_it_differs() -> None:
    before = PostTool(tool="add", content=(Text("3"),))
    after = before.replace(content=(Text("4"),), context="mind it")
    assert before.text == "3"
    assert (after.tool, after.text) == ("add", "4")
    assert after.changed(before) == ("content", "context")
    assert before.changed(before) == ()


@pytest.mark.parametrize("kind", EVERY)
def test_payloads_are_equal_where_kind_and_fields_are(kind: type[Payload]) -> None:
    assert kind(step=2) == kind(step=2)
    assert kind(step=2) != kind(step=3)
    assert kind() != Payload()
    assert kind() != object()
    with pytest.raises(TypeError, match="unhashable"):
        hash(kind())


def test_a_payload_shows_its_fields_by_name() -> None:
    shown = repr(PreTool(tool="add", args=Frozen(a=1)))
    assert shown.startswith("PreTool(agent='', flow='', session=''")
    assert shown.endswith("tool='add', args={'a': 1}, call_id='', subject=None, subject_name=None)")


def test_fields_that_hooks_may_not_change_do_not_count_as_changed() -> None:
    assert PreTool(tool="a").changed(PreTool(tool="b")) == ()


async def test_the_world_is_reached_through_the_payload() -> None:
    world = Stub()
    payload = PreStep(world=world)
    assert payload.now == 12.5
    assert (await payload.run(["ls", "-l"], stdin="x", timeout=3)).output == "out"
    assert await payload.ask_model("m", "ok?") == "yes"
    assert payload.read("a.txt") == "text of a.txt"
    payload.notice("hear")
    assert world.asked == [(("ls", "-l"), "x", 3), ("m", "ok?"), "hear"]


async def test_without_a_world_it_says_what_is_missing() -> None:
    payload = SessionStart()
    with pytest.raises(RuntimeError, match=r"this SessionStart was made without a world"):
        _ = payload.now
    with pytest.raises(RuntimeError, match="pass world= to run_chain"):
        await payload.run(["ls"])
    with pytest.raises(RuntimeError):
        payload.notice("x")


@pytest.mark.parametrize(
    ("payload", "own"),
    [
        (
            PreTool(tool="add", args={"a": 1}, call_id="c1"),
            {"tool": "add", "args": {"a": 1}, "call_id": "c1"},
        ),
        (RequestError(kind="timeout", attempt=2, model="m"), {"kind": "timeout", "attempt": 2, "model": "m"}),
        (Assemble(sections=("a",), tools=("add",)), {"sections": ("a",), "tools": ("add",), "contexts": {}}),
        (Context(messages=(UserMessage("x"),)), {"messages": (UserMessage("x"),)}),
    ],
)
def test_programs_read_the_fields_of_the_contract_by_name(payload: Payload, own: dict[str, Any]) -> None:
    said = payload.json()
    assert {name: said[name] for name in own} == own
    assert said["turn"] == {"number": 0, "prompt": "", "steps": 0}
    assert not {"world", "log", "memory", "abort"} & said.keys()
    json.dumps(said)


def test_common_fields_are_the_same_in_every_payload() -> None:
    common: dict[str, Any] = {"agent": "a", "flow": "f", "session": "s", "id": "h", "step": 2}
    for kind in EVERY:
        if kind is not POINTS["stream"].payload:
            assert {name: kind(**common).json()[name] for name in common} == common


def test_payloads_share_no_memory() -> None:
    one, two = PreStep(), PreStep()
    one.memory["n"] = 1
    assert two.memory == {}


def test_an_outcome_is_good_unless_it_says_otherwise() -> None:
    outcome = ToolOutcome()
    assert (outcome.content, outcome.is_error, outcome.terminate, outcome.outcome) == ((), False, False, "ok")

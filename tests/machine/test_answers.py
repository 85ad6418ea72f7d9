"""What hooks may return: forms, fields, and what is refused."""

from dataclasses import replace
from pathlib import PurePath
from typing import Any

import pytest

from turnchart.machine.answers import FORMS, WrongAnswer, adopt, decided, subject_of, wrapped
from turnchart.machine.entries import Frozen
from turnchart.machine.messages import Text, UserMessage
from turnchart.machine.points import (
    POINTS,
    Assemble,
    Context,
    Deny,
    Payload,
    PostTool,
    PreStep,
    PreTool,
    Request,
    Stop,
    ToolOutcome,
)

LS = PreTool(tool="shell", args=Frozen(command="ls"), subject="ls", subject_name="command")


def test_every_field_that_may_change_has_a_form() -> None:
    assert set(FORMS) == set[str]().union(*(point.payload.may_change for point in POINTS.values()))


def test_nothing_changed_is_the_payload_that_was_given() -> None:
    assert adopt(LS, LS, None) is LS
    assert adopt(replace(LS, id="x", memory={"a": 1}), LS, None) is LS
    assert adopt(LS.replace(args={"command": "ls"}), LS, None) is LS
    seen = Context(messages=[UserMessage("a")])
    assert adopt(seen.replace(messages=tuple(seen.messages)), seen, None) is seen


def test_only_the_changed_fields_are_taken_over() -> None:
    after = adopt(replace(LS.replace(args={"command": "ls -h"}), id="x"), LS, None)
    assert (after.args, after.id) == ({"command": "ls -h"}, "")


def test_changed_arguments_bring_their_subject_along_and_are_frozen() -> None:
    after = adopt(LS.replace(args={"command": "rm", "env": {"A": ["b"]}}), LS, None)
    assert after.subject == "rm"
    assert isinstance(after.args, Frozen)
    assert after.args["env"] == {"A": ("b",)}
    with pytest.raises(TypeError, match="frozen"):
        after.args["env"]["A"] = "c"


def test_arguments_that_a_tool_made_into_objects_stay_objects() -> None:
    after = adopt(LS.replace(args={"command": "rm", "path": PurePath("a")}), LS, None)
    assert after.args["path"] == PurePath("a")


def test_the_subject_is_text() -> None:
    assert subject_of({"a": 1}, None) is None
    assert subject_of({}, "a") is None
    assert subject_of({"a": 1}, "a") == "1"
    assert subject_of({"a": ["x"]}, "a") == '["x"]'


def test_a_check_has_the_last_word() -> None:
    def check(payload: PreTool) -> PreTool:
        if payload.subject == "bad":
            raise ValueError("no such command")
        return replace(payload, args=Frozen(payload.args, timeout=1))

    assert adopt(LS.replace(args={"command": "rm"}), LS, check).args == {"command": "rm", "timeout": 1}
    assert adopt(LS, LS, check) is LS
    with pytest.raises(WrongAnswer, match="changed args: no such command"):
        adopt(LS.replace(args={"command": "bad"}), LS, check)


@pytest.mark.parametrize(
    ("returned", "before", "message"),
    [
        (PostTool(), LS, "returned a PostTool, not a PreTool"),
        (replace(LS, tool="other"), LS, "changed tool; it may change args"),
        (replace(LS, subject="other"), LS, "changed subject; it may change args"),
        (replace(LS, args=None), LS, "changed args: it must be Mapping, not NoneType"),  # type: ignore[arg-type]
        (PreStep(messages=("hi",)), PreStep(), "changed messages: it must be Mapping, not str"),  # type: ignore[arg-type]
        (PreStep(messages="hi"), PreStep(), "changed messages: it must be Mapping, not str"),  # type: ignore[arg-type]
        (PreStep(messages=5), PreStep(), "changed messages: it must be Sequence, not int"),  # type: ignore[arg-type]
        (PreStep(messages=({"role": "x"},)), PreStep(), "message role 'x' is unknown"),  # type: ignore[arg-type]
        (Request(model=None), Request(), "changed model: it must be str, not NoneType"),  # type: ignore[arg-type]
        (Request(thinking=3), Request(), "changed thinking: it must be str or None, not int"),  # type: ignore[arg-type]
        (Request(settings={"a": {1}}), Request(), r"changed settings: \$.a is a set, which is not JSON"),
        (Request(tools=("a", 1)), Request(), "changed tools: it must be str, not int"),  # type: ignore[arg-type]
        (Assemble(contexts={"a": 1}), Assemble(), "changed contexts: it must be str, not int"),  # type: ignore[dict-item]
        (PostTool(is_error=1), PostTool(), "changed is_error: it must be bool, not int"),  # type: ignore[arg-type]
        (PostTool(content=3), PostTool(), "changed content: content must be text, a block or a list"),  # type: ignore[arg-type]
        (PostTool(details={1, 2}), PostTool(), r"changed details: \$ is a set"),
        (PostTool(details=float("nan")), PostTool(), r"changed details: \$ is nan"),
    ],
)
def test_wrong_answers_are_told_by_field(returned: Payload, before: Payload, message: str) -> None:
    with pytest.raises(WrongAnswer, match=message):
        adopt(returned, before, None)


def test_values_are_brought_into_form() -> None:
    outcome: dict[str, Any] = {"content": "text", "usage": {"input": 1}, "details": [1]}
    after = adopt(PostTool().replace(**outcome), PostTool(), None)
    assert (after.content, after.usage, after.details) == ((Text("text"),), {"input": 1}, (1,))
    assert adopt(PostTool(), PostTool(usage={"input": 1}), None).usage is None
    step = adopt(PreStep(messages=[{"role": "user", "content": "a"}]), PreStep(), None)  # type: ignore[arg-type]
    assert step.messages == (UserMessage("a"),)
    assert isinstance(step.messages[0], UserMessage)
    prompt = adopt(Assemble(sections=["a"], contexts={"b": "c"}), Assemble(), None)  # type: ignore[arg-type]
    assert (prompt.sections, prompt.contexts) == (("a",), {"b": "c"})


def test_a_decision_must_be_one_of_the_point() -> None:
    deny = Deny("no")
    assert decided(deny, POINTS["pre_tool"]) is deny
    with pytest.raises(
        WrongAnswer, match="returned a Stop; pre_tool takes nothing, or one of PreTool, Allow"
    ):
        decided(Stop(), POINTS["pre_tool"])
    with pytest.raises(WrongAnswer, match="returned the class Deny"):
        decided(Deny, POINTS["pre_tool"])
    with pytest.raises(WrongAnswer, match=r"session_end takes nothing, or one of SessionEnd$"):
        decided(True, POINTS["session_end"])


def test_what_wrappers_may_return() -> None:
    async def chunks() -> Any:
        yield 1

    outcome, stream = ToolOutcome(), chunks()
    assert wrapped(outcome, POINTS["tool"]) is outcome
    assert wrapped(stream, POINTS["stream"]) is stream
    with pytest.raises(WrongAnswer, match="returned a str; tool takes a ToolOutcome"):
        wrapped("text", POINTS["tool"])
    with pytest.raises(WrongAnswer, match="returned a list; stream takes an async iterator"):
        wrapped([], POINTS["stream"])

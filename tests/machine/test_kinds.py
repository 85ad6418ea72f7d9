"""Kinds of messages of one's own."""

from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from turnchart.machine import CustomMessage, UserMessage, normalize_prompt_input, register_message
from turnchart.machine.kinds import KINDS
from turnchart.machine.messages import to_llm


class Place(BaseModel):
    file: str
    line: int = 1


def named(given: CustomMessage) -> UserMessage | None:
    place = Place(**given.details)
    return UserMessage(f"{place.file}:{place.line}: {given.text}") if given.text else None


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register_message("test-place", Place, to_llm=named)
    yield
    KINDS.pop("test-place")


def test_the_model_sees_what_the_rule_makes_of_a_message() -> None:
    place = {"file": "a.py", "line": 3}
    assert to_llm(CustomMessage("test-place", "look", details=place)) == UserMessage("a.py:3: look")
    assert to_llm(CustomMessage("test-place", "", details=place)) is None


def test_details_are_checked_when_a_message_is_given_to_an_agent() -> None:
    good = CustomMessage("test-place", "look", details={"file": "a.py"})
    assert normalize_prompt_input(good) == [good]
    for details, field in (({"line": 3}, "details.file"), ({"file": "a.py", "line": "x"}, "details.line")):
        with pytest.raises(ValueError, match=f"kind 'test-place': {field}: "):
            normalize_prompt_input([CustomMessage("test-place", "look", details=details)])
    with pytest.raises(ValueError, match="kind 'test-place': details: "):
        normalize_prompt_input(CustomMessage("test-place", "look"))


def hidden(_: CustomMessage) -> None:
    """Show nothing."""


def test_a_kind_is_registered_once() -> None:
    register_message("test-place", Place, to_llm=named)
    for model, rule in ((None, named), (Place, hidden)):
        with pytest.raises(ValueError, match="the message kind 'test-place' is registered already"):
            register_message("test-place", model, to_llm=rule)


def test_what_nobody_registered_holds_anything() -> None:
    free = CustomMessage("test-free", "x", details=[1])
    assert normalize_prompt_input(free) == [free]
    assert free.details == (1,)
    assert CustomMessage("test-free", "x").details is None
    assert to_llm(free) == UserMessage("x", source="test-free")

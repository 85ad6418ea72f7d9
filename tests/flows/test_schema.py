from dataclasses import fields

import pytest
from pydantic import BaseModel, ValidationError

from turnchart.flows.schema import (
    TOP_KEYS,
    CompactionRules,
    FlowFile,
    HookEntry,
    ModelSpec,
    PromptPart,
    RetryRules,
    ToolEntry,
    is_model_id,
    known_keys,
)
from turnchart.machine.config import Compaction
from turnchart.machine.messages import RETRIED_KINDS


@pytest.mark.parametrize(
    ("id", "good"),
    [
        ("test", True), ("script:a b.yaml", True), ("anthropic:claude-sonnet-5", True),
        ("ollama:llama3:8b", True),
        ("claude", False), (":x", False), ("x:", False), ("x: y", False), ("x:y ", False),
    ],
)  # fmt: skip
def test_a_model_is_written_provider_name(id: str, good: bool) -> None:
    assert is_model_id(id) is good


@pytest.mark.parametrize(
    ("id", "cure"),
    [
        ("claude-x", "for example anthropic:claude-x"),
        ("gpt-5", "for example openai:gpt-5"),
        ("gemini-3", "for example google:gemini-3"),
        ("two words", ""),
    ],
)
def test_the_cure_guesses_the_provider(id: str, cure: str) -> None:
    with pytest.raises(ValidationError) as caught:
        ModelSpec.model_validate(id)
    assert caught.value.errors()[0].get("ctx", {})["help"] == cure


@pytest.mark.parametrize(
    ("model", "short", "long"),
    [
        (ModelSpec, "a:b", {"id": "a:b"}),
        (PromptPart, "text", {"text": "text"}),
        (ToolEntry, "shell", {"use": "shell"}),
    ],
)
def test_a_short_form_is_its_long_form(model: type[BaseModel], short: str, long: dict[str, str]) -> None:
    assert model.model_validate(short) == model.model_validate(long)


@pytest.mark.parametrize("prompt", ["x", {"text": "x"}, ["x"], [{"text": "x"}]])
def test_a_prompt_may_be_one_part(prompt: object) -> None:
    assert FlowFile.model_validate({"version": 1, "prompt": prompt}).prompt == [PromptPart(text="x")]


def test_a_variable_may_get_another_name() -> None:
    entry = HookEntry.model_validate({"run": ["x"], "env_from": ["A", {"B": "C"}]})
    assert entry.env_from == [{"A": "A"}, {"B": "C"}]


@pytest.mark.parametrize(
    ("seconds", "cure"),
    [
        ("5s", "write 5"),
        ("2 min", "write 120"),
        ("1h", "write 3600"),
        ("500ms", "write 0.5"),
        ("soon", ""),
        (True, ""),
    ],
)
def test_times_are_plain_seconds(seconds: object, cure: str) -> None:
    with pytest.raises(ValidationError) as caught:
        RetryRules.model_validate({"max_delay": seconds})
    assert caught.value.errors()[0].get("ctx", {})["help"] == cure


def test_a_key_without_a_value_is_no_key_left_out() -> None:
    with pytest.raises(ValidationError):
        FlowFile.model_validate({"version": 1, "name": None})


def test_the_kinds_that_are_retried_are_those_of_the_machine() -> None:
    for kind in RETRIED_KINDS:
        assert RetryRules.model_validate({"retry_on": [kind]}).retry_on == [kind]
    with pytest.raises(ValidationError):
        RetryRules.model_validate({"retry_on": ["context_window"]})


def test_the_settings_of_compaction_are_those_of_the_machine() -> None:
    assert Compaction(**CompactionRules().model_dump()) == Compaction()
    assert known_keys(CompactionRules) == [field.name for field in fields(Compaction)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"strategy": "summarise"}, {"trigger": 0}, {"trigger": 1.1}, {"trigger": True}, {"keep_last": -1},
        {"keep_last": 1.5}, {"model": "haiku"}, {"model": None}, {"keep": 2},
    ],
)  # fmt: skip
def test_what_compaction_does_not_take(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        CompactionRules.model_validate(wrong)


def test_keys_are_listed_as_they_are_written() -> None:
    assert known_keys(ToolEntry) == ["use", "mcp", "only", "with", "as", "execution"]
    assert {"version", "hooks", "mcp"} <= set(TOP_KEYS)

import json
from typing import Any

import pytest

from turnchart.hooks.spans import (
    instructions_json,
    messages_json,
    model_attributes,
    model_name,
    settings_attributes,
    usage_attributes,
)
from turnchart.machine.messages import Image, ToolResultMessage, UserMessage


@pytest.mark.parametrize(
    ("id", "provider", "name"),
    [
        ("anthropic:opus", "anthropic", "opus"),
        ("google:gemini", "gcp.gemini", "gemini"),
        ("openai-responses:o9", "openai", "o9"),
        ("ollama:qwen:7b", "ollama", "qwen:7b"),
        ("test", "turnchart", "test"),
    ],
)
def test_a_model_is_named_as_the_conventions_do(id: str, provider: str, name: str) -> None:
    assert model_attributes(id) == {"gen_ai.provider.name": provider, "gen_ai.request.model": name}
    assert model_name(id) == name


def test_settings_that_were_given() -> None:
    given = {"top_p": 0.9, "stop_sequences": ("END",), "seed": None, "extra": {"x": 1}}
    assert settings_attributes(given) == {
        "gen_ai.request.top_p": 0.9, "gen_ai.request.stop_sequences": ["END"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("usage", "said"),
    [
        ({}, {}),
        ({"output": 3}, {"gen_ai.usage.output_tokens": 3}),
        (
            {"input": 1, "output": 2, "cache_read": 4, "cache_write": 8, "cost": 1},
            {
                "gen_ai.usage.input_tokens": 13, "gen_ai.usage.output_tokens": 2,
                "gen_ai.usage.cache_read.input_tokens": 4, "gen_ai.usage.cache_creation.input_tokens": 8,
            },
        ),
    ],
)  # fmt: skip
def test_what_came_from_a_cache_is_input_too(usage: dict[str, int], said: dict[str, Any]) -> None:
    assert usage_attributes(usage) == said


def test_messages_without_images_and_secrets() -> None:
    said = [
        UserMessage([Image("iVBORw0K", "image/png")]),
        ToolResultMessage("c1", "look", "API_KEY=abcdef123456"),
    ]
    assert json.loads(messages_json(said)) == [
        {"role": "user", "parts": [{"type": "blob", "modality": "image", "mime_type": "image/png"}]},
        {
            "role": "tool",
            "parts": [
                {
                    "type": "tool_call_response", "id": "c1",
                    "response": [{"type": "text", "content": "API_KEY=[redacted secret]"}],
                }
            ],
        },
    ]  # fmt: skip
    assert json.loads(instructions_json("")) == []


def test_what_was_said_can_be_written_whatever_it_is() -> None:
    assert "half \ufffd" in messages_json([UserMessage("half \ud83d")])

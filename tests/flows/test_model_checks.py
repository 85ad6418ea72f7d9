"""Models whose provider is misspelt, and what they need on this machine."""

from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.flows import model_checks
from turnchart.flows.model_checks import PROVIDERS
from turnchart.flows.problems import Problem
from turnchart.machine.providers.routes import require

Found = Callable[..., list[tuple[str, int, int]]]
JUDGE = "hooks: {pre_tool: [{use: model_judge, with: {model: 'opnai:x', prompt: p}}]}\n"
SERVER = "mcp: {s: {command: [sh]}}\ntools: [{mcp: s}]\n"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_provider_is_one(provider: str) -> None:
    require(f"{provider}:any")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model: antropic:x\n", [("model-provider", 2, 8)]),
        ("model: {id: 'a:b', fallback: ['openai:x', 'Open-AI:x']}\n", [("model-provider", 2, 43)]),
        ("model: test\ncompaction: {model: 'gogle:x'}\n", [("model-provider", 3, 21)]),
        (JUDGE, [("model-provider", 2, 53)]),
        (JUDGE.replace("prompt: p}", "prompt: p}, disabled: true"), []),
        ("model: anthropic:x\n", []),
        ("model: mine:x\n", []),
        ('model: "${env:NONE:-mine}:x"\n', []),
        ("model: script:s.yaml\n", []),
    ],
)
def test_a_provider_that_is_misspelt(
    write: Callable[..., object], found: Found, text: str, expected: list[tuple[str, int, int]]
) -> None:
    write("- Hi\n", "s.yaml")
    assert found(text) == expected


def test_it_may_be_a_model_of_the_caller(problems: Callable[..., list[Problem]]) -> None:
    [problem] = problems("model: antropic:x\n")
    assert problem.level == "warning"
    assert problem.help.startswith('did you mean "anthropic"?')


@pytest.mark.parametrize(
    ("text", "missing", "cure"),
    [
        ("model: anthropic:x\n", "pydantic_ai", "pip install 'turnchart[providers]'"),
        ("model: test\n", "pydantic_ai", None),
        (SERVER, "mcp", "pip install 'turnchart[mcp]'"),
        (SERVER, "jsonschema", "pip install 'turnchart[mcp]'"),
        ("model: anthropic:x\n", "mcp", None),
    ],
)
def test_what_is_not_installed_is_told(
    problems: Callable[..., list[Problem]],
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    missing: str,
    cure: str | None,
) -> None:
    def find_spec(name: str) -> Path | None:
        return None if name == missing else Path(name)

    monkeypatch.setattr(model_checks, "find_spec", find_spec)
    told = [(each.code, each.level, each.help) for each in problems(text)]
    assert told == ([("extra", "warning", cure)] if cure else [])

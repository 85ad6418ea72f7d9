"""Models whose provider is misspelt, and what they need on this machine."""

from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.flows import check_flow, model_checks
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
    ("text", "missing", "extra", "told"),
    [
        ("model: anthropic:x\n", "pydantic_ai", "providers",
         "models of providers need the library pydantic-ai-slim, which is not installed here"),
        ("model: test\n", "pydantic_ai", "", ""),
        (SERVER, "mcp", "mcp", "MCP servers need the library mcp, which is not installed here"),
        (SERVER, "jsonschema", "mcp", "MCP servers need the library jsonschema, which is not installed here"),
        (SERVER, "mcp jsonschema", "mcp",
         "MCP servers need the libraries mcp and jsonschema, which are not installed here"),
        ("model: anthropic:x\n", "mcp", "", ""),
    ],
)  # fmt: skip
def test_what_is_not_installed_is_told(
    problems: Callable[..., list[Problem]],
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    missing: str,
    extra: str,
    told: str,
) -> None:
    def find_spec(name: str) -> Path | None:
        return None if name in missing.split() else Path(name)

    monkeypatch.setattr(model_checks, "find_spec", find_spec)
    found = [(each.code, each.level, each.message, each.help) for each in problems(text)]
    assert found == ([("extra", "warning", told, f"pip install 'turnchart[{extra}]'")] if told else [])


# -- how much a model reads at once --

SHORTER = "compaction: {trigger: 0.8}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"model: ollama:llama3\n{SHORTER}", [("window-unknown", 3, 23)]),
        ("model: ollama:llama3\ncompaction: {keep_last: 1}\n", [("window-unknown", 3, 13)]),
        ("model: ollama:llama3\ncompaction: {strategy: none}\n", []),
        ("model: ollama:llama3\n", []),
        (f"model: {{id: 'ollama:llama3', context_window: 8000}}\n{SHORTER}", []),
        (f"model: anthropic:claude-sonnet-5\n{SHORTER}", []),
        (f"model: mine:x\n{SHORTER}", []),
        (f"model: test\n{SHORTER}", []),
    ],
)
def test_a_window_that_nothing_tells_is_noted(
    found: Found, text: str, expected: list[tuple[str, int, int]]
) -> None:
    assert found(text) == expected


def test_the_note_says_what_becomes_of_it(problems: Callable[..., list[Problem]]) -> None:
    [problem] = problems(f"model: ollama:llama3\n{SHORTER}")
    assert problem.level == "note"
    assert 'the model "ollama:llama3" reads at once' in problem.message
    assert "write model.context_window" in problem.help


@pytest.mark.parametrize("provider", sorted(model_checks.UNMEASURED))
def test_of_these_providers_nothing_tells_it(provider: str) -> None:
    data = pytest.importorskip("genai_prices.data_snapshot")
    with pytest.raises(LookupError):
        data.get_snapshot().find_provider_model("any", None, provider, None)


@pytest.mark.parametrize(
    ("model", "noted"),
    [
        ("{id: 'openai:nobody-made-this'}", True),
        ("{id: 'openai-chat:nobody', base_url: 'http://localhost:1/v1'}", True),
        ("{id: 'openai:gpt-4o'}", False),
        ("{id: 'openai-responses:gpt-4o', base_url: 'http://localhost:1/v1'}", False),
        ("{id: 'anthropic:claude-sonnet-4-5'}", False),
        ("{id: 'mine:x'}", False),
        ("{id: 'openai:nobody-made-this', context_window: 8000}", False),
    ],
)
def test_lint_looks_it_up(write: Callable[..., object], model: str, noted: bool) -> None:
    pytest.importorskip("genai_prices")
    write(f"version: 1\nmodel: {model}\n{SHORTER}")
    codes = [each.code for each in check_flow("flow.yaml", lint=True)]
    assert codes.count("window-unknown") == noted
    assert check_flow("flow.yaml") == []


def test_without_the_table_lint_says_nothing(
    write: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(name: str) -> bool | None:
        return None if name == "genai_prices" else True

    monkeypatch.setattr(model_checks, "find_spec", found)
    write(f"version: 1\nmodel: openai:nobody-made-this\n{SHORTER}")
    assert check_flow("flow.yaml", lint=True) == []


@pytest.mark.parametrize(
    ("text", "noted"),
    [
        ("model: anthropic:claude-sonet-4-5\n", [("claude-sonet-4-5", 8)]),
        ("model: {id: 'anthropic:claude-sonnet-4-5', fallback: ['openai:gpt-4oo']}\n", [("gpt-4oo", 55)]),
        ("model: {id: 'openai:mine', base_url: 'http://localhost:1/v1', fallback: ['openai:mine2']}\n", []),
        ("model: anthropic:claude-sonnet-4-5\n", []),
        ("model: ollama:anything\n", []),
        ("model: mine:x\n", []),
        ("model: test\n", []),
    ],
)
def test_lint_notes_a_model_that_the_table_does_not_have(
    write: Callable[..., object], text: str, noted: list[tuple[str, int]]
) -> None:
    pytest.importorskip("genai_prices")
    write(f"version: 1\n{text}")
    found = [each for each in check_flow("flow.yaml", lint=True) if each.code == "model-unknown"]
    assert [(each.message.split('"')[1], each.column, each.level) for each in found] == [
        (name, column, "note") for name, column in noted
    ]
    assert check_flow("flow.yaml") == []


def test_the_note_names_the_model_that_was_probably_meant(write: Callable[..., object]) -> None:
    pytest.importorskip("genai_prices")
    write("version: 1\nmodel: anthropic:claude-sonet-4-5\n")
    [problem] = check_flow("flow.yaml", lint=True)
    assert problem.help.startswith('did you mean "claude-sonnet-4-5"?')

"""What is certain beforehand of tools that run at the provider."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.native_tools import WebSearchTool

from turnchart.flows import load_flow
from turnchart.flows.check import check_flow
from turnchart.flows.provider_tools import HAS, KEEPS
from turnchart.machine.providers.native_tools import tools_of
from turnchart.machine.providers.routes import Route, connected
from turnchart.machine.toolbox import AT_PROVIDER

Write = Callable[..., Path]


@pytest.mark.parametrize("provider", HAS)
def test_models_have_what_they_are_said_to_have(provider: str) -> None:
    model = connected(f"{provider}:gpt-5.2", Route(api_key="none")).model
    assert tools_of(model) == tuple(HAS[provider])


@pytest.mark.parametrize(
    ("model", "lacks"),
    [
        ("ollama:qwen3", 3),
        ("openai:gpt-5.2", 1),
        ("{id: 'openai:gpt-5.2', base_url: 'http://127.0.0.1:1/v1'}", 3),
        ("openai-chat:gpt-4o-search-preview", 0),
        ("anthropic:claude-sonnet-5", 0),
        ("{id: 'google:gemini-flash-latest', fallback: ['ollama:a', 'ollama:b']}", 6),
        ("test", 0),
    ],
)
def test_a_model_may_lack_some(write: Write, model: str, lacks: int) -> None:
    file = write(f"version: 1\nmodel: {model}\ntools: [{', '.join(AT_PROVIDER)}]\n")
    problems = [problem for problem in check_flow(file, env=None) if problem.code == "provider-tool"]
    assert [problem.level for problem in problems] == ["error"] * lacks


@pytest.mark.parametrize(
    ("rules", "lines"),
    [
        ("default: deny", [2]),
        ("default: deny, allow: [web_search]", []),
        ("default: deny, allow: ['web_*']", []),
        ("default: ask", []),
        ("allow: ['web_search(']", []),
    ],
)
def test_a_default_of_deny_refuses_them(write: Write, rules: str, lines: list[int]) -> None:
    file = write(f"version: 1\ntools: [web_search]\npermissions: {{{rules}}}\n")
    problems = [problem for problem in check_flow(file, env=None) if problem.code == "provider-tool"]
    assert [(problem.level, problem.line) for problem in problems] == [("warning", line) for line in lines]


def test_a_hook_before_tools_that_run_elsewhere_never_runs(write: Write) -> None:
    hooks = "hooks: {pre_tool: [{use: redact_secrets}]}"
    file = write(f"version: 1\nmodel: test\ntools: [web_search]\n{hooks}\n")
    codes = [problem.code for problem in check_flow(file, env=None, lint=True)]
    assert codes == ["hook-never"]


def test_a_tool_of_a_plug_in_with_such_a_name_runs_here(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        "from turnchart.machine import tool\n\n\n@tool\ndef web_search(query: str) -> str:\n"
        '    """Search here."""\n    return query\n',
        "own_search.py",
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    file = write("version: 1\nmodel: ollama:qwen3\ntools: [web_search]\npermissions: {deny: [web_search]}\n")
    assert check_flow(file, ["own_search"], None) == []


# -- options --

NAMES = {"openrouter": "openai/gpt-5.2", "google": "gemini-flash-latest", "anthropic": "claude-sonnet-5"}


@pytest.mark.parametrize("provider", KEEPS)
@pytest.mark.parametrize("option", ["allowed_domains", "blocked_domains", "max_uses", "external_web_access"])
def test_providers_keep_to_what_they_are_said_to_keep_to(provider: str, option: str) -> None:
    given: dict[str, Any] = {
        "allowed_domains": ["a.org"], "blocked_domains": ["a.org"], "max_uses": 1,
        "external_web_access": False,
    }  # fmt: skip
    model = connected(f"{provider}:{NAMES.get(provider, 'gpt-5.2')}", Route(api_key="none")).model
    refused = model.unsupported_native_tool_settings(WebSearchTool(**{option: given[option]}))
    assert (option in KEEPS[provider]) == (refused == frozenset())


@pytest.mark.parametrize(
    ("model", "given", "expected"),
    [
        ("anthropic:claude-sonnet-5", "allowed_domains: [a.org], max_uses: 2", []),
        ("anthropic:claude-sonnet-5", "allowed_domains: [a.org], blocked_domains: [b.org]", [(3, 70)]),
        ("anthropic:claude-sonnet-5", "external_web_access: false", [(3, 33)]),
        ("openai:gpt-5.2", "max_uses: 2", [(3, 33)]),
        ("openai:gpt-5.2", "max_uses: 1", [(3, 33)]),
        ("openai:gpt-5.2", "allowed_domains: [a.org], blocked_domains: [b.org]", []),
        ("openai:gpt-5.2", "external_web_access: true, search_context_size: low", []),
        ("google:gemini-flash-latest", "allowed_domains: [a.org], max_uses: 2", [(3, 33), (3, 59)]),
        ("{id: 'anthropic:a', fallback: ['openai:b']}", "max_uses: 2", [(3, 33)]),
        ("mine:x", "max_uses: 2, external_web_access: false", []),
    ],
)
def test_an_option_that_the_provider_cannot_keep_to(
    write: Write, model: str, given: str, expected: list[tuple[int, int]]
) -> None:
    file = write(f"version: 1\nmodel: {model}\ntools: [{{use: web_search, with: {{{given}}}}}]\n")
    problems = [each for each in check_flow(file, env=None) if each.code == "provider-tool"]
    assert [each.level for each in problems] == ["error"] * len(expected)
    assert [each.line for each in problems] == [line for line, _ in expected]


def test_options_are_checked_and_given_to_the_tool(write: Write, problems: Callable[..., Any]) -> None:
    [wrong] = problems("tools: [{use: web_search, with: {allowed_domain: [a.org]}}]\n")
    assert (wrong.code, wrong.help.partition("?")[0]) == ("unknown-key", 'did you mean "allowed_domains"')
    write("version: 1\nmodel: test\ntools: [{use: web_search, with: {allowed_domains: [a.org]}}]\n")
    (made,) = load_flow("flow.yaml").tools
    assert made.spec["options"] == {"allowed_domains": ("a.org",)}

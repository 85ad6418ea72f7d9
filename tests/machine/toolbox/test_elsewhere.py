"""Tools that run at the provider: offered, logged with the request, and never run here."""

import pytest

from turnchart.machine import Agent, Reply, ScriptedModel, ToolCall, ToolFailed
from turnchart.machine.permissions import Permissions
from turnchart.machine.toolbox import AT_PROVIDER, make, provider_tool

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", AT_PROVIDER)
def test_its_spec_says_that_it_runs_at_the_provider(name: str) -> None:
    found = provider_tool(name)
    assert found.spec == make(name, ".").spec
    assert (found.spec["name"], found.spec["at_provider"]) == (name, True)
    with pytest.raises(ToolFailed, match=f"{name} runs at the provider of the model, and nowhere else"):
        found()


def test_there_are_three_of_them() -> None:
    with pytest.raises(ValueError, match="no provider runs 'shell'; the tools of providers are: code_exec"):
        provider_tool("shell")


async def test_a_call_of_one_is_answered_and_nobody_is_asked() -> None:
    model = ScriptedModel([Reply(tool_calls=[ToolCall("web_search", {"query": "x"})]), "Nothing."])
    seen: list[object] = []
    agent = Agent(
        model, tools=[provider_tool("web_search")], permissions=Permissions("ask"),
        hooks={"pre_tool": [seen.append]},
    )  # fmt: skip
    async with agent:
        assert (await agent.prompt("Search.")).text == "Nothing."
        [result] = [entry.data for entry in agent.session.entries if entry.type == "tool/result"]
    assert result["message"].text == "There is no tool 'web_search'. The tools are: none."
    assert seen == []


@pytest.mark.parametrize(
    ("permissions", "offered"),
    [
        (Permissions("allow", deny=["web_search"]), True),
        (Permissions("ask"), True),
        (Permissions.reads(), True),
        (Permissions("deny"), False),
        (Permissions("deny", allow=["web_*"]), True),
        (Permissions("deny", allow=["web_search"], also=(Permissions("deny"),)), False),
        (Permissions("deny", deny=["web_search"], allow=["web_search"]), False),
    ],
)
async def test_only_a_default_of_deny_keeps_one_away(permissions: Permissions, offered: bool) -> None:
    model = ScriptedModel(["Hello."])
    async with Agent(model, tools=[provider_tool("web_search")], permissions=permissions) as agent:
        await agent.prompt("Hi.")
        [header] = [entry.data for entry in agent.session.entries if entry.type == "request/header"]
    assert [spec["name"] for spec in header["tools"]] == ["web_search"] * offered
    assert model.requests[0].tools == header["tools"]


def test_its_options_are_a_part_of_its_spec() -> None:
    made = make("web_search", ".", {"allowed_domains": ["example.org"], "user_location": {"country": "CH"}})
    options = {"allowed_domains": ("example.org",), "user_location": {"country": "CH"}}
    assert made.spec["options"] == options
    assert provider_tool("web_search", **options).spec == made.spec
    assert "options" not in provider_tool("web_search", max_uses=None).spec


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("web_search", {"allowed_domain": ["a.org"]}),
        ("web_search", {"allowed_domains": ["https://a.org"]}),
        ("web_search", {"allowed_domains": []}),
        ("web_fetch", {"blocked_domains": []}),
        ("code_execution", {"files": []}),
        ("web_fetch", {"max_uses": 0}),
        ("web_fetch", {"search_context_size": "low"}),
        ("code_execution", {"max_uses": 1}),
    ],
)
def test_other_options_are_refused(name: str, given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        provider_tool(name, **given)

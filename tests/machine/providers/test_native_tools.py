"""Tools that run at the provider, over real HTTP on this machine: what is asked, and what comes back."""

from typing import Any

import pytest
from tests.machine.providers.asking import model_of
from tests.machine.providers.loopback import Loopback, Wire
from tests.machine.providers.native_frames import (
    CITATION,
    RESULT,
    SEARCHED,
    anthropic_searched,
    responses_searched,
)
from tests.machine.providers.wire_formats import wires

from turnchart.machine import Agent, Reply, Session, ToolCall, tool
from turnchart.machine.entries import Frozen, freeze
from turnchart.machine.messages import AssistantMessage
from turnchart.machine.providers.native_tools import NATIVE, native_tools
from turnchart.machine.toolbox import AT_PROVIDER, provider_tool

# The clients of providers leave finished generators to the collector, which trio complains of.
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")]


@tool
def add(a: int) -> int:
    """Add."""
    return a


async def talk(
    format: str, *answers: Wire, tools: tuple[str, ...] = ("web_search",)
) -> tuple[Session, list[Any]]:
    """Return the log of as many turns as there are answers, and the bodies of the requests."""
    with Loopback(*answers) as server:
        async with Agent(
            model_of(format, server), tools=[add, *map(provider_tool, tools)], permissions=None
        ) as agent:
            for _ in answers:
                await agent.prompt("And?")
    return agent.session, [heard.body for heard in server.heard]


def said(session: Session) -> AssistantMessage:
    """Return the first answer."""
    return next(each for each in session.context() if isinstance(each, AssistantMessage))


async def test_anthropic_is_asked_for_them_and_reads_again_what_they_did() -> None:
    answers = (anthropic_searched(), *wires("anthropic", [Reply("Yes.")]))
    session, (first, second) = await talk("anthropic", *answers, tools=tuple(AT_PROVIDER))
    kinds = {each["name"]: each.get("type", "").rstrip("0123456789") for each in first["tools"]}
    assert kinds == {
        "add": "", "code_execution": "code_execution_", "web_fetch": "web_fetch_",
        "web_search": "web_search_",
    }  # fmt: skip
    answer = said(session)
    assert (answer.text, answer.tool_calls) == ("I look. It rains.", ())
    assert second["messages"][1] == {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I look. "},
            {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "weather"}},
            {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [RESULT]},
            {"type": "text", "text": "It rains."},
        ],
    }
    assert answer["replay"]["parts"][-1]["provider_details"]["citations"] == (CITATION,)


async def test_openai_is_asked_for_it_and_reads_again_what_it_did() -> None:
    answers = (responses_searched(), *wires("responses", [Reply("Yes.")]))
    session, (first, second) = await talk("responses", *answers)
    assert [each["type"] for each in first["tools"]] == ["web_search", "function"]
    answer = said(session)
    assert (answer.text, answer.tool_calls) == ("It rains.", ())
    assert second["input"][1] == SEARCHED
    assert [each.get("type") for each in second["input"]] == [None, "web_search_call", "message", None]


@pytest.mark.parametrize(
    ("format", "answer"), [("anthropic", anthropic_searched()), ("responses", responses_searched())]
)
async def test_the_log_has_call_and_result_and_nothing_ran_here(format: str, answer: Wire) -> None:
    session, _ = await talk(format, answer)
    kept = [part["part"] for part in said(session)["replay"]["parts"] if "part" in part]
    assert [(part["part_kind"], part["tool_name"]) for part in kept] == [
        ("builtin-tool-call", "web_search"),
        ("builtin-tool-return", "web_search"),
    ]
    types = {entry.type for entry in session.entries}
    assert not types & {"tool/call", "tool/result"}


async def test_another_model_reads_the_words_alone() -> None:
    session, _ = await talk("anthropic", anthropic_searched())
    with Loopback(*wires("responses", [Reply("Yes.")])) as server:
        async with Agent(model_of("responses", server), session=session) as agent:
            await agent.prompt("And?")
    [heard] = server.heard
    assert "srv_1" not in str(heard.body["input"])
    assert "It rains." in str(heard.body["input"])


async def test_a_tool_of_ours_runs_beside_them() -> None:
    reply = Reply(tool_calls=[ToolCall("add", {"a": 1}, "c1")])
    with Loopback(*wires("anthropic", [reply, Reply("1.")])) as server:
        async with Agent(model_of("anthropic", server), tools=[add, provider_tool("web_search")]) as agent:
            assert (await agent.prompt("Add.")).text == "1."


@pytest.mark.parametrize(
    ("format", "name", "cure"),
    [
        ("responses", "web_fetch", "it has code_execution and web_search"),
        ("chat", "web_search", "leave it out of the tools, or take a model of another provider"),
    ],
)
async def test_a_model_without_it_is_not_asked(format: str, name: str, cure: str) -> None:
    with Loopback() as server:
        model = model_of(format, server)
        async with Agent(model, tools=[provider_tool(name)]) as agent:
            turn = await agent.prompt("Hi.")
    assert turn.reason == "error"
    assert f"the provider of {model.id} does not run {name}; {cure}" in str(turn.error)
    assert server.heard == []
    assert [entry.type for entry in agent.session.entries].count("llm/retry") == 0


def test_each_has_its_class() -> None:
    assert NATIVE.keys() == AT_PROVIDER.keys()
    asked = native_tools([provider_tool("web_fetch").spec, add.spec])
    assert [type(each) for each in asked] == [NATIVE["web_fetch"]]
    with pytest.raises(ValueError, match="no provider runs 'x'; the tools of providers are: code_execution"):
        native_tools([Frozen(name="x", at_provider=True)])


# -- options --

SEARCH: dict[str, Any] = {
    "allowed_domains": ["example.org"], "max_uses": 3, "user_location": {"city": "Bern", "country": "CH"},
}  # fmt: skip


async def test_anthropic_is_asked_to_keep_to_the_options() -> None:
    fetch = provider_tool(
        "web_fetch", blocked_domains=["a.org"], enable_citations=True, max_content_tokens=900
    )
    with Loopback(*wires("anthropic", [Reply("Yes.")])) as server:
        model = model_of("anthropic", server)
        async with Agent(model, tools=[provider_tool("web_search", **SEARCH), fetch]) as agent:
            await agent.prompt("Hi.")
    [heard] = server.heard
    search, fetched = sorted(heard.body["tools"], key=lambda each: each["name"], reverse=True)
    assert (search["allowed_domains"], search["max_uses"]) == (["example.org"], 3)
    assert search["user_location"] == {"type": "approximate", "city": "Bern", "country": "CH"}
    assert (fetched["blocked_domains"], fetched["citations"], fetched["max_content_tokens"]) == (
        ["a.org"], {"enabled": True}, 900,
    )  # fmt: skip
    [header] = [entry.data for entry in agent.session.entries if entry.type == "request/header"]
    assert [spec["options"] for spec in header["tools"] if spec["name"] == "web_search"] == [freeze(SEARCH)]


async def test_openai_is_asked_to_keep_to_the_options() -> None:
    search = provider_tool(
        "web_search", allowed_domains=["example.org"], search_context_size="low", external_web_access=False
    )
    code = provider_tool("code_execution", files=["file-1"])
    with Loopback(*wires("responses", [Reply("Yes.")])) as server:
        async with Agent(model_of("responses", server), tools=[search, code]) as agent:
            await agent.prompt("Hi.")
    [heard] = server.heard
    asked, ran = sorted(heard.body["tools"], key=lambda each: each["type"], reverse=True)
    assert (asked["filters"], asked["search_context_size"], asked["external_web_access"]) == (
        {"allowed_domains": ["example.org"]}, "low", False,
    )  # fmt: skip
    assert ran["container"]["file_ids"] == ["file-1"]


async def test_a_provider_that_cannot_keep_to_an_option_is_not_asked() -> None:
    with Loopback() as server:
        model = model_of("responses", server)
        async with Agent(model, tools=[provider_tool("web_search", max_uses=2)]) as agent:
            turn = await agent.prompt("Hi.")
    assert turn.reason == "error"
    assert (
        f"at the provider of {model.id}, web_search cannot be asked to keep to max_uses; leave it out"
        in str(turn.error)
    )
    assert server.heard == []

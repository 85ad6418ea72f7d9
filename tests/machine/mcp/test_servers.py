from typing import Any

import pytest

from turnchart.machine import McpServer
from turnchart.machine.mcp.servers import Address, Program, is_glob

FAST: Any = {"execution": "fast"}


def test_a_program() -> None:
    server = McpServer.stdio(
        "hub",
        ["npx", "-y", "x"],
        env={"A": "1"},
        env_from={"T": "HUB_TOKEN"},
        cwd="sub",
        timeout=5,
        only=["get_*"],
    )
    assert server.where == Program(("npx", "-y", "x"), (("A", "1"),), (("T", "HUB_TOKEN"),), "sub")
    assert (server.timeout, server.execution) == (5, "exclusive")
    assert McpServer.stdio("hub", ["x"], env_from=["A"]).where == Program(("x",), (), (("A", "A"),))


def test_an_address() -> None:
    server = McpServer.http("hub", "https://x.example/mcp", bearer_env="T", headers_env={"X-Key": "K"})
    assert server.where == Address("https://x.example/mcp", "T", (("X-Key", "K"),))
    assert server.timeout == 60


def test_names_are_those_of_the_server_behind_a_dot() -> None:
    server = McpServer.stdio("hub", ["x"], only=["get_*", "list issues.all"])
    assert [server.wants(name) for name in ("get_x", "list issues.all", "set_x")] == [True, True, False]
    assert server.named("list issues.all") == "hub.list issues.all"
    assert server.known is None
    assert McpServer.stdio("hub", ["x"]).known is None
    assert McpServer.stdio("hub", ["x"], only=["a b"]).known == ("hub.a b",)
    assert [is_glob(text) for text in ("a", "a*", "a?", "[a]")] == [False, True, True, True]


def test_what_may_be_secret_is_not_shown() -> None:
    assert str(McpServer.stdio("hub", ["serve", "--token", "secret"]).where) == "serve"
    assert (
        str(McpServer.http("hub", "https://me:secret@x.example/mcp?key=secret").where)
        == "https://x.example/mcp"
    )


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: McpServer.stdio("a.b", ["x"]), "'a.b' is no name for an MCP server"),
        (lambda: McpServer.stdio("a", []), "argv is empty"),
        (lambda: McpServer.stdio("a", ["x"], timeout=0), "timeout is 0; it must be more than 0"),
        (lambda: McpServer.stdio("a", ["x"], **FAST), "it must be exclusive or parallel"),
        (lambda: McpServer.http("a", "x.example"), "it must begin with http:// or https://"),
        (lambda: McpServer.stdio("a", "npx -y x"), "argv is a text; write a list"),
    ],
)
def test_what_is_wrong_is_refused_at_once(make: Any, said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        make()

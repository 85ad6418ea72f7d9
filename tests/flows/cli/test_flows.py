from collections.abc import Callable
from typing import Any


def test_every_shipped_flow_is_listed_with_what_it_is_for(cli: Callable[..., Any]) -> None:
    ended = cli("flows")
    assert (ended.code, ended.err) == (0, "")
    [demo] = [line for line in ended.out.splitlines() if line.split()[0] == "demo"]
    assert "An offline demo" in demo

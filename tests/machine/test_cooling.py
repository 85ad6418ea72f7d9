from typing import Any

import pytest
from tests.machine.drive import scripted

from turnchart.machine import Failure, Reply, RetryPolicy, ScriptedModel, Session
from turnchart.machine.cooling import Cooling, next_model
from turnchart.machine.points import RequestError
from turnchart.testing import FakeClock

pytestmark = pytest.mark.anyio

ONCE = RetryPolicy(max_attempts=1)


def test_a_model_rests_for_so_many_seconds() -> None:
    cooling = Cooling(60)
    assert cooling.instead_of("a", ["b"], 0) == "a"
    cooling.rest("a", 0)
    assert cooling.rests("a", 59)
    assert not cooling.rests("a", 60)
    assert cooling.instead_of("a", ["b", "c"], 1) == "b"
    assert cooling.instead_of("a", ["b"], 60) == "a"
    cooling.rest("b", 0)
    assert cooling.instead_of("a", ["b", "c"], 1) == "c"
    assert cooling.instead_of("a", ["b"], 1) == "a", "where all rest, the own one is asked"


def test_the_next_model_is_one_that_was_not_asked() -> None:
    assert next_model("a", ["b", "c"], {"a"}, None, 0) == "b"
    assert next_model("a", ["b", "c"], {"a", "b"}, None, 0) == "c"
    assert next_model("a", ["b"], {"b"}, None, 0) == ""
    cooling = Cooling(60)
    cooling.rest("b", 0)
    assert next_model("a", ["b", "c"], {"a"}, cooling, 1) == "c"
    assert next_model("a", ["b"], {"a"}, cooling, 1) == "b", "one that rests is better than none"
    assert next_model("a", ["b"], {"b"}, cooling, 1) == "a", "the own one, if it was passed over"


async def asked(cooldown: float, wait: float, **settings: Any) -> list[str]:
    """Return the models that two turns asked; in the first, the own model fails once."""
    session, clock = Session.memory(), FakeClock()
    other = ScriptedModel(default=Reply("ok"), id="b")
    async with scripted(
        [Failure("quota"), "back"] if not cooldown or wait >= cooldown else [Failure("quota")],
        clock=clock, session=session, fallback=["b"], models={"b": other}, cooldown=cooldown, retry=ONCE,
        **settings,
    ) as agent:  # fmt: skip
        await agent.prompt("one")
        await clock.sleep(wait)
        await agent.prompt("two")
    attempts = [
        entry for entry in session.entries if entry.type in ("assistant/message", "assistant/attempt")
    ]
    return [entry.data["message"]["model"] if "message" in entry.data else "failed" for entry in attempts]


async def test_without_a_cooldown_every_step_begins_with_the_own_model() -> None:
    assert await asked(0, 10) == ["failed", "b", "test"]


async def test_with_a_cooldown_the_next_steps_go_to_the_fallback_at_once() -> None:
    assert await asked(60, 10) == ["failed", "b", "b"]
    assert await asked(60, 61) == ["failed", "b", "test"]


async def test_hooks_are_told_what_is_next() -> None:
    told: list[str] = []

    def hear(payload: RequestError) -> None:
        told.append(payload.fallback)

    other = ScriptedModel([Failure("quota"), "ok"], id="b")
    async with scripted(
        [Failure("quota")], fallback=["b", "c"], models={"b": other, "c": other}, retry=ONCE,
        hooks={"request_error": [hear]},
    ) as agent:  # fmt: skip
        await agent.prompt("one")
    assert told == ["b", "c"]

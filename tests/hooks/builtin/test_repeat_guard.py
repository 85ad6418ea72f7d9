from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import pytest

from turnchart.hooks import HOOKS, PostTool, TurnView, run_chain
from turnchart.machine.entries import Frozen
from turnchart.machine.messages import Text
from turnchart.machine.points import Outcome

pytestmark = pytest.mark.anyio


class Guard:
    """One guard over several calls, with its memory."""

    def __init__(self, **params: object) -> None:
        spec = HOOKS.get("repeat_guard")
        assert spec is not None
        self.hook = spec.bind("post_tool", params)
        self.memory: dict[str, Any] = {}

    async def after(
        self,
        tool: str = "shell",
        args: Mapping[str, Any] = Frozen(command="ls"),
        turn: int = 1,
        context: str = "",
        outcome: Outcome = "ok",
    ) -> str:
        payload = PostTool(
            tool=tool, args=args, turn=TurnView(turn), context=context, outcome=outcome, memory=self.memory,
            content=(Text("a.py"),),
        )  # fmt: skip
        return (await run_chain("post_tool", payload, [self.hook])).payload.context


SHORT = (
    "You have called `shell` 3 times in a row with the same arguments."
    " Calling it again will not change the result: do something else, or say what keeps you from it."
)


async def test_the_third_and_the_fifth_call_are_remarked() -> None:
    guard = Guard()
    said = [await guard.after() for _ in range(6)]
    assert said[:4] == ["", "", SHORT, ""]
    assert said[4] == SHORT.replace("3", "5") + '\narguments: {"command": "ls"}\nlast result (ok): a.py'
    assert said[5] == ""


async def test_another_call_or_turn_starts_anew() -> None:
    guard = Guard(after=2)
    calls: list[dict[str, Any]] = [
        {}, {"tool": "other"}, {}, {"args": {"command": "pwd"}}, {}, {}, {"turn": 2}, {"turn": 2},
    ]  # fmt: skip
    said = [bool(await guard.after(**call)) for call in calls]
    assert said == [False, False, False, False, False, True, False, True]


async def test_denied_calls_count_and_excluded_tools_are_not_seen() -> None:
    guard = Guard(after=2, exclude=["wait*"])
    said = [
        await guard.after(),
        await guard.after(tool="wait_for"),
        await guard.after(outcome="denied"),
    ]
    assert [bool(text) for text in said] == [False, False, True]


async def test_what_others_tell_is_kept() -> None:
    guard = Guard(after=2)
    await guard.after()
    assert (await guard.after(context="by the way")).startswith("by the way\n\nYou have called")


async def test_long_arguments_are_cut_and_objects_are_written() -> None:
    guard = Guard(details_after=2)
    args = {"path": PurePath("a"), "text": "x" * 900}
    await guard.after(args=args)
    said = await guard.after(args=args)
    assert len(said) < 900
    assert '"path": "a"' in said
    assert "...\nlast result" in said


async def test_the_memory_is_small_and_json() -> None:
    guard = Guard()
    await guard.after(args={"text": "x" * 10_000})
    assert set(guard.memory) == {"turn", "call", "count"}
    assert len(str(guard.memory)) < 150

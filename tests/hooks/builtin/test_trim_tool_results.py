from pathlib import Path
from typing import Any

import pytest
from tests.hooks.stub_world import StubWorld

from turnchart.hooks import HOOKS, Context, PostTool, run_chain
from turnchart.hooks.registry import ParamError
from turnchart.machine.messages import Image, Message, Text, ToolResultMessage, UserMessage

pytestmark = pytest.mark.anyio

LONG = "a" * 60 + "b" * 60
IMAGE = Image("aGk=", "image/png")


def bound(point: str, **params: object) -> Any:
    spec = HOOKS.get("trim_tool_results")
    assert spec is not None
    return spec.bind(point, params)


async def trimmed(text: str = LONG, **params: object) -> str:
    payload = PostTool(tool="t", content=(Text(text), IMAGE))
    content = (await run_chain("post_tool", payload, [bound("post_tool", **params)])).payload.content
    assert content[-1] == IMAGE
    assert isinstance(content[0], Text)
    return content[0].text


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        ("head_tail", "aaa\n[116 characters left out]\nb"),
        ("head", "aaaa\n[116 characters left out]"),
        ("tail", "[116 characters left out]\nbbbb"),
    ],
)
async def test_a_long_result_keeps_what_was_asked_for(keep: str, expected: str) -> None:
    assert await trimmed(max_chars=4, keep=keep) == expected


async def test_a_result_that_fits_is_not_touched() -> None:
    assert await trimmed(max_chars=120) == LONG
    assert await trimmed() == LONG
    hook = bound("post_tool", max_chars=120)
    verdict = await run_chain("post_tool", PostTool(content=(Text(LONG),)), [hook])
    assert verdict.trace[0].changed == ()


async def test_what_is_spilt_is_whole_in_a_file_that_the_model_is_told(tmp_path: Path) -> None:
    world = StubWorld(str(tmp_path))
    payload = PostTool(tool="t", content=(Text(LONG),), world=world)
    await run_chain("post_tool", payload, [bound("post_tool", max_chars=8, keep="spill")])
    # The same text is one file, also for another agent.
    verdict = await run_chain("post_tool", payload, [bound("post_tool", max_chars=8, keep="spill")])
    (file,) = (tmp_path / ".turnchart" / "spill").iterdir()
    assert file.read_text("utf-8") == LONG
    said = f"all of it is in .turnchart/spill/{file.name}"
    assert verdict.payload.text == f"aaaaaa\n[112 characters left out; {said}]\nbb"


async def test_a_request_shows_results_short_and_the_rest_as_it_is() -> None:
    hook = bound("context", max_chars=4)
    asked, result = UserMessage(LONG), ToolResultMessage("c", "t", LONG)
    messages: list[Message] = [asked, result, ToolResultMessage("d", "t", "ok")]
    verdict = await run_chain("context", Context(messages=messages), [hook])
    shown = verdict.payload.messages
    assert shown[0] is asked
    assert shown[1].text == "aaa\n[116 characters left out]\nb"
    assert shown[2] is messages[2]
    again = await run_chain("context", Context(messages=messages), [hook])
    assert again.payload.messages[1] is shown[1]  # kept, not made again
    assert (await run_chain("context", Context(messages=[asked]), [hook])).payload.messages == [asked]


@pytest.mark.parametrize("params", [{"max_chars": 0}, {"keep": "middle"}, {"max": 5}])
async def test_wrong_parameters_are_refused(params: dict[str, object]) -> None:
    with pytest.raises(ParamError):
        bound("post_tool", **params)

from pathlib import Path

import pytest
from tests.hooks.stub_world import StubWorld

from turnchart.hooks import HOOKS, AddContext, Assemble, Context, ParamError, SessionStart, run_chain
from turnchart.machine.chain import BoundHook
from turnchart.machine.messages import AssistantMessage, UserMessage

pytestmark = pytest.mark.anyio


def made(point: str, **params: object) -> BoundHook:
    spec = HOOKS.get("add_text")
    assert spec is not None
    return spec.bind(point, params, id="house-rules")


async def test_a_new_session_is_told_once() -> None:
    hook = made("session_start", text="Be brief.")
    assert (await run_chain("session_start", SessionStart(), [hook])).answers == (AddContext("Be brief."),)
    assert (await run_chain("session_start", SessionStart(source="resumed"), [hook])).answers == ()


async def test_on_assemble_it_is_a_section_of_the_prompt() -> None:
    verdict = await run_chain("assemble", Assemble(sections=("a",)), [made("assemble", text="b")])
    assert verdict.payload.sections == ("a", "b")


async def test_on_context_it_stands_before_the_last_user_message() -> None:
    messages = [UserMessage("1"), AssistantMessage("x"), UserMessage("2"), AssistantMessage("y")]
    verdict = await run_chain("context", Context(messages=messages), [made("context", text="note")])
    assert [message.text for message in verdict.payload.messages] == ["1", "x", "note", "2", "y"]
    added = verdict.payload.messages[2]
    assert added == UserMessage("note", source="house-rules")
    alone = await run_chain("context", Context(), [made("context", text="note")])
    assert [message.text for message in alone.payload.messages] == ["note"]


async def test_a_file_is_read_each_time(world: StubWorld) -> None:
    file, hook = Path(world.root) / "notes.md", made("assemble", file="notes.md")
    for text in ("one", "two"):
        file.write_text(text)
        verdict = await run_chain("assemble", Assemble(), [hook], world=world)
        assert verdict.payload.sections == (text,)


async def test_a_missing_file_is_nothing_and_is_reported_once(world: StubWorld) -> None:
    hook = made("context", file="notes.md")
    for _ in range(2):
        verdict = await run_chain("context", Context(), [hook], world=world)
        assert verdict.payload.messages == ()
    assert world.told == ["hook `house-rules`: there is no file notes.md"]
    prompt = await run_chain("assemble", Assemble(), [made("assemble", file="notes.md")], world=world)
    assert prompt.payload.sections == ()
    start = await run_chain("session_start", SessionStart(), [made("session_start", file="n")], world=world)
    assert start.answers == ()


@pytest.mark.parametrize("params", [{}, {"text": "a", "file": "b"}])
def test_there_is_one_source(params: dict[str, object]) -> None:
    with pytest.raises(ParamError, match="give either text or file"):
        made("context", **params)


def test_the_file_is_listed_for_the_trust_check() -> None:
    spec = HOOKS.get("add_text")
    assert spec is not None
    assert [p.name for p in spec.parameters if p.meaning == "path"] == ["file"]

"""What models answer is recorded as a script that answers so again, without a key."""

import os
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from turnchart.flows.cassette import HEAD, Cassette, step_of
from turnchart.flows.script import load_script, to_model
from turnchart.machine import Agent, Failure, Reply, RetryPolicy, ScriptedModel, ToolCall, tool
from turnchart.machine.abort import AbortSignal
from turnchart.machine.errors import ScriptError, TurnchartError
from turnchart.machine.models import (
    Chunk,
    ModelRequest,
    PreparedCall,
    RequestConfig,
    TextDelta,
    ThinkingDelta,
)
from turnchart.machine.scripted import Scripted
from turnchart.machine.stream import Answer, expand
from turnchart.testing import check_model

KEY = "key-of-the-tests-0123456789"


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


SCRIPT: Sequence[Scripted] = [
    Failure("overloaded", retry_after=0, status=529, message=f"busy; your key {KEY}"),
    Reply("I add.", thinking="Hm: ü\n", tool_calls=[ToolCall("add", {"a": 1, "b": 2}, id="call_1")]),
    Reply(f"3, and {KEY} and sk-{'a1' * 20}", usage={"input": 3, "output": 2, "cost": 0.5}),
    Reply("half an", finish="max_tokens"),
]


async def conversation(agent: Agent) -> list[str]:
    """Say two things, and return what came of them."""
    said = [(await agent.prompt("add")).text, (await agent.prompt("more")).text]
    kinds = [each.type for each in agent.session.entries if each.type != "request/header"]
    return [*said, *kinds]


async def test_what_was_recorded_plays_the_same_conversation(tmp_path: Path) -> None:
    tape = Cassette(tmp_path / "tape.yaml", env={"OWN_API_KEY": KEY, "TERM": "xterm-256color"})
    retry = RetryPolicy(base_delay=0)
    async with tape.attach(Agent(ScriptedModel(SCRIPT), tools=[add], retry=retry)) as agent:
        first = await conversation(agent)
    tape.write()
    text = tape.path.read_text("utf-8")
    assert text.startswith(HEAD)
    assert KEY not in text
    assert "sk-" not in text
    script = load_script(tape.path).steps
    async with Agent(to_model(script), tools=[add], retry=retry) as agent:
        again = await conversation(agent)
    assert again[1:] == first[1:]
    assert again[0].startswith("3, and [redacted OWN_API_KEY] and [redacted")


CONNECTION, BUSY = Failure("connection", message="reset"), Failure("overloaded")
PARTIAL: Sequence[Scripted] = [
    Reply("A is", thinking="Hm.", usage={"input": 3, "output": 1}, failure=CONNECTION),
    Reply(chunks=["A ", f"is {KEY[:8]}", KEY[8:]], tool_calls=[ToolCall("add", "{")], failure=BUSY),
    Reply(failure=Failure("timeout")),
    "A is 1.",
]


async def attempts(agent: Agent) -> list[tuple[str, str, str]]:
    """Prompt an agent, and return what each request said, thought and failed of."""
    async with agent:
        await agent.prompt("What is a?")
    found: list[tuple[str, str, str]] = []
    for entry in agent.session.entries:
        if entry.type == "assistant/attempt":
            chunks = [chunk for chunk, _ in expand(entry.data["stream"])]
            said, thought = (
                "".join(chunk.text for chunk in chunks if isinstance(chunk, kind))
                for kind in (TextDelta, ThinkingDelta)
            )
            found.append((said, thought, entry.data["failure"]["kind"]))
        elif entry.type == "assistant/message":
            found.append((entry.data["message"].text, "", ""))
    return found


async def test_what_an_attempt_said_before_it_failed_is_played_too(tmp_path: Path) -> None:
    tape, retry = Cassette(tmp_path / "tape.yaml", env={"OWN_API_KEY": KEY}), RetryPolicy(base_delay=0)
    first = await attempts(tape.attach(Agent(ScriptedModel(PARTIAL), retry=retry)))
    tape.write()
    again = await attempts(Agent(to_model(load_script(tape.path).steps), retry=retry))
    assert again == [
        ("A is", "Hm.", "connection"), ("A is [redacted OWN_API_KEY]", "", "overloaded"), ("", "", "timeout"),
        ("A is 1.", "", ""),
    ]  # fmt: skip
    assert len(again) == len(first)
    assert tape.steps[0]["usage"] == {"input": 3, "output": 1}
    assert tape.steps[2] == {"fail": "timeout"}


async def test_what_was_said_before_the_model_raised_is_recorded_with_the_failure(tmp_path: Path) -> None:
    tape = Cassette(tmp_path / "tape.yaml", env={})
    async with tape.attach(Agent(Breaks(), retry=RetryPolicy(max_attempts=1))) as agent:
        await agent.prompt("hi")
    assert tape.steps == [{"text": "half", "fail": "timeout", "message": "late"}]


async def test_an_answer_that_ends_without_a_finish_is_whole(tmp_path: Path) -> None:
    tape = Cassette(tmp_path / "tape.yaml", env={})
    async with tape.attach(Agent(Breaks(late=False))) as agent:
        assert (await agent.prompt("hi")).reason == "completed"
    assert tape.steps == [{"text": "half"}]


class Breaks:
    """A model that says something and then raises, or ends without a finish."""

    id = "breaks"

    def __init__(self, *, late: bool = True) -> None:
        self.late = late

    async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
        return PreparedCall(config, self.stream)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        yield TextDelta("half")
        if self.late:
            raise TimeoutError("late")


async def test_a_key_that_begins_another_hides_no_less_of_that(tmp_path: Path) -> None:
    keys = {"A_TOKEN": "abcdefgh12", "B_TOKEN": "abcdefgh12andmore"}
    tape = Cassette(tmp_path / "tape.yaml", env=keys)
    async with tape.attach(
        Agent(ScriptedModel([f"it is {keys['B_TOKEN']}, not {keys['A_TOKEN']}"]))
    ) as agent:
        await agent.prompt("go")
    tape.write()
    assert "it is [redacted B_TOKEN], not [redacted A_TOKEN]" in tape.path.read_text("utf-8")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_recorded_model_keeps_the_contract(backend: str, tmp_path: Path) -> None:
    tape = Cassette(tmp_path / "tape.yaml", env={})

    def make(replies: Sequence[Reply | Failure]) -> ScriptedModel:
        model = tape.attach(Agent(ScriptedModel(replies))).model
        assert model is not None
        return model  # type: ignore[return-value]  # around a scripted one

    check_model(make, backend=backend)


async def test_models_that_are_found_are_recorded_in_the_order_of_the_requests(tmp_path: Path) -> None:
    tape = Cassette(tmp_path / "tape.yaml", env={})
    other = ScriptedModel(["from the other"], id="b:b")

    async def find(id: str) -> ScriptedModel:
        return other

    first = ScriptedModel([Failure("auth")], id="a:a")
    for models in (find, {"b:b": ScriptedModel(["from the other"], id="b:b")}):
        first = ScriptedModel([Failure("auth")], id="a:a")
        async with tape.attach(Agent(first, models=models, fallback=["b:b"])) as agent:
            assert (await agent.prompt("hi")).text == "from the other"
    assert [step.get("fail") or step["text"] for step in tape.steps] == ["auth", "from the other"] * 2


async def test_a_script_that_is_recorded_must_be_played_to_its_end(tmp_path: Path) -> None:
    tape = Cassette(tmp_path / "tape.yaml", env={})
    with pytest.raises(ScriptError, match="1 reply"):
        async with tape.attach(Agent(ScriptedModel(["a", "b"]))) as agent:
            await agent.prompt("hi")
    assert len(tape.steps) == 1


async def test_what_raises_is_recorded_as_the_failure_that_it_is(tmp_path: Path) -> None:
    tape = Cassette(tmp_path / "tape.yaml", env={})
    async with tape.attach(
        Agent(ScriptedModel([TimeoutError("late")]), retry=RetryPolicy(max_attempts=1))
    ) as agent:
        await agent.prompt("hi")
    assert tape.steps == [{"fail": "timeout", "message": "late"}]


def test_an_answer_that_was_cut_off_says_so() -> None:
    answer = Answer()
    for chunk in Reply(chunks=["par", "tial"]).stream()[:2]:
        assert not isinstance(chunk, int | float)
        answer.add(chunk, 1.0)
    assert step_of(answer) == {"text": "partial", "finish": "aborted"}


def test_a_place_that_cannot_be_written_is_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    with pytest.raises(TurnchartError, match=r"tape\.yaml cannot be written: .* there is no such folder"):
        Cassette(tmp_path / "nowhere" / "tape.yaml")


def test_a_read_only_place_is_said_to_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> bool:
        return False

    monkeypatch.setattr(os, "access", refused)  # root may write everywhere else
    with pytest.raises(TurnchartError, match="you may not write there, or the disk is read-only"):
        Cassette(tmp_path / "tape.yaml")


def test_nothing_but_a_recording_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    tape = Cassette(path)
    tape.write()
    assert load_script(path).steps == ()
    Cassette(path).write()
    path.write_text("- Hello\n")
    with pytest.raises(TurnchartError, match=r"mine\.yaml is there, and is no recording"):
        Cassette(path)
    with pytest.raises(TurnchartError, match="no recording"):
        Cassette(tmp_path)

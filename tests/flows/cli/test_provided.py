"""What ran at the provider, in words: in a run, in a chat, and in a session that is read later."""

import io
from typing import Any

import pytest
from tests.flows.cli.chat.test_hearing import ANSI

from turnchart.flows.cli.chat.hearing import Hearing
from turnchart.flows.cli.chat.painting import Painter
from turnchart.flows.cli.chat.status import Status
from turnchart.flows.cli.chat.transcript import Transcript
from turnchart.flows.cli.provided import provided
from turnchart.flows.cli.render import Render, Screen
from turnchart.flows.cli.sessions_tree import tree
from turnchart.machine import Agent, Reply, ScriptedModel
from turnchart.machine.models import Finish, TextDelta
from turnchart.testing import FakeClock


def call(**said: Any) -> dict[str, Any]:
    return {"part": {"part_kind": "builtin-tool-call", "tool_name": "web_search", **said}}


def came(content: Any, name: str = "web_search") -> dict[str, Any]:
    return {"part": {"part_kind": "builtin-tool-return", "tool_name": name, "content": content}}


PAGES = [{"type": "web_search_result", "title": "A", "url": f"https://a.org/{n}"} for n in range(7)]
CITED = {"provider_details": {"citations": [{"url": "https://a.org/1"}, {"url": "https://a.org/1"}]}}
REPLAY = {"parts": [{}, call(args='{"query": "weather"}'), came(PAGES[:1]), CITED]}
LINES = [
    'web_search {"query": "weather"} (at the provider)',
    "web_search: 1 page: https://a.org/0",
    "cites https://a.org/1",
]


@pytest.mark.parametrize(
    ("parts", "lines"),
    [
        (REPLAY["parts"], LINES),
        ([call(args={"query": "x"})], ['web_search {"query": "x"} (at the provider)']),
        ([call(args="{half")], ["web_search {half (at the provider)"]),
        (
            [came(PAGES)],
            [f"web_search: 7 pages: {', '.join(f'https://a.org/{n}' for n in range(5))} and 2 more"],
        ),
        (
            [came({"url": "https://a.org", "content": "..."}, "web_fetch")],
            ["web_fetch: 1 page: https://a.org"],
        ),
        (
            [came({"stdout": "4\n", "stderr": "", "return_code": 0}, "code_execution")],
            ["code_execution: stdout 4 ; return_code 0"],
        ),
        ([came({"status": "completed"})], ["web_search: completed"]),
        ([came({"other": 1})], ['web_search: {"other": 1}']),
        ([came([])], ["web_search: nothing"]),
        ([came("\x1b[2Jtext")], ["web_search: ␛[2Jtext"]),
        ([{"part": {"part_kind": "compaction"}}], []),
        ([{"part": 3}], []),
        (3, []),
    ],
)
def test_a_line_a_call_and_a_result(parts: Any, lines: list[str]) -> None:
    assert provided({"replay": {"parts": parts}}) == lines


@pytest.mark.parametrize("message", [{}, {"replay": None}, {"replay": 3}, {"replay": {}}])
def test_most_answers_have_none(message: dict[str, Any]) -> None:
    assert provided(message) == []


SEARCHED = Reply(chunks=[TextDelta("It rains."), Finish("stop", None, REPLAY)])


async def test_a_run_shows_it() -> None:
    err = io.StringIO()
    async with Agent(ScriptedModel([SEARCHED])) as agent:
        agent.on("*", Render(agent, Screen(io.StringIO(), err)))
        await agent.prompt("go")
    assert "".join(f"  {line}\n" for line in LINES) in err.getvalue()


async def test_a_chat_shows_it() -> None:
    transcript = Transcript(Painter(colours=False))
    async with Agent(ScriptedModel([SEARCHED]), clock=FakeClock()) as agent:
        agent.on("*", Hearing(agent, transcript, Status(agent), lambda: None))
        await agent.prompt("go")
    drawn = [ANSI.sub("", line).strip() for line in transcript.draw(300, 10).above]
    assert [line for line in drawn if line in LINES] == LINES


async def test_a_session_shows_it_below_the_answer() -> None:
    async with Agent(ScriptedModel([SEARCHED])) as agent:
        await agent.prompt("go")
    drawn = list(tree(agent.session.entries))
    at = next(i for i, line in enumerate(drawn) if "assistant  It rains." in line)
    assert [line.strip() for line in drawn[at + 1 : at + 4]] == LINES
    assert drawn[at + 1].index("web_search") == drawn[at].index("It rains.")

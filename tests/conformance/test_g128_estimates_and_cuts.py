"""G of the data flow, the pure half of compaction: estimates, thresholds, and where a conversation may be cut."""

import pytest
from tests.conformance.asking import Route, asked
from tests.machine.test_cutting import surface
from tests.machine.test_tokens import add, said, session

from turnchart.machine import (
    Compaction,
    CustomMessage,
    Image,
    ScriptedModel,
    Text,
    UserMessage,
)
from turnchart.machine.compaction import limit
from turnchart.machine.cutting import Cut, Surface
from turnchart.machine.entries import Frozen
from turnchart.machine.messages import ToolResultMessage
from turnchart.machine.models import Finish
from turnchart.machine.points import Compact, Veto
from turnchart.machine.summaries import summary_message
from turnchart.machine.summary_prompt import summary_prompt
from turnchart.machine.tokens import Gauge, message_tokens, usage_tokens


def test_g128_usage_is_the_sum_of_what_was_counted() -> None:
    assert usage_tokens({"input": 1000, "output": 500, "cache_read": 200, "cache_write": 100}) == 1800
    assert usage_tokens({"input": 0, "output": 0, "cache_read": 0, "cache_write": 0}) == 0


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("used", "strategy", "compacts"),
    [(95_000, "summarize", True), (89_000, "summarize", False), (95_000, "none", False)],
)
async def test_g129_above_the_threshold_a_conversation_is_compacted(
    used: int, strategy: str, compacts: bool
) -> None:
    async with asked(
        Route((Finish("stop"),), window=100_000),
        compaction=Compaction(strategy, trigger=0.9),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # one of them
    ) as agent:
        await agent.prompt("x")
        most = limit(agent)
        assert most == 90_000
        assert (used > most and agent.compaction.strategy != "none") is compacts


def test_g130_a_lone_result_and_what_the_model_does_not_see_give_no_cut() -> None:
    assert surface("r1").cut(1) is None
    log = session()
    log.append_custom("note", {"a": 1})
    log.append_label(0, "here")
    assert Surface(log.view.nodes, log.entries).cut(1) is None
    assert surface("s", "u2", "a2", "u3", "a3").cut(1) == Cut(3, 3)  # behind an earlier compaction


def test_g131_every_kind_of_message_weighs_something() -> None:
    image = ToolResultMessage("c", "t", [Text("seen"), Image("aGk=", "image/png")])
    shown = summary_message(Frozen(summary="so far"), 0.0)
    for message in (UserMessage("u"), said("a"), CustomMessage("note", "n"), shown):
        assert message_tokens(message) > 0
    assert message_tokens(image) > 1000


def test_g132_the_last_good_report_counts_with_what_came_after_it() -> None:
    log = session(UserMessage("1" * 400), said("a", {"input": 500, "output": 20}))
    add(
        log, UserMessage("2" * 40), said("b" * 8, {"input": 900}, "aborted"), said("c" * 8, {"input": 900}, "error"),
        said("d" * 8, {"input": 0, "output": 0}),
    )  # fmt: skip
    assert Gauge().measure(log) == 520 + 10 + 2 + 2 + 2


def test_g139_the_earlier_summary_and_the_focus_stand_in_the_prompt() -> None:
    prompt = summary_prompt(["[User]: a"], "what was", "file names")
    assert "<previous-summary>\nwhat was\n</previous-summary>" in prompt
    assert "Additional focus: file names" in prompt


@pytest.mark.anyio
async def test_g145_a_veto_leaves_the_conversation_as_it_is() -> None:
    def veto(payload: Compact) -> Veto:
        return Veto("no")

    model = ScriptedModel(["a" * 400, "b" * 400, "c"], context_window=250)
    async with asked(model, hooks={"compact": [veto]}) as agent:
        for text in ("one", "two", "three"):
            assert (await agent.prompt(text)).ok
    assert [each.text for each in agent.session.context()][::2] == ["one", "two", "three"]

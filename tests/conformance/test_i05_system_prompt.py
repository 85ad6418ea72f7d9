"""lifecycle I.5, first half: admission, the reconciliation of system messages, and where a series begins."""

import pytest
from tests.conformance.asking import (
    DONE,
    IN_HISTORY,
    Board,
    Route,
    all_of,
    asked,
    headers,
    in_step,
    nodes,
    replace,
    resumed,
    said,
    systems,
)
from tests.machine.drive import add, calls, slow

from turnchart.machine import Agent, Failure, ScriptedModel
from turnchart.machine.models import Finish
from turnchart.machine.points import Assemble, PreStep, Request, RequestError, Retry

ADMISSION = ["system/message", "user/message", "request/header", "request/context", "assistant/message"]


async def says(agent: Agent, board: Board, *prompts: str) -> None:
    """Run one turn with each system prompt."""
    for text in prompts:
        board.text = text
        await agent.prompt("x")


# -- admission ---------------------------------------------------------------------------------------


async def test_i077_admission_is_system_users_header_context_and_nothing_between() -> None:
    board = Board("one")
    async with asked(ScriptedModel(default="ok"), hooks={"assemble": [board]}) as agent:
        agent.inject("first")
        await agent.prompt("x")
        assert in_step(agent.session) == ["system/message", "user/message", *ADMISSION[1:]]
        board.text = "two"
        agent.set_thinking_level("low")
        await agent.prompt("y")
    assert in_step(agent.session, 2) == ["system/message", "user/message", "request/header", ADMISSION[-1]]


async def test_i078_an_empty_prompt_reserves_the_head() -> None:
    route = Route(DONE)
    async with asked(route, prompt="") as agent:
        await agent.prompt("x")
    assert systems(agent.session) == [("", False)]
    (request,) = route.requests
    assert request.system == ""
    assert [message.role for message in request.messages] == ["user"]


async def test_i079_an_unchanged_prompt_is_not_said_again() -> None:
    async with asked(Route(capabilities=IN_HISTORY)) as agent:
        await agent.prompt("x")
        await agent.prompt("y")
    assert systems(agent.session) == [("Be brief.", False)]


async def test_i080_a_capable_route_reads_a_changed_prompt_behind_the_history() -> None:
    board, route = Board(), Route(capabilities=IN_HISTORY)
    async with asked(route, hooks={"assemble": [board]}) as agent:
        await says(agent, board, "one", "two", "two", "one")
    assert systems(agent.session) == [("one", False), ("two", False), ("one", False)]
    assert [request.system for request in route.requests] == ["one"] * 4
    assert said(route.requests[1].messages) == ["x", "two", "x"]
    assert [message.role for message in route.requests[1].messages] == ["user", "system", "user"]
    assert headers(agent.session) == ["initial"]


async def test_i081_on_another_route_the_head_is_replaced() -> None:
    board, route = Board(), Route()
    async with asked(route, hooks={"assemble": [board]}) as agent:
        await says(agent, board, "one", "two")
    assert systems(agent.session) == [("one", False), ("two", True)]
    assert [request.system for request in route.requests] == ["one", "two"]
    assert said(route.requests[1].messages) == ["x", "x"]
    first, second = all_of(agent.session, "system/message")
    assert (second.replaces, second.sources) == ((first.seq, first.seq), (first.seq,))


async def switched(board: Board, second: str) -> tuple[Agent, Route]:
    """Run two turns with another prompt each on a capable route, and a third on one that is not."""
    plain = Route(id="plain")
    models = {"capable": Route(id="capable", capabilities=IN_HISTORY), "plain": plain}
    async with asked("capable", models=models, hooks={"assemble": [board]}) as agent:
        await says(agent, board, "one", "two")
        agent.set_model("plain")
        await says(agent, board, second)
    return agent, plain


async def test_i082_an_incapable_route_empties_later_nodes_and_then_says_it_at_the_head() -> None:
    agent, plain = await switched(Board(), "two")
    assert systems(agent.session) == [("one", False), ("two", False), ("", True), ("two", True)]
    assert plain.requests[0].system == "two"
    assert said(plain.requests[0].messages) == ["x", "x", "x"]


async def test_a_head_that_is_right_already_is_not_touched() -> None:
    agent, plain = await switched(Board(), "one")
    assert systems(agent.session) == [("one", False), ("two", False), ("", True)]
    assert plain.requests[0].system == "one"


async def test_i085_a_prompt_that_becomes_empty_empties_every_node() -> None:
    board, route = Board(), Route(capabilities=IN_HISTORY)
    async with asked(route, hooks={"assemble": [board]}) as agent:
        await says(agent, board, "one", "two", "")
    assert systems(agent.session)[2:] == [("", True), ("", True)]
    assert (route.requests[2].system, said(route.requests[2].messages)) == ("", ["x", "x", "x"])


async def test_i086_a_dormant_node_is_never_rewritten() -> None:
    board = Board()
    async with asked(Route(capabilities=IN_HISTORY), hooks={"assemble": [board]}) as agent:
        await says(agent, board, "one", "two", "", "three")
        users = all_of(agent.session, "user/message")
        replace(agent.session, users[0].seq, users[1].seq, "so far")
        await says(agent, board, "three", "four", "")
    assert systems(agent.session)[4:] == [
        ("three", False), ("", True), ("three", True), ("four", False), ("", True), ("", True),
    ]  # fmt: skip
    assert nodes(agent.session)[0] == ""


# -- series ------------------------------------------------------------------------------------------


async def test_i087_other_tools_bring_the_prompt_back_to_the_head() -> None:
    board, route = Board(tools=("add",)), Route(capabilities=IN_HISTORY)
    async with asked(route, tools=[add, slow], hooks={"assemble": [board]}) as agent:
        await says(agent, board, "one", "two")
        board.tools = ("add", "slow")
        await says(agent, board, "two")
    assert systems(agent.session) == [("one", False), ("two", False), ("", True), ("two", True)]
    assert headers(agent.session) == ["initial", "change+"]


async def test_i087_other_tools_than_the_last_program_had_break_the_series_too() -> None:
    board = Board()
    async with asked(Route(capabilities=IN_HISTORY), tools=[add], hooks={"assemble": [board]}) as agent:
        await says(agent, board, "one", "two")
    session, route = resumed(agent.session), Route(capabilities=IN_HISTORY)
    async with asked(route, tools=[slow], session=session, hooks={"assemble": [board]}) as agent:
        await says(agent, board, "two")
    assert systems(session)[2:] == [("", True), ("two", True)]
    assert headers(session) == ["initial", "resume+"]


async def compacted(*texts: str, streams: Route, covers_system: bool) -> tuple[Agent, Route]:
    """Run a turn with each prompt on a capable route; before the last one, replace what came so far."""
    board = Board()
    async with asked(streams, hooks={"assemble": [board]}) as agent:
        await says(agent, board, *texts[:-1])
        conversation = [node.seq for node in agent.session.view.nodes]
        first, last = conversation[0], conversation[-1]
        replace(agent.session, first, last if covers_system else first, "so far")
        await says(agent, board, texts[-1])
    return agent, streams


async def test_i089_a_replacement_over_a_later_node_brings_no_older_prompt_back() -> None:
    agent, route = await compacted(
        "one", "two", "two", streams=Route(capabilities=IN_HISTORY), covers_system=True
    )
    assert systems(agent.session) == [("one", False), ("two", False), ("two", True)]
    assert nodes(agent.session) == ["two"]
    assert (route.requests[-1].system, said(route.requests[-1].messages)) == ("two", ["so far", "x"])
    assert headers(agent.session) == ["initial", "series"]


async def test_a_prompt_whose_node_was_shadowed_can_be_said_again() -> None:
    board = Board()
    async with asked(Route(capabilities=IN_HISTORY), hooks={"assemble": [board]}) as agent:
        await says(agent, board, "one", "two")
        conversation = [node.seq for node in agent.session.view.nodes]
        replace(agent.session, conversation[0], conversation[-1], "so far")
        await says(agent, board, "one", "two")
    assert systems(agent.session) == [("one", False), ("two", False), ("two", False)]


async def test_i090_a_replacement_that_leaves_a_later_node_empties_it() -> None:
    agent, route = await compacted(
        "one", "two", "three", streams=Route(capabilities=IN_HISTORY), covers_system=False
    )
    assert systems(agent.session) == [("one", False), ("two", False), ("", True), ("three", True)]
    assert (route.requests[-1].system, said(route.requests[-1].messages)) == ("three", ["so far", "x", "x"])
    assert all_of(agent.session, "system/message")[-1].seq < all_of(agent.session, "user/message")[-1].seq


async def test_i091_two_retries_after_a_replacement_write_one_series_header() -> None:
    failed = (Finish("error", Failure("timeout")),)
    route = Route(DONE, failed, failed, DONE, capabilities=IN_HISTORY)
    agent, _ = await compacted("one", "two", streams=route, covers_system=True)
    assert headers(agent.session) == ["initial", "series"]
    assert len(all_of(agent.session, "assistant/attempt")) == 2
    assert [request.system for request in route.requests] == ["one", "two", "two", "two"]


async def test_a_pre_step_may_start_a_series_and_its_retries_start_no_other() -> None:
    def fresh(payload: PreStep) -> PreStep | None:
        return payload.replace(starts_request_series=True) if payload.turn.number == 2 else None

    board = Board()
    failed = (Finish("error", Failure("timeout")),)
    route = Route(DONE, failed, DONE, capabilities=IN_HISTORY)
    async with asked(route, hooks={"assemble": [board], "pre_step": [fresh]}) as agent:
        await says(agent, board, "one", "two")
    assert systems(agent.session) == [("one", False), ("two", True)]
    assert headers(agent.session) == ["initial", "series"]


async def test_moving_in_the_tree_starts_a_series() -> None:
    board, route = Board(), Route(capabilities=IN_HISTORY)
    async with asked(route, hooks={"assemble": [board]}) as agent:
        await says(agent, board, "one", "one")
        agent.session.navigate(all_of(agent.session, "turn/end")[0].seq)
        await says(agent, board, "two")
    assert systems(agent.session) == [("one", False), ("two", True)]
    assert headers(agent.session) == ["initial", "series"]
    assert said(route.requests[2].messages) == ["x", "x"]


async def test_what_was_replaced_since_the_agent_was_opened_counts_for_its_first_request() -> None:
    async with asked(Route()) as agent:
        await agent.prompt("x")
    session = resumed(agent.session)
    async with asked(Route(), session=session) as agent:
        seq = all_of(session, "user/message")[0].seq
        replace(session, seq, seq, "so far")
        await agent.prompt("y")
        await agent.prompt("z")
    assert headers(session) == ["initial", "resume+"]


# -- the new scenario: sections change between an attempt and its retry --------------------------------


@pytest.mark.parametrize("capabilities", [(), IN_HISTORY])
async def test_sections_that_change_before_a_retry_wait_for_the_next_step(
    capabilities: tuple[str, ...],
) -> None:
    board = Board("old")

    def rewrite(_: RequestError) -> None:
        board.text = "new"

    model = ScriptedModel(
        [Failure("timeout"), Failure("timeout"), calls(("add", {"a": 1, "b": 2})), "ok"],
        capabilities=capabilities,
    )
    hooks = {"assemble": [board], "request_error": [rewrite]}
    async with asked(model, tools=[add], hooks=hooks) as agent:
        await agent.prompt("x")
    assert board.asked == 2
    *old, new = model.requests
    assert [request.system for request in old] == ["old"] * 3
    shown = "new" if not capabilities else "old"
    assert new.system == shown
    assert said(new.messages)[-1] == ("new" if capabilities else "3")
    assert len(all_of(agent.session, "user/message")) == 1


async def test_a_retry_assembles_nothing_and_proposes_nothing() -> None:
    points: list[str] = []

    def assembled(_: Assemble) -> None:
        points.append("assemble")

    def proposed(_: PreStep) -> None:
        points.append("pre_step")

    def requested(_: Request) -> None:
        points.append("request")

    def failed(_: RequestError) -> Retry:
        points.append("request_error")
        return Retry(0)

    hooks = {
        "assemble": [assembled], "pre_step": [proposed], "request": [requested], "request_error": [failed],
    }  # fmt: skip
    model = ScriptedModel([Failure("auth"), "ok"])
    async with asked(model, hooks=hooks) as agent:
        await agent.prompt("x")
    assert points == ["assemble", "pre_step", "request", "request_error", "request"]

"""lifecycle I.5, second half: how a request is chosen and prepared, its header, and who may change what."""

from typing import Any

import pytest
from tests.conformance.asking import (
    DONE,
    Route,
    all_of,
    asked,
    headers,
    in_step,
    resumed,
    said,
    since,
)
from tests.machine.drive import add, calls, slow

from turnchart.machine import Agent, Failure, RequestFailed, ScriptedModel, State, Turn
from turnchart.machine.entries import Frozen
from turnchart.machine.errors import TurnchartError
from turnchart.machine.models import Finish, RequestConfig, TextDelta
from turnchart.machine.points import Request, RequestError, Retry, Stream
from turnchart.testing import FakeClock

EMPTY_STEP = ["step/start", "step/end", "turn/end"]
ABORTED_STEP = ["step/start", "agent/inbox/spliced", "agent/inbox/spliced", "step/end", "turn/end"]
"""Nothing but the batch, which is discarded: it waits again, and is gone."""


def choose(payload: Request) -> Request:
    return payload.replace(model="chosen")


def never(_: RequestError) -> None:
    raise AssertionError("no failed request, so request_error must not be asked")


async def cut_in_requesting(agent: Agent) -> Turn:
    """Prompt, and abort as soon as the driver waits in requesting."""
    item = agent.follow_up("x")
    await agent.until(State.REQUESTING)
    agent.go_on()
    await agent.clock.sleep(1)
    discarded = agent.abort("user")
    assert discarded == (item,)
    await agent.idle()
    assert agent.last_turn is not None
    return agent.last_turn


# -- cancelling and failing before the admission -------------------------------------------------------


async def test_i071_a_cancel_in_the_request_hook_commits_nothing() -> None:
    async def wait(_: Request) -> None:
        await clock.sleep(10)

    clock, route = FakeClock(), Route()
    async with asked(route, clock=clock, hooks={"request": [wait]}) as agent:
        turn = await cut_in_requesting(agent)
    assert turn.reason == "aborted"
    assert since(agent.session, 3) == ABORTED_STEP
    assert route.prepared == 0


async def test_i071_a_request_hook_that_aborts_and_returns_prepares_nothing() -> None:
    def cut(_: Request) -> None:
        agent.abort()

    route = Route()
    async with asked(route, hooks={"request": [cut]}) as agent:
        turn = await agent.prompt("x")
    assert turn.reason == "aborted"
    assert since(agent.session, 3) == ABORTED_STEP
    assert route.prepared == 0


async def test_i072_a_cancel_while_a_call_is_prepared_commits_nothing() -> None:
    clock = FakeClock()
    route = Route(preparing=lambda _: clock.sleep(10))
    async with asked(route, clock=clock) as agent:
        turn = await cut_in_requesting(agent)
    assert turn.reason == "aborted"
    assert since(agent.session, 3) == ABORTED_STEP
    assert route.requests == []


async def test_i072_an_abort_by_what_prepares_commits_nothing() -> None:
    def cut(_: RequestConfig) -> None:
        agent.abort()

    route = Route(preparing=cut)
    async with asked(route) as agent:
        turn = await agent.prompt("x")
    assert turn.reason == "aborted"
    assert since(agent.session, 3) == ABORTED_STEP


@pytest.mark.parametrize(
    ("raised", "logged"),
    [
        (RuntimeError("no key"), {"kind": "unknown", "type": "RuntimeError", "message": "no key"}),
        (
            RequestFailed(Failure("auth", status=401, message="no key")),
            {"kind": "auth", "status": 401, "message": "no key"},
        ),
    ],
)
async def test_i073_a_call_that_cannot_be_prepared_is_a_turn_error(
    raised: Exception, logged: dict[str, object]
) -> None:
    def refuse(_: RequestConfig) -> None:
        raise raised

    async with asked(Route(preparing=refuse), hooks={"request_error": [never]}) as agent:
        turn = await agent.prompt("x")
    assert (turn.reason, turn.error) == ("error", raised)
    assert since(agent.session, 3) == EMPTY_STEP
    assert agent.session.entries[-1].data["error"] == logged
    assert [item.messages[0].text for item in turn.unadmitted] == ["x"]


# -- models that nobody knows --------------------------------------------------------------------------


async def test_i074_a_stream_hook_may_serve_a_model_that_nobody_has() -> None:
    async def serve(payload: Stream, next: Any) -> Any:
        del next
        assert payload.request is not None
        return Route((TextDelta("served"), *DONE)).open(payload.request)

    async with asked("nobody:has", hooks={"stream": [serve]}, settings={"temperature": 0}) as agent:
        turn = await agent.prompt("x")
    assert (turn.reason, turn.text) == ("completed", "served")
    (header,) = all_of(agent.session, "request/header")
    assert (header.data["model"], header.data["settings"]) == ("nobody:has", {"temperature": 0})
    assert "defaults" not in header.data
    (context,) = all_of(agent.session, "request/context")
    assert (context.data["capabilities"], context.data.get("context_window")) == ((), None)


async def test_a_model_that_nobody_has_is_a_failed_request() -> None:
    asked_about: list[str] = []

    def ask(payload: RequestError) -> None:
        asked_about.append(payload.kind)

    async with asked("nobody:has", hooks={"request_error": [ask]}) as agent:
        turn = await agent.prompt("x")
    assert asked_about == ["no_model"]
    assert turn.reason == "error"
    assert "no model 'nobody:has'" in str(turn.error)
    assert in_step(agent.session)[-1] == "assistant/attempt"


async def test_a_fallback_takes_over_from_a_model_that_nobody_has() -> None:
    route = Route(id="second")
    async with asked("nobody:has", models={"second": route}, fallback=["second"]) as agent:
        turn = await agent.prompt("x")
    assert turn.ok
    assert [entry.data["model"] for entry in all_of(agent.session, "request/header")] == [
        "nobody:has", "second",
    ]  # fmt: skip


async def test_i075_without_any_model_the_turn_fails_and_says_so() -> None:
    async with asked("", hooks={"request_error": [never]}) as agent:
        turn = await agent.prompt("x")
    assert turn.reason == "error"
    assert "no model is chosen" in str(turn.error)
    assert since(agent.session, 3) == EMPTY_STEP


async def test_i076_the_request_hook_alone_may_name_the_model() -> None:
    route = Route(id="chosen")
    async with asked("", models={"chosen": route}, hooks={"request": [choose]}) as agent:
        turn = await agent.prompt("x")
    assert turn.ok
    assert route.requests[0].model == "chosen"


# -- the header --------------------------------------------------------------------------------------


async def test_i094_the_first_header_says_whether_the_log_is_new() -> None:
    async with asked(Route()) as agent:
        await agent.prompt("x")
    assert headers(agent.session) == ["initial"]
    async with asked(Route(), session=resumed(agent.session)) as agent:
        await agent.prompt("y")
    assert headers(agent.session) == ["initial", "resume"]


async def test_i095_a_header_is_written_when_something_changes_and_then_whole() -> None:
    changes: list[dict[str, Any]] = [
        {}, {}, {"settings": {"temperature": 0.5}}, {"thinking": "high"}, {"tools": ("add",)}, {},
    ]  # fmt: skip

    def change(payload: Request) -> Request:
        return payload.replace(**changes[payload.turn.number - 1])

    async with asked(Route(), tools=[add, slow], hooks={"request": [change]}) as agent:
        for _ in changes:
            await agent.prompt("x")
    assert headers(agent.session) == ["initial", "change", "change", "change+", "change+"]
    for entry in all_of(agent.session, "request/header"):
        assert {"model", "settings", "thinking", "tools"} <= entry.data.keys()


async def test_i096_the_route_is_written_when_it_changes() -> None:
    route, other = Route(window=1000), Route(id="other", window=1000, capabilities=["images"])
    async with asked(route, models={"other": other}) as agent:
        await agent.prompt("a")
        await agent.prompt("b")
        route.window = 2000
        await agent.prompt("c")
        route.window = None
        await agent.prompt("d")
        agent.set_model("other")
        await agent.prompt("e")
        await agent.prompt("f")
    facts = [
        (entry.data["model"], entry.data.get("context_window"), entry.data["capabilities"])
        for entry in all_of(agent.session, "request/context")
    ]
    assert facts == [
        ("test", 1000, ()), ("test", 2000, ()), ("test", None, ()), ("other", 1000, ("images",)),
    ]  # fmt: skip


async def test_i097_defaults_of_the_adapter_are_logged_marked_and_found_anew_for_another_model() -> None:
    route = Route(defaults={"max_tokens": 1000, "effort": "low"})
    other = Route(id="other", defaults={"max_tokens": 2000})
    async with asked(route, models={"other": other}, settings={"effort": "high"}) as agent:
        await agent.prompt("x")
        agent.set_model("other")
        await agent.prompt("y")
    first, second = all_of(agent.session, "request/header")
    assert first.data["settings"] == {"effort": "high", "max_tokens": 1000}
    assert first.data["defaults"] == ("max_tokens",)
    assert second.data["settings"] == {"effort": "high", "max_tokens": 2000}
    assert second.data["defaults"] == ("max_tokens",)


async def test_a_setting_that_becomes_explicit_with_the_same_value_is_a_change() -> None:
    def explicit(payload: Request) -> Request | None:
        return payload.replace(settings={"max_tokens": 1000}) if payload.turn.number == 2 else None

    async with asked(Route(defaults={"max_tokens": 1000}), hooks={"request": [explicit]}) as agent:
        await agent.prompt("x")
        await agent.prompt("y")
    assert [entry.data.get("defaults") for entry in all_of(agent.session, "request/header")] == [
        ("max_tokens",), None,
    ]  # fmt: skip


async def test_i098_explicit_settings_outlive_a_change_of_the_model() -> None:
    other = Route(id="other", defaults={"max_tokens": 2000})
    async with asked(Route(), models={"other": other}, settings={"max_tokens": 50}) as agent:
        await agent.prompt("x")
        agent.set_model("other")
        await agent.prompt("y")
    assert other.requests[0].settings == {"max_tokens": 50}
    assert "defaults" not in all_of(agent.session, "request/header")[1].data


async def test_i106_tools_stand_in_one_order_however_they_are_given() -> None:
    logged: list[Any] = []
    for tools in ([add, slow], [slow, add]):
        async with asked(Route(), tools=tools) as agent:
            await agent.prompt("x")
        logged.append(all_of(agent.session, "request/header")[0].data["tools"])
    assert logged[0] == logged[1]
    assert [each["name"] for each in logged[0]] == ["add", "slow"]


# -- who may change what, and for how long -------------------------------------------------------------


async def test_i099_a_hook_that_changes_only_the_model_drops_the_thinking_level() -> None:
    def by_turn(payload: Request) -> Request | None:
        match payload.turn.number:
            case 2:
                return payload.replace(model="other")
            case 3:
                return payload.replace(model="other", thinking="low")
            case _:
                return None

    route, other = Route(), Route(id="other")
    async with asked(route, models={"other": other}, thinking="high", hooks={"request": [by_turn]}) as agent:
        for _ in range(4):
            await agent.prompt("x")
    assert [request.thinking for request in route.requests] == ["high", "high"]
    assert [request.thinking for request in other.requests] == [None, "low"]


async def test_i100_nobody_can_mutate_the_config() -> None:
    def mutate(payload: Request) -> None:
        payload.settings["temperature"] = 1  # type: ignore[index]  # pyright: ignore[reportIndexIssue]  # what the test is about

    async with asked(Route(), settings={"temperature": 0}, hooks={"request": [mutate]}) as agent:
        turn = await agent.prompt("x")
    assert turn.reason == "error"
    assert "log data is frozen" in str(turn.error)
    assert all_of(agent.session, "request/header") == []


async def test_i100_nobody_can_mutate_the_request() -> None:
    async def mutate(payload: Stream, next: Any) -> Any:
        assert payload.request is not None
        payload.request.messages = ()  # type: ignore[misc]  # what the test is about
        return await next(payload)

    route = Route()
    async with asked(route, hooks={"stream": [mutate]}) as agent:
        turn = await agent.prompt("x")
    assert turn.reason == "error"
    assert route.requests == []


async def test_i101_what_is_injected_in_the_request_hook_waits_for_the_next_request() -> None:
    def inject(payload: Request) -> None:
        if payload.turn.number == 1 and payload.step == 1:
            agent.inject("late")

    model = ScriptedModel(["one", "two"])
    async with asked(model, hooks={"request": [inject]}) as agent:
        await agent.prompt("x")
    assert [said(request.messages) for request in model.requests] == [["x"], ["x", "one", "late"]]


async def test_a_change_of_the_request_hook_holds_for_that_request_only() -> None:
    def once(payload: Request) -> Request | None:
        if payload.turn.number == 1 and not all_of(agent.session, "assistant/attempt"):
            return payload.replace(settings={"temperature": 1}, thinking="low", tools=("add",))
        return None

    model = ScriptedModel([Failure("timeout"), calls(("add", {"a": 1, "b": 2})), "ok", "ok"])
    async with asked(
        model, tools=[add, slow], settings={"temperature": 0}, thinking="high", hooks={"request": [once]}
    ) as agent:
        await agent.prompt("x")
        await agent.prompt("y")
    config = [
        (request.settings["temperature"], request.thinking, [tool["name"] for tool in request.tools])
        for request in model.requests
    ]
    assert config == [(1, "low", ["add"]), *[(0, "high", ["add", "slow"])] * 3]


async def test_a_model_that_the_request_hook_chose_is_not_the_next_requests_model() -> None:
    def once(payload: Request) -> Request | None:
        return payload.replace(model="other") if not all_of(agent.session, "assistant/attempt") else None

    route, other = Route(), Route((Finish("error", Failure("timeout")),), id="other")
    async with asked(route, models={"other": other}, hooks={"request": [once]}) as agent:
        turn = await agent.prompt("x")
    assert turn.ok
    assert (len(other.requests), len(route.requests)) == (1, 1)


async def test_what_a_person_sets_counts_from_the_next_step() -> None:
    def set_all(_: Request) -> None:
        if not all_of(agent.session, "assistant/attempt"):
            agent.set_model("other")
            agent.set_thinking_level("low")

    route = Route((Finish("error", Failure("timeout")),), DONE, DONE)
    other = Route(id="other")
    async with asked(route, models={"other": other}, hooks={"request": [set_all]}) as agent:
        await agent.prompt("x")
        await agent.prompt("y")
    assert [request.attempt for request in route.requests] == [1, 2]
    assert [request.thinking for request in route.requests] == [None, None]
    assert [request.thinking for request in other.requests] == ["low"]


async def test_the_fallback_model_holds_for_the_rest_of_the_step() -> None:
    def retried(payload: RequestError) -> Retry | None:
        return Retry(0, "other") if payload.model == "test" else Retry(0)

    failed = (Finish("error", Failure("auth")),)
    route, other = Route(failed, DONE), Route(failed, DONE, id="other")
    async with asked(
        route, models={"other": other}, thinking="high", hooks={"request_error": [retried]}
    ) as agent:
        await agent.prompt("x")
        await agent.prompt("y")
    assert [(request.turn, request.attempt) for request in other.requests] == [(1, 2), (1, 3)]
    assert [request.thinking for request in other.requests] == ["high", "high"]
    assert [(request.turn, request.attempt) for request in route.requests] == [(1, 1), (2, 1)]


# -- the prepared call ---------------------------------------------------------------------------------


async def test_each_attempt_prepares_one_call_and_streams_it() -> None:
    route = Route((Finish("error", Failure("timeout")),), DONE)
    async with asked(route) as agent:
        await agent.prompt("x")
    assert (route.prepared, len(route.requests)) == (2, 2)


async def test_i103_the_call_is_bound_to_the_model_that_prepared_it() -> None:
    first, second = Route((TextDelta("first"), *DONE), id="m"), Route((TextDelta("second"), *DONE), id="m")
    models = {"m": first}

    def register_again(_: Any) -> None:
        models["m"] = second

    async with asked("m", models=models, hooks={"context": [register_again]}) as agent:
        assert (await agent.prompt("x")).text == "first"
        assert (await agent.prompt("y")).text == "second"


async def test_i104_a_prepared_call_is_streamed_once_and_for_its_own_config() -> None:
    route = Route()
    async with asked(route) as agent:
        await agent.prompt("x")
    request = route.requests[0]
    config = RequestConfig(request.model, request.settings, request.thinking)
    for other in (
        config._replace(model="other"),
        config._replace(settings=Frozen(temperature=1)),
        config._replace(thinking="high"),
    ):
        with pytest.raises(TurnchartError, match="made for another config"):
            (await route.prepare(other, request.abort)).stream(request)
    prepared = await route.prepare(config, request.abort)
    assert [chunk async for chunk in prepared.stream(request)] == list(DONE)
    with pytest.raises(TurnchartError, match="streamed already"):
        prepared.stream(request)

"""Bad input: messages, sizes, settings. Each is a named error or a named rule, and the log is unharmed."""

from collections.abc import Callable
from math import inf, nan
from typing import Any, cast

import pytest
from tests.conformance.toolkit import Seen, asks, reasons, strict, timed
from tests.machine.drive import scripted, texts, types

from turnchart.machine import (
    AppendRefused,
    CustomMessage,
    Image,
    Message,
    Queues,
    State,
    Text,
    Thinking,
    ToolCall,
    UserMessage,
    register_message,
)
from turnchart.machine.entries import Frozen

NO_JSON = object()


def user(content: object = "x", **more: object) -> dict[str, object]:
    return {"role": "user", "content": content, **more}


def block(type: str, **fields: object) -> dict[str, object]:
    return user([{"type": type, **fields}])


def circle() -> dict[str, object]:
    made: dict[str, object] = {}
    made["itself"] = made
    return made


def circle_in_content() -> dict[str, object]:
    made: list[object] = []
    made.append(user(made))
    return user(made)


def deep(levels: int) -> object:
    made: object = 1
    for _ in range(levels):
        made = [made]
    return made


NO_MESSAGE = r"a message is an object with role and content, not "
NO_PROMPT = r"a prompt is text, a message or a list of messages, not "
NO_BLOCK = r"content is made of blocks, such as Text, not of "
EMPTY = r"a prompt must not be empty"
WRONG_TYPE = r"of a message or block is .*, which has the wrong type"


def anything(*values: Any) -> tuple[Any, ...]:
    return values


SHAPES: list[tuple[Any, str]] = [
    *[(value, NO_PROMPT) for value in anything(None, 5, True, nan, b"x", {"a"}, NO_JSON, UserMessage)],
    ((each for each in "ab"), NO_PROMPT),
    *[(value, EMPTY) for value in anything("", [], ())],
    *[([value], NO_MESSAGE) for value in anything("hi", None, 5, [UserMessage("x")])],
    ([UserMessage("x"), "y"], NO_MESSAGE),
    *[({"role": role, "content": "x"}, r"message role .* is unknown") for role in anything(5, None, [], "system")],
    ({}, r"message role None is unknown; it must be one of: user"),
    ({"role": "user"}, r"a message of role 'user' lacks content"),
    ({"role": "custom", "content": "x"}, r"a message of role 'custom' lacks kind"),
    *[(user(content), r"content must be text, a block or a list") for content in anything(5, None, True)],
    *[(user(content), r"\$\.content is a \w+, which is not JSON") for content in anything(b"x", {"a"})],
    *[(user([content]), NO_BLOCK) for content in anything(5, "a", None, [])],
    (block("text"), r"content block 'text' lacks text"),
    *[(block(type), r"content block type .* is unknown") for type in anything("video", "", [])],
    *[(block("text", text=text), WRONG_TYPE) for text in anything(5, None, ["a"])],
    (block("image", data=5, media_type="a"), WRONG_TYPE),
    (block("image", data="", media_type=7), WRONG_TYPE),
    (block("tool_call", name="x", arguments={}), r"a user message holds text and images, not .*'tool_call'"),
    (block("thinking", thinking="x"), r"a user message holds text and images, not .*'thinking'"),
    *[(user(**more), WRONG_TYPE) for more in ({"id": 5}, {"id": ["a"]}, {"source": 5}, {"time": "noon"})],
]  # fmt: skip
NOT_JSON: list[tuple[object, str]] = [
    (user(extra=nan), r"\$\.extra is nan, which JSON cannot hold"),
    (user(extra=[inf]), r"\$\.extra\[0\] is inf, which JSON cannot hold"),
    (user(time=nan), r"\$\.time is nan"),
    *[(user(extra=extra), r"\$\.extra is a \w+, which is not JSON") for extra in (b"x", {1}, NO_JSON, len)],
    (user(extra={"a": NO_JSON}), r"\$\.extra\.a is a object, which is not JSON"),
    (user(extra={1: 2}), r"\$\.extra has the key 1; JSON keys are strings"),
    (user(id=NO_JSON), r"\$\.id is a object, which is not JSON"),
    (block("image", data=b"x", media_type="a"), r"\$\.content\[0\]\.data is a bytes, which is not JSON"),
    (user(extra=circle()), r"is nested deeper than 200, or contains itself"),
    (circle_in_content(), r"is nested deeper than 200, or contains itself"),
    (user(extra=deep(100_000)), r"is nested deeper than 200, or contains itself"),
    (user(extra=10**5000), r"\$\.extra is a number of more than 4300 digits"),
]
NEVER_MADE: list[tuple[Callable[[], object], str]] = [
    (lambda: Text(5), r"text must be text, not int"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    (lambda: Thinking(None), r"thinking must be text, not NoneType"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    (lambda: Image(b"x"), r"data must be text, not bytes"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    (lambda: Image("no base64!"), r"data must be base64: only base64 data is allowed"),
    (lambda: Image("A"), r"data must be base64: "),
    (lambda: ToolCall("x", {"a": NO_JSON}), r"\$\.a is a object, which is not JSON"),
    (lambda: UserMessage(5), r"content must be text, a block or a list of blocks, not int"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    (lambda: UserMessage([ToolCall("x")]), r"a user message holds text and images"),
    (lambda: UserMessage("x", id=5), r"id must be text, not int"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    (lambda: UserMessage("x", source=NO_JSON), r"source must be text, not object"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    (lambda: UserMessage("x", time=nan), r"time must be a number of seconds, not nan"),
    (lambda: CustomMessage(5, "x"), r"kind must be text, not int"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    (lambda: CustomMessage("k", "x", details=NO_JSON), r"\$ is a object, which is not JSON"),
]  # fmt: skip
WAYS = ("follow_up", "steer", "inject", "next_turn")
REFUSED = (TypeError, ValueError)


@pytest.mark.parametrize(("value", "says"), [*SHAPES, *NOT_JSON])
async def test_a_message_of_a_wrong_shape_is_refused_by_every_door_and_nothing_is_logged(
    value: Any, says: str
) -> None:
    async with scripted(["ok"], session=strict()) as agent:
        with pytest.raises(REFUSED, match=says):
            await agent.prompt(value)
        for way in WAYS:
            with pytest.raises(REFUSED, match=says):
                getattr(agent, way)(value)
        assert agent.session.entries == []
        assert agent.state is State.IDLE
        assert not agent.queued
        assert (await agent.prompt("x")).ok


@pytest.mark.parametrize(("make", "says"), NEVER_MADE)
def test_what_could_not_be_logged_cannot_be_made(make: Callable[[], object], says: str) -> None:
    with pytest.raises(REFUSED, match=says):
        make()


async def test_what_is_refused_while_a_turn_runs_leaves_the_turn_alone() -> None:
    seen: Seen = []
    async with scripted([asks("a"), "ok"], session=strict(), tools=[timed("a", 5, seen)]) as agent:
        agent.follow_up("x")
        await agent.until(State.TOOLING)
        before = len(agent.session.entries)
        for value, says in (*SHAPES, *NOT_JSON):
            with pytest.raises(REFUSED, match=says):
                agent.steer(cast(Any, value))
        assert len(agent.session.entries) == before
        agent.go_on()
        await agent.idle()
    assert reasons(agent.session) == ["completed"]


@pytest.mark.parametrize(
    "value",
    ["half \ud800 pair", "\x00", "line\u2028end", user("x", extra={"a": [1, 2.5, None, True]}), Text("t")],
)
async def test_strange_but_legal_content_goes_through_unchanged(value: Any) -> None:
    async with scripted(["ok"], session=strict()) as agent:
        assert (await agent.prompt(value)).ok


async def test_the_same_message_twice_is_refused_by_its_id_and_without_one_it_is_two() -> None:
    said = UserMessage("x", id="mine")
    async with scripted(["ok", "ok"], session=strict()) as agent:
        agent.inject(said)
        with pytest.raises(ValueError, match="mine"):
            agent.inject(said)
        assert (await agent.prompt("go")).ok
        with pytest.raises(ValueError, match="mine"):
            agent.inject(said)
        twice = UserMessage("y")
        assert (await agent.prompt([twice, twice])).ok
    assert texts(agent.session, "user/message") == ["x", "go", "y", "y"]


# -- writers and settings ------------------------------------------------------------------------------


def _fails(_: CustomMessage) -> UserMessage:
    raise ValueError("no rule")


register_message("conformance-fails", to_llm=_fails)
register_message("conformance-wrong", to_llm=lambda _: 5)  # type: ignore[arg-type, return-value]  # pyright: ignore[reportArgumentType]
WRITES: list[tuple[Callable[[Any], object], str]] = [
    (lambda agent: agent.set_model(NO_JSON), r"model must be text, not object"),
    (lambda agent: agent.set_model(None), r"model must be text, not NoneType"),
    (lambda agent: agent.set_thinking_level(5), r"level must be text, not int"),
    (lambda agent: agent.set_active_tools("add"), r"there is no tool 'a'; the tools are: add, slow"),
    (lambda agent: agent.set_active_tools(["nope"]), r"there is no tool 'nope'"),
    (lambda agent: agent.set_active_tools([5]), r"the name of a tool must be text, not int"),
    (lambda agent: agent.set_active_tools(5), r"not iterable"),
    (lambda agent: agent.append_message(5), NO_PROMPT),
    (lambda agent: agent.abort(NO_JSON), r"reason must be text, not object"),
    (lambda agent: agent.inject("x", source=NO_JSON), r"source must be text, not object"),
    (lambda agent: agent.session.append_custom("k", NO_JSON), r"\$ is a object, which is not JSON"),
    (lambda agent: agent.session.append_custom("k", nan), r"\$ is nan"),
    (lambda agent: agent.session.append_custom("k", circle()), r"contains itself"),
    (lambda agent: agent.session.append_custom(5, {}), r"kind must be text, not int"),
    (lambda agent: agent.session.append_custom_message("k", 5), r"content must be text"),
    (lambda agent: agent.session.append_label("x", "y"), r"an entry is named by its number, not by 'x'"),
    (lambda agent: agent.session.append_label(999, "y"), r"there is no entry 999 to label"),
    (lambda agent: agent.session.append_label(0, 5), r"text must be text, not int"),
    (lambda agent: agent.session.set_name(5), r"text must be text, not int"),
    (lambda agent: agent.session.navigate(0.5), r"an entry is named by its number, not by 0\.5"),
    (lambda agent: agent.session.navigate(999), r"there is no entry 999"),
    (lambda agent: agent.session.append("custom", Frozen(kind="k", data=NO_JSON)), r"it is no JSON"),
    (lambda agent: agent.session.append("custom", 5), r"its data is a int, not an object"),
    (lambda agent: agent.session.append("nonsense", Frozen()), r"this type of entry is unknown"),
    (lambda agent: agent.session.append("user/message", Frozen(message=5)), NO_MESSAGE),
    (lambda agent: agent.on("agent/nonsense", print), r"there is no signal 'agent/nonsense'"),
    (lambda agent: agent.on("*", 5), r"a listener must be callable, not int"),
]


@pytest.mark.parametrize(("write", "says"), WRITES)
@pytest.mark.parametrize("running", [False, True])
async def test_a_writer_refuses_at_once_what_could_not_be_logged(
    write: Callable[[Any], object], says: str, running: bool
) -> None:
    async with scripted(["one", "two"], session=strict()) as agent:
        agent.session.append_custom("first", 1)
        if running:
            agent.follow_up("x")
            await agent.until(State.REQUESTING)
        before = len(agent.session.entries)
        with pytest.raises((TypeError, ValueError, IndexError, AppendRefused), match=says):
            write(agent)
        assert len(agent.session.entries) == before
        assert not agent.session.read_only
        if running:
            agent.go_on()
            await agent.idle()
        else:
            assert (await agent.prompt("x")).ok
        assert (await agent.prompt("y")).ok
    assert reasons(agent.session) == ["completed", "completed"]


async def test_writers_of_the_session_wait_for_the_end_of_the_step_too() -> None:
    seen: Seen = []
    async with scripted([asks("a"), "ok"], session=strict(), tools=[timed("a", 1, seen)]) as agent:
        agent.follow_up("x")
        await agent.until(State.TOOLING)
        session = agent.session
        assert session.append_custom("mine", {"n": 1}) is None
        assert session.append_custom_message("note", "told") is None
        assert session.append_label(0, "begin") is None
        assert session.set_name("two  words") is None
        agent.set_model("test")
        assert types(session)[-1] == "assistant/message"
        agent.go_on()
        await agent.idle()
        after = types(session)
        at = after.index("step/end")
        assert after[at + 1 : at + 6] == ["custom", "custom_message", "label", "session_info", "model_change"]
        entry = session.append_custom("now", None)
        assert entry is not None
        assert session.entries[-1] is entry


@pytest.mark.parametrize("kind", ["conformance-fails", "conformance-wrong"])
async def test_a_rule_of_a_message_kind_that_fails_refuses_the_message(kind: str) -> None:
    async with scripted(["ok"], session=strict()) as agent:
        with pytest.raises(AppendRefused, match=f"the rule of the message kind '{kind}'"):
            agent.append_message(CustomMessage(kind, "x"))
        agent.trace().clear()
        turn = await agent.prompt(CustomMessage(kind, "x"))
        assert (turn.reason, len(turn.unadmitted)) == ("error", 1)
        assert isinstance(turn.error, AppendRefused)
        assert (await agent.prompt("y")).ok
    assert texts(agent.session, "user/message") == ["y"]


async def test_a_setting_that_is_none_ends_the_turn_and_not_the_agent() -> None:
    async with scripted(["ok"], session=strict()) as agent:
        agent.queues = None  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
        agent.follow_up("x")
        await agent.idle()
        assert reasons(agent.session) == ["error"]
        agent.queues = Queues()
        assert agent.resume()
        await agent.idle()
    assert reasons(agent.session) == ["error", "completed"]


@pytest.mark.parametrize("value", [5, "", [], NO_JSON, {"role": "user"}])
async def test_a_callback_that_gives_nonsense_is_an_error_turn_or_nothing(value: Any) -> None:
    left: list[Any] = [value]

    def poll() -> Any:
        return left.pop() if left else None

    async with scripted(["ok", "ok"], session=strict(), poll_steering=poll) as agent:
        turn = await agent.prompt("x")
        assert turn.reason == ("error" if value else "completed")
        assert (await agent.prompt("y")).ok
        agent.model.drop()  # type: ignore[union-attr]  # scripted


def test_messages_stay_what_they_are() -> None:
    said: Message = UserMessage("x")
    with pytest.raises(TypeError, match="frozen"):
        said["content"] = ()

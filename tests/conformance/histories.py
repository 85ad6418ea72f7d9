"""Random histories of an agent: everything that can change what a model sees, in any order."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from hypothesis import strategies as st
from tests.conformance.asking import Board, Frames, Seen, all_of, replace, resumed, seen
from tests.machine.drive import add, slow

from turnchart.machine import (
    Agent,
    CustomMessage,
    Failure,
    Message,
    Reply,
    RetryPolicy,
    ScriptedModel,
    Session,
    Signal,
    ToolCall,
    UserMessage,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.messages import to_llm
from turnchart.machine.models import PreparedCall, RequestConfig, TextDelta
from turnchart.machine.points import Context, Convert, GiveUp, PreStep, Reject, Request, RequestError, Retry
from turnchart.machine.points import Stream as StreamPoint
from turnchart.machine.scripted import Scripted
from turnchart.testing import FakeClock, record

ADD = ToolCall("add", {"a": 1, "b": 2})
REPLIES: Sequence[Scripted] = (
    "text", Reply(tool_calls=[ADD]), Reply("both", tool_calls=[ADD, ToolCall("slow", {"n": 1})]),
    Failure("timeout"), Reply(chunks=["half", 0.3, TextDelta("way")], finish="error"), Failure("auth"),
    Reply("long", finish="max_tokens"), Reply(""), ConnectionError("gone"),
    Reply("thought", thinking="hm", usage={"input": 3}, delay=1.5),
)  # fmt: skip
PROMPTS = ("Be brief.", "Be kind.", "")
ACTS = st.lists(
    st.tuples(
        st.sampled_from((
            "prompt", "prompt", "prompt", "prompt", "prompt", "prompt", "inject", "board", "board", "facts",
            "model", "thinking", "tools", "custom", "reopen", "navigate", "replace",
        )),
        st.integers(0, 5),
    ),
    min_size=6, max_size=20,
)  # fmt: skip


def cycle(most: int) -> st.SearchStrategy[list[int]]:
    """Return which way something goes, call by call and then from the start again; 0 is no way at all."""
    return st.just([0]) | st.lists(st.integers(0, most) | st.just(0), min_size=2, max_size=9)


PLANS = st.fixed_dictionaries({
    "acts": ACTS,
    "replies": st.tuples(*[st.lists(st.integers(0, len(REPLIES) - 1), min_size=3, max_size=12)] * 2),
    "capable": st.tuples(st.booleans(), st.booleans()),
    "context": cycle(4), "convert": cycle(3), "request": cycle(4), "pre_step": cycle(3), "stream": cycle(2),
    "request_error": cycle(3), "beside": cycle(7), "prepare": cycle(1),
})  # fmt: skip


QUIET: dict[str, Any] = {
    "acts": [], "replies": ([], []), "capable": (False, False), "context": [0], "convert": [0],
    "request": [0], "pre_step": [0], "stream": [0], "request_error": [0], "beside": [0], "prepare": [0],
}  # fmt: skip
"""A plan in which nothing happens."""


class Filled(ScriptedModel):
    """A scripted model whose adapter fills in a setting, and sometimes cannot prepare a call."""

    def __init__(self, id: str, replies: Sequence[int], capable: bool, fails: "Ways") -> None:
        super().__init__(
            [REPLIES[i] for i in replies], default="ok", id=id,
            capabilities=("system_prompt_update",) if capable else (),
        )  # fmt: skip
        self._fails = fails

    async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
        """Bind one call, with the limit of tokens filled in."""
        if self._fails():
            raise ValueError("cannot prepare")
        filled = config._replace(settings=config.settings.of_fields({**config.settings, "max_tokens": 50}))
        call = await super().prepare(filled, abort)
        call.defaults = frozenset(("max_tokens",))
        return call


class Ways:
    """Goes round a list of ways."""

    def __init__(self, ways: Sequence[int]) -> None:
        self._ways = ways
        self._at = -1

    def __call__(self) -> int:
        self._at += 1
        return self._ways[self._at % len(self._ways)]


def _shown(way: int, messages: Sequence[Message]) -> list[Message]:
    match way:
        case 1:
            return [UserMessage("before"), *messages]
        case 2:
            return list(messages[1:])
        case 3:
            return [*messages[:-1], UserMessage("instead")]
        case _:
            return [*messages, CustomMessage("note", "behind")]


class History:
    """Plays a plan.

    Attributes:
        session: The log that comes of it.
        requests: What the models saw, by turn, step and attempt.
    """

    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan
        self.session = Session.memory()
        self._board = Board(PROMPTS[0])
        self._models = {
            id: Filled(id, plan["replies"][at], plan["capable"][at], Ways(plan["prepare"]))
            for at, id in enumerate("ab")
        }
        self._beside = Ways(plan["beside"])
        self._sent = 0

    @property
    def requests(self) -> dict[tuple[int, int, int], Seen]:
        """Return what the models saw, by turn, step and attempt."""
        every = [seen(request) for model in self._models.values() for request in model.requests]
        found = {each[:3]: each for each in every}
        assert len(found) == len(every)
        return found

    async def play(self) -> None:
        """Do everything; the log must be legal, and the frames be what the log says."""
        acts = list(self._plan["acts"])
        while acts:
            async with self._agent() as agent:
                recording, frames = record(agent), Frames(agent)
                agent.on("agent/assistant-stream", self._interfere(agent))
                while acts:
                    name, way = acts.pop(0)
                    if name == "reopen":
                        break
                    await self._act(agent, name, way)
                await agent.idle()
                recording.check()
                frames.check(self.session)
            self.session = resumed(self.session)

    def _agent(self) -> Agent:
        plan = self._plan
        chains: dict[str, Any] = {
            "context": self._context, "convert": self._convert, "request": self._request,
            "pre_step": self._pre_step, "stream": self._stream, "request_error": self._request_error,
        }  # fmt: skip
        hooks: dict[str, Any] = {
            point: [make(Ways(plan[point]))] for point, make in chains.items() if any(plan[point])
        }
        return Agent(
            "a", models=self._models, prompt="x", tools=[add, slow],
            hooks={"assemble": [self._board], **hooks},
            session=self.session, clock=FakeClock(), seed=1, settings={"temperature": 0}, thinking="high",
            retry=RetryPolicy(max_attempts=3), fallback=["b"],
        )  # fmt: skip

    # -- acts ------------------------------------------------------------------------------------

    async def _act(self, agent: Agent, name: str, way: int) -> None:
        match name:
            case "prompt":
                agent.follow_up(f"prompt {way}")
                await agent.idle()
            case "inject":
                agent.inject(f"inject {way}")
            case "board":
                self._board.text = PROMPTS[way % 3]
            case "facts":
                self._board.facts = {"day": str(way)} if way else {}
            case "model":
                agent.set_model("ab"[way % 2])
            case "thinking":
                agent.set_thinking_level(("low", "high", None)[way % 3])
            case "tools":
                agent.set_active_tools((("add",), ("slow",), ("add", "slow"))[way % 3])
            case "custom":
                agent.session.append_custom_message("note", f"custom {way}")
            case "navigate":
                self._navigate(agent.session, way)
            case _:
                self._replace(agent.session, way)

    def _navigate(self, session: Session, way: int) -> None:
        ends = all_of(session, "turn/end")
        if ends:
            session.navigate(ends[way % len(ends)].seq)

    def _replace(self, session: Session, way: int) -> None:
        """Put one message in the place of some, as a compaction does; no call loses its result."""
        users = [node.seq for node in session.view.nodes if node.message.role == "user"]
        if len(users) > 1:
            last = users[1 + way % (len(users) - 1)]
            replace(session, users[0], last, f"so far {way}")

    def _interfere(self, agent: Agent) -> Any:
        def hear(signal: Signal, _: AbortSignal) -> None:
            if signal.data["frame"] != "chunk":
                return
            way = self._beside()
            self._sent += way in (1, 2)
            match way:
                case 1 if self._sent < 6:
                    agent.steer("steer")
                case 2 if self._sent < 6:
                    agent.follow_up("follow up")
                case 3:
                    agent.set_model("b")
                case 4:
                    agent.append_message(CustomMessage("note", "written"))
                case 5:
                    agent.abort()
                case 6:
                    self._board.text = PROMPTS[1]
                case 7:
                    agent.session.append_custom_message("note", "written to the session")
                case _:
                    pass

        return hear

    # -- hooks -----------------------------------------------------------------------------------

    def _context(self, ways: Ways) -> Any:
        def context(payload: Context) -> Context | None:
            way = ways()
            return payload.replace(messages=_shown(way, payload.messages)) if way else None

        return context

    def _convert(self, ways: Ways) -> Any:
        def convert(payload: Convert) -> Convert | None:
            way = ways()
            if not way:
                return None
            shown = [to_llm(each) for each in _shown(way, payload.llm_messages)]
            return payload.replace(llm_messages=[each for each in shown if each is not None])

        return convert

    def _request(self, ways: Ways) -> Any:
        changes: list[dict[str, Any]] = [
            {"model": "b"}, {"settings": {"temperature": 1}}, {"thinking": "low"}, {"tools": ("add",)},
        ]  # fmt: skip

        def request(payload: Request) -> Request | None:
            way = ways()
            return payload.replace(**changes[way - 1]) if way else None

        return request

    def _pre_step(self, ways: Ways) -> Any:
        def pre_step(payload: PreStep) -> PreStep | Reject | None:
            match ways():
                case 1:
                    return payload.replace(starts_request_series=True)
                case 2:
                    return payload.replace(messages=(*payload.messages, UserMessage("added", source="hook")))
                case 3:
                    return Reject("no")
                case _:
                    return None

        return pre_step

    def _stream(self, ways: Ways) -> Any:
        async def broken(chunks: AsyncIterator[Any]) -> AsyncIterator[Any]:
            async for chunk in chunks:
                yield chunk
                raise ValueError("broken stream")

        async def stream(payload: StreamPoint, next: Any) -> Any:
            match ways():
                case 1:
                    raise ValueError("no stream")
                case 2:
                    return broken(await next(payload))
                case _:
                    return await next(payload)

        return stream

    def _request_error(self, ways: Ways) -> Any:
        def request_error(payload: RequestError) -> Retry | GiveUp | None:
            match ways() if payload.attempt < 3 else 3:
                case 1:
                    return Retry(0)
                case 2:
                    return Retry(1, "b")
                case 3:
                    return GiveUp("enough")
                case _:
                    return None

        return request_error

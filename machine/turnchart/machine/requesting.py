"""The state requesting: choose, prepare, admit, derive, stream.

Order of a request: request hooks, prepare, then without an await system messages, users, header, route facts,
derive; then context, convert, stream. An abort before the admission commits neither system nor users.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from turnchart.machine.driver import Driver
from turnchart.machine.entries import Frozen, freeze
from turnchart.machine.errors import UnknownModel
from turnchart.machine.inbox import unread
from turnchart.machine.messages import Failure, Message, to_llm
from turnchart.machine.models import (
    Chunk,
    Finish,
    ModelRequest,
    PreparedCall,
    RequestConfig,
    failure_of,
)
from turnchart.machine.points import Context, Convert, Request, Stream
from turnchart.machine.states import Event
from turnchart.machine.stream import Answer

if TYPE_CHECKING:
    from turnchart.machine.outfit import Outfit

_log = logging.getLogger("turnchart.driver")


async def requesting(driver: Driver) -> Event:
    """Make one attempt: respond, or request_failed."""
    agent, now = cast("Outfit", driver), driver.turning
    now.attempt += 1
    now.answer = now.failure = now.draft = None
    config = await _choose(agent)
    if now.cause is not None:
        return Event.CANCEL
    driver.did("prepare")
    model = agent.model
    if model is not None and config.model == model.id:
        prepared = await model.prepare(config, now.abort)
    else:
        prepared = await _prepare(agent, config)
    if now.cause is not None:
        return Event.CANCEL
    if not isinstance(prepared, PreparedCall):  # pyright: ignore[reportUnnecessaryIsInstance]  # foreign
        raise TypeError(f"model {config.model!r} prepared a {type(prepared).__name__}, not a PreparedCall")
    now.model, now.retry_kinds = prepared.config.model, prepared.retry_kinds
    now.attempts = {**now.attempts, now.model: now.attempts.get(now.model, 0) + 1}
    request = _admit(agent, prepared)
    if driver.signals.waiting:
        await driver.signals.deliver()
    if now.cause is not None or request is None:
        return Event.CANCEL
    chains, session = driver.chains, driver.session
    if "context" in chains or "convert" in chains or session.projection is not None:
        request = await _rewrite(agent, request)
        if now.cause is not None:
            return Event.CANCEL
    else:
        driver.did("context")
        driver.did("convert")
    return await _stream(agent, prepared, request)


# -- choosing --------------------------------------------------------------------------------------


async def _choose(agent: Outfit) -> RequestConfig:
    """Return what the flow declares and the request hooks change, for this request only.

    A thinking level belongs to the model that it was declared for: where a hook changes the model and not the
    level, the new model thinks as its provider sees fit.
    """
    now, view = agent.turning, agent.session.view
    model = now.fallback or view.model or agent.model_id
    if agent.cooling is not None and not now.fallback:
        model = now.fallback = agent.cooling.instead_of(model, agent.fallback, agent.clock.now())
    thinking = view.thinking if view.thinking is not None else agent.thinking
    verdict = await agent.ask(
        "request",
        lambda: Request(
            model=model, settings=agent.settings, thinking=thinking, tools=now.offered,
            calls=_last_calls(agent), **agent.common(),
        ),
    )  # fmt: skip
    if verdict is None:
        return RequestConfig(model, agent.settings, thinking)
    chosen = cast(Request, verdict.payload)
    now.tools = tuple(chosen.tools)
    kept = chosen.thinking if chosen.model == model or chosen.thinking != thinking else None
    return RequestConfig(chosen.model, freeze(dict(chosen.settings)), kept)


def _last_calls(agent: Outfit) -> tuple[Any, ...]:
    calls = agent.common()["turn"].calls
    return tuple(call for call in calls if call.step == agent.turning.step - 1)


async def _prepare(agent: Outfit, config: RequestConfig) -> PreparedCall:
    """Bind one call; a model that nobody has is a failed request, unless a stream hook serves it.

    Raises:
        UnknownModel: If no model was chosen at all.
    """
    if not config.model and agent.model is None:
        raise UnknownModel("no model is chosen: give Agent(model=), or let a request hook name one")
    try:
        model = await agent.find_model(config.model)
    except UnknownModel as error:
        failure = Failure("no_model", message=str(error))
        return PreparedCall(config, lambda _: _no_model(failure))
    return await model.prepare(config, agent.turning.abort)


async def _no_model(failure: Failure) -> AsyncIterator[Chunk]:
    yield Finish("error", failure)


# -- admitting (no await) ----------------------------------------------------------------------------


def _admit(agent: Outfit, prepared: PreparedCall) -> ModelRequest | None:
    """Write what this request shows and was made with; synchronous from first to last.

    None where a watcher of the log cut the turn off amid the users.
    """
    now, session = agent.turning, agent.session
    specs = agent.specs(now.tools)
    config = prepared.config
    header = (config.model, config.settings, config.thinking, specs, prepared.defaults)
    known = session.view.header
    series = agent.built_generation != session.view.generation or (
        known is not None and known.get("tools") != specs
    )
    if not now.admitted:
        series = series or now.series
    _reconcile(agent, in_history="system_prompt_update" in prepared.capabilities, series=series)
    if not now.admitted:
        _users(agent)
        if now.cause is not None:
            return None
    _header(agent, prepared, header, series=series)
    _route(agent, prepared)
    agent.built_generation = session.view.generation
    return ModelRequest(
        config.model, session.view.prompt, session.view.llm_messages(), specs, config.settings,
        config.thinking, now.abort, agent.clock, session.id, now.number, now.step, now.attempt,
    )  # fmt: skip


def _users(agent: Outfit) -> None:
    """Write the messages that the step enters with."""
    now = agent.turning
    try:
        for message in now.messages:
            agent.log("user/message", Frozen(turn=now.number, step=now.step, message=message))
            if now.cause is not None:
                break
    except Exception:
        now.batch = tuple(unread(now.batch, agent.session.inbox.said))
        raise
    now.admitted = True
    if now.batch:
        now.left_out = (*now.left_out, *unread(now.batch, agent.session.inbox.said))
    now.messages, now.batch, now.owed = (), (), False


def _reconcile(agent: Outfit, *, in_history: bool, series: bool) -> None:
    """Make the log's system messages say the rendered prompt (spec: lifecycle B.4, system reconciliation)."""
    view, rendered = agent.session.view, agent.turning.rendered
    if not view.system:
        _system(agent, rendered)
    elif not in_history or series or not rendered:
        for seq, text in view.system[1:]:
            if text:
                _system(agent, "", over=seq)
        if view.system[0][1] != rendered:
            _system(agent, rendered, over=view.system[0][0])
    elif view.effective_prompt != rendered:
        _system(agent, rendered)


def _system(agent: Outfit, text: str, over: int | None = None) -> None:
    now = agent.turning
    content = (Frozen(type="text", text=text),) if text else ()
    data = Frozen(turn=now.number, step=now.step, message=Frozen(role="system", content=content))
    if over is None:
        agent.log("system/message", data)
    else:
        agent.log("system/message", data, replaces=(over, over), sources=(over,))


def _header(agent: Outfit, prepared: PreparedCall, header: tuple[Any, ...], *, series: bool) -> None:
    """Write the envelope of the request when it is new, changed, or starts a series."""
    now = agent.turning
    if agent.header is None:
        reason = "initial" if agent.session.view.header is None else "resume"
    elif agent.header != header:
        reason = "change"
    elif series:
        reason = "series"
    else:
        return
    model, settings, thinking, specs, _ = header
    data: dict[str, Any] = {
        "turn": now.number, "step": now.step, "reason": reason, "model": model, "settings": settings,
        "thinking": thinking, "tools": specs,
    }  # fmt: skip
    if prepared.defaults:
        data["defaults"] = tuple(sorted(prepared.defaults))
    if series and reason != "series":
        data["starts_series"] = True
    agent.log("request/header", Frozen(data))
    agent.header = header


def _route(agent: Outfit, prepared: PreparedCall) -> None:
    """Write what the route can do, once per distinct route."""
    now, known = agent.turning, agent.session.view.route
    capabilities = tuple(sorted(prepared.capabilities))
    window = prepared.context_window
    if agent.context_window is not None and prepared.config.model == agent.model_id:
        window = agent.context_window
    route = (prepared.config.model, window, capabilities)
    if known is not None and route == (
        known["model"],
        known.get("context_window"),
        tuple(known["capabilities"]),
    ):
        return
    data: dict[str, Any] = {
        "turn": now.number, "step": now.step, "model": route[0], "capabilities": capabilities,
    }  # fmt: skip
    if window is not None:
        data["context_window"] = window
    elif agent.compaction_asked:
        agent.notice(
            f"the context window of model {route[0]!r} is unknown, so the conversation is made shorter only"
            " when a request does not fit; model.context_window says how large it is",
            "compaction",
        )
    agent.log("request/context", Frozen(data))


# -- rewriting what this request shows ---------------------------------------------------------------


async def _rewrite(agent: Outfit, request: ModelRequest) -> ModelRequest:
    """Run context and convert, and log what they changed before the model sees it.

    What is as in the last rewritten request is not logged again.
    """
    derived = request.messages
    own = agent.session.context()
    verdict = await agent.ask("context", lambda: Context(messages=own, **agent.common()))
    changed = own if verdict is None else cast(Context, verdict.payload).messages
    shown: Sequence[Message] = derived
    if changed is not own or agent.session.projection is not None:
        shown = [each for each in map(to_llm, changed) if each is not None]
    verdict = await agent.ask("convert", lambda: Convert(llm_messages=shown, **agent.common()))
    if verdict is not None:
        shown = cast(Convert, verdict.payload).llm_messages
    now = agent.turning
    if now.cause is not None or shown is derived or shown == derived:
        return request
    shown = tuple(shown)
    if agent.steps is None or shown != agent.sent or not _rewritten(agent):
        keep = _common_prefix(agent.sent, shown)
        agent.log(
            "request/rewritten", Frozen(turn=now.number, step=now.step, keep=keep, messages=shown[keep:])
        )
    agent.sent = shown
    return request._replace(messages=shown)


def _rewritten(agent: Outfit) -> bool:
    """Tell whether another process has logged already what this attempt shows."""
    for entry in reversed(agent.session.entries):
        if entry.type in ("request/rewritten", "step/start", "assistant/attempt"):
            return entry.type == "request/rewritten"
    return False


def _common_prefix(before: Sequence[Message], after: Sequence[Message]) -> int:
    same = 0
    for old, new in zip(before, after, strict=False):
        if old is not new and old != new:
            break
        same += 1
    return same


# -- streaming ---------------------------------------------------------------------------------------


async def _stream(agent: Outfit, prepared: PreparedCall, request: ModelRequest) -> Event:
    if "stream" in agent.chains:
        return await _wrapped(agent, prepared, request)
    agent.did("stream")
    return await _answered(agent, prepared.stream(request), wrapped=False)


async def _wrapped(agent: Outfit, prepared: PreparedCall, request: ModelRequest) -> Event:
    """Stream through the hooks of ``stream``."""
    opened: list[AsyncIterator[Chunk]] = []

    def inner(payload: Stream) -> AsyncIterator[Chunk]:
        opened.append(_normalised(prepared.stream(cast(ModelRequest, payload.request))))
        return opened[-1]

    try:
        verdict = await agent.ask("stream", lambda: Stream(request=request, **agent.common()), inner=inner)
        chunks = cast("AsyncIterator[Chunk]", verdict.value if verdict is not None else None)
        if agent.turning.cause is not None:
            await _close(chunks)
            return Event.CANCEL
        return await _answered(agent, chunks, wrapped=True)
    finally:
        for each in opened:
            await _close(each)  # a generator around it does not do so where it is closed itself


async def _answered(agent: Outfit, chunks: AsyncIterator[Chunk], *, wrapped: bool) -> Event:
    now = agent.turning
    answer = now.answer = Answer()
    now.dispatched = True
    agent.revision += 1
    now.attempt_id = f"a{now.number}.{now.step}.{now.attempt}"
    _frame(agent, "start")
    try:
        await _consume(agent, chunks, answer)
    except Exception as error:
        failure = None if wrapped or now.cause is not None else failure_of(error)
        if failure is None:
            raise
        _take(agent, answer, Finish("error", failure))
    if now.cause is not None:
        return Event.CANCEL
    return _settled(agent, answer)


async def _consume(agent: Outfit, chunks: AsyncIterator[Chunk], answer: Answer) -> None:
    now, clock_now, signals = agent.turning, agent.clock.now, agent.signals
    quiet = not agent.tracing
    add = answer.add
    try:
        if signals.waiting:
            await signals.deliver()
        if now.cause is not None:
            return
        async for chunk in chunks:
            if quiet and not signals.heard:
                add(chunk, clock_now())
            else:
                _take(agent, answer, chunk)
                if signals.waiting:
                    await signals.deliver()
            if now.cause is not None or answer.finish is not None:
                break
        if "stream" in agent.chains:
            async for _ in chunks:
                pass  # what hooks do behind the last chunk is done too
    finally:
        await _close(chunks)


def _take(agent: Outfit, answer: Answer, chunk: Chunk) -> None:
    """Take a chunk, and tell of it just what the log will say."""
    taken = answer.add(chunk, agent.clock.now())
    _frame(agent, "chunk", index=answer.count - 1, time=answer.time, chunk=taken)


def _frame(agent: Outfit, frame: str, **data: Any) -> None:
    agent.did(f"agent/assistant-stream {frame}")
    if agent.signals.heard:
        now = agent.turning
        agent.tell(
            "agent/assistant-stream",
            frame=frame, attempt_id=now.attempt_id, revision=agent.revision, turn=now.number, step=now.step,
            **data,
        )  # fmt: skip


async def _close(chunks: AsyncIterator[Chunk]) -> None:
    """Close a stream that may not be at its end: the connection behind it is given back at once.

    What came is what counts: a stream that cannot be closed, or goes on streaming, changes no answer.
    """
    close = getattr(chunks, "aclose", None)
    if close is None:
        return
    try:
        await close()
    except Exception as error:  # noqa: BLE001  # an adapter may raise what it likes
        _log.warning("a stream could not be closed: %s: %s", type(error).__name__, error)


async def _normalised(chunks: AsyncIterator[Chunk]) -> AsyncIterator[Chunk]:
    """Turn what an adapter raises into a failed finish, so that hooks around it see one form."""
    try:
        async for chunk in chunks:
            yield chunk
            if isinstance(chunk, Finish):
                break
    except Exception as error:
        failure = failure_of(error)
        if failure is None:
            raise
        yield Finish("error", failure)
    finally:
        await _close(chunks)


def _settled(agent: Outfit, answer: Answer) -> Event:
    now = agent.turning
    failure = answer.failure
    if failure is not None:
        now.failure = failure
        return Event.REQUEST_FAILED
    now.draft = answer.message(now.model, agent.clock.now(), f"c{now.number}.{now.step}")
    now.calls = now.draft.tool_calls
    if now.draft.stop_reason == "max_tokens":
        now.reason = "max_tokens"
    elif now.reason != "max_tokens":
        now.reason = "" if now.calls else "completed"
    return Event.RESPOND

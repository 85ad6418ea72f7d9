"""One pass down a hook chain: calling the hooks, reading their answers, and what their failures mean."""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from inspect import isawaitable
from operator import attrgetter
from typing import Any

from turnchart.machine.answers import WrongAnswer, adopt, decided, wrapped
from turnchart.machine.bound import BoundHook, Remarked
from turnchart.machine.errors import HookFailed, named_text_of
from turnchart.machine.points import POINTS, Block, Decision, Deny, Enter, Payload, Point, Reject
from turnchart.machine.verdict import CUT_OFF, Dispatch, Verdict

Timeout = Callable[[float], AbstractContextManager[object]]
"""Makes a context that raises TimeoutError when its body takes longer than so many seconds."""
Memory = Callable[[str], MutableMapping[str, Any]]
"""Finds the memory of the hook with this id."""


@dataclass(slots=True)
class Pass:
    """One pass down a list: the list as it was, what was passed in, and what happened so far."""

    point: Point
    hooks: tuple[BoundHook, ...]
    inner: Callable[[Any], Any] | None
    check: Callable[[Any], Any] | None
    timeout: Timeout | None
    now: Callable[[], float]
    memory: Memory | None
    trace: list[Dispatch]
    passing: Exception | None = None
    """What came up through ``next``: no failure of the wrapper that lets it pass."""

    async def down(self, at: int, payload: Any) -> Verdict[Any]:
        """Call the hooks from this place on, then the body; return what holds."""
        held = Verdict(payload)
        for place in range(at, len(self.hooks)):
            hook = self.hooks[place]
            if not self.meant(hook, held.payload):
                continue
            if hook.wraps:
                return self.joined(held, await self.around(hook, place + 1, held.payload))
            step = await self.plain(hook, held.payload)
            if step is not None:
                held = self.joined(held, step)
                if self.ends(step.decision):
                    return held
        if self.inner is not None and self.point.kind == "wrap":
            return replace(held, value=await self.body(self.inner, held.payload))
        return held

    def meant(self, hook: BoundHook, payload: Payload) -> bool:
        """Return whether a hook is called at all."""
        if hook.tools and not any(fnmatchcase(getattr(payload, "tool", ""), glob) for glob in hook.tools):
            return False
        if hook.max_continues is not None and payload.turn.continues_of(hook.id) >= hook.max_continues:
            self.note(hook, self.now(), reason=f"passed over: its {hook.max_continues} continues are spent")
            return False
        return True

    def ends(self, decision: Decision | None) -> bool:
        """Return whether the rest of the list is not asked after this."""
        if self.point.kind == "first answer":
            return decision is not None
        return isinstance(decision, Deny | Reject | Block)

    async def plain(self, hook: BoundHook, payload: Any) -> Verdict[Any] | None:
        """Call a hook that does not wrap; None where it has no opinion."""
        start, stderr = self.now(), ""
        try:
            returned = await self.call(hook, payload)
            if returned is not None and type(returned) is Remarked:
                returned, stderr = returned.answer, returned.stderr
            if returned is None:
                self.note(hook, start, stderr=stderr)
                return None
            after, decision = self.read(returned, payload)
        except BaseException as error:
            if not isinstance(error, Exception) or self.goes_through(error, payload):
                self.cut_off(hook, start, error)
                raise
            return self.failed(hook, error, payload, start, stderr)
        self.note(hook, start, decision, _changed(after, payload), stderr=stderr)
        return self.said(hook, after, decision)

    async def around(self, hook: BoundHook, at: int, payload: Any) -> Verdict[Any]:
        """Call a hook that wraps the list from ``at`` on."""
        start = self.now()
        rest = _Rest(self, at, payload, self.copy(hook, payload))
        try:
            returned = await self.invoke(hook, rest.given, rest)
            own, decision = self.read_wrapper(hook, returned, rest)
        except Exception as error:
            if self.goes_through(error, payload):
                raise
            own = self.failed(hook, error, rest.before.payload, start)
            if own.decision is None:
                return rest.verdict or await self.down(at, payload)
        else:
            self.note(hook, start, decision, rest.changed | {*_changed(own.payload, rest.before.payload)})
        return await self.judged(own, rest) if self.point.name == "pre_tool" else own

    async def judged(self, own: Verdict[Any], rest: "_Rest") -> Verdict[Any]:
        """At ``pre_tool``: see that the rest has judged what will run, and keep its strictest answer."""
        seen = rest.verdict
        if not isinstance(own.decision, Deny) and (seen is None or own.payload.args != seen.payload.args):
            own = self.joined(own, await self.down(rest.at, own.payload))
        return own if seen is None else self.joined(seen, own)

    async def call(self, hook: BoundHook, payload: Payload, *more: object) -> Any:
        """Call a hook with a payload of its own."""
        return await self.invoke(hook, self.copy(hook, payload), *more)

    def copy(self, hook: BoundHook, payload: Payload) -> Payload:
        """Return a payload that carries the id and the memory of a hook."""
        memory = payload.memory if self.memory is None else self.memory(hook.id)
        return _COPIERS[type(payload)](payload, hook.id, memory)

    async def invoke(self, hook: BoundHook, given: Payload, *more: object) -> Any:
        """Call a hook and wait for what it returns."""
        if hook.is_async:
            return await self.timed(hook, hook.call(given, *more))
        returned = hook.call(given, *more)
        if returned is not None and isawaitable(returned):
            return await self.timed(hook, returned)
        return returned

    async def timed(self, hook: BoundHook, answer: Awaitable[Any]) -> Any:
        """Await an answer no longer than the hook may take."""
        if self.timeout is None or hook.timeout is None:
            return await answer
        with self.timeout(hook.timeout):
            return await answer

    async def body(self, inner: Callable[[Any], Any], payload: Payload) -> Any:
        """Run what the list wraps."""
        try:
            value = inner(payload)
            return await value if isawaitable(value) else value
        except Exception as error:
            self.passing = error
            raise

    def read(self, returned: object, before: Any) -> tuple[Any, Decision | None]:
        """Return the payload that goes on, and the decision."""
        if isinstance(returned, Payload):
            return adopt(returned, before, self.check), None
        decision = decided(returned, self.point)
        if isinstance(decision, Enter):
            entered = before.replace(
                messages=decision.messages, starts_request_series=decision.starts_request_series
            )
            return adopt(entered, before, self.check), decision
        return before, decision

    def read_wrapper(
        self, hook: BoundHook, returned: object, rest: "_Rest"
    ) -> tuple[Verdict[Any], Decision | None]:
        """Return what holds after a wrapper, and what it decided itself."""
        before = rest.before
        if self.point.kind == "wrap":
            if returned is not None:
                return Verdict(before.payload, value=wrapped(returned, self.point)), None
            if rest.verdict is None:
                raise WrongAnswer("neither called next nor returned anything")
            return before, None
        if returned is None or returned is rest.given:  # the payload just as it was given adds nothing
            return before, None
        if isinstance(returned, Verdict):
            return self.read_verdict(hook, returned, before)  # pyright: ignore[reportUnknownArgumentType]  # generic
        after, decision = self.read(returned, before.payload)
        if decision is None:
            return replace(before, payload=after), None
        own = self.said(hook, after, decision)
        return replace(own, answers=before.answers + own.answers), decision

    def read_verdict(
        self, hook: BoundHook, returned: Verdict[Any], before: Verdict[Any]
    ) -> tuple[Verdict[Any], Decision | None]:
        """Return what holds after a wrapper that returned a whole verdict."""
        after = adopt(returned.payload, before.payload, self.check)
        answers = tuple(decided(answer, self.point) for answer in returned.answers)
        if returned.decision is before.decision:
            return replace(before, payload=after, answers=answers), None
        if returned.decision is None:
            return Verdict(after, answers=answers), None
        after, decision = self.read(returned.decision, after)
        own = self.said(hook, after, decision)
        return replace(own, answers=answers + own.answers), decision

    def said(self, hook: BoundHook, payload: Any, decision: Decision | None) -> Verdict[Any]:
        """Return what one hook said as a verdict. To enter is to go on with other messages."""
        if decision is None or isinstance(decision, Enter):
            return Verdict(payload)
        if self.point.kind == "all":
            return Verdict(payload, answers=(decision,))
        return Verdict(payload, decision, by=hook.id)

    def joined(self, held: Verdict[Any], later: Verdict[Any]) -> Verdict[Any]:
        """Return what holds after two, of which the later has seen the payload of the one before.

        Two decisions meet at ``pre_tool`` only: elsewhere the first one ends the list.
        """
        if held.decision is not None and _RANK[held.decision.word] >= _RANK[_word(later.decision)]:
            return replace(held, payload=later.payload)
        return replace(later, answers=held.answers + later.answers) if held.answers else later

    def goes_through(self, error: Exception, payload: Payload) -> bool:
        """Return whether an exception is none of the hook's: it came up through ``next``, or is an abort."""
        return error is self.passing or (payload.abort is not None and payload.abort.aborted)

    def failed(
        self, hook: BoundHook, error: Exception, payload: Any, start: float, stderr: str = ""
    ) -> Verdict[Any]:
        """Return what the failure of a hook means at this point.

        Raises:
            HookFailed: If it ends the pass.
        """
        cause = _cause(error, hook)
        stderr = stderr or _stderr(error)
        decision: Decision | None = None
        if (hook.on_error or self.point.on_error) == "warn" or self.point.failure == "reported":
            self.note(hook, start, error=cause, stderr=stderr)
        elif self.point.failure == "call denied":
            decision = Deny(f"{hook.named} failed: {cause}")
            self.note(hook, start, decision, error=cause, stderr=stderr)
        elif self.point.failure == "withheld":  # the model reads this, and the cause may quote the result
            decision = Block(f"result withheld: {hook.named} failed ({type(error).__name__})")
            self.note(hook, start, decision, error=cause, stderr=stderr)
        else:
            self.note(hook, start, error=cause, stderr=stderr)
            self.passing = HookFailed(self.point.name, hook.id, hook.where, cause)
            raise self.passing from error
        return self.said(hook, payload, decision)

    def cut_off(self, hook: BoundHook, start: float, error: BaseException) -> None:
        """Write down what a program had written to stderr when it was cancelled: that is no failure."""
        stderr = _stderr(error)
        if stderr:
            self.note(hook, start, reason=CUT_OFF, stderr=stderr)

    def note(
        self,
        hook: BoundHook,
        start: float,
        decision: Decision | None = None,
        changed: Iterable[str] = (),
        error: str | None = None,
        reason: str = "",
        stderr: str = "",
    ) -> None:
        """Write down that a hook was called."""
        if decision is not None:
            reason = getattr(decision, "reason", "")
        self.trace.append(
            Dispatch(
                self.point.name, hook.id, hook.where, _word(decision) or None, reason, tuple(sorted(changed)),
                error, self.now() - start, stderr,
            )
        )  # fmt: skip

    async def tell(self, observers: tuple[BoundHook, ...], verdict: Verdict[Any]) -> None:
        """Let observers see what came out of it. They can change and break nothing."""
        for hook in observers:
            if not self.meant(hook, verdict.payload):
                continue
            start, error, stderr = self.now(), None, ""
            more = (replace(verdict, trace=tuple(self.trace)),) if hook.wants_verdict else ()
            try:
                returned = await self.call(hook, verdict.payload, *more)
                if type(returned) is Remarked:
                    returned, stderr = returned.answer, returned.stderr
                if isinstance(returned, Payload | Decision):
                    raise WrongAnswer(
                        f"returned a {type(returned).__name__}; an observer changes and decides nothing"
                    )
            except Exception as failure:  # noqa: BLE001  # an observer breaks nothing
                error, stderr = _cause(failure, hook), stderr or _stderr(failure)
            except BaseException as cancelling:
                self.cut_off(hook, start, cancelling)
                raise
            self.note(hook, start, error=error, stderr=stderr)


@dataclass(slots=True)
class _Rest:
    """What a wrapper gets as ``next``: the list behind it, and the body."""

    going: Pass
    at: int
    payload: Any
    given: Any
    """The payload as the wrapper got it."""
    verdict: Verdict[Any] | None = None
    """What the rest said; where it was called again, at ``pre_tool`` the strictest, else the last."""
    changed: frozenset[str] = frozenset()

    @property
    def before(self) -> Verdict[Any]:
        """What holds if the wrapper adds nothing."""
        return self.verdict or Verdict(self.payload)

    async def __call__(self, payload: Payload, /) -> Any:
        given = adopt(payload, self.payload, self.going.check)
        self.changed |= {*_changed(given, self.payload)}
        start = len(self.going.trace)
        try:
            verdict = await self.going.down(self.at, given)
        except Exception as error:
            self.going.passing = error
            raise
        again = self.verdict is not None and self.going.point.name == "pre_tool"
        self.verdict = self.going.joined(self.before, verdict) if again else verdict
        if self.going.point.kind == "wrap":
            return verdict.value
        return replace(verdict, trace=tuple(self.going.trace[start:]))


_RANK = {"": 0, "allow": 1, "ask": 2, "deny": 3}
"""How strict an answer at ``pre_tool`` is."""


def _word(decision: Decision | None) -> str:
    return decision.word if decision is not None else ""


def _changed(after: Payload, before: Payload) -> tuple[str, ...]:
    return () if after is before else after.changed(before)


def _cause(error: Exception, hook: BoundHook) -> str:
    if isinstance(error, WrongAnswer):
        return str(error)
    if isinstance(error, TimeoutError) and not error.args and hook.timeout is not None:
        return f"it took longer than {hook.timeout:g} s"
    return named_text_of(error)


def _stderr(error: BaseException) -> str:
    """Return what a program that failed wrote to stderr, where its error says so.

    Where the hook was timed out, what cancelled the program says so, and the error came of that.
    """
    wrote = getattr(error, "stderr", None)
    if wrote is None and isinstance(error, TimeoutError):
        wrote = getattr(error.__context__, "stderr", None)
    return wrote if isinstance(wrote, str) else ""


def _copier(kind: type[Payload]) -> Callable[[Payload, str, MutableMapping[str, Any]], Payload]:
    """Return a function that copies a payload with another id and memory, faster than ``replace``."""
    names = [field.name for field in fields(kind)]
    read = attrgetter(*names)
    slots = [getattr(kind, name).__set__ for name in names]
    set_id, set_memory = (slots[names.index(name)] for name in ("id", "memory"))

    def copy(payload: Payload, id: str, memory: MutableMapping[str, Any]) -> Payload:
        made = object.__new__(kind)
        for put, value in zip(slots, read(payload), strict=True):
            put(made, value)
        set_id(made, id)
        set_memory(made, memory)
        return made

    return copy


_COPIERS = {point.payload: _copier(point.payload) for point in POINTS.values()}

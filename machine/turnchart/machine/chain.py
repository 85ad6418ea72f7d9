"""Hook chains: one pass down a list, the first listed outermost.

Three rules hold at every point, whatever the hooks do:

1. A hook returns nothing, a changed payload, or a decision of its point. Everything else is its failure, and
   ``points.py`` says what a failure does.
2. At ``pre_tool`` the strictest answer holds, and nobody can rewrite what the hooks behind have judged.
3. Being cancelled from outside is no answer and no failure: it goes through.

Nothing here reads a clock. Time, timeouts and the body of a wrap point are passed in.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from turnchart.machine._pass import Memory, Pass, Timeout
from turnchart.machine.bound import BoundHook, bind, point_named
from turnchart.machine.points import Block, Payload, World
from turnchart.machine.verdict import Dispatch, Verdict

if TYPE_CHECKING:
    from turnchart.machine.clock import Clock

__all__ = ["BoundHook", "Chain", "Dispatch", "Memory", "Timeout", "Verdict", "bind", "run_chain"]

P = TypeVar("P", bound=Payload)


class Chain:
    """The hooks of one point, in order; what is not bound yet is bound. It never changes.

    Attributes:
        point: The name of the point.
        hooks: With ids that differ: a repeated one is followed by ``-2``, ``-3``.
    """

    __slots__ = ("_acting", "_contract", "_observers", "hooks", "point")

    def __init__(self, point: str, hooks: Iterable[object] = ()) -> None:
        self.point = point
        self._contract = point_named(point)
        self.hooks = _unique(hook if isinstance(hook, BoundHook) else bind(point, hook) for hook in hooks)
        self._acting = tuple(hook for hook in self.hooks if not hook.observes)
        self._observers = tuple(hook for hook in self.hooks if hook.observes)

    def __bool__(self) -> bool:
        return bool(self.hooks)

    async def run(
        self,
        payload: P,
        *,
        inner: Callable[[P], Any] | None = None,
        check: Callable[[P], P] | None = None,
        timeout: Timeout | None = None,  # noqa: ASYNC109  # makes timeouts, one a hook
        now: Callable[[], float] | None = None,
        memory: Memory | None = None,
        trace: list[Dispatch] | None = None,
    ) -> Verdict[P]:
        """Pass the payload down the list and return what holds in the end.

        Args:
            payload: Of this point.
            inner: The body of a wrap point; may be async.
            check: Validates a payload that a hook changed; what it returns goes on.
            timeout: Without it, no hook is timed out.
            now: Seconds; without it, no hook takes any.
            memory: Without it, hooks share the memory of the payload.
            trace: Filled while the hooks run, so that it also tells what led to a failure.

        Raises:
            TypeError: If the payload is not of this point.
            HookFailed: If a hook failed, and the point says that its failure ends this.
        """
        if type(payload) is not self._contract.payload:
            raise TypeError(
                f"{self.point} takes {self._contract.payload.__name__}, not {type(payload).__name__}"
            )
        steps = [] if trace is None else trace
        going = Pass(self._contract, self._acting, inner, check, timeout, now or float, memory, steps)
        try:
            verdict = await going.down(0, payload)
        except Exception:
            await going.tell(self._observers, Verdict(payload))
            raise
        if isinstance(verdict.decision, Block):  # what was withheld brings no context along
            verdict = replace(verdict, payload=replace(verdict.payload, context=""))
        await going.tell(self._observers, verdict)
        return replace(verdict, trace=tuple(going.trace))


async def run_chain(
    point: str,
    payload: P,
    hooks: Iterable[object],
    *,
    world: World | None = None,
    clock: "Clock | None" = None,
    inner: Callable[[P], Any] | None = None,
    check: Callable[[P], P] | None = None,
) -> Verdict[P]:
    """Run hooks as a chain without any agent: how one hook, or one list of them, is tested.

    Without a clock no hook is timed out. See ``Chain.run`` for the rest.
    """
    if world is not None:
        payload = replace(payload, world=world)
    timeout, now = (clock.timeout, clock.now) if clock else (None, None)
    return await Chain(point, hooks).run(payload, inner=inner, check=check, timeout=timeout, now=now)


def _unique(hooks: Iterable[BoundHook]) -> tuple[BoundHook, ...]:
    """Return the hooks with ids that differ."""
    found: dict[str, BoundHook] = {}
    for hook in hooks:
        id, count = hook.id, 1
        while id in found:
            count += 1
            id = f"{hook.id}-{count}"
        found[id] = hook if id == hook.id else replace(hook, id=id)
    return tuple(found.values())

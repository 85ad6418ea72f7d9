"""What hooks do to the world is done once, also where they are asked again after a crash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

from turnchart.machine.entries import Frozen, encode
from turnchart.machine.world import Finished, cut_short, errors_of

if TYPE_CHECKING:
    from turnchart.machine.turn_view import World


class Keeps(Protocol):
    """Runs steps whose outcome is JSON."""

    async def once(self, name: str, key: str, fn: Callable[[], Awaitable[Frozen]]) -> Frozen:
        """Run a step, unless it is known what it came to; return that."""
        ...

    def once_now(self, key: str, fn: Callable[[], object], *, first: bool = False) -> None:
        """Do something without waiting, unless it was done; ``first`` notes that it was before it is."""
        ...


def digest(*what: object) -> str:
    """Return a short text that differs where what is asked for does."""
    return sha256(encode(Frozen(what=tuple(what))).encode("utf-8", "surrogatepass")).hexdigest()[:20]


class KeptWorld:
    """The world of the hooks of one point, as they are asked once.

    What they did is found again by what it was: the same program with the same input, the same question. Of
    several that are alike the first is the first.

    Args:
        world: The world of the agent.
        steps: Keeps what came of it.
        place: Names the point in the session.
    """

    __slots__ = ("_alike", "_place", "_steps", "_world")

    def __init__(self, world: World, steps: Keeps, place: str) -> None:
        self._world, self._steps, self._place = world, steps, place
        self._alike: Counter[str] = Counter()

    @property
    def root(self) -> str:
        """The folder that files and programs start from."""
        return self._world.root

    def now(self) -> float:
        """Return Unix seconds."""
        return self._world.now()

    def read(self, path: str) -> str:
        """Return the text of a file below the root, as it is now."""
        return self._world.read(path)

    def notice(self, text: str) -> None:
        """Tell the user something."""
        self._world.notice(text)

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        timeout: float = 30,  # noqa: ASYNC109  # a limit on the clock that tests fake
        env: Mapping[str, str] | None = None,
        cwd: str = ".",
    ) -> Finished:
        """Run a program, unless it is known what it gave back.

        Raises:
            TimeoutError: If it takes longer than ``timeout`` seconds, also where it did so before.
        """

        async def ran() -> Frozen:
            try:
                done = await self._world.run(argv, stdin=stdin, timeout=timeout, env=env, cwd=cwd)
            except TimeoutError as error:
                return Frozen(late=str(error), errors=errors_of(error))
            return Frozen(exit_code=done.exit_code, output=done.output, errors=done.errors)

        came = await self._once(digest("run", *argv, stdin, cwd), ran)
        if "late" in came:
            late = TimeoutError(came["late"]) if came["late"] else TimeoutError()
            cut_short(late, came.get("errors", ""))
            raise late
        return Finished(came["exit_code"], came["output"], came["errors"])

    async def ask_model(self, model: str, prompt: str) -> str:
        """Ask a model one question, unless its answer is known."""

        async def asked() -> Frozen:
            return Frozen(text=await self._world.ask_model(model, prompt))

        text: str = (await self._once(digest("ask_model", model, prompt), asked))["text"]
        return text

    def append(self, path: str, text: str) -> None:
        """Append text to a file below the root, unless that was done."""
        self._steps.once_now(self._key(digest("append", path, text)), lambda: self._world.append(path, text))

    def inject(self, text: str, source: str) -> None:
        """Put something into the inbox for the next request, unless that was done."""
        key = self._key(digest("inject", text, source))
        self._steps.once_now(key, lambda: self._world.inject(text, source), first=True)

    async def _once(self, what: str, fn: Callable[[], Awaitable[Frozen]]) -> Frozen:
        try:
            return await self._steps.once("hook", self._key(what), fn)
        except BaseException:
            self._alike[what] -= 1  # it came to nothing, so the next one like it takes its place
            raise

    def _key(self, what: str) -> str:
        count = self._alike[what]
        self._alike[what] += 1
        return f"{self._place} {what} {count}"

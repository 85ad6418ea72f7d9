"""``run:`` hooks: a program that reads the payload as JSON and answers in JSON.

A verdict is only what stands on stdout of a program that ended with 0. Everything else (another exit code,
other text, an unknown key, too much output) is a failure, and the table of the points says what that means.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, field, fields, is_dataclass
from typing import Any, Final, Literal, cast

from turnchart.machine.bound import Remarked
from turnchart.machine.errors import TurnchartError
from turnchart.machine.points import POINTS, AddContext, Allow, Decision, Payload, Point, Ran, World
from turnchart.machine.records import record

PROTOCOL: Final = 1
MAX_OUTPUT: Final = 1024 * 1024
MAX_STDERR: Final = 16_000
"""So many characters of stderr are kept, the last ones."""
TIMEOUT: Final = 30.0
_COMMON: Final = ("decision", "reason", "set", "context")
_WORDS: Final = ("allow", "ask", "deny", "reject", "continue", "stop", "retry", "give_up", "block", "veto")
"""The decisions that a program can write; the others are ``set`` and ``context``."""
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {"reason": (str,), "model": (str,), "after": (int, float)}


class CommandFailed(TurnchartError):
    """A program did not answer as the protocol says.

    Attributes:
        stderr: What it wrote there.
    """

    stderr = ""


@record
class Command:
    """A program as a hook of one point.

    Attributes:
        point: The name of the point.
        argv: The program and its arguments; no shell reads them.
        env: Variables with their values.
        env_from: Variables that are passed on: their name there, and ours.
        timeout: In seconds.
        cwd: Where it starts, relative to the root.
        dialect: Whose protocol it speaks; None: ours.
        tools: The built-in tools behind the names that a flow gave them; the dialect has names of its own.
    """

    point: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    env_from: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout: float = TIMEOUT
    cwd: str = "."
    dialect: Literal["claude_code"] | None = None
    tools: Mapping[str, str] = field(default_factory=dict[str, str])

    async def __call__(self, payload: Payload) -> Payload | Decision | Remarked | None:
        """Run the program and return what it answered, with what it wrote to stderr; a failure has that too.

        Raises:
            CommandFailed: If it does not answer as the protocol says.
            DialectFailed: If it does not answer as its dialect says.
            OSError: If it cannot be started.
            RuntimeError: If the payload has no world to run programs in.
            TimeoutError: If it takes too long.
        """
        if payload.world is None:
            raise RuntimeError(
                f"the program {self.argv[0]} needs a world to run in: pass world= to run_chain"
            )
        if self.dialect is not None:
            return await self._in_dialect(payload, payload.world)
        given = payload.json() | {"protocol": PROTOCOL, "point": self.point}
        ran = await self._run(payload, payload.world, given)
        return _remarked(ran.errors, lambda: self._answer(payload, ran))

    def _answer(self, payload: Payload, ran: Ran) -> Payload | Decision | None:
        if ran.exit_code != 0:
            raise CommandFailed(f"{self.argv[0]} ended with exit code {ran.exit_code}{_last(ran.errors)}")
        return answer(POINTS[self.point], payload, ran.output)

    async def _in_dialect(self, payload: Payload, world: World) -> Payload | Decision | Remarked | None:
        from turnchart.hooks import claude_code  # most flows have no such program

        given = claude_code.question(self.point, payload, self.tools, self.cwd)
        if given is None:
            return None
        ran = await self._run(payload, world, given, CLAUDE_PROJECT_DIR=world.root)

        def answered() -> Payload | Decision | None:
            _check_size(ran.output)
            return claude_code.answer(self.point, payload, ran, self.tools)

        told = ran.exit_code == claude_code.BLOCKED  # there stderr is the answer itself
        return answered() if told else _remarked(ran.errors, answered)

    async def _run(self, payload: Payload, world: World, given: dict[str, Any], **env: str) -> Ran:
        from turnchart.machine.world import Finished, errors_of  # where programs run it is there

        try:
            ran = await world.run(
                self.argv, stdin=json.dumps(given, ensure_ascii=False, default=_plain), timeout=self.timeout,
                env={**env, **self._environment(payload)}, cwd=self.cwd,
            )  # fmt: skip
        except BaseException as error:  # its time is over, or it is cut off with the turn
            cast("Any", error).stderr = _kept(self._without_secrets(errors_of(error)))
            raise
        if not ran.errors:
            return ran
        return Finished(ran.exit_code, ran.output, self._without_secrets(ran.errors))

    def _without_secrets(self, errors: str) -> str:
        """Return what is kept of stderr: what was written without the values that it alone was handed."""
        from turnchart.machine.masking import without_secrets

        handed = {**self.env, **self._handed()}
        return without_secrets(errors, {value: f"[redacted {name}]" for name, value in handed.items()})

    def _handed(self) -> dict[str, str]:
        return {name: os.environ[other] for name, other in self.env_from.items() if other in os.environ}

    def _environment(self, payload: Payload) -> dict[str, str]:
        root = payload.world.root if payload.world is not None else ""
        return {"TURNCHART_ROOT": root, "TURNCHART_SESSION": payload.session, **self.env, **self._handed()}


def answer(point: Point, payload: Payload, output: str) -> Payload | Decision | None:
    """Return what a program said: nothing, a changed payload, or a decision of the point.

    Raises:
        CommandFailed: If the output is not what the protocol takes at this point.
    """
    said = _parsed(output)
    kind = _decision(point, said.get("decision"))
    extra = {each.name for each in fields(kind)} if kind is not None else set[str]()
    unknown = sorted(said.keys() - {*_COMMON, *extra})
    if unknown:
        raise CommandFailed(f"its answer has the unknown key {unknown[0]!r}; known: {', '.join(_COMMON)}")
    changes = _changes(point, payload, said)
    if kind is None or (kind is Allow and changes):
        return _without_decision(point, payload, changes, said.get("context"))
    if changes or "context" in said:
        raise CommandFailed(
            f"its answer has a decision, {said['decision']}, and changes: give one of the two"
        )
    given = {name: value for name, value in said.items() if name in extra}
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, _TYPES[name]):
            raise CommandFailed(f"{name} must be {'a number' if name == 'after' else 'text'}, not {value!r}")
    return kind(**given)


def _parsed(output: str) -> dict[str, Any]:
    _check_size(output)
    if not output.strip():
        return {}
    try:
        said = json.loads(output)
    except (ValueError, RecursionError):
        raise CommandFailed(f"stdout is no JSON object: {output.strip()[:80]!r}") from None
    if not isinstance(said, dict):
        raise CommandFailed(f"stdout is no JSON object but {json.dumps(said)[:80]}")
    return cast("dict[str, Any]", said)


def _check_size(output: str) -> None:
    if len(output.encode(errors="replace")) > MAX_OUTPUT:
        raise CommandFailed("it wrote more than 1 MiB to stdout")


def _decision(point: Point, word: object) -> type[Decision] | None:
    if word is None:
        return None
    known = {kind.word: kind for kind in point.decisions if kind.word in _WORDS}
    if not isinstance(word, str) or word not in known:
        words = ", ".join(known) or "none"
        raise CommandFailed(f"there is no decision {word!r} on {point.name}; decisions: {words}")
    return known[word]


def _changes(point: Point, payload: Payload, said: Mapping[str, Any]) -> dict[str, Any]:
    changes = said.get("set", {})
    if not isinstance(changes, dict):
        raise CommandFailed("set must be an object")
    named = cast("dict[str, Any]", changes)
    wrong = sorted(named.keys() - payload.may_change)
    if wrong:
        may = ", ".join(sorted(payload.may_change)) or "nothing"
        raise CommandFailed(f"{wrong[0]!r} cannot be set on {point.name}; it may change {may}")
    return named


def _without_decision(
    point: Point, payload: Payload, changes: dict[str, Any], context: object
) -> Payload | Decision | None:
    if context is not None:
        if not isinstance(context, str):
            raise CommandFailed("context must be text")
        if AddContext in point.decisions:
            return AddContext(context)
        if "context" not in payload.may_change:
            raise CommandFailed(f"context cannot be added on {point.name}")
        changes = {**changes, "context": context}
    return payload.replace(**changes) if changes else None


def _remarked(
    errors: str, answered: Callable[[], Payload | Decision | None]
) -> Payload | Decision | Remarked | None:
    """Return an answer with what was written to stderr; of a failure it becomes the ``stderr``.

    Raises:
        CommandFailed: What ``answered`` raises.
    """
    wrote = _kept(errors)
    try:
        said = answered()
    except CommandFailed as error:
        error.stderr = wrote
        raise
    return Remarked(said, wrote) if wrote else said


def _kept(errors: str) -> str:
    wrote = errors.strip()
    if len(wrote) > MAX_STDERR:
        return f"[{len(wrote) - MAX_STDERR:,} characters before this are left out]\n{wrote[-MAX_STDERR:]}"
    return wrote


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value)


def _last(errors: str) -> str:
    lines = errors.strip().splitlines()
    return f": {lines[-1][:200]}" if lines else ""

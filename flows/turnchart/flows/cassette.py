"""Recording what models answer, as a script that answers so again: ``turnchart run --record FILE``.

Keys and other secrets are taken out, texts of the environment that look like keys among them. A call whose
arguments were no JSON object is recorded without arguments.
"""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from inspect import isawaitable
from pathlib import Path
from typing import Any, Final

from turnchart.hooks.builtin._secrets import is_secret_name, redact
from turnchart.machine.abort import AbortSignal
from turnchart.machine.agent import Agent
from turnchart.machine.errors import TurnchartError, UnknownModel
from turnchart.machine.json_parameters import plain_json
from turnchart.machine.masking import without_secrets
from turnchart.machine.messages import Failure
from turnchart.machine.models import (
    Chunk,
    Finish,
    Model,
    ModelRequest,
    PreparedCall,
    RequestConfig,
    close_models,
    failure_of,
)
from turnchart.machine.stream import Answer

HEAD: Final = "# Recorded by turnchart run --record; play it with --model script:FILE\n"
_TOKENS: Final = ("input", "output", "cache_read", "cache_write")
_SHORTEST: Final = 8
"""A value of the environment that is shorter is no key."""


class Cassette:
    """What models were asked and answered, in the order of the requests.

    Attributes:
        path: Where it is written.
        steps: The answers, each as a script says it.
    """

    def __init__(self, path: Path, env: Mapping[str, str] = os.environ) -> None:
        """Name the file; nothing is written yet.

        Raises:
            TurnchartError: If something else than a recording is there, or the file cannot be written.
        """
        if path.exists() and not _is_recording(path):
            raise TurnchartError(f"{path} is there, and is no recording; choose another file, or remove it")
        if not os.access(path if path.exists() else path.parent, os.W_OK):  # now, not later
            read_only = "you may not write there, or the disk is read-only"
            why = read_only if path.parent.is_dir() else f"{path.parent}: there is no such folder"
            raise TurnchartError(f"{path} cannot be written: {why}")
        self.path = path
        self.steps: list[dict[str, Any]] = []
        self._marks = {
            value: f"[redacted {name}]"
            for name, value in env.items()
            if len(value) >= _SHORTEST and is_secret_name(name)
        }

    def attach(self, agent: Agent) -> Agent:
        """Record what the models of an agent answer from now on; return the agent."""
        if agent.model is not None:
            agent.model = _Recorded(agent.model, self)
        models = agent.models
        if models is not None:

            def find(id: str) -> "Model | Awaitable[Model]":
                found = models(id) if callable(models) else models.get(id)
                if found is None:
                    raise UnknownModel(f"no model {id!r}")
                return self._later(found) if isawaitable(found) else _Recorded(found, self)

            agent.models = find
        return agent

    async def _later(self, found: "Awaitable[Model]") -> "Model":
        return _Recorded(await found, self)

    def write(self) -> None:
        """Write the file anew."""
        import yaml

        steps = [self._clean(step) for step in self.steps]
        write: Callable[..., str] = yaml.safe_dump  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # its stubs
        text = write(steps, allow_unicode=True, sort_keys=False, width=100)
        self.path.write_bytes((HEAD + text).encode("utf-8", "replace"))

    def _clean(self, value: Any) -> Any:
        """Return JSON without secrets."""
        if isinstance(value, Mapping):
            return {name: self._clean(item) for name, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # plain data
        if isinstance(value, list):
            return [self._clean(item) for item in value]  # pyright: ignore[reportUnknownVariableType]  # plain data
        if not isinstance(value, str):
            return value
        return redact(without_secrets(value, self._marks))


def _is_recording(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(HEAD)) == HEAD.encode()
    except OSError:
        return False


class _Recorded:
    """A model whose answers are written down."""

    def __init__(self, model: Model, cassette: Cassette) -> None:
        self.id = model.id
        self._model = model
        self._steps = cassette.steps

    async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
        """Bind one call of the model itself."""
        call = await self._model.prepare(config, abort)
        return replace(call, open=partial(self._stream, call))

    async def _stream(self, call: PreparedCall, request: ModelRequest) -> AsyncGenerator[Chunk]:
        step: dict[str, Any] = {}
        self._steps.append(step)
        answer, ended = Answer(), False
        chunks = call.open(request)
        try:
            async for chunk in chunks:
                answer.add(chunk, request.clock.now())
                yield chunk
            ended = True
        except Exception as error:
            failure = failure_of(error)
            if failure is not None:
                answer.add(Finish("error", failure), request.clock.now())
            raise
        finally:
            step.update(step_of(answer, ended=ended))
            await close_models(chunks)

    def check(self) -> None:
        """Raise where the model is a script that was not played to its end."""
        check = getattr(self._model, "check", None)
        if check is not None:
            check()

    async def aclose(self) -> None:
        """Let the model give back its connections."""
        await close_models(self._model)


def step_of(answer: Answer, *, ended: bool = False) -> dict[str, Any]:
    """Return an answer as a script says it; one that failed with what it said before, if that is any text.

    Args:
        answer: What came.
        ended: Nothing more would have come; else an answer without a finish was cut off, and says so.
    """
    failure = answer.failure
    cut = failure is not None or (answer.finish is None and not ended)
    said = answer.message("", 0.0, "call", interrupted=cut)
    thinking = "".join([part["thinking"] for part in said.content if part["type"] == "thinking"])
    found: dict[str, Any] = {"thinking": thinking} if thinking else {}
    if said.text or failure is None:
        found["text"] = said.text
    calls: list[dict[str, Any]] = []
    for call in said.tool_calls:
        args: dict[str, Any] = {} if isinstance(call.arguments, str) else plain_json(call.arguments)
        calls.append({"call": call.name, "args": args, "id": call.id})
    if calls:
        found["calls"] = calls
    usage = {name: said.usage[name] for name in _TOKENS if said.usage.get(name)}
    if usage:
        found["usage"] = usage
    usual = "tool_calls" if calls else "stop"
    if failure is not None:
        found |= _failed(failure)
    elif said.stop_reason != usual:
        found["finish"] = said.stop_reason
    return found


def _failed(failure: Failure) -> dict[str, Any]:
    said = failure.json()
    return {
        "fail" if name == "kind" else name: value for name, value in said.items() if value not in ("", None)
    }

"""Models by their ids: ``test``, ``script:FILE``, those of providers, and what the caller knows."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from turnchart.flows.checks import SCRIPT
from turnchart.flows.script import load_script, to_model
from turnchart.machine.errors import UnknownModel

if TYPE_CHECKING:
    from turnchart.machine.models import Model, Resolver


class Route(TypedDict, total=False):
    """How a provider is reached, where that is not the usual way."""

    base_url: str
    api_key_env: str


@dataclass(slots=True)
class Models:
    """Finds the models of one agent; each is made once, so a script goes on where it was.

    Attributes:
        folder: What the file of ``script:FILE`` is relative to.
        given: Asked first.
        scripts: Files of scripts by the id of their model, where they are known.
        routes: How a provider is reached, by its name, where the flow says so.
    """

    folder: Path
    given: "Resolver | None" = None
    scripts: Mapping[str, Path] = field(default_factory=dict[str, Path])
    routes: Mapping[str, "Route"] = field(default_factory=dict[str, "Route"])
    _made: dict[str, "Model"] = field(default_factory=dict[str, "Model"])

    def __call__(self, id: str) -> "Model | Awaitable[Model]":
        """Return the model with this id.

        Raises:
            UnknownModel: If nobody knows it, or it needs an extra that is not installed.
            FlowError: If the script is wrong.
        """
        given = _ask(self.given, id)
        if given is not None:
            return given
        if id not in self._made:
            self._made[id] = self._make(id)
        return self._made[id]

    def _make(self, id: str) -> "Model":
        if id == "test":
            from turnchart.machine.scripted import Reply, ScriptedModel

            return ScriptedModel(default=Reply("ok"))
        if id.startswith(SCRIPT):
            name = id.removeprefix(SCRIPT)
            return to_model(load_script(self.scripts.get(id, self.folder / name), name).steps, id=id)
        if ":" not in id:
            raise UnknownModel(f"no model {id!r}: write test, script:FILE or provider:name")
        from turnchart.machine.providers import ProviderModel

        return ProviderModel(id, **self.routes.get(id.partition(":")[0], Route()))

    async def aclose(self) -> None:
        """Let the models that were made here give back their connections; they can be used again."""
        from turnchart.machine.models import close_models

        await close_models(*self._made.values())


def _ask(given: "Resolver | None", id: str) -> "Model | Awaitable[Model] | None":
    if given is None:
        return None
    return given(id) if callable(given) else given.get(id)

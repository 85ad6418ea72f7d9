"""Models by their ids: ``test``, ``script:FILE``, and what the caller knows. Real providers come later."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from turnchart.flows.checks import SCRIPT
from turnchart.flows.script import load_script, to_model
from turnchart.machine.errors import UnknownModel

if TYPE_CHECKING:
    from turnchart.machine.models import Model, Resolver


@dataclass(slots=True)
class Models:
    """Finds the models of one agent; each is made once, so a script goes on where it was.

    Attributes:
        folder: What the file of ``script:FILE`` is relative to.
        given: Asked first.
        scripts: Files of scripts by the id of their model, where they are known.
    """

    folder: Path
    given: "Resolver | None" = None
    scripts: Mapping[str, Path] = field(default_factory=dict[str, Path])
    _made: dict[str, "Model"] = field(default_factory=dict[str, "Model"])

    def __call__(self, id: str) -> "Model | Awaitable[Model]":
        """Return the model with this id.

        Raises:
            UnknownModel: If nobody knows it.
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
        raise UnknownModel(
            f"no model {id!r}: providers are not supported by this version;"
            " use test or script:FILE, or give agent(model=) or agent(models=)"
        )


def _ask(given: "Resolver | None", id: str) -> "Model | Awaitable[Model] | None":
    if given is None:
        return None
    return given(id) if callable(given) else given.get(id)

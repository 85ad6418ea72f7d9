"""What a flow starts or reaches: the list that a person agrees to before anything of it happens."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnchart.flows.hook_checks import HookUse
from turnchart.flows.problems import Problem
from turnchart.flows.source import AnyNode, Scalar
from turnchart.flows.validate import find

if TYPE_CHECKING:
    from turnchart.flows.check import Checked


@dataclass(frozen=True, slots=True)
class Reach:
    """One thing that a flow starts or reaches.

    Attributes:
        what: The program with its arguments, or the address.
        where: ``file:line``.
        variables: The environment variables that it is given.
        node: Where it stands.
    """

    what: str
    where: str
    variables: tuple[str, ...]
    node: AnyNode

    def problem(self) -> Problem:
        """Return the problem that nobody agreed to it."""
        told = f" with {', '.join(self.variables)}" if self.variables else ""
        help = "agree with trust=True, or --trust on the command line"
        return self.node.problem("not-trusted", f"this flow reaches {self.what}{told}", help=help)


def reaches_of(checked: "Checked") -> tuple[Reach, ...]:
    """Return what a flow starts or reaches, in the order of the file; of disabled hooks nothing."""
    found = [*_address(checked)]
    for use in checked.hooks:
        if not use.disabled:
            found += _programs(use)
    return tuple(found)


def _address(checked: "Checked") -> Iterator[Reach]:
    spec = checked.parts.file.model if checked.parts is not None else None
    if checked.parts is not None and spec is not None and spec.base_url is not None:
        node = checked.parts.at("model", "base_url")
        shown = node.text if isinstance(node, Scalar) else spec.base_url
        yield _reach(shown, node, (spec.api_key_env,) if spec.api_key_env else ())


def _programs(use: HookUse) -> Iterator[Reach]:
    run = use.part.spec.run
    if run is not None:
        ours = [name for pair in use.part.spec.env_from for name in pair.values()]
        yield _reach(shlex.join(run), use.part.at("run"), tuple(ours))
    for parameter in use.spec.parameters if use.spec is not None else ():
        value = use.params.get(parameter.name)
        if parameter.meaning == "command" and isinstance(value, list):
            argv = [str(each) for each in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # plain data
            yield _reach(shlex.join(argv), find(use.part.node, ("with", parameter.name)).value, ())


def _reach(what: str, node: AnyNode, variables: tuple[str, ...]) -> Reach:
    return Reach(what, f"{node.source.name}:{node.line}", variables, node)

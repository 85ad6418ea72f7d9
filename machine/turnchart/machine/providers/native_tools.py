"""The tools that run at a provider, as ``pydantic_ai`` names them, and which of them a model has."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pydantic_ai.models import Model
from pydantic_ai.native_tools import AbstractNativeTool, CodeExecutionTool, WebFetchTool, WebSearchTool

from turnchart.machine.entries import Frozen
from turnchart.machine.messages import Failure

NATIVE: Final[Mapping[str, type[AbstractNativeTool]]] = {
    "code_execution": CodeExecutionTool, "web_fetch": WebFetchTool, "web_search": WebSearchTool,
}  # fmt: skip
"""By our names."""


def native_tools(tools: Iterable[Frozen]) -> list[AbstractNativeTool]:
    """Return those of a request's tools that run at the provider.

    Raises:
        ValueError: If no provider has such a tool.
    """
    names = [spec["name"] for spec in tools if spec.get("at_provider")]
    for name in names:
        if name not in NATIVE:
            raise ValueError(f"no provider runs {name!r}; the tools of providers are: {', '.join(NATIVE)}")
    return [NATIVE[name]() for name in names]


def tools_of(model: Model) -> tuple[str, ...]:
    """Return the names of the tools that a model runs at its provider."""
    has = model.profile.get("supported_native_tools", frozenset())
    return tuple(name for name, kind in NATIVE.items() if kind in has)


def lacking(model: Model, id: str, asked: Sequence[AbstractNativeTool]) -> Failure | None:
    """Return why a request with these tools would fail; None where the model has them all."""
    has = tools_of(model)
    missing = [name for name, kind in NATIVE.items() if name not in has and kind in map(type, asked)]
    if not missing:
        return None
    said = f"the provider of {id} does not run {' and '.join(missing)}; {_cure(has)}"
    return Failure("invalid_request", message=said)


def _cure(has: Sequence[str]) -> str:
    if not has:
        return "leave it out of the tools, or take a model of another provider"
    return f"it has {' and '.join(has)}"

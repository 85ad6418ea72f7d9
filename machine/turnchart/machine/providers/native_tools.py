"""The tools that run at a provider, as ``pydantic_ai`` names them, and which of them a model has."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from pydantic_ai.messages import UploadedFile
from pydantic_ai.models import Model
from pydantic_ai.native_tools import AbstractNativeTool, CodeExecutionTool, WebFetchTool, WebSearchTool

from turnchart.machine.entries import Frozen
from turnchart.machine.json_parameters import plain_json
from turnchart.machine.messages import Failure

NATIVE: Final[Mapping[str, type[AbstractNativeTool]]] = {
    "code_execution": CodeExecutionTool, "web_fetch": WebFetchTool, "web_search": WebSearchTool,
}  # fmt: skip
"""By our names."""


_OF_ANTHROPIC: Final = ("enable_citations", "max_content_tokens")
"""Options that go over in a map of their own."""


def native_tools(tools: Iterable[Frozen], system: str = "") -> list[AbstractNativeTool]:
    """Return those of a request's tools that run at the provider, with their options.

    Args:
        tools: What the request offers.
        system: Whose files the ids of files are.

    Raises:
        ValueError: If no provider has such a tool.
    """
    there = [spec for spec in tools if spec.get("at_provider")]
    for name in (spec["name"] for spec in there):
        if name not in NATIVE:
            raise ValueError(f"no provider runs {name!r}; the tools of providers are: {', '.join(NATIVE)}")
    return [NATIVE[spec["name"]](**_given(spec.get("options", {}), system)) for spec in there]


def _given(options: Mapping[str, Any], system: str) -> dict[str, Any]:
    """Return options as ``pydantic_ai`` takes them."""
    given: dict[str, Any] = plain_json(options)
    apart = {name: given.pop(name) for name in _OF_ANTHROPIC if name in given}
    if apart:
        given["provider_settings"] = {"anthropic": apart}
    if "files" in given:
        given["files"] = [
            UploadedFile(file_id=id, provider_name=cast("Any", system))  # of others it takes no files
            for id in given["files"]
        ]
    return given


def tools_of(model: Model) -> tuple[str, ...]:
    """Return the names of the tools that a model runs at its provider."""
    has = model.profile.get("supported_native_tools", frozenset())
    return tuple(name for name, kind in NATIVE.items() if kind in has)


def lacking(model: Model, id: str, asked: Sequence[AbstractNativeTool]) -> Failure | None:
    """Return why a request with these tools would fail; None where the model has them all."""
    has = tools_of(model)
    missing = [name for name, kind in NATIVE.items() if name not in has and kind in map(type, asked)]
    if not missing:
        return _cannot_keep_to(model, id, asked)
    said = f"the provider of {id} does not run {' and '.join(missing)}; {_cure(has)}"
    return Failure("invalid_request", message=said)


def _cannot_keep_to(model: Model, id: str, asked: Sequence[AbstractNativeTool]) -> Failure | None:
    """Return which options the provider cannot keep to; None where it can keep to all."""
    wrong = [(each.kind, sorted(model.unsupported_native_tool_settings(each))) for each in asked]
    told = [f"{kind} cannot be asked to keep to {' and '.join(names)}" for kind, names in wrong if names]
    if not told:
        return None
    return Failure("invalid_request", message=f"at the provider of {id}, {', and '.join(told)}; leave it out")


def _cure(has: Sequence[str]) -> str:
    if not has:
        return "leave it out of the tools, or take a model of another provider"
    return f"it has {' and '.join(has)}"

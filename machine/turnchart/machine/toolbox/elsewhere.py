"""Tools that run at the provider: a request offers them, and what they did is a part of the answer."""

from typing import Any

from pydantic import BaseModel

from turnchart.machine.entries import Frozen, freeze
from turnchart.machine.tools import Tool, ToolFailed

from ._known import AT_PROVIDER
from ._provided import PROVIDED


def provider_tool(name: str, **options: Any) -> Tool:
    """Return a tool that the provider of the model runs, with its own code and on its own machine.

    No hook and no permission sees its calls, and they have no entries of their own in the log: what was asked
    and found is kept in the ``replay`` of the answer. A model without it ends the turn with an error.

    Args:
        name: ``web_search``, ``web_fetch`` or ``code_execution``.
        **options: What the provider is asked to keep to, such as ``allowed_domains``. A provider that cannot
            keep to one ends the turn with an error.

    Raises:
        ValueError: If there is no such tool, or it has no such option.
    """
    if name not in AT_PROVIDER:
        raise ValueError(f"no provider runs {name!r}; the tools of providers are: {', '.join(AT_PROVIDER)}")

    def elsewhere() -> None:
        raise ToolFailed(f"{name} runs at the provider of the model, and nowhere else")

    said = {key: _plain(value) for key, value in options.items() if value is not None}
    checked = PROVIDED[name].model_validate(said).model_dump(exclude_none=True)
    return Tool(name, AT_PROVIDER[name], elsewhere, at_provider=True, options=Frozen(freeze(checked)))


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_none=True)
    if isinstance(value, tuple):
        return list(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # JSON
    return value

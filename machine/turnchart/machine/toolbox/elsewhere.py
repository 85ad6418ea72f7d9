"""Tools that run at the provider: a request offers them, and what they did is a part of the answer."""

from turnchart.machine.tools import Tool, ToolFailed

from ._known import AT_PROVIDER


def provider_tool(name: str) -> Tool:
    """Return a tool that the provider of the model runs, with its own code and on its own machine.

    No hook and no permission sees its calls, and they have no entries of their own in the log: what was asked
    and found is kept in the ``replay`` of the answer. A model without it ends the turn with an error.

    Args:
        name: ``web_search``, ``web_fetch`` or ``code_execution``.

    Raises:
        ValueError: If there is no such tool.
    """
    if name not in AT_PROVIDER:
        raise ValueError(f"no provider runs {name!r}; the tools of providers are: {', '.join(AT_PROVIDER)}")

    def elsewhere() -> None:
        raise ToolFailed(f"{name} runs at the provider of the model, and nowhere else")

    return Tool(name, AT_PROVIDER[name], elsewhere, at_provider=True)

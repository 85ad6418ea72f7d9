"""What is wrong with the tools of a flow that run at the provider, as far as that is certain beforehand."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from turnchart.flows.parts import Parts, ToolPart
from turnchart.flows.problems import Problem, quoted
from turnchart.flows.tool_checks import Named, permissions_of

_OPENAI: Final = ("code_execution", "web_search")
HAS: Final[Mapping[str, Sequence[str]]] = {
    "ollama": (), "openai": _OPENAI, "openai-chat": (), "openai-responses": _OPENAI,
}  # fmt: skip
"""What the models of a provider have at most; of others it shows when they are asked."""
_DOMAINS: Final = ("allowed_domains", "blocked_domains")
KEEPS: Final[Mapping[str, Sequence[str]]] = {
    "anthropic": (*_DOMAINS, "max_uses"), "google": (),
    "openai": (*_DOMAINS, "external_web_access"), "openai-responses": (*_DOMAINS, "external_web_access"),
    "openrouter": (*_DOMAINS, "max_uses"),
}  # fmt: skip
"""Which of the options that narrow a tool a provider keeps to; of others it shows when they are asked."""
_NARROW: Final = (*_DOMAINS, "max_uses", "external_web_access")
SEARCHING: Final = "-search-preview"
"""In the name of a model of OpenAI: it may search the web also in chat completions."""


def check_provider_tools(parts: Parts, tools: Iterable[Named]) -> Iterator[Problem]:
    """Find tools that the model lacks, or that the permissions refuse."""
    for tool in tools:
        if tool.at_provider:
            yield from _refused(tool.part, parts)
            yield from _lacking(tool.part, parts)
            yield from _not_kept_to(tool.part, parts)


def _refused(part: ToolPart, parts: Parts) -> Iterator[Problem]:
    try:
        offered = permissions_of(parts.file.permissions).offers(part.name)
    except ValueError:
        return  # a rule is malformed, and that is reported
    if not offered:
        message = f"{part.name} is not offered: permissions.default is deny, and no rule allows it by name"
        help = f"add {part.name} to permissions.allow, or leave it out of tools:"
        yield part.at("use").problem("provider-tool", message, help=help, level="warning")


def _lacking(part: ToolPart, parts: Parts) -> Iterator[Problem]:
    spec = parts.file.model
    for id in () if spec is None else (spec.id, *spec.fallback):
        has = _has(id, elsewhere=spec is not None and spec.base_url is not None)
        if has is not None and part.name not in has:
            message = f"the provider of the model {quoted(id)} does not run {part.name}"
            help = (
                f"it has {' and '.join(has)}" if has else "take a model of another provider, or leave it out"
            )
            yield part.at("use").problem("provider-tool", message, help=help)


def _not_kept_to(part: ToolPart, parts: Parts) -> Iterator[Problem]:
    """Find options that a model's provider cannot keep to: its requests would fail."""
    spec = parts.file.model
    given = part.spec.arguments
    narrow = [name for name in _NARROW if not (given.get(name) is None or given.get(name) is True)]
    for id in () if spec is None else (spec.id, *spec.fallback):
        provider = id.partition(":")[0]
        keeps = KEEPS.get(provider, _NARROW)
        for name in (each for each in narrow if each not in keeps):
            message = f"the provider of the model {quoted(id)} cannot keep {part.name} to {name}"
            help = f"delete {name}, or take a model of another provider"
            yield part.at("with", name).problem("provider-tool", message, help=help)
        if provider == "anthropic" and all(given.get(name) for name in _DOMAINS):
            message = f"the provider of the model {quoted(id)} takes only one of: {', '.join(_DOMAINS)}"
            yield part.at("with", _DOMAINS[1]).problem("provider-tool", message, help="delete one of the two")


def _has(id: str, *, elsewhere: bool) -> Sequence[str] | None:
    """Return which tools the provider of a model runs; None where that is not certain."""
    provider, _, name = id.partition(":")
    kind = "openai-chat" if provider == "openai" and elsewhere else provider
    return None if SEARCHING in name else HAS.get(kind)

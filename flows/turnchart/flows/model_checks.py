"""What is likely wrong with the models of a flow, and what they need on this machine. Nothing is imported."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final

from turnchart.flows.parts import Parts
from turnchart.flows.problems import Problem, meant, quoted, sentence
from turnchart.flows.source import AnyNode

PROVIDERS: Final = (
    "alibaba", "anthropic", "azure", "azure-responses", "bedrock", "cerebras", "cohere", "deepseek",
    "fireworks", "github", "google", "google-cloud", "groq", "heroku", "huggingface", "litellm", "mistral",
    "moonshotai", "nebius", "ollama", "openai", "openai-chat", "openai-responses", "openrouter", "ovhcloud",
    "sambanova", "together", "vercel", "xai",
)  # fmt: skip
"""What may stand before the colon of a model. The caller of a flow may bring others."""
_ASKING: Final = ("model_judge", "model_after_tools")
"""Hooks with a parameter ``model``."""
_ALIKE: Final = 0.8
"""So near to a provider is a name that was misspelt; others may be those of the caller."""


def check_models(parts: Parts) -> Iterator[Problem]:
    """Find providers that are misspelt, and libraries that are not installed here."""
    named = list(_named(parts))
    for id, node in named:
        provider = id.partition(":")[0]
        help = _misspelt(provider) if ":" in id else ""
        if help:
            message = f"no provider is called {quoted(provider)}"
            yield node.problem("model-provider", message, help=help, level="warning")
    first = next((node for id, node in named if id.partition(":")[0] in PROVIDERS), None)
    if first is not None and find_spec("pydantic_ai") is None:
        yield _extra(first, "models of providers need the library pydantic-ai-slim", "providers")
    if parts.file.mcp and (find_spec("mcp") is None or find_spec("jsonschema") is None):
        yield _extra(parts.at("mcp"), "MCP servers need the libraries mcp and jsonschema", "mcp")


def _named(parts: Parts) -> Iterator[tuple[str, AnyNode]]:
    """Yield the models that the file names, with their places."""
    spec = parts.file.model
    if spec is not None:
        yield spec.id, parts.at("model", "id")
        yield from ((id, parts.at("model", "fallback", i)) for i, id in enumerate(spec.fallback))
    if parts.file.compaction is not None and parts.file.compaction.model is not None:
        yield parts.file.compaction.model, parts.at("compaction", "model")
    for part in parts.chain():
        model = part.spec.arguments.get("model") if part.spec.use in _ASKING else None
        if isinstance(model, str) and not part.spec.disabled:
            yield model, part.at("with", "model")


def _misspelt(provider: str) -> str:
    """Return the cure where a name is nearly that of a provider, else nothing."""
    if provider in PROVIDERS or provider in ("script", "test"):
        return ""
    from difflib import get_close_matches  # only a name that is not known pays for it

    plain = provider.lower().replace("_", "-")
    near = get_close_matches(plain, PROVIDERS, n=1, cutoff=_ALIKE)
    return sentence(meant(plain, near), "A model that you give in Python may be called so") if near else ""


def _extra(node: AnyNode, needs: str, extra: str) -> Problem:
    message = f"{needs}, which is not installed here"
    return node.problem("extra", message, help=f"pip install 'turnchart[{extra}]'", level="warning")

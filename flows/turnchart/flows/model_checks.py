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
_SAME: Final = {"openai-chat": "openai", "openai-responses": "openai", "azure-responses": "azure"}
"""What the table of context windows calls a provider."""
_ALIKE: Final = 0.8
"""So near to a provider is a name that was misspelt; others may be those of the caller."""


UNMEASURED: Final = frozenset(("alibaba", "github", "heroku", "nebius", "ollama", "sambanova", "vercel"))
"""Providers of which nothing says how much their models read at once."""


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
        yield _extra(first, "models of providers", ["pydantic-ai-slim"], "providers")
    missing = [name for name in ("mcp", "jsonschema") if find_spec(name) is None] if parts.file.mcp else []
    if missing:
        yield _extra(parts.at("mcp"), "MCP servers", missing, "mcp")
    provider = _measured(parts)[0]
    if provider in UNMEASURED:
        yield _window_unknown(parts)


def lint_models(parts: Parts) -> Iterator[Problem]:
    """Look up which models there are, and how much the model reads at once; a table has to be loaded."""
    if find_spec("genai_prices") is not None:
        yield from _lint_ids(parts)
        yield from _lint_window(parts)


def _lint_ids(parts: Parts) -> Iterator[Problem]:
    from genai_prices.data_snapshot import get_snapshot

    spec = parts.file.model
    elsewhere = spec.id.partition(":")[0] if spec is not None and spec.base_url is not None else ""
    for id, node in _named(parts):
        provider, _, name = id.partition(":")
        if provider not in PROVIDERS or provider in UNMEASURED or provider == elsewhere:
            continue
        try:
            known = get_snapshot().find_provider(None, _SAME.get(provider, provider), None)
        except LookupError:
            continue  # of this provider the table has nothing
        if known.find_model(name) is None:
            help = sentence(
                meant(name, [model.id for model in known.models]),
                "The table may be older than the model",
            )
            message = f"no model {quoted(name)} of {provider} is known here"
            yield node.problem("model-unknown", message, help=help, level="note")


def _lint_window(parts: Parts) -> Iterator[Problem]:
    provider, name, url = _measured(parts)
    if provider not in PROVIDERS or provider in UNMEASURED:
        return
    from genai_prices.data_snapshot import get_snapshot

    for of_provider, of_url in ((None, url), (_SAME.get(provider, provider), None)):
        try:
            _, found = get_snapshot().find_provider_model(name, None, of_provider, of_url)
        except LookupError:
            continue
        if found.context_window is not None:
            return
    yield _window_unknown(parts)


def _measured(parts: Parts) -> tuple[str, str, str | None]:
    """Return provider, name and address of the model where its window matters and is not given."""
    spec, rules = parts.file.model, parts.file.compaction
    if spec is None or rules is None or rules.strategy == "none" or spec.context_window is not None:
        return "", "", None
    provider, _, name = spec.id.partition(":")
    return provider, name, spec.base_url


def _window_unknown(parts: Parts) -> Problem:
    written = parts.file.compaction is not None and "trigger" in parts.file.compaction.model_fields_set
    node = parts.at("compaction", "trigger") if written else parts.at("compaction")
    model = quoted(parts.file.model.id if parts.file.model is not None else "")
    message = f"how many tokens the model {model} reads at once is not known here"
    help = (
        "write model.context_window; without it the conversation is made shorter only when a request does not"
        " fit"
    )
    return node.problem("window-unknown", message, help=help, level="note")


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


def _extra(node: AnyNode, who: str, missing: list[str], extra: str) -> Problem:
    library, are = ("library", "is") if len(missing) == 1 else ("libraries", "are")
    message = f"{who} need the {library} {' and '.join(missing)}, which {are} not installed here"
    return node.problem("extra", message, help=f"pip install 'turnchart[{extra}]'", level="warning")

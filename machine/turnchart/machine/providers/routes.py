"""Where a model is reached, with which key, and the clients that agents of one event loop share.

Nothing of ``pydantic_ai`` is imported before a model is used.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from turnchart.machine.errors import UnknownModel

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.providers import Provider

EXTRA: Final = "pip install 'turnchart[providers]'"
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "openai-chat": ("OPENAI_API_KEY",), "openai-responses": ("OPENAI_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}  # fmt: skip
_KEYLESS: Final = ("ollama",)
OLLAMA: Final = "http://localhost:11434/v1"


class NoKey(Exception):
    """A provider needs a key, and there is none."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where a model is reached.

    Attributes:
        base_url: Instead of the provider's own address.
        api_key: Never shown and never logged; None reads it from the environment.
        api_key_env: The variable that holds the key; None: the usual one of the provider.
    """

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    api_key_env: str | None = None

    def key(self, provider: str, env: Mapping[str, str] = os.environ) -> str | None:
        """Return the key for a provider; None where there is none and none may be needed.

        Raises:
            NoKey: If one is needed.
        """
        if self.api_key is not None:
            return self.api_key
        usual = _KEYS.get(provider, (f"{provider.upper().replace('-', '_')}_API_KEY",))
        names = (self.api_key_env,) if self.api_key_env else usual
        found = next((env[name] for name in names if env.get(name)), None)
        if found is None and self.api_key_env:
            raise NoKey(f"the environment variable {self.api_key_env}, which holds the key, is not set")
        if found is None and provider in ("openai", "openai-chat", "openai-responses", "anthropic", "google"):
            if self.base_url is None:
                raise NoKey(f"{provider} needs a key: set the environment variable {' or '.join(names)}")
        return found

    @property
    def password(self) -> str:
        """The password in the address; empty for none."""
        return urlsplit(self.base_url or "").password or ""


def require(id: str) -> None:
    """Do nothing where the extra is installed.

    Raises:
        UnknownModel: If it is not; the message says how to get it.
    """
    if find_spec("pydantic_ai") is None:
        raise UnknownModel(f"model {id!r} needs the extra 'providers': {EXTRA}")


def connected(id: str, route: Route) -> "Model":
    """Return the model of ``pydantic_ai`` with this id.

    Raises:
        UnknownModel: If there is no such provider, or a package for it is missing.
        NoKey: If it needs a key and there is none.
    """
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import infer_model

    provider, _, name = id.partition(":")
    chat = provider == "openai" and route.base_url is not None  # what servers that are not OpenAI's speak
    kind = "openai-chat" if chat else provider
    key = route.key(provider)
    try:
        return infer_model(f"{kind}:{name}", lambda kind: _provider(kind, route.base_url, key))
    except ImportError as error:
        raise UnknownModel(f"model {id!r} needs a package that is not installed: {error}") from error
    except UserError as error:
        if "API_KEY" in error.message or "api_key" in error.message:
            raise NoKey(error.message) from error
        raise UnknownModel(f"no model {id!r}: {error.message}") from error


def _provider(kind: str, base_url: str | None, key: str | None) -> "Provider[Any]":
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.providers import infer_provider_class

    if kind == "openai-chat" and base_url is not None:
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        name = urlsplit(base_url).netloc.rpartition("@")[2] or kind
        return OpenAICompatibleProvider(name, base_url=base_url, api_key=key)
    try:
        made = infer_provider_class(kind)
    except ValueError:
        raise UserError(
            f"there is no provider {kind!r}; usual ones are openai, anthropic, google, ollama, openrouter"
        ) from None
    if kind == "ollama":
        base_url = base_url or os.environ.get("OLLAMA_BASE_URL") or OLLAMA
    given = {"base_url": base_url, "api_key": key}
    takes = signature(made).parameters
    refused = [name for name, value in given.items() if value is not None and name not in takes]
    if refused:
        raise UserError(f"the provider {kind} takes no {' and no '.join(refused)}")
    return made(**{name: value for name, value in given.items() if value is not None})

"""Where a model is reached, with which key, and the clients that agents of one event loop share.

Nothing of ``pydantic_ai`` is imported before a model is used.
"""

import os
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from turnchart.machine.addresses import Login, login_of, readable, without_login
from turnchart.machine.errors import UnknownModel, text_of
from turnchart.machine.records import record

if TYPE_CHECKING:
    from typing import Self

    from httpx2 import AsyncClient
    from pydantic_ai.models import Model
    from pydantic_ai.providers import Provider

EXTRA: Final = "pip install 'turnchart[providers]'"
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "openai-chat": ("OPENAI_API_KEY",), "openai-responses": ("OPENAI_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}  # fmt: skip
_NEED: Final = ("openai", "openai-chat", "openai-responses", "anthropic", "google")
_OWN_CLIENT: Final = (*_NEED, "ollama")
"""Whose connections are ours: those of other providers belong to ``pydantic_ai``."""
_ALSO: Final = ("openai-chat", "openai-responses", "azure-responses")
"""Providers that have no module of their own."""
_USUAL: Final = "usual ones are openai, anthropic, google, ollama, openrouter"
NO_KEY: Final = "no-key"
"""What a client that insists on a key gets: it would look into the environment otherwise."""
_SURROUNDINGS: Final = (
    "look at the proxies and certificates that the environment names (HTTPS_PROXY, SSL_CERT_FILE)"
)
CONNECTING: Final = 20.0
"""Seconds that connecting may take: a server that is there answers at once, however long it thinks then."""
OLLAMA: Final = "http://localhost:11434/v1"


class NoKey(Exception):
    """A provider needs a key, and there is none."""


class NoClient(Exception):
    """What a client is told by the route or by the environment cannot be."""


@record
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
        """Return the key for a provider; None where there is none and none is needed.

        To an address that is not the provider's own goes only a key that was named for it.

        Raises:
            NoKey: If one is needed.
        """
        if self.api_key is not None:
            return self.api_key
        if self.api_key_env is not None:
            if not env.get(self.api_key_env):
                raise NoKey(f"the environment variable {self.api_key_env}, which holds the key, is not set")
            return env[self.api_key_env]
        if self.base_url is not None:
            return None
        names = _KEYS.get(provider, (f"{provider.upper().replace('-', '_')}_API_KEY",))
        found = next((env[name] for name in names if env.get(name)), None)
        if found is None and provider in _NEED:
            raise NoKey(f"{provider} needs a key: set the environment variable {' or '.join(names)}")
        return found

    def secrets(self, provider: str) -> tuple[str, ...]:
        """Return what no message may show: the key, and the password in the address."""
        login = login_of(self.base_url or "")
        return (self.key(provider) or "", *(login.secrets if login is not None else ()))


def require(id: str) -> None:
    """Do nothing where the extra is installed and has such a provider; nothing is imported.

    Raises:
        UnknownModel: If it is not; the message says how to get it.
    """
    provider, _, name = id.partition(":")
    if not (provider and name):
        raise UnknownModel(f"no model {id!r}: a model is written provider:name")
    spec = find_spec("pydantic_ai")
    if spec is None:
        raise UnknownModel(f"model {id!r} needs the extra 'providers': {EXTRA}")
    module = f"{provider.replace('-', '_')}.py"
    folders = [Path(place) / "providers" for place in spec.submodule_search_locations or ()]
    if provider not in _ALSO and not any((folder / module).is_file() for folder in folders):
        raise UnknownModel(f"no model {id!r}: there is no provider {provider!r}; {_USUAL}")


@dataclass(slots=True, eq=False)
class Connection:
    """A model of ``pydantic_ai`` with its connections, for as long as somebody holds it.

    Attributes:
        model: What is asked.
        client: Its connections, where they are ours to close.
        chat: It speaks OpenAI's chat completions.
        split: Its client takes a time limit for connecting, and another one for each byte; it was told never
            to retry.
        holders: How many agents and streams use it.
    """

    model: "Model"
    client: "AsyncClient | None" = None
    chat: bool = False
    split: bool = False
    holders: int = 0

    async def __aenter__(self) -> "Self":
        self.holders += 1
        await self.model.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.holders -= 1
        await self.model.__aexit__(None, None, None)
        if self.client is not None and not self.holders:
            await self.client.aclose()

    def timeout(self, idle: float) -> Any:
        """Return the limits of a request: ``idle`` seconds without a byte, others to connect."""
        if not self.split:
            return idle
        from httpx2 import Timeout

        return Timeout(idle, connect=CONNECTING)

    @property
    def usable(self) -> bool:
        """It was not closed."""
        return self.client is None or not self.client.is_closed


OPENED: Final[ContextVar[list[Any] | None]] = ContextVar("turnchart.opened", default=None)
"""Takes the HTTP responses that are opened; whoever stops reading closes them, whatever a client does."""


async def _note(response: Any) -> None:
    opened = OPENED.get()
    if opened is not None:
        opened.append(response)


def connected(id: str, route: Route) -> Connection:
    """Return the model with this id; nothing is sent yet.

    Raises:
        UnknownModel: If there is no such provider, or a package for it is missing.
        NoKey: If it needs a key and there is none.
        NoClient: If the address, or a proxy or certificate of the environment, makes no sense.
    """
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import infer_model

    provider, _, name = id.partition(":")
    chat = provider == "openai" and route.base_url is not None  # what servers that are not OpenAI's speak
    kind = "openai-chat" if chat else provider
    key = route.key(provider)
    url, client = route.base_url, None
    if kind == "ollama":
        url = url or os.environ.get("OLLAMA_BASE_URL") or OLLAMA
    elsewhere = url is not None
    if not readable(url or ""):
        raise NoClient(f"the address for {id!r} cannot be read; user and password in it are percent-encoded")
    try:
        if kind in _OWN_CLIENT:
            client = _client(login_of(url or ""))
            url = without_login(url) if url is not None else None
        model = infer_model(f"{kind}:{name}", lambda kind: _provider(kind, url, key, client))
        split = client is not None and kind != "google"
        if split:
            _settle(model, elsewhere=elsewhere)
        speaks_chat = any(each.__name__ == "OpenAIChatModel" for each in type(model).__mro__)
        return Connection(model, client, speaks_chat, split)
    except ImportError as error:
        raise UnknownModel(f"model {id!r} needs a package that is not installed: {error}") from error
    except UserError as error:
        if "API_KEY" in error.message or "api_key" in error.message:
            raise NoKey(error.message) from error
        raise UnknownModel(f"no model {id!r}: {error.message}") from error
    except OSError as error:
        raise NoClient(f"the client of {id!r} cannot be made: {text_of(error)}; {_SURROUNDINGS}") from error
    except Exception as error:
        unmade = _unmade(id, error)
        if unmade is None:
            raise
        raise unmade from None


def window_of(id: str) -> int | None:
    """Return the context window of a model that cannot be asked, in tokens; None where nobody knows it."""
    try:
        return connected(id, Route(api_key=NO_KEY)).model.context_window
    except (NoKey, NoClient, UnknownModel):
        return None


def _unmade(id: str, error: Exception) -> NoClient | NoKey | None:
    """Return why there is no client, without words that may hold a password; None where it is a bug."""
    if isinstance(error, ValueError) or type(error).__name__ == "InvalidURL":
        return NoClient(f"the client of {id!r} cannot be made ({type(error).__name__}); {_SURROUNDINGS}")
    if type(error).__module__.startswith("google.auth"):
        return NoKey(f"{id!r} needs credentials: {error}")
    return None


def _settle(model: "Model", *, elsewhere: bool) -> None:
    """Tell a client of OpenAI or Anthropic once what holds for all requests: it does not retry.

    A client that is told so by each request is copied for it, and reads the environment anew. What that says
    for the provider's own address may be secret, and goes nowhere else.
    """
    provider = model.provider
    assert provider is not None
    client: Any = provider.client
    client.max_retries = 0
    if elsewhere:
        client._custom_headers = {}  # there is no other way to it
        client.organization = client.project = None


def _client(login: Login | None) -> "AsyncClient":
    from pydantic_ai.models import create_async_httpx2_client

    client = create_async_httpx2_client()
    client.event_hooks["response"].append(_note)
    if login is not None:
        client.auth = (login.user, login.password)
    return client


def _provider(
    kind: str, base_url: str | None, key: str | None, client: "AsyncClient | None"
) -> "Provider[Any]":
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.providers import infer_provider_class

    if kind == "openai-chat" and base_url is not None:
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        name = urlsplit(base_url).netloc or kind
        return OpenAICompatibleProvider(name, base_url=base_url, api_key=key or NO_KEY, http_client=client)
    try:
        made = infer_provider_class(kind)
    except ValueError:
        raise UserError(f"there is no provider {kind!r}; {_USUAL}") from None
    if base_url is not None and key is None:
        key = NO_KEY
    given = {"base_url": base_url, "api_key": key, "http_client": client}
    takes = signature(made).parameters
    refused = [name for name, value in given.items() if value is not None and name not in takes]
    if refused:
        raise UserError(f"the provider {kind} takes no {' and no '.join(refused)}")
    return made(**{name: value for name, value in given.items() if value is not None})

import pytest
from google.auth.exceptions import DefaultCredentialsError
from tests.machine.providers.asking import ask
from tests.machine.providers.loopback import Loopback, Wire

from turnchart.machine import UnknownModel
from turnchart.machine.providers import ProviderModel
from turnchart.machine.providers.routes import NO_KEY, Connection, NoClient, NoKey, Route, connected, require

HERE = "http://127.0.0.1:1/v1"


@pytest.mark.parametrize(
    ("provider", "env", "key"),
    [
        ("openai", {"OPENAI_API_KEY": "o"}, "o"),
        ("openai-chat", {"OPENAI_API_KEY": "o"}, "o"),
        ("anthropic", {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"}, "a"),
        ("google", {"GEMINI_API_KEY": "g"}, "g"),
        ("google", {"GOOGLE_API_KEY": "g", "GEMINI_API_KEY": "h"}, "g"),
        ("ollama", {}, None),
        ("deep-seek", {"DEEP_SEEK_API_KEY": "d"}, "d"),
    ],
)
def test_a_provider_has_its_usual_variable(provider: str, env: dict[str, str], key: str | None) -> None:
    assert Route().key(provider, env) == key


def test_a_missing_key_is_named() -> None:
    with pytest.raises(NoKey, match=r"google needs a key: .* GOOGLE_API_KEY or GEMINI_API_KEY"):
        Route().key("google", {"GOOGLE_API_KEY": ""})
    with pytest.raises(NoKey, match="MY_KEY, which holds the key, is not set"):
        Route(api_key_env="MY_KEY").key("openai", {"OPENAI_API_KEY": "o"})


def test_a_key_goes_to_another_address_only_where_it_was_named() -> None:
    env = {"OPENAI_API_KEY": "o", "MY_KEY": "m"}
    assert Route(HERE).key("openai", env) is None
    assert Route(HERE, api_key_env="MY_KEY").key("openai", env) == "m"
    assert Route(HERE, api_key="given").key("openai", env) == "given"


@pytest.mark.parametrize("id", ["openai:m", "openai-responses:m", "anthropic:m", "google:m", "ollama:m"])
def test_no_client_finds_a_key_by_itself(id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "OLLAMA_API_KEY"):
        monkeypatch.setenv(name, "from-the-environment")
    provider = connected(id, Route(HERE)).model.provider
    assert provider is not None
    client = provider.client
    found = getattr(client, "api_key", None) or client._api_client.api_key
    assert found == NO_KEY


@pytest.mark.parametrize("id", ["openai:m", "openai-responses:m", "anthropic:m", "ollama:m"])
async def test_what_the_environment_says_for_the_provider_goes_to_no_other_address(
    id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {
        "OPENAI_CUSTOM_HEADERS": "X-Gate: pass-word", "ANTHROPIC_CUSTOM_HEADERS": "X-Gate: pass-word",
        "OPENAI_ORG_ID": "our-own", "OPENAI_PROJECT_ID": "our-own", "ANTHROPIC_AUTH_TOKEN": "pass-word",
    }  # fmt: skip
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    with Loopback(Wire([b"no"], 400)) as server:
        answer = await ask(ProviderModel(id, base_url=server.url))
    assert answer.failure is not None
    headers = server.heard[0].headers
    assert not {"our-own", "pass-word", "Bearer pass-word"} & set(headers.values())
    if id == "openai-responses:m":
        provider = connected(id, Route(api_key="k")).model.provider
        assert provider is not None
        assert provider.client.organization == "our-own"  # there it is wanted


@pytest.mark.parametrize("id", ["openai:m", "anthropic:m", "google:m"])
async def test_what_no_client_can_be_made_of_is_a_failure_that_says_so(
    id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for address in ("http://[bad/v1", "http://ann:pass/word@host/v1", "http://ann:pass?word@host/v1"):
        with pytest.raises(
            NoClient, match=r"the address for '.*:m' cannot be read; .* percent-encoded"
        ) as found:
            connected(id, Route(address))
        assert "pass" not in str(found.value).replace("password", "")
        answer = await ask(ProviderModel(id, base_url=address))
        assert answer.failure is not None
        assert answer.failure.kind == "invalid_request"
    answer = await ask(ProviderModel(id, base_url="localhost:8080"))
    assert answer.failure is not None
    assert answer.failure.kind == "invalid_request"
    assert "protocol" in answer.failure.message
    for proxy in ("gopher://ann:pass-word@host", "http://ann:pass-word/1@host"):
        monkeypatch.setenv("HTTP_PROXY", proxy)
        answer = await ask(ProviderModel(id, base_url=HERE))
        assert answer.failure is not None
        assert answer.failure.kind == "invalid_request"
        assert "pass-word" not in answer.failure.message
        assert "HTTPS_PROXY" in answer.failure.message


def test_credentials_that_google_does_not_find_are_a_missing_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object, **__: object) -> None:
        raise DefaultCredentialsError("set up ADC")  # type: ignore[no-untyped-call]  # their package

    monkeypatch.setattr("google.auth.default", nothing)
    with pytest.raises(NoKey, match=r"'google-cloud:.*' needs credentials: set up ADC"):
        connected("google-cloud:gemini-2.5-pro", Route())


def kind(made: Connection) -> tuple[str, str]:
    return type(made.model).__name__, made.model.base_url or ""


def test_which_interface_an_id_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OLLAMA_BASE_URL", raising=False)
    key = Route(api_key="k")
    assert kind(connected("openai:gpt-5", key)) == ("OpenAIResponsesModel", "https://api.openai.com/v1/")
    assert kind(connected("openai:gpt-5", Route(HERE))) == ("OpenAIChatModel", f"{HERE}/")
    assert kind(connected("openai-responses:m", Route(HERE))) == ("OpenAIResponsesModel", f"{HERE}/")
    assert kind(connected("anthropic:claude-sonnet-5", key))[0] == "AnthropicModel"
    assert kind(connected("google:gemini-2.5-flash", key))[0] == "GoogleModel"
    assert kind(connected("ollama:qwen3", Route())) == ("OllamaModel", "http://localhost:11434/v1/")


def test_an_unknown_provider_is_named() -> None:
    with pytest.raises(UnknownModel, match="no model 'opnai:gpt': there is no provider 'opnai'"):
        connected("opnai:gpt", Route())


def test_a_package_that_is_missing_is_named() -> None:
    with pytest.raises(UnknownModel, match=r"needs a package that is not installed: .*groq"):
        connected("groq:llama", Route(api_key="k"))


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for id in ("openai:m", "openai-responses:m", "google-cloud:m", "azure-responses:m", "moonshotai:m"):
        require(id)
    monkeypatch.setattr("turnchart.machine.providers.routes.find_spec", lambda _: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]  # a stand-in
    with pytest.raises(UnknownModel, match=r"'openai:m' needs the extra 'providers': pip install"):
        require("openai:m")


def test_nothing_shows_the_key() -> None:
    assert "secret" not in repr(Route(api_key="secret-key"))
    route = Route("https://user:p%40w@host/v1", api_key="key")
    assert route.secrets("openai") == ("key", "p@w", "p%40w", "dXNlcjpwQHc=")

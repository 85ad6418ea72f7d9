import subprocess
import sys
from pathlib import Path

import pytest

from turnchart.flows import load_flow
from turnchart.flows.models import Models
from turnchart.flows.problems import FlowError
from turnchart.machine import ScriptedModel, UnknownModel
from turnchart.machine.providers import ProviderModel
from turnchart.machine.providers.routes import Route


def test_test_answers_ok_for_ever(tmp_path: Path) -> None:
    assert isinstance(Models(tmp_path)("test"), ScriptedModel)


def test_a_script_is_made_once_and_goes_on_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("- Hi\n")
    models = Models(tmp_path)
    assert models("script:s.yaml") is models("script:s.yaml")
    assert Models(tmp_path)("script:s.yaml") is not models("script:s.yaml")
    assert getattr(models("script:s.yaml"), "id", "") == "script:s.yaml"


def test_the_file_of_a_script_may_be_known(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "s.yaml").write_text("- Hi\n")
    assert Models(tmp_path, None, {"script:s.yaml": tmp_path / "deep" / "s.yaml"})("script:s.yaml")
    with pytest.raises(FlowError):
        Models(tmp_path)("script:s.yaml")


def test_what_the_caller_knows_comes_first(tmp_path: Path) -> None:
    own = ScriptedModel(id="a:b")
    assert Models(tmp_path, {"a:b": own})("a:b") is own
    assert Models(tmp_path, lambda id: own)("test") is own
    with pytest.raises(UnknownModel, match="write test, script:FILE or provider:name"):
        Models(tmp_path, {"a:b": own})("nobody")


def test_a_model_of_a_provider_is_made_once_and_reached_as_the_flow_says(tmp_path: Path) -> None:
    models = Models(tmp_path, routes={"openai": {"base_url": "http://127.0.0.1:1/v1", "api_key_env": "KEY"}})
    found = models("openai:gpt-x")
    assert isinstance(found, ProviderModel)
    assert models("openai:gpt-x") is found
    assert (found.route.base_url, found.route.api_key_env) == ("http://127.0.0.1:1/v1", "KEY")
    other = models("anthropic:claude-x")
    assert isinstance(other, ProviderModel)
    assert other.route.base_url is None, "the address belongs to the provider of the flow's model"


def test_a_flow_says_how_its_provider_is_reached(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(
        "version: 1\nmodel: {id: 'openai:m', base_url: 'http://127.0.0.1:1/v1', api_key_env: MY_KEY}\n"
    )
    flow = load_flow(path, env={"MY_KEY": "x"}, trust=True)
    for agent in (flow.agent(), flow.agent(model="openai:n")):
        assert isinstance(agent.model, ProviderModel)
        assert agent.model.route.api_key_env == "MY_KEY"
    models = flow.agent(model="anthropic:n").models
    assert callable(models)
    assert getattr(models("anthropic:c"), "route", None) == Route(), "a fallback at another provider"


def test_without_the_extra_the_error_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnchart.machine.providers.routes.find_spec", lambda _: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]  # a stand-in
    with pytest.raises(UnknownModel, match=r"pip install 'turnchart\[providers\]'"):
        Models(tmp_path)("openai:gpt-x")


def test_check_and_a_flow_that_runs_offline_load_no_provider(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text("version: 1\nmodel: 'openai:gpt-x'\n")
    code = (
        "import sys; from turnchart.flows import check_flow, load_flow\n"
        f"print(check_flow({str(tmp_path / 'f.yaml')!r})); load_flow({str(tmp_path / 'f.yaml')!r}).agent()\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('pydantic_ai', 'openai', 'httpx2')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["[]", "[]", ""]

import os
from pathlib import Path

import pytest

from turnchart.flows.cli.checking import say_problems
from turnchart.flows.cli.lean import without_pydantic_plugins


def test_what_is_wrong_is_printed_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flow.yaml").write_text("version: 1\nmodel: test\nprompt: [Answer, in British English]\n")
    assert say_problems(["demo", "flow.yaml"]) == 0
    assert capsys.readouterr().out.endswith("demo, flow.yaml: 1 warning\n")
    assert say_problems(["demo", "flow.yaml"], strict=True) == 1


def test_the_environment_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYDANTIC_DISABLE_PLUGINS", raising=False)
    say_problems(["demo"], "json")
    assert "PYDANTIC_DISABLE_PLUGINS" not in os.environ
    monkeypatch.setenv("PYDANTIC_DISABLE_PLUGINS", "one")
    with without_pydantic_plugins():
        assert os.environ["PYDANTIC_DISABLE_PLUGINS"] == "__all__"
    assert os.environ["PYDANTIC_DISABLE_PLUGINS"] == "one"

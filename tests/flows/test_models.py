from pathlib import Path

import pytest

from turnchart.flows.models import Models
from turnchart.flows.problems import FlowError
from turnchart.machine import ScriptedModel, UnknownModel


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
    with pytest.raises(UnknownModel, match="providers are not supported by this version"):
        Models(tmp_path, {"a:b": own})("c:d")

import json
from pathlib import Path

import pytest

from turnchart.flows.agreements import agree, agreed, agreements_file
from turnchart.machine.errors import TurnchartError


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where answers are kept."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "project").mkdir()
    return tmp_path / "state" / "turnchart" / "trust.json"


def test_an_answer_is_found_again_for_its_file_only(state: Path, tmp_path: Path) -> None:
    root = tmp_path / "project"
    agree(root / "a.yaml", root, ["x", "y"])
    assert agreed(root / "a.yaml", root) == {"x", "y"}
    assert agreed(root / "b.yaml", root) == frozenset()
    agree(root / "b.yaml", root, ["z"])
    agree(root / "a.yaml", root, ["y"])
    assert agreed(root / "a.yaml", root) == {"y"}
    assert agreed(root / "b.yaml", root) == {"z"}
    assert state.stat().st_mode & 0o077 == 0
    assert [path.name for path in state.parent.iterdir()] == ["trust.json"]


@pytest.mark.parametrize("text", ["", "[", "[]", '{"a": 1}', "\xff", "[" * 100_000])
def test_what_cannot_be_read_was_not_agreed_to(state: Path, tmp_path: Path, text: str) -> None:
    state.parent.mkdir(parents=True)
    state.write_text(text, "latin-1")
    root = tmp_path / "project"
    assert agreed(root / "a", root) == frozenset()
    agree(root / "a", root, ["x"])
    assert agreed(root / "a", root) == {"x"}


def test_an_answer_inside_of_the_project_counts_for_nothing(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agree(tmp_path / "a.yaml", tmp_path / "project", ["x"])
    with pytest.raises(TurnchartError, match="outside of"):
        agree(tmp_path / "a.yaml", tmp_path, ["x"])
    assert state.is_file()
    assert agreed(tmp_path / "a.yaml", tmp_path) == frozenset()


def test_the_same_file_by_another_way(state: Path, tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "a.yaml").touch()
    (root / "link.yaml").symlink_to(root / "a.yaml")
    agree(root / "link.yaml", root, ["x"])
    assert list(json.loads(state.read_text("utf-8"))) == [str((root / "a.yaml").resolve())]


def test_a_relative_state_folder_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert agreements_file() == tmp_path / ".local" / "state" / "turnchart" / "trust.json"


def test_where_it_cannot_be_written_it_says_so(state: Path, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way", "utf-8")
    root = tmp_path / "project"
    with pytest.raises(TurnchartError, match=r"cannot be kept in .*trust\.json"):
        agree(root / "a.yaml", root, ["x"])
    assert agreed(root / "a.yaml", root) == frozenset()

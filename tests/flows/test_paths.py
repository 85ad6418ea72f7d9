import os
from pathlib import Path

import pytest

from turnchart.flows.paths import beside, outside, place_of
from turnchart.flows.source import Scalar, Source, read_text


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".git").mkdir(parents=True)
    (tmp_path / "project" / "flows" / "deep").mkdir(parents=True)
    return tmp_path / "project"


def test_the_root_is_the_nearest_folder_with_a_mark(project: Path) -> None:
    assert place_of(project / "flows" / "deep" / "a.yaml").root == project
    (project / "flows" / "pyproject.toml").touch()
    assert place_of(project / "flows" / "deep" / "a.yaml").root == project / "flows"


def test_without_a_mark_it_is_the_folder_of_the_flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lone").mkdir()
    monkeypatch.chdir(tmp_path)
    assert place_of(Path("lone/a.yaml")).root == tmp_path / "lone"


def test_paths_are_relative_to_the_file_that_wrote_them() -> None:
    source = Source("flows/a.yaml", Path("/p/flows/a.yaml"), ())
    assert beside(source, "../prompts/x.md") == (Path("/p/flows/../prompts/x.md"), "prompts/x.md")


def test_nothing_leads_out_of_the_project(project: Path) -> None:
    os.symlink("/etc", project / "link")
    root = read_text("a: x", "a.yaml", project / "a.yaml").root
    assert root is not None
    node = Scalar(root.source, 1, 4, 1, "x")
    wrong = {
        text: outside(node, text, project / text, project)
        for text in ("flows/a.md", "../x.md", "link/passwd", "/etc/passwd", str(project / "x"), "nul\0")
    }
    assert {text: problem.code for text, problem in wrong.items() if problem} == {
        "../x.md": "path-outside", "link/passwd": "path-outside", "/etc/passwd": "path-outside",
        "nul\0": "bad-value",
    }  # fmt: skip

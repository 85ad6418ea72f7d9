"""A file as it was in an earlier revision of its git repository."""

import subprocess
from pathlib import Path

import pytest

from turnchart.flows.cli.revisions import RevisionError, at_revision, is_revision


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a file in a folder, changed since the only commit."""

    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "--quiet")
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows/a.yaml").write_text("old")
    (tmp_path / "parent.yaml").write_text("parent")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    git("tag", "v1")
    (tmp_path / "flows/a.yaml").write_text("new")
    return tmp_path


def test_the_file_and_its_neighbours_are_as_they_were(repository: Path) -> None:
    with at_revision(repository / "flows/a.yaml", "v1") as old:
        assert old.read_text() == "old"
        assert (old.parent / "../parent.yaml").read_text() == "parent"
    assert not old.exists()
    assert (repository / "flows/a.yaml").read_text() == "new"


def test_a_file_that_was_not_there_is_named(repository: Path) -> None:
    (repository / "b.yaml").write_text("new")
    with (
        pytest.raises(RevisionError, match=r"b\.yaml is not in revision HEAD"),
        at_revision(repository / "b.yaml", "HEAD"),
    ):
        pass


def test_only_commits_are_revisions(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = repository / "flows/a.yaml"
    assert is_revision("v1", file)
    assert is_revision("HEAD", file)
    assert not is_revision("v2", file)
    assert not is_revision("--all", file)
    outside = tmp_path_factory.mktemp("plain") / "a.yaml"
    assert not is_revision("HEAD", outside)


def test_what_git_says_is_passed_on(tmp_path: Path) -> None:
    with pytest.raises(RevisionError, match="not a git repository"), at_revision(tmp_path / "a", "HEAD"):
        pass


def test_without_git_nothing_is_a_revision(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert not is_revision("v1", repository / "flows/a.yaml")
    with pytest.raises(RevisionError, match="git is not installed"), at_revision(repository / "x", "v1"):
        pass

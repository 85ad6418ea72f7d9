"""What the tests of flows share: writing files, and looking at what is wrong with them."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.flows.check import examine
from turnchart.flows.problems import Problem

Write = Callable[..., Path]
Found = Callable[..., list[tuple[str, int, int]]]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a file into a project of its own, which is the current folder; ``flow.yaml`` unless named."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)

    def write(text: str, name: str = "flow.yaml") -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return file

    return write


@pytest.fixture
def problems(write: Write) -> Callable[..., list[Problem]]:
    """Return the problems of a flow, given without its first line ``version: 1``."""

    def problems(text: str, **env: str) -> list[Problem]:
        write("version: 1\n" + textwrap.dedent(text).lstrip("\n"))
        return examine("flow.yaml", env=env).problems

    return problems


@pytest.fixture
def found(problems: Callable[..., list[Problem]]) -> Found:
    """Return code, line and column of the problems of a flow."""

    def found(text: str, **env: str) -> list[tuple[str, int, int]]:
        return [(each.code, each.line, each.column) for each in problems(text, **env)]

    return found

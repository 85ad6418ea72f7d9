"""One file a mistake, and beside it what is printed; with TURNCHART_UPDATE_GOLDEN=1 the texts are renewed."""

import os
import shutil
from pathlib import Path

import pytest

from turnchart.flows.check import check_flow
from turnchart.flows.problems import CODES, Problem, render_all
from turnchart.hooks.builtin import BUILTIN
from turnchart.hooks.registry import HOOKS
from turnchart.hooks.stores import STORES

GOLDEN = Path(__file__).parent / "golden"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.yaml"))
ENV = {"LLM_BASE_URLS": "x", "STEPS": "5", "WORDS": "many"}
UPDATE = "TURNCHART_UPDATE_GOLDEN" in os.environ

NOT_GOLDEN = {
    "file-size": "tests/flows/test_source.py",
    "extra": "tests/flows/test_output.py",
    "param-missing": "tests/flows/test_params.py",
    "plugin": "tests/flows/test_plugins.py",
    "plugin-not-trusted": "tests/flows/test_plugins.py",
    "not-trusted": "tests/flows/test_trust.py",
    "mcp-connect": "tests/flows/test_connecting.py",
    "no-cancel": "tests/machine/test_lint.py",
    "state-unreachable": "tests/machine/test_lint.py",
    "state-stuck": "tests/machine/test_lint.py",
    "row-guard": "tests/machine/test_lint.py",
    "row-shadowed": "tests/machine/test_lint.py",
    "row-partial": "tests/machine/test_lint.py",
}
"""Codes without a golden file, and where they are tested."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy, which is a project of its own."""
    folder = tmp_path_factory.mktemp("project") / "golden"
    shutil.copytree(GOLDEN, folder)
    return folder


def check(name: str, folder: Path) -> list[Problem]:
    builtin = {known: spec for known in BUILTIN if (spec := HOOKS.get(known))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HOOKS, "_specs", builtin)  # without what other tests have registered
        patch.setattr(STORES, "_specs", {})
        patch.chdir(folder)
        return check_flow(f"{name}.yaml", env=ENV, lint=name.startswith("lint-"))


@pytest.mark.parametrize("name", NAMES)
def test_a_mistake_is_told_as_written_down(name: str, folder: Path) -> None:
    told = render_all(check(name, folder)) + "\n"
    file = GOLDEN / f"{name}.txt"
    if UPDATE:
        file.write_text(told, encoding="utf-8")
    assert told == file.read_text(encoding="utf-8")


def test_every_code_has_a_golden_file(folder: Path) -> None:
    shown = {problem.code for name in NAMES for problem in check(name, folder)}
    assert shown <= CODES.keys()
    assert CODES.keys() - shown == NOT_GOLDEN.keys()


def test_no_text_is_left_over() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.txt")) == NAMES


def test_ten_mistakes_are_told_at_once(folder: Path) -> None:
    found = [(p.code, p.line, p.column) for p in check("ten-mistakes", folder)]
    assert found == [
        ("bad-value", 4, 7),
        ("env-missing", 5, 13),
        ("unknown-tool", 9, 5),
        ("unknown-hook", 12, 12),
        ("gate-on-error", 16, 7),
        ("hook-event", 18, 12),
        ("unknown-key", 20, 3),
        ("bad-value", 23, 13),
        ("unknown-key", 24, 3),
        ("yaml-duplicate-key", 25, 1),
    ]

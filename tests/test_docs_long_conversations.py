"""What docs/how-to/long-conversations.md says holds: its flow says the defaults, and its code runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from turnchart.flows import check_flow, load_flow
from turnchart.flows.schema import CompactionRules
from turnchart.machine.config import Compaction
from turnchart.machine.cutting import HEAD_CHARS, MOST_CHARS, TAIL_CHARS

pytestmark = pytest.mark.checkout

PAGE = (Path(__file__).parents[1] / "docs" / "how-to" / "long-conversations.md").read_text("utf-8")


def block(language: str) -> str:
    """The one block of the page in a language."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def test_the_flow_says_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "reviewer.yaml"
    file.write_text(block("yaml"), "utf-8")
    assert check_flow(file) == []
    rules = load_flow(file).file.compaction
    assert rules is not None
    assert rules.model_copy(update={"model": None}) == CompactionRules()
    assert Compaction(**CompactionRules().model_dump()) == Compaction()


def test_the_code_runs() -> None:
    ran = subprocess.run([sys.executable, "-c", block("python")], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_numbers_are_those_of_the_program() -> None:
    for number in (MOST_CHARS, HEAD_CHARS, TAIL_CHARS):
        assert f"{number:,}" in PAGE

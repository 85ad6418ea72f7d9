"""docs/reference/problems.md is what the catalogue says; TURNCHART_UPDATE_GOLDEN=1 writes it anew."""

import os
import re
from pathlib import Path

import pytest

from turnchart.flows.problem_page import Example, problem_page
from turnchart.flows.problems import CODES, OF_LINT, OF_THIS_MACHINE

GOLDEN = Path(__file__).parent / "golden"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "problems.md"
LONGEST = 40


def examples() -> dict[str, Example]:
    """The shortest golden file that has one problem only, by code; pages show text that can be read."""
    found: dict[str, Example] = {}
    for path in sorted(GOLDEN.glob("*.yaml"), key=lambda path: (path.stat().st_size, path.name)):
        said = path.with_suffix(".txt").read_text("utf-8")
        codes = re.findall(r"^\S.*: (?:error|warning|note): .* \[([\w-]+)\]$", said, re.MULTILINE)
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        if len(codes) == 1 and text.replace("\n", "").isprintable() and text.count("\n") < LONGEST:
            found.setdefault(codes[0], Example(text, said))
    return found


@pytest.mark.checkout
def test_the_page_is_what_the_catalogue_says() -> None:
    page = problem_page(examples())
    if "TURNCHART_UPDATE_GOLDEN" in os.environ:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(page, "utf-8")
    assert PAGE.read_text("utf-8") == page


def test_every_code_has_one_anchor() -> None:
    page = problem_page({})
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == list(CODES)
    assert re.findall(r"\]\(#([\w-]+)\)", page) == list(CODES)


def test_most_codes_have_an_example() -> None:
    assert len(examples()) >= 40


def test_an_example_may_hold_a_fence() -> None:
    page = problem_page({"version": Example("a: |\n  ```\n", "said\n")})
    assert "````yaml\na: |\n  ```\n````\n" in page


def test_codes_of_this_machine_are_codes() -> None:
    assert OF_THIS_MACHINE <= CODES.keys()
    assert problem_page({}).count("True of this machine only.") == len(OF_THIS_MACHINE)
    assert OF_LINT <= CODES.keys()
    assert problem_page({}).count("Said by `turnchart check --lint` only") == len(OF_LINT)

"""The reference is what the program says of itself; ``make reference`` writes it anew."""

import os
import re

import pytest
from tests.docs.markdown import sentence, table
from tests.docs.reference import FOLDER, PAGES
from tests.docs.source import sections_of

pytestmark = pytest.mark.checkout


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_program_says(name: str) -> None:
    made, path = PAGES[name](), FOLDER / name
    if "TURNCHART_UPDATE_GOLDEN" in os.environ:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made, "utf-8")
    assert path.read_text("utf-8") == made, f"docs/reference/{name} is stale: make reference writes it anew"


def test_every_anchor_of_an_index_is_a_heading() -> None:
    for name, make in PAGES.items():
        made = make()
        headings = {
            re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
            for line in made.splitlines()
            if line.startswith("#")
        }
        anchors = {part.partition(")")[0] for part in made.split("](#")[1:]}
        assert anchors <= headings, name


def test_a_cell_cannot_break_its_table() -> None:
    assert table(("a",), [("x | y\nz",)]) == "| a |\n| --- |\n| x \\| y z |"
    assert sentence(" it is so") == "It is so."


def test_a_docstring_is_split_into_its_text_and_its_lists() -> None:
    lists = "Args:\n    a: One,\n        and more.\n    b: Two.\n\nRaises:\n    OSError: If not."
    doc = f"What it does.\n\nMore.\n\n{lists}"
    assert sections_of(doc) == (
        "What it does.\n\nMore.",
        {"Args": {"a": "One, and more.", "b": "Two."}, "Raises": {"OSError": "If not."}},
    )

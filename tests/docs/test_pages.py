"""What pages say that are written by hand and have their facts elsewhere."""

import re
from pathlib import Path

import pytest

from turnchart.diagrams import state_diagram

pytestmark = pytest.mark.checkout

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_picture_of_the_first_page_is_what_the_program_draws() -> None:
    page = DOCS.joinpath("index.md").read_text("utf-8")
    assert re.findall(r"^```mermaid\n(.*?)^```$", page, re.MULTILINE | re.DOTALL) == [state_diagram()]


def test_the_example_of_the_first_page_has_thirty_lines() -> None:
    [code] = re.findall(
        r"^```python\n(.*?)^```$", DOCS.joinpath("index.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert len([line for line in code.splitlines() if line.strip()]) <= 30


def test_the_first_page_leads_to_every_page() -> None:
    links = set(re.findall(r"\]\(([^)#]+\.md)", DOCS.joinpath("index.md").read_text("utf-8")))
    assert {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} - links == {"index.md"}


@pytest.mark.parametrize(
    "page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.relative_to(DOCS).as_posix()
)
def test_every_page_has_one_title(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert text.startswith("# "), "the navigation shows the first heading"

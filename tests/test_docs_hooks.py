"""The page of the built-in hooks says of each what its code says, and every example is right."""

import inspect
import re
import textwrap
from pathlib import Path

import pytest

from turnchart.flows.check import check_flow
from turnchart.hooks import HOOKS
from turnchart.hooks.builtin import BUILTIN
from turnchart.hooks.claude_code import EVENTS
from turnchart.hooks.registry import HookSpec, Parameter
from turnchart.machine.points import POINTS

pytestmark = pytest.mark.checkout

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "hooks.md"
AROUND = """\
version: 1
model: {id: test, fallback: [openai:gpt-5.2]}
tools: [shell, read_file, write_file, edit_file, search_files]
"""


def section(name: str) -> str:
    """Return what the page says of a hook, before its example."""
    spec = HOOKS.get(name)
    assert spec is not None
    return f"## {name}\n\n{_points(spec)} {_parameters(spec)}\n\n{_doc(spec)}\n"


def _points(spec: HookSpec) -> str:
    everywhere = len(spec.points) == len(POINTS)
    return f"Stands on {'every point' if everywhere else ', '.join(f'`{point}`' for point in spec.points)}."


def _parameters(spec: HookSpec) -> str:
    return f"Parameters: {', '.join(_parameter(each) for each in spec.parameters)}."


def _parameter(each: Parameter) -> str:
    default = getattr(each.default, "default", each.default)
    if default is ...:
        return f"`{each.name}` (required)"
    shown = {None: "none", (): "[]", "": "empty", False: "false", True: "true"}.get(default, default)
    return f"`{each.name}` ({shown})"


def _doc(spec: HookSpec) -> str:
    return inspect.cleandoc(spec.doc)


def test_every_hook_is_described_as_in_its_code() -> None:
    page = PAGE.read_text("utf-8")
    assert re.findall(r"^## (\w+)$", page, re.MULTILINE)[-len(BUILTIN) :] == list(BUILTIN)
    missing = [name for name in BUILTIN if section(name) not in page]
    assert not missing


@pytest.mark.parametrize("name", BUILTIN)
def test_every_example_is_right(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, rest = PAGE.read_text("utf-8").partition(section(name))
    found = re.match(r"\n```yaml\n(.*?)^```$", rest, re.MULTILINE | re.DOTALL)
    assert found, "an example follows"
    assert f"use: {name}\n" in found[1]
    monkeypatch.chdir(tmp_path)
    Path("flow.yaml").write_text(AROUND + found[1])
    assert check_flow("flow.yaml") == []


def test_the_other_blocks_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = PAGE.read_text("utf-8").partition(f"## {BUILTIN[0]}\n")[0]
    monkeypatch.chdir(tmp_path)
    Path("hooks").mkdir()
    Path("hooks", "check.py").write_text("")
    shown = re.findall(r"^```yaml\n(.*?)^```$", head, re.MULTILINE | re.DOTALL)
    assert len(shown) == 3
    for text in shown:
        Path("flow.yaml").write_text(AROUND + textwrap.dedent(text))
        assert [each.code for each in check_flow("flow.yaml") if each.code != "program"] == []


def test_the_events_of_the_dialect_are_listed() -> None:
    page = PAGE.read_text("utf-8")
    assert all(f"| `{point}` | {event} |" in page for point, event in EVENTS.items())

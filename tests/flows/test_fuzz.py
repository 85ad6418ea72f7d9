"""Whatever stands in a file, only problems come out: never another exception, and nothing is run."""

import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from turnchart.flows import schema
from turnchart.flows.chains import chains
from turnchart.flows.check import check_flow, examine
from turnchart.flows.problems import CODES, render_all
from turnchart.flows.resolved import resolved
from turnchart.flows.script import script_of
from turnchart.flows.source import read_text
from turnchart.flows.trust import reaches_of
from turnchart.hooks.builtin import BUILTIN
from turnchart.hooks.registry import HOOKS
from turnchart.machine.points import POINTS
from turnchart.machine.toolbox import TOOLBOX

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.yaml"))
TEXTS = [path.read_text(encoding="utf-8", errors="replace") for path in GOLDEN]
FUZZ = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

KEYS = st.sampled_from(sorted({
    *schema.TOP_KEYS, *POINTS, *schema.known_keys(schema.HookEntry), *schema.known_keys(schema.ToolEntry),
    *schema.known_keys(schema.ModelSpec), *schema.known_keys(schema.ModelSettings), "file", "text", "deny",
    "allow", "patterns", "steering", "max_steps", "base_delay", "x-y", "zzz",
}))  # fmt: skip
WORDS = st.sampled_from([
    "shell", "read_file", "notify", "deny_commands", "audit_log", "inherit", "replace", "test", "a:b", "",
    "script:x.yaml", "${env:A}", "${A}", "$${", "5s", "*", "[", "shell(ls *)", "..", "/etc/passwd", "warn",
    "rm (", "true", "\x00",
])  # fmt: skip
PIECES = ("", "\t", ":", "- ", "[", "}", "'", '"', "&a ", "*a", "!x ", "|", "\n", "? ", "${", "#", "<<:")
LEAVES = WORDS | st.integers(-3, 10**6) | st.floats() | st.booleans() | st.none() | st.text(max_size=8)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)
SPECS = [spec for name in BUILTIN if (spec := HOOKS.get(name))]
PARAMETERS = st.sampled_from(sorted({parameter.name for spec in SPECS for parameter in spec.parameters}))
GIVEN = {"with": st.dictionaries(PARAMETERS, TREES, max_size=3) | TREES, "tools": st.lists(WORDS, max_size=2)}
USES = st.fixed_dictionaries(
    {"use": st.sampled_from(BUILTIN)}, optional={**GIVEN, "id": WORDS, "on_error": WORDS}
)
RUNS = st.fixed_dictionaries(
    {"run": st.lists(WORDS, max_size=3)},
    optional={"env": st.dictionaries(WORDS, LEAVES, max_size=2), "env_from": st.lists(WORDS), "cwd": WORDS},
)
ENTRIES = st.lists(USES | RUNS | st.dictionaries(KEYS, TREES, max_size=4) | WORDS, max_size=4)
CHAINS = st.dictionaries(st.sampled_from(sorted(POINTS)), ENTRIES, max_size=4)
TOOLS = st.lists(
    st.fixed_dictionaries({"use": st.sampled_from(sorted(TOOLBOX))}, optional=GIVEN) | TREES, max_size=3
)
SECTIONS = {key: TREES for key in schema.TOP_KEYS if key != "version"}
FLOWS = st.fixed_dictionaries(
    {"version": st.just(1)}, optional={**SECTIONS, "hooks": CHAINS | TREES, "tools": TOOLS | TREES}
)


@pytest.fixture
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """Let every way to start a program fail the test."""
    import os
    import subprocess

    def refuse(*_args: Any, **_named: Any) -> None:
        raise AssertionError("a file has run something")

    for owner, name in ((os, "system"), (subprocess, "Popen"), (os, "posix_spawn")):
        monkeypatch.setattr(owner, name, refuse)


def judge(folder: Path, text: str) -> None:
    file = folder / "a.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    problems = check_flow(file, env={"A": "1"})
    for problem in problems:
        assert problem.code in CODES
        assert problem.line >= 0
        assert problem.length >= 1
    assert render_all(problems) is not None
    shown(folder)
    script_of(read_text(text, "s.yaml"))


def written(flow: dict[str, Any]) -> str:
    """Return a flow as YAML."""
    text: str = yaml.safe_dump(flow, sort_keys=False, allow_unicode=True)  # pyright: ignore[reportUnknownMemberType]  # the stubs leave it open
    return text


def shown(folder: Path) -> None:
    """Look at a file in every other way in which nothing of it is started."""
    checked = examine(folder / "a.yaml", env=None, unexpanded=True)
    assert list(chains(checked))
    for reach in reaches_of(checked):
        assert reach.problem().code in CODES
    if checked.parts is not None and not checked.problems:
        again = read_text(resolved(checked.parts.root), "again.yaml")
        assert again.problems == ()


@pytest.mark.usefixtures("_quiet")
@FUZZ
@given(text=st.text())
@example(text="\ufeff")
@example(text="a: &x [*x, *x]")
@example(text="? {a: [b]}\n: c")
@example(text="hooks: {pre_tool: [!!python/name:os.system {use: x}]}")
def test_any_text(tmp_path: Path, text: str) -> None:
    judge(tmp_path, text)


@pytest.mark.usefixtures("_quiet")
@FUZZ
@given(flow=FLOWS)
def test_any_tree(tmp_path: Path, flow: dict[str, Any]) -> None:
    judge(tmp_path, written(flow))


@pytest.mark.usefixtures("_quiet")
@settings(FUZZ, max_examples=50)
@given(parent=FLOWS, child=FLOWS)
def test_any_tree_with_a_parent(tmp_path: Path, parent: dict[str, Any], child: dict[str, Any]) -> None:
    (tmp_path / "base.yaml").write_text(written(parent), encoding="utf-8")
    judge(tmp_path, written({**child, "extends": "base.yaml"}))


@pytest.mark.usefixtures("_quiet")
@FUZZ
@given(
    text=st.sampled_from(TEXTS),
    seed=st.integers(0, 2**32),
    piece=st.sampled_from(PIECES),
)
def test_any_change_of_a_real_file(tmp_path: Path, text: str, seed: int, piece: str) -> None:
    rng = random.Random(seed)
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(text))
        text = text[:at] + piece + text[at + rng.randint(0, 6) :]
    judge(tmp_path, text)

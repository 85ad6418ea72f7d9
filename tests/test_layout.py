"""The layers, the purity and the sizes that docs/design.md promises, read from the source itself."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.checkout

ROOT = Path(__file__).resolve().parents[1]
ROOTS = ("machine", "hooks", "flows", "diagrams")
PACKAGES = {"machine", "hooks", "diagrams", "flows", "testing"}

# What a package may import of ours. Imports only point down.
MAY_IMPORT = {
    "machine": {"machine"},
    "hooks": {"hooks", "machine"},
    "diagrams": {"diagrams", "machine"},
    "flows": PACKAGES,
    "testing": PACKAGES,
}

# The pure part of turnchart.machine: it awaits nothing, knows no clock, logs nothing, reads no file.
PURE = (
    "says", "chart", "table", "points", "chain", "entries", "inbox", "states", "messages", "verify",
    "rebuild",
)  # fmt: skip
IMPURE = {"anyio", "asyncio", "time", "datetime", "logging", "random", "os", "pathlib"}

LONGEST_FILE = 500
LONGEST_FUNCTION = 60


def modules() -> dict[str, Path]:
    """Every module of ours, by its dotted name."""
    found: dict[str, Path] = {}
    for root in ROOTS:
        for path in sorted((ROOT / root / "turnchart").rglob("*.py")):
            parts = path.relative_to(ROOT / root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()
SOURCES = sorted(
    {*MODULES.values(), *(ROOT / "tests").rglob("*.py"), *(ROOT / "flows" / "scripts").rglob("*.py")}
)


def local(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def listed(problems: list[str]) -> str:
    return "\n".join(["", *problems])


def imports(name: str, path: Path) -> Iterator[tuple[int, str]]:
    """Every module that this one names in an import, wherever the import stands: (line, dotted name).

    ``from x import y`` names ``x`` and ``x.y``, since ``y`` may be a module. Calls of ``import_module``
    with a literal count as well.
    """
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                above = package.split(".")[: len(package.split(".")) - level + 1] if level else []
                base = ".".join([*above, *([module] if module else [])])
                yield node.lineno, base
                yield from ((node.lineno, f"{base}.{alias.name}") for alias in names)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(target)), *_],
            ):
                yield node.lineno, f"{package}{target}" if target.startswith(".") else target
            case _:
                pass


def test_turnchart_is_a_namespace() -> None:
    assert [root for root in ROOTS if (ROOT / root / "turnchart" / "__init__.py").exists()] == []


def test_every_package_stands_in_its_own_root() -> None:
    places = {(local(path).split("/")[0], name.split(".")[1]) for name, path in MODULES.items()}
    assert places == {(root, root) for root in ROOTS} | {("flows", "testing")}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_only_point_down(package: str) -> None:
    wrong = [
        f"{local(path)}:{line}: {target}"
        for name, path in MODULES.items()
        if name.split(".")[1] == package
        for line, target in imports(name, path)
        if target.split(".")[0] == "turnchart" and len(target.split(".")) > 1
        if target.split(".")[1] not in MAY_IMPORT[package]
    ]
    assert not wrong, listed(wrong)


@pytest.mark.parametrize("module", PURE)
def test_the_pure_part_of_the_machine_is_pure(module: str) -> None:
    prefix = f"turnchart.machine.{module}"
    files = {name: path for name, path in MODULES.items() if name == prefix or name.startswith(f"{prefix}.")}
    assert files, f"{prefix} does not exist"
    wrong = sorted(
        {
            f"{local(path)}:{line}: {target.split('.')[0]}"
            for name, path in files.items()
            for line, target in imports(name, path)
            if target.split(".")[0] in IMPURE
        }
    )
    assert not wrong, listed(wrong)


def test_every_module_has_its_test_file() -> None:
    missing: list[str] = []
    for name, path in MODULES.items():
        parts = name.split(".")[1:]
        if path.name == "__init__.py" or any(part.startswith("_") for part in parts):
            continue
        test = ROOT / "tests" / Path(*parts[:-1]) / f"test_{parts[-1]}.py"
        if not test.exists():
            missing.append(f"{local(test)} for {local(path)}")
    assert not missing, listed(missing)


def test_no_file_is_too_long() -> None:
    lengths = {local(path): len(path.read_text("utf-8").splitlines()) for path in SOURCES}
    wrong = [f"{name}: {length} lines" for name, length in lengths.items() if length > LONGEST_FILE]
    assert not wrong, listed(wrong)


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return how long a function is without its docstring."""
    first = function.body[0]
    doc = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    told = (first.end_lineno or first.lineno) - first.lineno + 1 if doc else 0
    return (function.end_lineno or function.lineno) - function.lineno + 1 - told


def test_no_function_is_too_long() -> None:
    lengths = {
        f"{local(path)}:{node.lineno} {node.name}": code_lines(node)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    wrong = [f"{name}: {length} lines" for name, length in lengths.items() if length > LONGEST_FUNCTION]
    assert not wrong, listed(wrong)


def test_every_note_of_work_left_names_its_owner() -> None:
    # At the start of a line or of a comment; an owner stands in parentheses behind the word.
    note = re.compile(r"(?:^\W*|(?:#|//|--|%%)\s*)(?:TODO|FIXME)\b(?!\(\w)")
    run = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [ROOT / name for name in run.stdout.split("\0") if name]
    wrong = [
        f"{local(path)}:{number}"
        for path in paths
        if path.is_file()
        for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1)
        if note.search(line)
    ]
    assert not wrong, listed(wrong)


@pytest.mark.parametrize(
    "statement",
    [
        "import turnchart.machine.points",
        "import turnchart.machine.tools",
        "import turnchart.machine; turnchart.machine.tool",
    ],
)
def test_the_chart_is_loaded_only_when_it_is_needed(statement: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", f"{statement}\nimport sys\nprint('statemachine' in sys.modules)"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.stdout, run.stderr) == ("False\n", "")

"""What is installed is what is in the checkout."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.checkout

ROOT = Path(__file__).resolve().parents[1]
ROOTS = ("machine", "hooks", "flows", "diagrams")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def tracked(*patterns: str) -> list[str]:
    """The files in git's index that match one of the glob patterns."""
    run = subprocess.run(
        ["git", "ls-files", "-z", "--", *(f":(glob){pattern}" for pattern in patterns)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(name for name in run.stdout.split("\0") if name)


def test_the_wheel_carries_every_flow_and_script() -> None:
    shipped = tracked("flows/*.yaml", "flows/scripts/*")
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included == {name: name.replace("flows/", "turnchart/flows/shipped/", 1) for name in shipped}


def test_every_source_root_is_named_wherever_roots_are_named() -> None:
    tools = PROJECT["tool"]
    namespaces = [f"{root}/turnchart" for root in ROOTS]
    assert sorted(tools["hatch"]["build"]["dev-mode-dirs"]) == sorted(ROOTS)
    assert sorted(tools["hatch"]["build"]["targets"]["wheel"]["packages"]) == sorted(namespaces)
    assert sorted(tools["pytest"]["ini_options"]["pythonpath"]) == sorted(ROOTS)
    assert sorted(tools["mypy"]["mypy_path"]) == sorted(ROOTS)
    assert sorted(tools["pyright"]["extraPaths"]) == sorted(ROOTS)
    assert sorted(tools["ruff"]["namespace-packages"]) == sorted(namespaces)


def test_every_package_says_that_it_is_typed() -> None:
    packages = [init.parent for root in ROOTS for init in (ROOT / root).glob("turnchart/*/__init__.py")]
    assert [package.name for package in packages if not (package / "py.typed").exists()] == []


@pytest.mark.parametrize("lock", ["requirements.lock", ".ci/mermaid/package-lock.json"])
def test_no_lock_file_says_where_packages_come_from(lock: str) -> None:
    assert "://" not in (ROOT / lock).read_text("utf-8")


def test_every_target_of_make_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z]+)\b", (ROOT / "docs" / "contributing.md").read_text("utf-8")))
    assert {"test", "lint", "matrix"} <= named <= targets


def test_every_python_that_is_named_is_tried_by_the_matrix() -> None:
    known = "Programming Language :: Python :: "
    named = [each.removeprefix(known) for each in PROJECT["project"]["classifiers"] if f"{known}3." in each]
    [tried] = re.findall(r"for each in (python3[^;]*);", (ROOT / ".ci" / "matrix").read_text("utf-8"))
    assert tried.split() == [f"python{version}" for version in named]


def test_every_extra_that_is_named_exists() -> None:
    texts = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *(ROOT / root for root in ROOTS)]
    files = [each for text in texts for each in ([text] if text.is_file() else text.rglob("*.py"))]
    named = {name for file in files for name in re.findall(r"turnchart\[(\w+)\]", file.read_text("utf-8"))}
    assert named == set(PROJECT["project"]["optional-dependencies"])

"""The package as others get it: what is in it, what its types say, and what it needs.

Everything is built out of the source archive, as a release is. What is installed comes from the registry.
`TURNCHART_TRIALS=full` tries every extra and all tests, else the seed picks one extra, and some tests run.
"""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from trove_classifiers import classifiers

from turnchart.machine.version import VERSION

pytestmark = [pytest.mark.slow, pytest.mark.checkout]

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
FULL = os.environ.get("TURNCHART_TRIALS") == "full"
SEED = os.environ.get("TURNCHART_SEED", "0")
CLEAN = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
TOOLS = ("hypothesis", "pytest", "pytest-timeout", "pytest-xdist", "trio")

CONSUMER = '''\
from typing import assert_type

from turnchart.diagrams import state_diagram
from turnchart.flows import Flow, load_flow
from turnchart.hooks import Deny, PreTool, Verdict, hook, run_chain
from turnchart.machine import LIFECYCLE, Agent, Event, Row, ScriptedModel, State, Tool, Turn, tool
from turnchart.testing import FakeClock


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@hook("pre_tool")
def only_positive(call: PreTool) -> Deny | None:
    """Deny what is not positive."""
    return Deny("only positive numbers") if call.args["a"] < 0 else None


async def main() -> None:
    """Use a little of everything."""
    assert_type(add, Tool)
    async with Agent(ScriptedModel(["3"]), tools=[add], clock=FakeClock()) as agent:
        assert_type(agent, Agent)
        assert_type(await agent.prompt("1 + 2"), Turn)
    assert_type(await run_chain("pre_tool", PreTool(tool="add"), [only_positive]), Verdict[PreTool])
    assert_type(LIFECYCLE.transition(State.IDLE, Event.WAKE), Row)
    assert_type(load_flow("demo"), Flow)
    assert_type(state_diagram(), str)


LIFECYCLE.transition(State.IDLE, "wake")  # wrong 1
Agent(ScriptedModel([]), limits=3)  # wrong 2
Agent(ScriptedModel([])).steer()  # wrong 3
row: int = LIFECYCLE.transition(State.IDLE, Event.WAKE).target  # wrong 4
'''
NEEDS = {
    "durable": "from turnchart.machine.postgres_database import driver\ndriver()",
    "mcp": "from turnchart.machine.mcp.transports import need_sdk\nneed_sdk()",
    "otel": "from turnchart.hooks.spans import Maker\nMaker(None, float)",
    "output": "from turnchart.flows import load_flow\nload_flow('output.yaml').agent()",
    "providers": "from turnchart.machine.providers.routes import require\nrequire('openai:gpt-5.2')",
}
"""What needs each extra."""


@dataclass(frozen=True)
class Built:
    """A release: its source archive, and the wheel made from it."""

    sdist: Path
    wheel: Path


def ran(*command: object, cwd: Path = ROOT) -> str:
    """Run a program that has to succeed; return what it wrote."""
    done = subprocess.run(
        [str(each) for each in command], cwd=cwd, env=CLEAN, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    dist, source = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("source")
    ran(sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", dist)
    [sdist] = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(source, filter="data")
    [unpacked] = source.iterdir()
    ran(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", dist, cwd=unpacked)
    [wheel] = dist.glob("*.whl")
    return Built(sdist, wheel)


def made(folder: Path, *packages: object) -> Path:
    """Make a virtual environment with these packages; return its interpreter."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    if packages:
        ran(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-input", *packages)
    return python


@pytest.fixture(scope="module")
def consumer(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has the wheel, and beside it what is installed here."""
    folder = tmp_path_factory.mktemp("consumer")
    python = made(folder / "venv", "--no-deps", built.wheel)
    [site] = (folder / "venv" / "lib").glob("python*/site-packages")
    here = next(Path(entry) for entry in sys.path if entry.endswith("site-packages"))
    (site / "beside.pth").write_text(f"{here}\n", "utf-8")
    where = ran(python, "-c", "import turnchart.machine; print(turnchart.machine.__file__)", cwd=folder)
    assert where.startswith(str(site))
    return python


# -- what is in it -------------------------------------------------------------------------------------------


def files_of_the_checkout() -> set[str]:
    listed = ran("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    return {name for name in listed if name and (ROOT / name).is_file()}


def test_the_source_archive_is_the_checkout(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    added = {"PKG-INFO", "diagrams/turnchart/diagrams/assets/mermaid.min.js"}
    assert names == files_of_the_checkout() | added


def test_the_wheel_holds_the_packages_and_the_flows(built: Built) -> None:
    names = set(zipfile.ZipFile(built.wheel).namelist())
    roots = ("machine", "hooks", "flows", "diagrams")
    packages = {
        name.partition("/")[2]
        for name in files_of_the_checkout()
        if name.split("/")[0] in roots and name.split("/")[1] == "turnchart"
    }
    shipped = {name for name in names if name.startswith("turnchart/flows/shipped/")}
    told = {name for name in names if ".dist-info/" in name}
    assert names - shipped - told == packages | {"turnchart/diagrams/assets/mermaid.min.js"}
    assert {"turnchart/flows/shipped/demo.yaml", "turnchart/flows/shipped/scripts/demo.yaml"} <= shipped
    assert {
        f"turnchart/{each}/py.typed" for each in ("machine", "hooks", "flows", "diagrams", "testing")
    } <= names
    assert "turnchart/__init__.py" not in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in told)


def test_what_the_package_says_of_itself_is_valid(built: Built) -> None:
    archive = zipfile.ZipFile(built.wheel)
    [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    said = Metadata.from_email(archive.read(name), validate=True)
    assert (said.name, str(said.version)) == ("turnchart", VERSION)
    assert set(said.classifiers or ()) <= set(classifiers)
    assert set(said.provides_extra or ()) == set(EXTRAS)


def test_an_index_can_show_the_readme(built: Built) -> None:
    """It renders, nothing of it is lost but links to files, and every link leads somewhere."""
    ran(sys.executable, "-m", "twine", "--no-color", "check", "--strict", built.sdist, built.wheel)
    with tarfile.open(built.sdist) as archive:
        told = archive.extractfile(f"turnchart-{VERSION}/PKG-INFO")
        assert told is not None
        shown = Metadata.from_email(told.read()).description or ""
    readme = (ROOT / "README.md").read_text("utf-8")
    assert [link for link in re.findall(r"\]\(([^)\s]+)\)", shown) if "://" not in link] == []
    assert "mermaid" not in shown
    assert re.findall(r"^#.*", shown, re.MULTILINE) == re.findall(r"^#.*", readme, re.MULTILINE)
    assert shown.rstrip().endswith(readme.rstrip().rpartition("\n")[2])


# -- what its types say --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mypy", "pyright"])
def test_the_types_are_seen_by_who_uses_it(name: str, consumer: Path, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(CONSUMER, "utf-8")
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}', "utf-8")
    checker = {
        "mypy": ("mypy", "--strict", "--python-executable", consumer, "--cache-dir", tmp_path),
        "pyright": ("pyright", "--pythonpath", consumer),
    }[name]
    done = subprocess.run(
        [sys.executable, "-m", *map(str, checker), "app.py"],
        cwd=tmp_path, env=CLEAN | {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    found = {int(line) for line in re.findall(r"app\.py:(\d+)(?::\d+)?(?: -|:) error", done.stdout)}
    wrong = {number for number, line in enumerate(CONSUMER.splitlines(), 1) if "# wrong" in line}
    assert found == wrong, done.stdout + done.stderr


# -- what it needs -------------------------------------------------------------------------------------------


def test_the_packages_alone_run_the_demo_and_import_without_a_warning(built: Built, tmp_path: Path) -> None:
    python = made(tmp_path / "venv", built.wheel)
    everything = "".join(
        f"import turnchart.{name} as it\nfor each in dir(it): getattr(it, each)\n"
        for name in ("machine", "hooks", "flows", "diagrams", "testing")
    )
    assert ran(python, "-W", "error", "-c", everything, cwd=tmp_path) == ""
    assert "haiku" in ran(python.parent / "turnchart", "run", "demo", cwd=tmp_path)
    for extra in EXTRAS:
        needs(extra, tmp_path, python, missing=True)


def oldest(requirements: Iterable[str]) -> list[str]:
    """Return the oldest version that each requirement allows, as another one."""
    found: list[str] = []
    for each in map(Requirement, requirements):
        [least] = [bound.version for bound in each.specifier if bound.operator == ">="]
        extras = f"[{','.join(sorted(each.extras))}]" if each.extras else ""
        found.append(f"{each.name}{extras}=={least}")
    return found


EXTRAS_TRIED = list(EXTRAS) if FULL else [Random(SEED).choice(list(EXTRAS))]


@pytest.mark.parametrize("extra", EXTRAS_TRIED)
def test_an_extra_installs_alone_as_old_as_it_may_be(extra: str, built: Built, tmp_path: Path) -> None:
    wheel = f"turnchart[{extra}] @ {built.wheel.as_uri()}"
    python = made(tmp_path / "venv", wheel, *oldest(EXTRAS[extra]))
    needs(extra, tmp_path, python, missing=False)


def needs(extra: str, folder: Path, python: Path, *, missing: bool) -> None:
    """Do what needs an extra; without it, the error says how it is installed."""
    flow = "version: 1\nmodel: test\noutput: {schema: {type: object}}\n"
    (folder / "output.yaml").write_text(flow, "utf-8")
    done = subprocess.run(
        [python, "-c", NEEDS[extra]], cwd=folder, env=CLEAN, capture_output=True, text=True, check=False
    )
    assert (f"pip install 'turnchart[{extra}]'" in done.stderr) == missing, f"{extra}: {done.stderr}"
    assert "ModuleNotFoundError" not in done.stderr.rpartition("\n\n")[2], done.stderr


def test_the_oldest_allowed_dependencies_do(built: Built, tmp_path: Path) -> None:
    postgres = [each for each in EXTRAS["durable"] if each.startswith("psycopg")]
    beside = [*postgres, *EXTRAS["output"]]  # for tests/machine/conftest.py and test_json_parameters.py there
    python = made(tmp_path / "venv", built.wheel, *oldest([*PROJECT["dependencies"], *beside]), *TOOLS)
    for name in ("tests", "pyproject.toml", "README.md"):
        (tmp_path / name).symlink_to(ROOT / name)
    few = ("machine/test_agent.py", "machine/test_sqlite.py", "flows/test_load.py", "flows/cli/test_check.py")
    many = ("conformance", "diagrams", "machine", "testing")
    which = [f"tests/{each}" for each in (many if FULL else few)]
    extras = ("durable", "mcp", "providers")  # these are tried with the versions of the lock
    ignored = [f"--ignore=tests/machine/{each}" for each in extras]
    options = ("-q", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider", "-o", "pythonpath=")
    ran(python, "-m", "pytest", *options, "-m", "not slow and not checkout", *ignored, *which, cwd=tmp_path)

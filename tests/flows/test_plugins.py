import sys
from pathlib import Path

import pytest

from turnchart.flows.agreements import agree
from turnchart.flows.check import check_flow
from turnchart.flows.load import load_flow
from turnchart.flows.plugins import load_plugins, project_plugins
from turnchart.flows.problems import NotTrusted
from turnchart.flows.trust import plugin_reaches
from turnchart.hooks.registry import HOOKS


def test_tools_are_those_in_the_module(tmp_path: Path) -> None:
    lines = [
        "from turnchart.machine import tool",
        "@tool(name='plus')",
        "def add(a: int) -> int:",
        "    return a",
    ]
    (tmp_path / "plugin_good.py").write_text("\n".join([*lines, "other = 5"]))
    before = list(sys.path)
    tools, problems = load_plugins(["plugin_good"], [tmp_path])
    assert list(tools) == ["plus"]
    assert problems == []
    assert sys.path == before


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import no_such_module\n", "ModuleNotFoundError"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("(", "SyntaxError"),
        ("raise SystemExit(3)\n", "SystemExit"),
        (
            "from turnchart.hooks import hook\n@hook('shout', on='nowhere')\ndef shout(payload): ...\n",
            "ValueError",
        ),
    ],
)
def test_a_plugin_that_cannot_be_imported_is_a_problem(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "plugin_bad.py").write_text(text)
    tools, (problem,) = load_plugins(["plugin_bad"], [tmp_path])
    assert tools == {}
    assert (problem.code, problem.file) == ("plugin", "plugin_bad")
    assert why in problem.message


@pytest.mark.parametrize("name", ["no_such_plugin", "", ".relative", "a/b.py"])
def test_a_plugin_that_is_not_there_is_a_problem(name: str) -> None:
    assert [problem.code for problem in load_plugins([name])[1]] == ["plugin"]


# -- entry points ---------------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for site-packages, with a package that has two entry points."""
    site = tmp_path / "site"
    info = site / "acme-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    points = "[turnchart.plugins]\nacme-hooks = acme_one\nacme-more = acme_two\n"
    (info / "entry_points.txt").write_text(points)
    for name in ("acme_one", "acme_two"):
        lines = ["from turnchart.machine import tool", "@tool", f"def {name}() -> str:", "    return ''"]
        (site / f"{name}.py").write_text("\n".join(lines))
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    return site


@pytest.mark.usefixtures("installed")
def test_an_entry_point_is_loaded_by_its_name_and_no_other_is() -> None:
    tools, problems = load_plugins(["acme-hooks"])
    assert (list(tools), problems) == (["acme_one"], [])
    assert "acme_two" not in sys.modules


@pytest.mark.usefixtures("installed")
def test_entry_points_that_nobody_named_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text("version: 1\ntools: [acme_one]\n")
    assert [problem.code for problem in check_flow(tmp_path / "flow.yaml")] == ["unknown-tool"]
    assert "acme_one" not in sys.modules


def test_the_folder_of_a_project_lends_nothing_to_what_is_installed(installed: Path, tmp_path: Path) -> None:
    (installed / "acme_one.py").write_text("try:\n    import lent_module\nexcept ImportError: pass\n")
    (tmp_path / "lent_module.py").write_text("")
    assert load_plugins(["acme_one"], [tmp_path]) == ({}, [])
    assert "lent_module" not in sys.modules


# -- the plug-ins of a project --------------------------------------------------------------------

PROJECT = '[project]\nname = "x"\n\n[tool.turnchart]\nplugins = ["project_hooks"]  # mine\n'
CODE = """
from pathlib import Path
from turnchart.hooks import PreTool, hook
from turnchart.machine import tool

Path(__file__).with_name("imported").touch()

@tool
def plus(a: int) -> int:
    return a

@hook("project_hook", on="pre_tool")
def project_hook(payload: PreTool) -> None: ...
"""
OWN = "version: 1\nmodel: test\ntools: [plus]\nhooks:\n  pre_tool: [{use: project_hook, tools: [plus]}]\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a plug-in and a flow that uses it; nobody agreed to anything."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "pyproject.toml").write_text(PROJECT)
    (root / "project_hooks.py").write_text(CODE)
    (root / "flow.yaml").write_text(OWN)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(root)
    monkeypatch.delitem(sys.modules, "project_hooks", raising=False)
    HOOKS.names()  # the built-in ones register once only
    monkeypatch.setattr(HOOKS, "_specs", dict(HOOKS._specs))  # pyright: ignore[reportPrivateUsage]  # restored afterwards
    return root


def test_nothing_is_imported_before_somebody_agreed(project: Path) -> None:
    problems = check_flow("flow.yaml")
    assert [(p.code, p.level, p.file, p.line) for p in problems] == [
        ("unknown-tool", "warning", "flow.yaml", 3),
        ("unknown-hook", "warning", "flow.yaml", 5),
        ("plugin-not-trusted", "warning", "pyproject.toml", 5),
    ]
    flow = load_flow("flow.yaml")
    with pytest.raises(NotTrusted, match="imports project_hooks"):
        flow.agent()
    with pytest.raises(NotTrusted, match="imports project_hooks"):
        flow.chain("pre_tool")
    assert flow.overlay().hooks["pre_tool"] == ("project_hook [plus] (flow.yaml:5)",)
    assert not (project / "imported").exists()


def test_what_was_agreed_to_is_imported(project: Path) -> None:
    found = project_plugins(project)
    agree(found.path, project, [reach.digest for reach in plugin_reaches(found)])
    assert check_flow("flow.yaml") == []
    assert [tool.name for tool in load_flow("flow.yaml").tools] == ["plus"]
    assert (project / "imported").exists()


def test_a_change_of_its_code_asks_again(project: Path) -> None:
    found = project_plugins(project)
    agree(found.path, project, [reach.digest for reach in plugin_reaches(found)])
    (project / "project_hooks.py").write_text(f"{CODE}\n# changed")
    assert "plugin-not-trusted" in [problem.code for problem in check_flow("flow.yaml")]
    assert not (project / "imported").exists()


def test_trust_for_once(project: Path) -> None:
    assert check_flow("flow.yaml", trust=True) == []
    assert load_flow("flow.yaml", trust=True).trusted
    assert (project / "imported").exists()


@pytest.mark.usefixtures("project")
def test_a_shipped_flow_needs_no_plug_in_of_the_folder_it_runs_in() -> None:
    assert check_flow("demo") == []
    assert load_flow("demo").trusted


def test_all_modules_of_a_package_count(project: Path) -> None:
    (project / "src" / "pack" / "deep").mkdir(parents=True)
    (project / "src" / "pack" / "deep" / "inner.py").touch()
    found = project_plugins(project)
    assert [path.name for path in found.code("pack.hooks")] == ["inner.py"]
    assert found.code("json") == []


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("[tool.turnchart]\nplugin = ['a']\n", "unknown-key", 2),
        ("[tool.turnchart]\n\nplugins = 'a'\n", "bad-value", 3),
        ("[tool.turnchart]\nplugins = [1]\n", "bad-value", 2),
        ("[tool.turnchart]\nplugins = ['']\n", "bad-value", 2),
        ("[tool.turnchart\n", "plugin", 1),
    ],
)
def test_a_mistake_in_the_table_has_its_place(project: Path, text: str, code: str, line: int) -> None:
    (project / "pyproject.toml").write_text(text)
    found = [(p.code, p.file, p.line) for p in check_flow("flow.yaml") if p.file == "pyproject.toml"]
    assert found == [(code, "pyproject.toml", line)]


@pytest.mark.parametrize("text", ["", "[tool]\nturnchart = 5\n", "[project]\nname = 'turnchart'\n", "\xff"])
def test_a_project_that_says_nothing_names_nothing(project: Path, text: str) -> None:
    (project / "pyproject.toml").write_text(text, "latin-1")
    found = project_plugins(project)
    assert (found.names, found.problems) == ([], [])


@pytest.mark.parametrize(
    "text",
    [
        "[tool.turnchart]\nplugins = ['a']",
        "[ tool . turnchart ]\nplugins = ['a']",
        "[\"tool\".'turnchart']\nplugins = ['a']",
        "tool.turnchart.plugins = ['a']",
        "'tool' . \"turnchart\" = {plugins = ['a']}",
        "[tool]\nturnchart.plugins = ['a']",
        "[ 'tool' ]\nturnchart = {plugins = ['a']}",
        "tool = {turnchart = {plugins = ['a']}}",
    ],
)
def test_the_table_may_be_written_in_every_way_of_toml(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    assert [node.text for node in project_plugins(tmp_path).names] == ["a"]

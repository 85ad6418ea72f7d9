import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]
HEAVY = (
    "statemachine",
    "graphviz",
    "rich",
    "prompt_toolkit",
    "opentelemetry",
    "pygments",
    "pydantic_ai",
    "trio",
    "asyncio",
    "sqlite3",
    "hypothesis",
)
OURS = (
    "turnchart.machine.chart",
    "turnchart.machine.driver",
    "turnchart.machine.agent",
    "turnchart.diagrams",
)

OF_RUNNING = (
    "turnchart.machine.payloads",
    "turnchart.machine.tools",
    "turnchart.machine.verdict",
)


def fresh(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter that finds what this one finds."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "forbidden"),
    [
        (["--help"], (*HEAVY, *OURS, "pydantic", "yaml", "anyio")),
        (["run", "--help"], (*HEAVY, *OURS, "yaml", "anyio")),
        (["check", "demo"], (*HEAVY, *OURS, "typer", *OF_RUNNING)),
        (["check", "demo", "--strict"], (*HEAVY, *OURS, "typer", *OF_RUNNING)),
        (["check", "demo", "--format", "text"], (*HEAVY, *OURS, *OF_RUNNING)),
        (["flows"], (*HEAVY, *OURS)),
        (["show", "demo", "--hooks"], (*HEAVY, *OURS)),
        (["schema"], (*HEAVY, *OURS)),
        (["hook", "list"], (*HEAVY, *OURS)),
    ],
)
def test_a_command_loads_only_what_it_needs(arguments: list[str], forbidden: tuple[str, ...]) -> None:
    code = (
        "import sys\nfrom turnchart.flows.cli import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit as end:\n    assert not end.code\n"
        f"print('loaded:', sorted(set({forbidden!r}) & set(sys.modules)))"
    )
    ended = fresh(code)
    assert (ended.stdout.splitlines()[-1], ended.stderr) == ("loaded: []", "")


def test_help_names_the_commands_that_there_are(cli: Cli) -> None:
    ended = cli("--help")
    assert ended.code == 0
    commands = ended.out.partition("Commands:")[2].splitlines()[1:]
    assert [line.split()[0] for line in commands if line.startswith("  ") and line[2] != " "] == [
        "run", "check", "show", "diagram", "verify", "view", "flows", "schema", "init", "test", "worker",
        "hook", "sessions",
    ]  # fmt: skip


@pytest.mark.parametrize("group", [(), ("hook",), ("sessions",)])
def test_help_says_of_every_command_a_whole_sentence(group: tuple[str, ...], cli: Cli) -> None:
    commands = cli(*group, "--help").out.partition("Commands:")[2].splitlines()[1:]
    assert [line for line in commands if not line.endswith(".")] == []


@pytest.mark.parametrize(
    "arguments",
    [[], ["nothing"], ["check"], ["run"], ["run", "demo", "--approve", "some"], ["run", "demo", "--x"]],
)
def test_wrong_usage(cli: Cli, arguments: list[str]) -> None:
    ended = cli(*arguments)
    assert (ended.code, "Usage: turnchart" in ended.out + ended.err) == (2, True)


def test_an_error_is_one_line_that_no_terminal_obeys(cli: Cli) -> None:
    ended = cli("verify", "no\x1b[2Jbody")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("turnchart: there is no session")
    assert "\x1b" not in ended.err


def test_a_reader_that_goes_away_is_no_crash() -> None:
    code = (
        "import os, sys\nfrom turnchart.flows.cli import main\n"
        "r, w = os.pipe()\nos.close(r)\nos.dup2(w, 1)\nmain(['diagram'])"
    )
    ended = fresh(code)
    assert (ended.returncode, ended.stderr) == (1, "")


def test_the_version_is_said(cli: Cli) -> None:
    assert cli("--version") == (0, f"turnchart {version('turnchart')}\n", "")


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        (("init", "new"), "new.yaml"),
        (("schema", "--write"), "agent.schema.json"),
        (("diagram", "-o", "picture.mmd"), "picture.mmd"),
    ],
)
def test_what_cannot_be_written_is_said_in_one_line(arguments: tuple[str, ...], file: str, cli: Cli) -> None:
    Path(file).symlink_to("nowhere/at/all")  # as in a folder that may not be written
    ended = cli(*arguments)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"turnchart: {file}: ")
    assert ended.err.count("\n") == 1


def started(code: str) -> subprocess.CompletedProcess[str]:
    return fresh(f"import os, sys\nfrom turnchart.flows.cli import main\n{code}")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is always full")
@pytest.mark.parametrize("arguments", [["flows"], ["check", "demo"], ["schema"], ["hook", "list"]])
def test_a_full_disk_is_no_crash(arguments: list[str]) -> None:
    ended = started(f"os.dup2(os.open('/dev/full', os.O_WRONLY), 1)\nmain({arguments!r})")
    assert (ended.returncode, ended.stderr) == (1, "turnchart: No space left on device\n")


def test_streams_that_are_closed_are_no_crash(tmp_path: Path) -> None:
    closed = "sys.stdin = sys.stdout = sys.stderr = None"
    assert started(f"os.chdir({str(tmp_path)!r})\n{closed}\nmain(['run', 'todo', 'Hi'])").returncode == 0


def test_an_interruption_while_a_command_is_loaded_is_no_crash() -> None:
    code = (
        "def interrupt(arguments):\n    raise KeyboardInterrupt\n"
        "sys.modules[main.__module__]._command_line = interrupt\nmain(['flows'])"
    )
    ended = started(code)
    assert (ended.returncode, ended.stderr) == (130, "")


def test_a_lone_command_is_called_by_its_name_and_says_so(cli: Cli) -> None:
    assert cli("check", "--help").out.startswith("Usage: turnchart check [OPTIONS] ")
    assert cli("check", "demo") == (0, "demo: no problems\n", "")
    assert "No such command 'chek'. Did you mean 'check'" in cli("chek").err


@pytest.mark.parametrize("switch", ["--strict", "--here", "--no-env", "--lint"])
def test_switches_of_check_mean_the_same_however_they_are_read(switch: str, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(
        "version: 1\nmodel: {id: a:b, api_key_env: NO_SUCH_KEY}\nlimits: {max_steps: 1}\n"
        "hooks: {pre_tool: [{run: [no-such-program]}]}\n"
    )
    read_here = cli("check", switch, "flow.yaml")
    assert read_here == cli("check", "flow.yaml", switch)
    assert read_here == cli("check", "flow.yaml", switch, "--format", "text"), "typer reads these"
    assert read_here != cli("check", "flow.yaml")


def test_a_run_without_options_loads_nothing_that_parses_them(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text("version: 1\nmodel: script:s.yaml\n")
    (tmp_path / "s.yaml").write_text("[hi]")
    code = (
        f"import os, sys\nos.chdir({str(tmp_path)!r})\nfrom turnchart.flows.cli import main\n"
        "try:\n    main(['run', 'flow.yaml', 'hello'])\nexcept SystemExit as end:\n    assert not end.code\n"
        "print('typer' in sys.modules)"
    )
    assert fresh(code).stdout.splitlines() == ["hi", "False"]


@pytest.mark.parametrize("prompt", [(), ("hello",)])
def test_a_run_without_options_is_a_run(prompt: tuple[str, ...], cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text("version: 1\nmodel: script:s.yaml\n")
    (tmp_path / "s.yaml").write_text("[hi]")
    plain = cli("run", "flow.yaml", *prompt, stdin="hello")
    assert (plain.code, plain.out) == (0, "hi\n")
    parsed = cli("run", "--approve", "none", "flow.yaml", *prompt, stdin="hello")
    assert (plain.code, plain.out) == (parsed.code, parsed.out)
    assert plain.err.partition("session ")[0] == parsed.err.partition("session ")[0] != ""


def test_a_run_without_options_that_has_nothing_to_say_is_wrong_usage(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text("version: 1\nmodel: script:s.yaml\n")
    (tmp_path / "s.yaml").write_text("[hi]")
    ended = cli("run", "flow.yaml")
    assert (ended.code, ended.out) == (2, "")
    assert "Usage: turnchart run" in ended.err
    assert "there is none: give it as an argument, or pipe it in" in ended.err


def test_an_error_of_a_run_without_options_is_said_like_any_other(cli: Cli) -> None:
    ended = cli("run", "no-such-flow", "hello")
    assert (ended.code, ended.out) == (1, "")
    assert ended == cli("run", "no-such-flow", "hello", "--trust")

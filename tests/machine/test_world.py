"""How hooks and tools reach the world: programs, files, models, the clock, the user."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.machine.processes import all_end

from turnchart.machine.clock import SYSTEM_CLOCK
from turnchart.machine.world import AgentWorld, errors_of, passed_environment
from turnchart.testing import FakeClock

SAY = "import sys, os; "


class Told:
    """What a world told the user and asked models."""

    def __init__(self) -> None:
        self.notices: list[str] = []
        self.questions: list[tuple[str, str]] = []

    async def ask(self, model: str, prompt: str) -> str:
        self.questions.append((model, prompt))
        return "yes"


def world(root: Path, told: Told | None = None) -> AgentWorld:
    """Return a world below a folder, on the clock of this machine."""
    told = told or Told()
    return AgentWorld(root, SYSTEM_CLOCK, told.notices.append, told.ask)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", SAY + code]


async def test_a_program_gives_back_exit_code_output_and_errors(tmp_path: Path) -> None:
    done = await world(tmp_path).run(python("print('out'); print('err', file=sys.stderr); sys.exit(3)"))
    assert (done.exit_code, done.output, done.errors) == (3, "out\n", "err\n")


async def test_it_reads_what_it_is_given_and_runs_in_the_root(tmp_path: Path) -> None:
    done = await world(tmp_path).run(python("print(sys.stdin.read() + os.getcwd())"), stdin="Grüße ")
    assert done.output == f"Grüße {tmp_path}\n"


async def test_it_may_start_in_a_folder_below_the_root(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    done = await world(tmp_path).run(python("print(os.getcwd())"), cwd="sub")
    assert done.output == f"{tmp_path / 'sub'}\n"
    with pytest.raises(PermissionError):
        await world(tmp_path).run(python(""), cwd="..")


def test_without_an_inbox_nothing_can_be_injected(tmp_path: Path) -> None:
    put: list[tuple[str, str]] = []
    told = Told()
    here = AgentWorld(
        tmp_path, SYSTEM_CLOCK, told.notices.append, told.ask, lambda text, source: put.append((text, source))
    )
    here.inject("text", "hook x")
    assert put == [("text", "hook x")]
    with pytest.raises(RuntimeError, match="no inbox"):
        world(tmp_path).inject("text", "hook x")


async def test_there_is_no_shell(tmp_path: Path) -> None:
    done = await world(tmp_path).run([*python("print(sys.argv[1])"), "$HOME; ls"])
    assert done.output == "$HOME; ls\n"


async def test_it_sees_a_small_environment_and_what_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("SOME_API_KEY", "secret")
    code = "print(os.environ.get('SOME_API_KEY'), os.environ.get('LC_ALL'), os.environ.get('MORE'))"
    done = await world(tmp_path).run(python(code), env={"MORE": "more"})
    assert done.output == "None C.UTF-8 more\n"
    assert passed_environment().keys() <= {*os.environ} - {"SOME_API_KEY"}
    assert passed_environment()["PATH"] == os.environ["PATH"]


async def test_a_program_that_cannot_be_started_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await world(tmp_path).run(["no-such-program-anywhere"])


async def test_input_that_nobody_reads_is_no_failure(tmp_path: Path) -> None:
    done = await world(tmp_path).run(python("sys.exit(0)"), stdin="x" * 1_000_000)
    assert done.exit_code == 0


async def test_output_that_is_no_utf8_is_shown_all_the_same(tmp_path: Path) -> None:
    done = await world(tmp_path).run(python(r"sys.stdout.buffer.write(b'a\xff')"))
    assert done.output == "a\ufffd"


async def test_of_a_program_that_writes_without_end_the_last_part_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnchart.machine.world.MOST_KEPT", 1000)
    done = await world(tmp_path).run(python("print('a' * 300_000 + 'the end', end='')"))
    assert done.output.endswith("aaa" + "the end")
    assert 1000 <= len(done.output) <= 2000


async def until_its_time_is_over(root: Path, code: str) -> BaseException:
    """Run a program that writes the file ``begun`` beyond its 30 seconds, and return the error."""
    clock, told = FakeClock(autojump=False), Told()
    errors: list[TimeoutError] = []

    async def run() -> None:
        try:
            await AgentWorld(root, clock, told.notices.append, told.ask).run(python(code), timeout=30)
        except TimeoutError as error:
            errors.append(error)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            while not (root / "begun").exists():
                await anyio.lowlevel.checkpoint()
            await clock.advance(30)
    return errors[0]


async def test_a_program_that_takes_too_long_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    wait = "import time; time.sleep(60)"
    start = f"import subprocess; subprocess.Popen([sys.executable, '-c', '{wait}'])"
    await until_its_time_is_over(tmp_path, f"{start}; open('begun', 'w').close(); {wait}")


async def test_a_program_that_writes_without_end_is_ended_too(tmp_path: Path) -> None:
    code = "open('begun', 'w').close()\nwhile True: os.write(1, b'a' * 65_536)"
    assert errors_of(await until_its_time_is_over(tmp_path, code)) == ""


async def test_what_a_program_wrote_to_stderr_before_its_time_was_over_is_told_with_the_error(
    tmp_path: Path,
) -> None:
    code = "print('at ü', file=sys.stderr); open('begun', 'w').close(); import time; time.sleep(60)"
    assert errors_of(await until_its_time_is_over(tmp_path, code)) == "at ü\n"


async def test_a_killed_program_is_not_waited_for_where_one_that_it_started_holds_its_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnchart.machine.world.LAST_WORDS", 0.01)
    start = "import subprocess, time; p = subprocess.Popen(['sleep', '60'], start_new_session=True)"
    code = f"{start}; open('pid', 'w').write(str(p.pid)); open('begun', 'w').close(); time.sleep(60)"
    error = await until_its_time_is_over(tmp_path, code)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert errors_of(error) == ""


async def test_what_a_program_wrote_before_it_was_cut_off_is_told_with_the_cancelling(tmp_path: Path) -> None:
    code = "print('looked', file=sys.stderr); open('begun', 'w').close(); import time; time.sleep(60)"
    wrote: list[str] = []

    async def run() -> None:
        try:
            await world(tmp_path).run(python(code))
        except BaseException as error:
            wrote.append(errors_of(error))
            raise

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            while not (tmp_path / "begun").exists():
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    assert wrote == ["looked\n"]


async def test_a_program_dies_with_the_turn_that_is_cut_off(tmp_path: Path) -> None:
    code = "import time; open('begun', 'w').close(); time.sleep(60)"
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(world(tmp_path).run, python(code))
            while not (tmp_path / "begun").exists():
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()


async def test_a_program_that_is_cut_off_while_it_starts_dies_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late(subprocess.Popen[bytes]):
        """Comes back when the program has begun, as where the machine is busy."""

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            while not (tmp_path / "begun").exists():
                time.sleep(0.001)

    monkeypatch.setattr(subprocess, "Popen", Late)
    start = "import subprocess, time; p = subprocess.Popen(['sleep', '60'])"
    code = f"{start}; open('pid', 'w').write(str(p.pid)); open('begun', 'w').close(); time.sleep(60)"
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(world(tmp_path).run, python(code))
            while not (tmp_path / "begun").exists():
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    assert await all_end([int((tmp_path / "pid").read_text())])


def test_files_are_read_and_appended_below_the_root(tmp_path: Path) -> None:
    here = world(tmp_path)
    here.append("logs/a.txt", "one\n")
    here.append(str(tmp_path / "logs" / "a.txt"), "zwei ü\n")
    assert here.read("logs/a.txt") == "one\nzwei ü\n"
    assert here.root == str(tmp_path)


@pytest.mark.parametrize("path", ["../a.txt", "/etc/hostname", "sub/../../a.txt", "link/a.txt"])
def test_what_leads_out_of_the_root_is_refused(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(tmp_path)
    (tmp_path / "a.txt").write_text("secret")
    here = world(root)
    with pytest.raises(PermissionError, match="out of"):
        here.read(path)
    with pytest.raises(PermissionError, match="out of"):
        here.append(path, "x")
    assert (tmp_path / "a.txt").read_text() == "secret"


def test_a_file_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        world(tmp_path).read("none.txt")


async def test_models_the_user_and_the_clock_are_the_agents_own(tmp_path: Path) -> None:
    told = Told()
    here = AgentWorld(tmp_path, FakeClock(5.0), told.notices.append, told.ask)
    assert await here.ask_model("m", "ok?") == "yes"
    here.notice("hear")
    assert here.now() == 5.0
    assert (told.questions, told.notices) == ([("m", "ok?")], ["hear"])

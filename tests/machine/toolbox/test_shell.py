"""Running commands: output, environment, time limits, and that nothing survives."""

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from tests.machine.processes import all_end

from turnchart.machine.messages import Content
from turnchart.machine.points import ToolOutcome
from turnchart.machine.toolbox import shell as module
from turnchart.machine.toolbox import shell_tool
from turnchart.machine.toolbox.shell import Output, environment, neutral
from turnchart.machine.tools import Tool, ToolContext, run_tool

pytestmark = pytest.mark.anyio


async def run(tool: Tool, command: str, heard: list[Content] | None = None) -> ToolOutcome:
    ctx = ToolContext(report=None if heard is None else heard.append)
    return await run_tool(tool, tool.parse({"command": command}), ctx)


async def text(tool: Tool, command: str) -> str:
    return str((await run(tool, command)).content[0]["text"])


def test_it_is_judged_by_its_command_and_keeps_its_own_time() -> None:
    made = shell_tool(".")
    assert (made.name, made.subject, made.subject_kind) == ("shell", "command", "shell")
    assert (made.effects, made.execution, made.timeout) == (None, "exclusive", None)
    assert list(made.schema["properties"]) == ["command"]


async def test_both_streams_are_one_text_and_the_exit_code_is_told(tmp_path: Path) -> None:
    outcome = await run(shell_tool(tmp_path), "echo out; echo err >&2; echo out; exit 3")
    assert outcome.content[0]["text"] == "out\nerr\nout\n[exit code 3]"
    assert outcome.details == {"exit_code": 3, "timed_out": False, "left_out": 0}
    assert (outcome.is_error, outcome.outcome) == (True, "error")


async def test_success_is_no_error_and_no_output_is_fine(tmp_path: Path) -> None:
    outcome = await run(shell_tool(tmp_path), "true")
    assert (outcome.content[0]["text"], outcome.is_error) == ("[exit code 0]", False)
    assert await text(shell_tool(tmp_path), "printf x") == "x\n[exit code 0]"


async def test_a_signal_is_named(tmp_path: Path) -> None:
    outcome = await run(shell_tool(tmp_path), "kill -9 $$")
    assert outcome.content[0]["text"] == "[ended by signal SIGKILL]"
    assert outcome.details["exit_code"] == -9


async def test_there_is_no_input(tmp_path: Path) -> None:
    assert await text(shell_tool(tmp_path), "cat; echo end") == "end\n[exit code 0]"


async def test_commands_start_in_their_folder(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "here").touch()
    assert await text(shell_tool(tmp_path), "ls") == "sub\n[exit code 0]"
    assert await text(shell_tool(tmp_path, cwd="sub"), "ls") == "here\n[exit code 0]"


@pytest.mark.parametrize("cwd", ["..", "/", "out"])
async def test_the_folder_may_not_be_outside(tmp_path: Path, cwd: str) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "out").symlink_to(tmp_path)
    with pytest.raises(PermissionError):
        shell_tool(tmp_path / "root", cwd=cwd)


async def test_a_folder_that_changed_later_is_checked_again(tmp_path: Path) -> None:
    made = shell_tool(tmp_path, cwd="sub")
    assert await text(made, "pwd") == "there is no folder `sub` to start in"
    (tmp_path / "sub").symlink_to("/")
    assert (await text(made, "pwd")).startswith("PermissionError: `sub` leads out")


async def test_what_cannot_be_started_is_an_error_outcome(tmp_path: Path) -> None:
    assert "null byte" in await text(shell_tool(tmp_path), "echo a\0b")


# -- environment ---------------------------------------------------------------------------------


def test_secrets_are_hidden_unless_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("A_KEY", "B_TOKEN", "C_SECRET", "D_PASSWORD", "e_key", "MODEL_AUTH", "KEYBOARD", "PLAIN"):
        monkeypatch.setenv(name, name.lower())
    seen = environment((), frozenset(("MODEL_AUTH",)))
    assert {"KEYBOARD", "PLAIN", "PATH"} <= seen.keys()
    assert not {"A_KEY", "B_TOKEN", "C_SECRET", "D_PASSWORD", "e_key", "MODEL_AUTH"} & seen.keys()
    asked = environment(
        ("A_KEY", "MODEL_AUTH", {"GH": "B_TOKEN", "NO": "UNSET_"}), frozenset(("MODEL_AUTH",))
    )
    assert {name: asked.get(name) for name in ("A_KEY", "MODEL_AUTH", "GH", "NO", "B_TOKEN")} == {
        "A_KEY": "a_key", "MODEL_AUTH": "model_auth", "GH": "b_token", "NO": None, "B_TOKEN": None,
    }  # fmt: skip


# -- output --------------------------------------------------------------------------------------


async def test_long_output_keeps_head_and_tail(tmp_path: Path) -> None:
    outcome = await run(shell_tool(tmp_path, max_output=20), "echo start; seq 1000 3000; echo end")
    assert outcome.content[0]["text"] == (
        "start\n[... 10,001 characters left out ...]\n3000\nend\n[exit code 0]"
    )
    assert outcome.details["left_out"] == 10_001


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one\ntwo three\nfour\nfive six\nseven\n", "one\ntwo\n[... 21 characters left out ...]\nseven\n"),
        ("one two three four five six seven eight", "one two\n[... 27 characters left out ...]\neight"),
        ("onetwothreefourfivesixseveneight", "onetwothre\n[... 12 characters left out ...]\nseveneight"),
    ],
)
def test_no_line_or_word_is_cut(text: str, shown: str) -> None:
    output = Output(20, lambda _: None)
    output.add(text.encode())
    output.add(b"")
    assert output.text() == shown


@pytest.mark.parametrize("most", [1, 2, 3, 7])
def test_the_cap_is_kept_whatever_the_pieces(most: int) -> None:
    for size in (1, 2, 5):
        output = Output(most, lambda _: None)
        for start in range(0, 10, size):
            output.add(b"0123456789"[start : start + size])
        output.add(b"")
        assert output.left_out == 10 - most
        head, tail = "0123456789"[: most // 2], "0123456789"[most // 2 - most :]
        assert output.text() == f"{head}\n[... {10 - most} characters left out ...]\n{tail}"


def test_characters_that_come_in_pieces_are_whole() -> None:
    output = Output(100, lambda _: None)
    for byte in "äöü€".encode():
        output.add(bytes([byte]))
    output.add(b"\xe2\x82")
    output.add(b"")
    assert output.text() == "äöü€\ufffd"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x\x1b]8;;url\x1b\\y", "xy"),
        ("\x1b[2J\x1b[1;1Ha", "a"),
        ("\x1b]0;open", "\u241b]0;open"),
        ("\x1bc", "\u241bc"),
        ("a\x07\x08\x7f\x00b", "a\u2407\u2408\u2421\u2400b"),
        ("a\x9b31mb", "a\ufffd31mb"),
        ("a\r\nb\rc\td\n", "a\nb\nc\td\n"),
    ],
)
def test_nothing_can_steer_a_terminal(written: str, shown: str) -> None:
    assert neutral(written) == shown


async def test_progress_is_told_up_to_the_cap(tmp_path: Path) -> None:
    heard: list[Content] = []
    await run(shell_tool(tmp_path), "printf '\\033[1mhi'", heard)
    assert heard == ["hi"]
    heard.clear()
    await run(shell_tool(tmp_path, max_output=10), "head -c 1000000 /dev/zero | tr '\\0' x", heard)
    assert len(heard) == 1


# -- nothing survives ----------------------------------------------------------------------------


class Started:
    """Hears the process ids that a command prints."""

    def __init__(self, count: int, then: Callable[[], object] | None = None) -> None:
        self.text = ""
        self.count = count
        self.all = anyio.Event()
        self._then = then or self.all.set

    def __call__(self, content: Content) -> None:
        self.text += str(content)
        if len(self.pids) == self.count:
            self._then()

    @property
    def pids(self) -> list[int]:
        return [int(line) for line in self.text.split("\n")[:-1]]


FAMILY = "sleep 60 & echo $!; (sleep 60 & echo $!; wait) & echo $$; wait"
STUBBORN = "trap '' TERM; sh -c 'trap \"\" TERM; echo $$; while :; do sleep 60; done' & echo $$; wait; wait"


@pytest.mark.parametrize(("command", "count"), [(FAMILY, 3), (STUBBORN, 2)])
async def test_cancelling_ends_the_whole_group(
    tmp_path: Path, command: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE", 0.1)
    started, made = Started(count), shell_tool(tmp_path)
    async with anyio.create_task_group() as group:
        group.start_soon(run_tool, made, {"command": command}, ToolContext(report=started))
        await started.all.wait()
        group.cancel_scope.cancel()
    assert await all_end(started.pids)


@pytest.mark.parametrize(("command", "count"), [(FAMILY, 3), (STUBBORN, 2)])
async def test_the_time_limit_ends_the_whole_group(
    tmp_path: Path, command: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[anyio.CancelScope] = []
    move_on_after = anyio.move_on_after

    def remembered(delay: float | None, shield: bool = False) -> anyio.CancelScope:
        scope = move_on_after(delay, shield)
        if delay == 60:
            limits.append(scope)
        return scope

    def pass_the_limit() -> None:
        limits[0].deadline = anyio.current_time()

    monkeypatch.setattr(anyio, "move_on_after", remembered)
    monkeypatch.setattr(module, "GRACE", 0.1)
    started, made = Started(count, pass_the_limit), shell_tool(tmp_path, timeout=60)
    outcome = await run_tool(made, {"command": command}, ToolContext(report=started))
    assert outcome.content[0]["text"].endswith(
        "[timed out after 60 s; the command and all that it started were ended]"
    )
    assert outcome.details == {"exit_code": None, "timed_out": True, "left_out": 0}
    assert outcome.is_error
    assert len(started.pids) == count
    assert await all_end(started.pids)


@pytest.mark.parametrize("command", ["sleep 60 & echo $!", "sleep 60 >/dev/null 2>&1 & echo $!"])
async def test_what_is_left_in_the_background_ends_with_the_command(tmp_path: Path, command: str) -> None:
    said = await text(shell_tool(tmp_path), command)
    assert said.endswith("\n[exit code 0]")
    assert await all_end([int(said.split("\n")[0])])


async def test_late_output_of_the_background_is_kept(tmp_path: Path) -> None:
    assert await text(shell_tool(tmp_path), "(echo late) & echo done; wait") in (
        "late\ndone\n[exit code 0]", "done\nlate\n[exit code 0]",
    )  # fmt: skip


async def test_output_before_the_time_limit_is_kept(tmp_path: Path) -> None:
    said = await text(shell_tool(tmp_path, timeout=0.3), "echo first; sleep 60")
    assert said.startswith("first\n[timed out")


async def test_many_calls_leave_no_descriptors_open(tmp_path: Path) -> None:
    made = shell_tool(tmp_path)
    await run(made, "true")
    before = len(os.listdir("/dev/fd"))
    for _ in range(5):
        await run(made, "true")
        with anyio.move_on_after(0):
            await run(made, "sleep 60")
    assert len(os.listdir("/dev/fd")) <= before


def test_a_signal_without_a_name_is_a_number() -> None:
    assert module._signal_name(9) == "SIGKILL"  # pyright: ignore[reportPrivateUsage]
    assert module._signal_name(99) == "99"  # pyright: ignore[reportPrivateUsage]

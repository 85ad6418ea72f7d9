"""What a shell command would run, and which commands nobody can read for certain."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnchart.machine.shell_reader import Part, read_command, single_blanks


def parts(text: str) -> list[str]:
    return [part.text for part in read_command(text).parts]


def words(text: str) -> list[tuple[str, ...]]:
    return [part.words for part in read_command(text).parts]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("git status", ["git status"]),
        ("git   status\t-s ", ["git status -s"]),
        ("a; b", ["a", "b"]),
        ("a && b || c | d & e", ["a", "b", "c", "d", "e"]),
        ("a&&b||c|d&e", ["a", "b", "c", "d", "e"]),
        ("a\nb\n", ["a", "b"]),
        ("a |& b", ["a", "b"]),
        ("a;;b", ["a", "b"]),
        ("echo 'a; b' \"c && d\" e\\;f", ["echo 'a; b' \"c && d\" e\\;f"]),
        ("echo 'a\nb'", ["echo 'a\nb'"]),
        ("a \\\n  b", ["a b"]),
        ("a 2>&1 >/dev/null b", ["a b"]),
        (">/dev/null a", ["a"]),
        ("a 2> /dev/null </dev/null >&2 2>&-", ["a"]),
        ("a>/dev/null; b", ["a", "b"]),
        ("echo a#b", ["echo a#b"]),
        ("echo $HOME ${USER} '$(x)' \\$\\(x", ["echo $HOME ${USER} '$(x)' \\$\\(x"]),
        ("echo 2 >/dev/null", ["echo 2"]),
        ("", [""]),
        (" ; \n", [""]),
    ],
)
def test_plain_commands_are_split(text: str, expected: list[str]) -> None:
    command = read_command(text)
    assert [part.text for part in command.parts] == expected
    assert (command.obstacle, command.doubt) == ("", "")


@pytest.mark.parametrize(
    ("text", "obstacle", "expected"),
    [
        ("echo $(rm x)", "a command substitution `$(`", ["rm x", "echo $(rm x)"]),
        ('echo "$(rm x; ls)" y', "a command substitution `$(`", ["rm x", "ls", 'echo "$(rm x; ls)" y']),
        ("diff <(rm x) >(ls)", "a process substitution", ["rm x", "ls", "diff"]),
        ("(rm x)", "a group in parentheses", ["rm x"]),
        ("a | (b; c)", "a group in parentheses", ["a", "b", "c"]),
        ("f() { rm x; }", "a group in parentheses", ["f", "{ rm x", "}"]),
        ("a > out", "a redirection to a file", ["a"]),
        ("a >out b", "a redirection to a file", ["a b"]),
        ("a >> out", "a redirection to a file", ["a"]),
        ("a >| out", "a redirection to a file", ["a"]),
        ("a <> out", "a redirection to a file", ["a"]),
        ("a < in", "a redirection to a file", ["a"]),
        ("a >& out", "a redirection to a file", ["a"]),
        ("a &> out b", "a redirection to a file", ["a", "b"]),
        ("a > /dev/null/../x", "a redirection to a file", ["a"]),
        ("a >", "a redirection to a file", ["a"]),
        ("a # b; c\nd", "a comment", ["a", "d"]),
        ("a;# it's\nrm x # it's", "a comment", ["a", "rm x"]),
    ],
)
def test_obstacles_are_named_and_what_is_inside_is_found(
    text: str, obstacle: str, expected: list[str]
) -> None:
    command = read_command(text)
    assert (command.obstacle, command.doubt) == (obstacle, "")
    assert [part.text for part in command.parts] == expected


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        ("echo 'open", "an open quote"),
        ('echo "open', "an open quote"),
        ("echo $(open", "a missing `)`"),
        ("echo `rm x`", "a command substitution in backquotes"),
        ('echo "`rm x`"', "a command substitution in backquotes"),
        ("echo `open", "a command substitution in backquotes"),
        ("cat <<E\nit's\nE", "a here-document"),
        ("cat <<<x", "a here-document"),
        ("case x in x) rm;; esac", "a `)` too many"),
        ("echo $'x'", "a quote behind `$`"),
        ('echo $"x"', "a quote behind `$`"),
        ("echo ${x:-y}", "a `${` with more than a name"),
        ("echo $\\\n(rm x)", "a line continued behind `$`"),
        ("a <\\\n<E", "a line continued inside of a redirection"),
        ("a\0b", "a control character"),
        ("a >&1\r", "a control character"),
        ("(" * 60 + "a" + ")" * 60, "very deep nesting"),
    ],
)
def test_what_a_shell_might_read_otherwise_is_doubted(text: str, doubt: str) -> None:
    command = read_command(text)
    assert command.doubt == doubt
    assert command.obstacle


def test_the_first_of_several_obstacles_is_named() -> None:
    command = read_command("a > out; echo 'open")
    assert (command.obstacle, command.doubt) == ("a redirection to a file", "an open quote")


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        ("$x a", "a program whose name is computed"),
        ("x=1 ${y}b", "a program whose name is computed"),
        ("r* a", "a program whose name is computed"),
        ("{rm,a}", "a program whose name is computed"),
        ("env -i A=1 $x", "a program whose name is computed"),
        ("if $x; then a; fi", "a program whose name is computed"),
        ("eval 'rm x'", "a command inside of text"),
        ("bash -lc 'rm x'", "a command inside of text"),
        ("sudo /bin/sh -e -c rm", "a command inside of text"),
        ("env " * 60 + "rm", "very deep nesting"),
    ],
)
def test_programs_that_cannot_be_seen_are_doubted_but_are_no_obstacle(text: str, doubt: str) -> None:
    command = read_command(text)
    assert (command.doubt, command.obstacle) == (doubt, "")


@pytest.mark.parametrize("text", ["bash script.sh", "[ -f a* ]; x=$y", "echo eval -c", "env", "A=1"])
def test_plain_programs_are_not_doubted(text: str) -> None:
    assert read_command(text).doubt == ""


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("'su'do x", ("sudo", "x")),
        ('s"u"do "a b"', ("sudo", "a b")),
        ("s\\udo a\\ b", ("sudo", "a b")),
        ("su\\\ndo x", ("sudo", "x")),
        ('echo "\\$x \\a \\" \\\n"', ("echo", '$x \\a " ')),
        ("echo '' \"\"", ("echo", "", "")),
        ("a\\", ("a",)),
        ("echo $x${y}", ("echo", "$x${y}")),
    ],
)
def test_words_lose_their_quotes(text: str, plain: tuple[str, ...]) -> None:
    assert words(text) == [plain]


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("sudo rm x", "rm x"),
        ("/usr/bin/sudo rm x", "sudo rm x"),
        ("A=1 B='2 3' rm x", "rm x"),
        ("env -i A=1 rm x", "rm x"),
        ("'sudo' -n rm x", "rm x"),
        ("{ rm x", "rm x"),
        ("! rm x", "rm x"),
        ("then if rm x", "rm x"),
        ("command /bin/rm x", "rm x"),
        ("2>/dev/null rm x", "rm x"),
    ],
)
def test_the_forms_of_a_command_show_what_it_starts(text: str, form: str) -> None:
    assert form in list(read_command(text).parts[0].forms())


def test_arguments_of_other_programs_are_not_taken_for_commands() -> None:
    assert set(read_command("git rm x").parts[0].forms()) == {"git rm x"}
    assert list(Part().forms()) == []


def test_single_blanks() -> None:
    assert single_blanks("  a \t b\nc \n") == "a b\nc"


TOKENS = (
    "a ", "a ", "rm ", "rm ", "rm", " ", ";", "&", "&&", "|", "||", "\n", "'", '"', "\\", "$", "(", ")",
    "{", "}", "#", "<", ">", "`", "x=", "/dev/null", "2>", "&1", "${a}", "${a#", "<<", "E", "!", "\t", "$'",
    "$(", "if ", "then ", "fi", "*", "[", "]", "-", "\\\n", "$\\\n",
)  # fmt: skip
commands = st.lists(st.sampled_from(TOKENS), max_size=14).map("".join)


@given(commands | st.text(max_size=30))
@settings(max_examples=500)
def test_reading_never_raises_and_always_finds_a_part(text: str) -> None:
    command = read_command(text)
    assert command.parts
    assert all(list(part.forms()) for part in command.parts if part.raw)


@given(commands, commands)
@settings(max_examples=300)
def test_a_plain_command_followed_by_another_has_the_parts_of_both(first: str, second: str) -> None:
    if read_command(first).obstacle or first.endswith("\\"):
        return
    joined = read_command(f"{first} ; {second}")
    assert {*parts(first), *parts(second)} - {""} == {*(part.text for part in joined.parts)} - {""}


@pytest.fixture(name="shell", scope="module")
def _shell(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder with two programs, `a` and `rm`, and the file that `rm` writes."""
    folder, mark = tmp_path_factory.mktemp("programs"), tmp_path_factory.mktemp("mark") / "ran"
    for name, body in (("a", "exit 0"), ("rm", f": > '{mark}'")):
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    return folder, mark


@given(rest=commands)
@settings(max_examples=300, deadline=None)
def test_a_real_shell_runs_nothing_that_was_not_read(
    shell: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory, rest: str
) -> None:
    folder, mark = shell
    command = read_command(f"a {rest}")
    if command.obstacle or "rm" not in rest or not all(part.raw[0] == "a" for part in command.parts):
        return
    cwd = tmp_path_factory.mktemp("cwd")
    subprocess.run(
        ["/bin/sh", "-c", f"a {rest}"],
        cwd=cwd,
        env={"PATH": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=10,
        check=False,
    )
    assert not mark.exists(), rest
    assert list(cwd.iterdir()) == [], rest

"""How patterns are compared with text, paths and shell commands."""

from pathlib import Path

import pytest

from turnchart.machine.subjects import (
    NO_SUBJECT,
    PathSubject,
    ShellSubject,
    Subject,
    TextSubject,
    subject_of_call,
)
from turnchart.machine.tools import tool


def allows(subject: Subject, *patterns: str) -> bool:
    return bool(subject.allowed_by({pattern: pattern for pattern in patterns}))


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("*", "", True),
        ("*", "a/b\nc", True),
        ("a*", "ab", True),
        ("A*", "ab", False),
        ("a *", "a", True),
        ("a *", "a b", True),
        ("a *", "ab", False),
        ("[ab]?", "bx", True),
        ("a", "ab", False),
    ],
)
def test_text_is_compared_as_it_stands(pattern: str, text: str, matches: bool) -> None:
    subject = TextSubject(text)
    assert (subject.held_by(pattern), allows(subject, pattern)) == (matches, matches)


def test_no_subject_allows_nothing_and_holds_nothing() -> None:
    assert not NO_SUBJECT.held_by("*")
    assert not allows(NO_SUBJECT, "*")


# -- paths -------------------------------------------------------------------------------------


@pytest.fixture(name="root")
def _root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (root / "data").mkdir()
    (root / "link").symlink_to("data")
    (root / "out").symlink_to(tmp_path)
    return root


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("src/*", "src/a.py", True),
        ("src/*", "src/deep/a.py", True),
        ("src/*", "./src//a.py", True),
        ("./src/*", "src/a.py", True),
        ("src/*", "src", False),
        ("src/**", "src", True),
        ("src/", "src/a.py", True),
        ("src/*", "src/../data/a", False),
        ("src/*", "data/../src/a", True),
        ("data/*", "link/a", True),
        ("**/.env", ".env", True),
        ("**/.env", "src/.env", True),
        ("*", "src", True),
        ("*", "", True),
        (".", "", True),
    ],
)
def test_paths_are_compared_as_what_they_name(root: Path, pattern: str, path: str, matches: bool) -> None:
    subject = PathSubject(path, root)
    assert (subject.held_by(pattern), allows(subject, pattern)) == (matches, matches)
    whole = PathSubject(str(root / path), root)
    assert allows(whole, pattern) == matches


@pytest.mark.parametrize("path", ["../x", "out/x", "/etc/passwd", "src/../../x", "~/x"])
def test_no_relative_pattern_allows_what_is_outside(root: Path, path: str) -> None:
    subject = PathSubject(path, root)
    assert not allows(subject, "*", "**", "../*", "out/*", "src/*", path.lstrip("/~"))
    assert subject.held_by("*")


def test_deny_and_ask_also_see_links_by_their_names(root: Path) -> None:
    assert PathSubject("link/a", root).held_by("link/*")
    assert not allows(PathSubject("link/a", root), "link/*")
    assert PathSubject("out/x.pem", root).held_by("*.pem")
    assert PathSubject("~/x", root).held_by("~/*")


def test_an_absolute_pattern_is_compared_with_the_whole_path(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    real = root.resolve()
    assert allows(PathSubject("out/x", root), f"{real.parent}/x")
    assert allows(PathSubject("src/a", root), f"{real}/src/*")
    assert allows(PathSubject("/home/ann/x", root), "~/*")
    assert not allows(PathSubject("/home/bob/x", root), "~/*")


def test_what_can_be_no_path_is_never_allowed(root: Path) -> None:
    subject = PathSubject("a\0b", root)
    assert not allows(subject, "*", "/*")
    assert subject.held_by("*")


def test_a_root_that_is_a_link(tmp_path: Path, root: Path) -> None:
    (tmp_path / "root-link").symlink_to(root)
    assert allows(PathSubject("src/a", tmp_path / "root-link"), "src/*")


# -- shell -------------------------------------------------------------------------------------


def test_every_command_must_be_allowed_by_some_rule() -> None:
    subject = ShellSubject("git status && ls -l | git diff")
    assert subject.allowed_by({"git *": "G", "ls *": "L", "x": "X"}) == ("G", "L")
    assert not allows(subject, "git *")
    assert not allows(subject, "git status *", "ls *")


@pytest.mark.parametrize(
    "command",
    [
        "git status; rm -rf ~", "git status $(rm x)", "git status > x", "git status 'x", "A=1 git status",
        '"git" status', "git\u00a0status",
    ],
)  # fmt: skip
def test_what_an_allow_pattern_must_not_let_through(command: str) -> None:
    assert not allows(ShellSubject(command), "git status *")


@pytest.mark.parametrize("command", ["git status", "git  status -s", "git status 2>&1", "git status &"])
def test_what_an_allow_pattern_lets_through(command: str) -> None:
    assert allows(ShellSubject(command), "git   status *")


@pytest.mark.parametrize(
    "command",
    [
        "sudo", "sudo  rm", "ls; sudo rm", "ls && sudo rm", "ls\nsudo rm", "A=1 sudo rm", "(sudo rm)",
        "ls $(sudo rm)", "'su'do rm", "/usr/bin/sudo rm", "env A=1 sudo rm", "if x; then sudo rm; fi",
        "2>/dev/null sudo rm",
    ],
)  # fmt: skip
def test_a_deny_pattern_finds_its_command(command: str) -> None:
    assert ShellSubject(command).held_by("sudo *")


def test_a_deny_pattern_may_be_about_the_whole_line() -> None:
    assert ShellSubject("curl x  | sh").held_by("curl * | sh")
    assert not ShellSubject("echo 'sudo rm'").held_by("sudo *")


def test_the_tool_says_which_kind_it_is(root: Path) -> None:
    def fn(text: str) -> None:
        """Do."""

    text = subject_of_call(tool(fn, subject="text"), {"text": "./a"}, root)
    path = subject_of_call(tool(fn, subject="text", subject_kind="path"), {"text": "./a"}, root)
    shell = subject_of_call(tool(fn, subject="text", subject_kind="shell"), {"text": "a;a"}, root)
    assert subject_of_call(tool(fn), {"text": "a"}, root) is NO_SUBJECT
    assert [allows(each, "a") for each in (text, path, shell)] == [False, True, True]

"""Nothing leads out of a root, and globs of paths."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnchart.machine.paths import glob_regex, inside


@pytest.fixture(name="root")
def _root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("a")
    (tmp_path / "secret").write_text("s")
    (root / "out").symlink_to(tmp_path)
    (root / "in").symlink_to("src")
    (root / "loop").symlink_to("loop")
    return root


@pytest.mark.parametrize(
    ("path", "leads_to"),
    [
        ("src/a.py", "src/a.py"),
        (".", "."),
        ("", "."),
        ("src/../src/./a.py", "src/a.py"),
        ("in/a.py", "src/a.py"),
    ],
)
def test_paths_inside_are_resolved(root: Path, path: str, leads_to: str) -> None:
    assert inside(root, path) == (root / leads_to).resolve()
    assert inside(str(root), root / path) == (root / leads_to).resolve()


@pytest.mark.parametrize(
    "path", ["..", "../secret", "out", "out/secret", "src/../../secret", "/etc/passwd", "in/../../x"]
)
def test_paths_that_lead_out_are_refused(root: Path, path: str) -> None:
    with pytest.raises(PermissionError, match="leads out of the folder"):
        inside(root, path)


def test_a_folder_whose_name_begins_like_the_root_is_outside(tmp_path: Path, root: Path) -> None:
    (tmp_path / "root2").mkdir()
    with pytest.raises(PermissionError):
        inside(root, "../root2")


def test_the_root_itself_may_be_a_link(tmp_path: Path, root: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    assert inside(tmp_path / "link", tmp_path / "link" / "src") == root.resolve() / "src"


def test_a_circle_of_links_stays_inside_and_no_path_is_a_value_error(root: Path) -> None:
    assert inside(root, "loop") == root.resolve() / "loop"
    with pytest.raises(ValueError, match="null"):
        inside(root, "a\0b")


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.py", ["a.py", ".py"], ["a/b.py", "a.pyc"]),
        ("a?c", ["abc"], ["a/c", "ac"]),
        ("**/x", ["x", "a/x", "a/b/x"], ["ax", "x/a"]),
        ("a/**/x", ["a/x", "a/b/x", "a/b/c/x"], ["ax", "a/bx"]),
        ("a/**", ["a", "a/b", "a/b/c"], ["ab"]),
        ("**", ["", "a", "a/b"], []),
        ("a**b", ["ab", "a/b", "a/x/b"], ["a"]),
        ("[ab].c", ["a.c", "b.c"], ["c.c", "[ab].c"]),
        ("[!ab]", ["c", "!"], ["a", "b"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[a-c]", ["b"], ["-", "d"]),
        ("[z-a]", ["[z-a]"], ["b"]),
        ("[a--b]", ["[a--b]"], []),
        ("[open", ["[open"], ["o"]),
        ("a.b+(c)", ["a.b+(c)"], ["aXb+(c)", "a.bb(c)"]),
    ],
)
def test_globs_that_stay_in_their_folder(pattern: str, yes: list[str], no: list[str]) -> None:
    regex = glob_regex(pattern, across=False)
    assert [path for path in yes if not regex.fullmatch(path)] == []
    assert [path for path in no if regex.fullmatch(path)] == []


def test_globs_that_go_across() -> None:
    assert glob_regex("src/*", across=True).fullmatch("src/a/b")
    assert glob_regex("s?c", across=True).fullmatch("s/c")


@given(st.text("ab*?[]!-^/.\\&~|", max_size=12), st.booleans())
def test_every_text_is_a_glob_and_plain_text_means_itself(pattern: str, across: bool) -> None:
    glob_regex(pattern, across=across)
    plain = pattern.translate(dict.fromkeys(map(ord, "*?["), None))
    assert glob_regex(plain, across=across).fullmatch(plain)


def test_a_symlinked_folder_swapped_in_later_is_seen(root: Path) -> None:
    os.rename(root / "src", root / "old")
    (root / "src").symlink_to("/etc")
    with pytest.raises(PermissionError):
        inside(root, "src/passwd")


def test_a_tilde_is_our_home_as_it_is_for_permissions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, root = tmp_path / "home", tmp_path / "root"
    (root / "~").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    with pytest.raises(PermissionError, match="`~/a` leads out of the folder"):
        inside(root, "~/a")
    assert inside(root, "~/a", [home]) == home / "a"
    assert inside(home, "~/a") == home / "a"
    assert inside(root, "./~/a") == root / "~" / "a"

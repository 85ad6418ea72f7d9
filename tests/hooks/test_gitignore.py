"""The rules of .gitignore; the cases were compared with git itself."""

import pytest

from turnchart.hooks.gitignore import IgnoreRules

CASES = """
.env            | .env a/.env .env/x          | .envrc a.env
*.pem           | k.pem a/b/k.pem k.pem/x     | pem k.pem.txt
/build          | build build/x               | a/build
docs/*.md       | docs/a.md                   | docs/a/b.md a/docs/a.md
.git/**         | .git/config .git/a/b        | .git a/.git/config
**/secrets      | secrets a/secrets a/b/secrets/x | secrets2
a/**/b          | a/b a/x/b a/x/y/b           | b ab a/xb
**              | a a/b                       |
temp/           | temp/x a/temp/x             | temp a/temp
file?           | file1 a/file2               | file file12
[ab]*           | a b1 x/a                    | c
[!a]x           | bx                          | ax /x
a[!b]c          | axc                         | abc a/c
\\#notes      | #notes                      | notes
\\!important  | !important                  | important
star\\*       | star*                       | stars
foo**bar        | foobar fooxbar              | foo/bar
a/              | a/x                         | a
# a comment     |                             | a
"""


@pytest.mark.parametrize("line", CASES.strip().replace("\\\\", "\\").splitlines())
def test_one_line(line: str) -> None:
    glob, yes, no = (part.strip() for part in line.split("|"))
    rules = IgnoreRules([glob])
    assert [path for path in yes.split() if not rules.matches(path)] == []
    assert [path for path in no.split() if rules.matches(path)] == []


def test_the_last_line_that_matches_decides() -> None:
    rules = IgnoreRules(["*.log", "!keep.log", "", "old/", "!old/keep.log"])
    assert rules.matches("a.log")
    assert not rules.matches("keep.log")
    assert rules.matches("old/keep.log"), "what is in an ignored folder cannot be taken back"


def test_folders() -> None:
    rules = IgnoreRules(["temp/"])
    assert rules.matches("temp", is_folder=True)
    assert not rules.matches("temp", is_folder=False)


def test_blanks_at_the_end_do_not_count_unless_escaped() -> None:
    assert IgnoreRules(["a  \n"]).matches("a")
    assert IgnoreRules(["a\\ "]).matches("a ")
    assert not IgnoreRules(["a\\ "]).matches("a")

"""Reading shell commands: which commands a line would run, as far as one can tell without a shell.

Permissions ask here. The reader knows the plainest part of the POSIX grammar: words, quotes, escapes,
operators, comments, and redirections that write no file. Whatever else stands in a command is an *obstacle*:
no pattern may allow the command then, because a shell could read it otherwise than this reader does. The
commands inside of substitutions and groups are still found, so that deny and ask patterns see them.

It is no sandbox: a program can start any other, and a variable can hold any name.
"""

import posixpath
import re
from collections.abc import Iterator
from typing import NamedTuple

DEEPEST = 40
"""Commands nested deeper than this are not looked into."""

_BETWEEN = ";|&\n\r"
_ENDS = frozenset(" \t()<>" + _BETWEEN)
_REDIRECTION = re.compile(r"<<<|<<-?|<>|<&|<|>>|>\||>&|>")
_NUMBER = re.compile(r"[0-9]+")
_DESCRIPTOR = re.compile(r"[0-9]+|-")
_VARIABLE = re.compile(r"\$\{\w+\}", re.ASCII)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_COMPUTING = frozenset("$`*?[{")
_KEYWORDS = frozenset(("!", "{", "if", "then", "elif", "else", "while", "until", "do"))
_SHELLS = frozenset(("ash", "bash", "dash", "ksh", "sh", "zsh"))
_RUNNERS = frozenset(("builtin", "command", "doas", "env", "exec", "nohup", "sudo", "time", "xargs"))


class Part(NamedTuple):
    """One simple command, redirections left out: as it is written, and without quotes and escapes."""

    raw: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The command as it is written, with single blanks."""
        return " ".join(self.raw)

    def forms(self) -> Iterator[str]:
        """Yield every text under which a rule may know the command or what it starts.

        These are: as written; without quotes; without the folder of the program; without assignments,
        keywords, and programs that run their arguments.
        """
        for rest in (self.raw, self.words):
            for _ in range(DEEPEST):
                if not rest:
                    break
                yield " ".join(rest)
                if _ASSIGNMENT.match(rest[0]) or rest[0] in _KEYWORDS:
                    rest = rest[1:]
                    continue
                name = posixpath.basename(rest[0])
                if name != rest[0]:
                    yield " ".join((name, *rest[1:]))
                rest = _started(rest) if name in _RUNNERS else ()


def _started(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that stands behind a program and its options."""
    count = 1
    while count < len(words) and words[count].startswith("-"):
        count += 1
    return words[count:]


class Command(NamedTuple):
    """What was read.

    Attributes:
        whole: The text with single blanks.
        parts: The simple commands, at least one; those inside of substitutions included.
        obstacle: Why no pattern may allow it; empty for a plain command.
        doubt: Why a shell may run something else than these parts; empty where it is certain.
    """

    whole: str
    parts: tuple[Part, ...]
    obstacle: str
    doubt: str


def read_command(text: str) -> Command:
    """Read a command. Never raises."""
    reader = _Reader(text)
    reader.commands()
    return Command(single_blanks(text), tuple(reader.parts) or (Part(),), reader.obstacle, reader.doubt)


def single_blanks(text: str) -> str:
    """Return the text with one blank where there are several, and none at its ends."""
    return re.sub(r"[ \t]+", " ", text).strip(" \t\n\r")


class _Word(NamedTuple):
    raw: str
    plain: str


def _doubt_of(words: list[_Word]) -> str:
    """Return why one may not see what a command starts; empty for nothing."""
    count = 0
    while count < len(words) and _introduces(words[count].plain):
        count += 1
    if count > DEEPEST:
        return "very deep nesting"
    if count == len(words):
        return ""
    program, name = words[count].raw, posixpath.basename(words[count].plain)
    if program not in ("[", "[[") and any(char in _COMPUTING for char in program):
        return "a program whose name is computed"
    options = [word.plain for word in words[count + 1 :] if word.plain.startswith("-")]
    if name == "eval" or (name in _SHELLS and any("c" in option for option in options)):
        return "a command inside of text"
    return ""


def _introduces(word: str) -> bool:
    """Whether a word may stand before the program that a command is about."""
    if _ASSIGNMENT.match(word) or word in _KEYWORDS or word.startswith("-"):
        return True
    return posixpath.basename(word) in _RUNNERS


class _Reader:
    """Reads one command from left to right."""

    __slots__ = ("at", "depth", "doubt", "obstacle", "parts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.parts: list[Part] = []
        self.obstacle = ""
        self.doubt = ""
        if "\0" in text or "\r" in text:
            self._doubt("a control character")

    def commands(self, closer: str = "") -> None:
        """Read commands up to the closing character, or to the end."""
        words: list[_Word] = []
        while (char := self._char()) and char != closer:
            if self._continued(self.at):
                self.at += 2
            elif char in " \t":
                self.at += 1
            elif char in "<>":
                self._redirection(closer)
            elif char == "#":
                self._comment()
            elif char in _BETWEEN or char in "()":
                self._part(words)
                self._operator(char)
            else:
                words.append(self._word(closer))
                if _NUMBER.fullmatch(words[-1].raw) and self._char() in ("<", ">"):
                    words.pop()  # the number of a descriptor
        self._part(words)
        if closer and not char:
            self._doubt(f"a missing `{closer}`")
        self.at += 1

    def _char(self) -> str:
        return self.text[self.at : self.at + 1]

    def _continued(self, at: int) -> bool:
        return self.text.startswith("\\\n", at)

    def _stop(self, obstacle: str) -> None:
        self.obstacle = self.obstacle or obstacle

    def _doubt(self, obstacle: str) -> None:
        self._stop(obstacle)
        self.doubt = self.doubt or obstacle

    def _part(self, words: list[_Word]) -> None:
        if words:
            self.doubt = self.doubt or _doubt_of(words)
            self.parts.append(Part(tuple(word.raw for word in words), tuple(word.plain for word in words)))
            words.clear()

    def _operator(self, char: str) -> None:
        self.at += 1
        if char == "(":
            self._stop("a group in parentheses")
            self._nested(")")
        elif char == ")":
            self._doubt("a `)` too many")

    def _nested(self, closer: str) -> None:
        if self.depth == DEEPEST:
            self._doubt("very deep nesting")
            return
        self.depth += 1
        self.commands(closer)
        self.depth -= 1

    def _comment(self) -> None:
        self._stop("a comment")
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _redirection(self, closer: str) -> None:
        if self.text.startswith(("<(", ">("), self.at):
            self._stop("a process substitution")
            self.at += 2
            self._nested(")")
            return
        found = _REDIRECTION.match(self.text, self.at)
        assert found is not None  # it begins with < or >
        self.at = found.end()
        if self._continued(self.at):
            self._doubt("a line continued inside of a redirection")
        while self._char() in (" ", "\t") or self._continued(self.at):
            self.at += 1 if self._char() != "\\" else 2
        target = self._word(closer).plain
        if found[0].startswith("<<"):
            self._doubt("a here-document")
        elif target != "/dev/null" and not (found[0] in (">&", "<&") and _DESCRIPTOR.fullmatch(target)):
            self._stop("a redirection to a file")

    def _word(self, closer: str) -> _Word:
        start = self.at
        plain: list[str] = []
        while (char := self._char()) and char not in _ENDS and char != closer:
            plain.append(self._piece(char))
        return _Word(self.text[start : self.at], "".join(plain))

    def _piece(self, char: str) -> str:
        """Read one piece of a word and return what it stands for."""
        match char:
            case "\\":
                self.at += 2
                return self.text[self.at - 1 : self.at].removesuffix("\n")
            case "'":
                return self._single()
            case '"':
                return self._double()
            case "$":
                return self._dollar(quoted=False)
            case "`":
                return self._backquoted()
            case _:
                self.at += 1
                return char

    def _single(self) -> str:
        start = self.at + 1
        end = self.text.find("'", start)
        if end < 0:
            self._doubt("an open quote")
            end = len(self.text)
        self.at = end + 1
        return self.text[start:end]

    def _double(self) -> str:
        self.at += 1
        plain: list[str] = []
        while (char := self._char()) and char != '"':
            if char == "\\":
                self.at += 2
                escaped = self.text[self.at - 1 : self.at]
                plain.append(escaped.removesuffix("\n") if escaped in '$`"\\\n' else f"\\{escaped}")
            elif char == "$":
                plain.append(self._dollar(quoted=True))
            elif char == "`":
                plain.append(self._backquoted())
            else:
                self.at += 1
                plain.append(char)
        if not char:
            self._doubt("an open quote")
        self.at += 1
        return "".join(plain)

    def _dollar(self, *, quoted: bool) -> str:
        start = self.at
        follows = self.text[start + 1 : start + 2]
        variable = _VARIABLE.match(self.text, start)
        self.at = variable.end() if variable else start + 1
        if follows == "(":
            self._stop("a command substitution `$(`")
            self.at += 1
            self._nested(")")
        elif follows == "{" and not variable:
            self._doubt("a `${` with more than a name")
        elif self._continued(start + 1):
            self._doubt("a line continued behind `$`")
        elif follows in ("'", '"') and not quoted:
            self._doubt("a quote behind `$`")
        return self.text[start : self.at]

    def _backquoted(self) -> str:
        start = self.at
        self._doubt("a command substitution in backquotes")
        self.at += 1
        self._nested("`")
        return self.text[start : self.at]

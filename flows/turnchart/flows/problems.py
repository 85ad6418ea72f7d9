"""What is wrong with a file: problems with a place, a cure and a code, and how they are printed."""

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from turnchart.flows.secrets import masked
from turnchart.machine.errors import TurnchartError

Level = Literal["error", "warning", "note"]
Format = Literal["text", "json", "github", "sarif"]

CODES: Final[Mapping[str, str]] = MappingProxyType({
    "file-missing": "the file is not there, or is no regular file",
    "file-size": "the file is larger than 1 MiB",
    "yaml-encoding": "the file is not UTF-8 text",
    "yaml-character": "a character that YAML does not allow",
    "yaml-empty": "the file says nothing",
    "yaml-syntax": "not valid YAML",
    "yaml-tab": "a line is indented with a tab",
    "yaml-tag": "a tag, which could build an object",
    "yaml-alias": "an alias without its anchor, or a glob without quotes",
    "yaml-cycle": "a value that contains itself",
    "yaml-depth": "nested too deeply",
    "yaml-nodes": "too many values, counted with every alias expanded",
    "yaml-documents": "more than one document in the file",
    "yaml-duplicate-key": "a key is given twice",
    "yaml-merge-key": "the merge key `<<`, which is not supported",
    "yaml-key": "a key that is no text",
    "yaml-number": "a number that JSON cannot hold",
    "version": "the version of the format is missing or not known",
    "unknown-key": "a key that does not exist at this place",
    "missing-key": "a key that must be given",
    "bad-value": "a value of a wrong kind, or outside what is allowed",
    "key-not-here": "a key that exists, but not at this hook point or beside this other key",
    "env-missing": "an environment variable is not set",
    "env-syntax": "a reference to a variable is written wrong",
    "unknown-param": "no param has this name",
    "param-missing": "a param has no default, and nobody gave its value",
    "unknown-hook": "no hook has this name",
    "hook-event": "the hook cannot run at this point",
    "gate-on-error": "on_error at a point whose rule for failures is fixed",
    "dead-matcher": "a tool pattern that can match no tool",
    "dead-permission": "a permission rule that can match no tool",
    "permission-rule": "a permission rule is written wrong, or its pattern has nothing to match",
    "unknown-store": "no session store has this name",
    "unknown-tool": "no tool has this name",
    "duplicate-tool": "two tools have the same name",
    "unknown-server": "no MCP server has this name",
    "unused-server": "an MCP server of which no tool is used",
    "mcp-connect": "an MCP server cannot be started or reached",
    "mcp-tools": "what the tools of an MCP server are, or that it is not known here",
    "agent-cycle": "a flow uses itself as a tool",
    "json-schema": "not a valid JSON Schema",
    "extra": "an optional part of the program is not installed",
    "model-provider": "a model whose provider is nearly called like a known one",
    "model-unknown": "a model that the table of models does not have, in which `check --lint` looks",
    "window-unknown": "compaction is asked for, and how much the model reads at once is not known",
    "regex": "not a valid regular expression",
    "duplicate-id": "two hooks have the same id",
    "unknown-id": "no hook has this id",
    "chain-unclear": "the parent has a chain for this point, and the file does not say what becomes of it",
    "extends-missing": "the parent file is not there",
    "extends-cycle": "a file extends itself",
    "prompt-missing": "a prompt file is not there",
    "path-outside": "a path leaves the root of the project",
    "delay-order": "max_delay is smaller than base_delay",
    "no-fallback": "fallback_on without a list of fallback models",
    "plugin": "a plug-in cannot be imported, or is named wrong",
    "plugin-not-trusted": "the project names plug-ins, and nobody agreed to import them",
    "secret-literal": "a literal that looks like a secret",
    "limit-shadowed": "a limit that a smaller one hides",
    "prompt-split": "a comma has cut a prompt in two",
    "provider-tool": "a tool that runs at the provider, which the model lacks or no rule sees",
    "program": "a program is not on this machine",
    "run-file": "a file that a run would read or start is not there",
    "key-variable": "the variable of a key is not set on this machine",
    "edge-unreachable": "a setting under which a row of the chart, or an answer of a hook, never counts",
    "hook-never": "a hook that never runs",
    "queue-starved": "a queue of which a running turn never reads everything",
    "tool-denied": "a tool of which no call ever runs",
    "setting-unused": "a setting that another one keeps from ever counting",
    "no-cancel": "a state of a turn that takes no cancel, or no fail",
    "state-unreachable": "a state that no row leads to",
    "state-stuck": "a state from which no way leads back to idle",
    "row-guard": "a row whose guard is no fact",
    "row-shadowed": "a row that rows before it keep from ever being taken",
    "row-partial": "an event that a state takes under some facts and refuses under others",
    "not-trusted": "the file starts or reaches something, and nobody agreed to it",
})  # fmt: skip
"""Every code, with what it stands for."""

OF_LINT: Final = frozenset((
    "edge-unreachable", "hook-never", "queue-starved", "tool-denied", "setting-unused", "no-cancel",
    "state-unreachable", "state-stuck", "row-guard", "row-shadowed", "row-partial",
))  # fmt: skip
"""Codes of what only ``check --lint`` looks for."""

OF_THIS_MACHINE: Final = frozenset(("program", "run-file", "key-variable", "extra", "plugin-not-trusted"))
"""Codes of what may be right on another machine: warnings, and errors where this one must run the flow."""


class Problem(NamedTuple):
    """One thing that is wrong.

    Attributes:
        code: One of ``CODES``; tests and searches hold on to it.
        message: What is wrong, in one line.
        file: The file as the user named it.
        line: The line, from 1; 0 where the problem is the whole file's.
        column: The column in characters, from 1.
        length: How many characters the caret marks.
        help: What would be right; empty where nothing can be said.
        level: An error is true on every machine; a warning on this one, or likely.
        text: The line of the file, for the snippet.
    """

    code: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    length: int = 1
    help: str = ""
    level: Level = "error"
    text: str = ""

    def __str__(self) -> str:
        return render(self)


class FlowError(TurnchartError):
    """A flow, or a file that belongs to it, is wrong.

    Attributes:
        problems: Everything that is wrong, sorted by position.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = in_order(problems)
        super().__init__(render_all(self.problems))


class NotTrusted(FlowError):
    """The flow starts programs or sends a key somewhere, and nobody agreed to that. Nothing was started."""


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems sorted by file and position, each once."""
    return sorted(set(problems), key=lambda p: (p.file, p.line, p.column, p.code, p.message))


def exit_code(problems: Iterable[Problem], *, strict: bool = False) -> int:
    """Return 1 if there is an error, or a warning where ``strict`` counts them too; else 0."""
    counted = {"error", "warning"} if strict else {"error"}
    return int(any(problem.level in counted for problem in problems))


def as_here(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems with what is true of this machine only as errors."""
    return [each._replace(level="error") if each.code in OF_THIS_MACHINE else each for each in problems]


# -- printing -------------------------------------------------------------------------------------

WIDEST = 160
"""Longer lines are shown cut, around the caret."""
_TAB = "    "


def render_all(problems: Sequence[Problem], format: Format = "text") -> str:
    """Return the problems as text for people, or with the same facts for a program.

    ``json`` is a list of objects, ``github`` the commands of a GitHub workflow that annotate a change, and
    ``sarif`` a log of SARIF 2.1.0, as code scanners write it.
    """
    if format == "json":
        return json.dumps([_record(problem) for problem in problems], ensure_ascii=False, indent=2)
    if format != "text":
        from turnchart.flows.reports import github, sarif  # few ask for them

        return github(problems) if format == "github" else sarif(problems)
    return "\n".join(render(problem) for problem in problems)


def _record(problem: Problem) -> dict[str, str | int]:
    return {
        "file": problem.file, "line": problem.line, "column": problem.column, "length": problem.length,
        "level": problem.level, "code": problem.code, "message": problem.message, "help": problem.help,
    }  # fmt: skip


def render(problem: Problem) -> str:
    """Return one problem with its line of the file, a caret below it, and the cure."""
    at = f":{problem.line}:{problem.column}" if problem.line else ""
    lines = [f"{problem.file}{at}: {problem.level}: {problem.message} [{problem.code}]"]
    gutter = " " * len(str(problem.line)) if problem.line else ""
    if problem.line and problem.text.strip():
        text, before, width = _snippet(problem.text, problem.column - 1, problem.length)
        lines += [
            f"{gutter} |",
            f"{problem.line} | {text}".rstrip(),
            f"{gutter} | {' ' * before}{'^' * width}",
        ]
    if problem.help:
        lines.append(f"{gutter} = help: {problem.help}")
    return "\n".join(lines)


def _snippet(text: str, start: int, length: int) -> tuple[str, int, int]:
    """Return a line as a terminal shows it, and the columns before and under the caret."""
    text = text.rstrip()
    if len(text) > WIDEST:
        cut = max(0, start - WIDEST // 2)
        more = "…" if cut + WIDEST < len(text) else ""
        text = f"…{text[cut + 1 : cut + WIDEST]}{more}" if cut else f"{text[:WIDEST]}…"
        start -= cut
    before, marked = text[:start], text[start : start + length]
    return _drawn(text), _columns(before) + max(0, start - len(text)), max(1, _columns(marked))


def _drawn(text: str) -> str:
    """Return text without what would move the cursor, colour the terminal or turn the line round."""
    shown = (_TAB if char == "\t" else "�" if _unsafe(char) else char for char in text)
    return "".join(shown)


def _unsafe(char: str) -> bool:
    return unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}


def _columns(text: str) -> int:
    return sum(_width(char) for char in text)


def _width(char: str) -> int:
    if char == "\t":
        return len(_TAB)
    if unicodedata.combining(char) or unicodedata.category(char) == "Me":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


# -- words ----------------------------------------------------------------------------------------

_LONGEST = 60


def quoted(text: str) -> str:
    """Return text in double quotes, on one line, cut where it is long."""
    text = masked(text)  # before it is cut, when it can still be recognised
    short = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return '"' + "".join(_drawn(char) if char not in "\n\t" else " " for char in short) + '"'


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant, or None."""
    from difflib import get_close_matches  # only a file with a mistake pays for it

    names = list(known)
    same = [other for other in names if _folded(other) == _folded(name)]
    close = same or get_close_matches(name, names, n=1, cutoff=0.6)
    return close[0] if close else None


def _folded(name: str) -> str:
    return re.sub(r"[-_ .]", "", name).lower()


def meant(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean "x"?``, or nothing where no known name is near."""
    found = nearest(name, known)
    return f'did you mean "{found}"?' if found else ""


def sentence(*parts: str) -> str:
    """Return the parts that are not empty, joined with a space."""
    return " ".join(part for part in parts if part)

"""The built-in tool ``script``: one program with a fixed form, whose gaps the model fills in.

Each gap is a typed argument. What it is given becomes one argument of the program, or a part of one: no shell
reads it, and nothing in it is split.
"""

import inspect
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field
from pydantic.types import StrictBool

from turnchart.machine.paths import inside, resolved
from turnchart.machine.points import ToolOutcome
from turnchart.machine.tools import Tool, ToolContext, ToolFailed, tool

from ._gaps import GAP, Argument, Kind, problems
from ._known import MAX_OUTPUT, SCRIPT, TIMEOUT, Folders, naming
from .shell import EnvFrom, Output, environment, outcome_of_run, run_argv


def script_tool(
    root: Path | str,
    *,
    command: Sequence[str],
    description: str,
    args: Mapping[str, Argument | Mapping[str, Any]] | None = None,
    subject: str | None = None,
    cwd: str = ".",
    timeout: float = TIMEOUT,
    max_output: int = MAX_OUTPUT,
    env_from: EnvFrom = (),
    hidden: frozenset[str] = frozenset(),
    outside: Folders = (),
) -> Tool:
    """Make a tool of one program.

    Args:
        root: The folder that paths start from.
        command: The program and its arguments; ``{name}`` is where the argument of this name goes.
        description: What the model reads about the tool.
        args: The arguments, by name.
        subject: The argument that permissions match.
        cwd: The folder that it starts in, below the root.
        timeout: Seconds that it may take.
        max_output: So many characters are kept: one half of the head, one of the tail.
        env_from: Names of variables that it sees in any case, or ``{NAME: OTHER}``.
        hidden: Names of variables that it does not see.
        outside: Folders outside of the root that paths may lead to, and ``cwd`` may be in.

    Raises:
        PermissionError: If ``cwd`` is outside the root and these folders.
        ValueError: If gaps and arguments do not fit each other; the message says how.
    """
    opened = resolved(root, outside)
    inside(root, cwd, opened)
    known = {
        name: each if isinstance(each, Argument) else _argument(each) for name, each in (args or {}).items()
    }
    wrong = next(problems(command, known, subject), None)
    if wrong is not None:
        raise ValueError(wrong)
    passed = tuple(env_from)

    async def script(ctx: ToolContext, **given: Any) -> ToolOutcome:
        folder = inside(root, cwd, opened)
        if not folder.is_dir():
            raise ToolFailed(f"there is no folder `{cwd}` to start in", "NotFound")
        argv = filled(command, known, given, root, folder, opened)
        output = Output(max_output, ctx.progress)
        try:
            code = await run_argv(argv, folder, environment(passed, hidden), timeout, output)
        except OSError as error:
            raise ToolFailed(f"`{argv[0]}` cannot be started: {error.strerror}", "NotStarted") from None
        return outcome_of_run(output, code, timeout)

    _sign(script, known)
    settings: dict[str, Any] = {**SCRIPT, "name": "script", "description": description, "subject": subject}
    if subject is not None and known[subject].type == "path":
        settings["subject_kind"] = "path"
    return naming(
        tool(script, **settings), opened if any(each.type == "path" for each in known.values()) else ()
    )


def _argument(given: Mapping[str, Any]) -> Argument:
    values = dict(given)
    values["choices"] = tuple(values.get("choices", ()))
    return Argument(**values)


def _sign(script: Any, args: Mapping[str, Argument]) -> None:
    """Give a function the parameters that the model shall see."""
    kind = inspect.Parameter.KEYWORD_ONLY
    hints = {name: _hint(each) for name, each in args.items()}
    parameters = [inspect.Parameter("ctx", kind, annotation=ToolContext)]
    for name, each in args.items():
        default = inspect.Parameter.empty if each.default is None else each.default
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=hints[name]))
    script.__signature__ = inspect.Signature(parameters, return_annotation=ToolOutcome)
    script.__annotations__ = {"ctx": ToolContext, **hints, "return": ToolOutcome}


_TYPES: Final[Mapping[Kind, Any]] = {
    "string": str, "path": str, "integer": int, "number": float, "boolean": StrictBool,
}  # fmt: skip


def _hint(given: Argument) -> Any:
    hint: Any = Literal[given.choices] if given.choices else _TYPES[given.type]
    more: list[Any] = [Field(description=given.description or None)]
    if given.pattern:
        more.append(AfterValidator(_Matches(given.pattern)))
    return Annotated[(hint, *more)]


class _Matches:
    """Refuses text that a pattern does not match as a whole."""

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(pattern)

    def __call__(self, value: object) -> object:
        if self._pattern.fullmatch(str(value)) is None:
            raise ValueError(f"it must match {self._pattern.pattern}")
        return value


def filled(
    command: Sequence[str],
    args: Mapping[str, Argument],
    given: Mapping[str, Any],
    root: Path | str,
    folder: Path | str | None = None,
    opened: Sequence[Path] = (),
) -> tuple[str, ...]:
    """Return the command with its gaps filled in.

    Args:
        command: The program and its arguments, with gaps.
        args: What may go into the gaps.
        given: What does.
        root: What paths are relative to, and must not leave.
        folder: Where the program starts; None: the root.
        opened: Other folders that paths may lead to, resolved.

    Raises:
        PermissionError: If a path leads out of the root and these folders.
        ToolFailed: If a value cannot be an argument, or would be taken for an option.
    """
    texts = {
        name: _path(root, folder or root, _text(name, value), opened)
        if args[name].type == "path"
        else _text(name, value)
        for name, value in given.items()
    }
    made: list[str] = []
    for part in command:
        text = GAP.sub(lambda found: texts[found[1]] if found[1] else found[0][0], part)
        if text.startswith("-") and not part.startswith("-") and "--" not in made and not _meant(part, args):
            raise ToolFailed(f"`{text}` would be taken for an option", "LooksLikeOption")
        made.append(text)
    return tuple(made)


def _meant(part: str, args: Mapping[str, Argument]) -> bool:
    """Return whether a gap may begin with a dash: a number may, and what the author listed."""
    found = GAP.fullmatch(part)
    if found is None or not found[1]:
        return False
    argument = args[found[1]]
    return bool(argument.choices) or argument.type in ("integer", "number")


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if "\0" in text:
        raise ToolFailed(f"{name} holds a NUL character, which no argument can hold", "BadText")
    return text


def _path(root: Path | str, folder: Path | str, text: str, opened: Sequence[Path]) -> str:
    """Return a path relative to the folder that the program starts in; one outside of the root is whole."""
    real = inside(root, text, opened)
    if not real.is_relative_to(os.path.realpath(root)):
        return str(real)
    path = os.path.relpath(real, os.path.realpath(folder))
    return f"./{path}" if path.startswith("-") else path

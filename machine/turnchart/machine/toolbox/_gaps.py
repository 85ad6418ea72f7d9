"""The gaps in the command of a script: what they look like, and whether arguments fit them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

Kind = Literal["string", "integer", "number", "boolean", "path"]
GAP: Final = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A gap, ``{name}``, or a doubled brace, which stands for one."""


class Argument(NamedTuple):
    """One argument that the model gives.

    Attributes:
        type: What it is; a ``path`` must lead to a place below the root.
        description: What the model reads about it.
        choices: What it may be; empty for anything.
        pattern: A regular expression that must match all of it; empty for none.
        default: What it is when the model does not give it; None: it must be given.
    """

    type: Kind = "string"
    description: str = ""
    choices: tuple[str | int | float, ...] = ()
    pattern: str = ""
    default: str | int | float | bool | None = None


def problems(
    command: Sequence[str], args: Mapping[str, Argument], subject: str | None = None
) -> Iterator[str]:
    """Say what does not fit between the gaps of a command and its arguments."""
    gaps = [found[1] for part in command for found in GAP.finditer(part) if found[1]]
    for name in dict.fromkeys(gaps):
        if name not in args:
            known = ", ".join(args) or "none"
            own = f"a brace of the command itself is doubled: {{{{{name}}}}}"
            yield f"{{{name}}} is none of args ({known}); {own}"
    for name in args:
        if name == "ctx":
            yield "no argument can be named ctx"
        elif name not in gaps:
            yield f"the command has no {{{name}}}, where the argument {name} would go"
    if command and GAP.search(command[0]):
        yield "the program itself must be fixed, so its name can have no gap"
    if subject is not None and subject not in args:
        yield f"subject is {subject}, which is none of args"

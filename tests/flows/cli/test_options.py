import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from turnchart.flows import cli as folder


def helps(source: str) -> Iterator[str]:
    """Yield what a module says of the arguments and options that it declares."""
    for call in ast.walk(ast.parse(source)):
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("typer.Option", "typer.Argument"):
            yield from (ast.unparse(each.value) for each in call.keywords if each.arg == "help")


def test_what_several_commands_take_is_declared_once() -> None:
    said = Counter(
        help for file in Path(folder.__path__[0]).glob("*.py") for help in helps(file.read_text("utf-8"))
    )
    assert len(said) > 50
    assert [help for help, count in said.items() if count > 1] == []


@pytest.mark.parametrize("command", ["run", "worker", "hook test"])
def test_what_is_shared_is_in_the_help_of_each(command: str, cli: Callable[..., Any]) -> None:
    text = " ".join(cli(*command.split(), "--help").out.split())
    assert "--trust Agree to what the flow starts and reaches." in text
    assert "--plugin MODULE Import this for its hooks and tools." in text
    assert re.search(r"FLOW (<str> )?A file, or the name of a shipped flow\. \[required\]", text)

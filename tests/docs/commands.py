"""The page about the command line, made from the functions that carry the commands out."""

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import typer
from tests.docs.markdown import code, page, sentence, table
from typer.models import ArgumentInfo, OptionInfo

from turnchart.flows.cli.main import COMMANDS, INTERRUPTED, NOT_TRUSTED, PROBLEMS

HEAD = """\
# Command line

`turnchart COMMAND --help` says the same, and `turnchart --version` which version it is. Where a command takes
`FLOW`, that is a file or the name of a flow that comes along; `SESSION` is the id of a session, how an id
begins, or a file that holds one session.
"""
EXITS = {
    0: "Good, or the turn is completed.",
    PROBLEMS: "There are problems, or the turn ended for any other reason.",
    2: "The command was called wrongly.",
    NOT_TRUSTED: "A flow starts or reaches something that nobody agreed to.",
    INTERRUPTED: "Interrupted by Ctrl-C.",
    143: "Ended by SIGTERM, or 129 by SIGHUP: the turn is closed and its tools are ended first.",
}


class Param(NamedTuple):
    """One parameter of a command: what it is called, its type, what typer is told of it, and its default."""

    name: str
    type: Any
    info: ArgumentInfo | OptionInfo
    default: object


def command_line() -> str:
    """Return the page."""
    commands = list(_commands())
    rows = [(f"[{code(name)}](#{name.replace(' ', '-')})", _told(each)[0]) for name, each in commands]
    return page(
        HEAD,
        table(("command", "what it does"), rows),
        "## Exit codes",
        table(("code", "when"), [(str(code), when) for code, when in EXITS.items()]),
        *(part for name, each in commands for part in _command(name, each)),
    )


def _commands() -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield every command with the function that carries it out, in the order of the help."""
    for name, where in COMMANDS.items():
        module, _, attribute = where.partition(".")
        found = getattr(import_module(f"turnchart.flows.cli.{module}"), attribute)
        if not isinstance(found, typer.Typer):
            yield f"turnchart {name}", found
            continue
        for each in found.registered_commands:
            assert each.callback is not None
            yield f"turnchart {name} {each.name or each.callback.__name__}", each.callback


def _told(function: Callable[..., object]) -> list[str]:
    return [" ".join(part.split()) for part in (inspect.getdoc(function) or "").split("\n\n")]


def _params(function: Callable[..., object]) -> Iterator[Param]:
    hints = get_type_hints(function, include_extras=True)
    for name, each in inspect.signature(function).parameters.items():
        type_, *more = get_args(hints[name])
        [info] = [found for found in more if isinstance(found, ArgumentInfo | OptionInfo)]
        yield Param(name, type_, info, each.default)


def _command(name: str, function: Callable[..., object]) -> Iterator[str]:
    params = list(_params(function))
    arguments = [each for each in params if isinstance(each.info, ArgumentInfo)]
    options = [each for each in params if isinstance(each.info, OptionInfo)]
    yield f"## {name}"
    yield f"```text\n{' '.join((name, *(['[OPTIONS]'] if options else []), *map(_usage, arguments)))}\n```"
    yield from _told(function)
    if params:
        yield table(
            ("argument or option", "what it is", "default"),
            [
                *((code(_usage(each)), sentence(each.info.help or ""), "") for each in arguments),
                *((_spelt(each), sentence(each.info.help or ""), _default(each)) for each in options),
            ],
        )


def _usage(param: Param) -> str:
    name = param.info.metavar or param.name.upper()
    kinds = (param.type, *get_args(param.type))
    more = "..." if any(get_origin(kind) is list for kind in kinds) else ""
    return f"{name}{more}" if param.default is inspect.Parameter.empty else f"[{name}]{more}"


def _spelt(param: Param) -> str:
    declared = (
        param.info.default,
        *(param.info.param_decls or ()),
    )  # in Annotated the first one is "default"
    words = [each for each in declared if isinstance(each, str) and each.startswith("-")]
    shown = ", ".join(words or [f"--{param.name.replace('_', '-')}"])
    kinds = [param.type, *get_args(param.type)]
    if bool in kinds:
        return code(shown)
    choices = [str(each) for kind in kinds if get_origin(kind) is Literal for each in get_args(kind)]
    return code(f"{shown} {'|'.join(choices) or param.info.metavar or 'VALUE'}")


def _default(param: Param) -> str:
    shown = isinstance(param.default, int | str) and param.default not in (False, True, "")
    return code(param.default) if shown else ""

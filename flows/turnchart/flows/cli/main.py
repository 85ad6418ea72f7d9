"""The command ``turnchart``. What a command needs is imported inside it, so that ``--help`` stays quick."""

import atexit
import gc
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

from turnchart.flows.cli.streams import settle, throw_away
from turnchart.machine.errors import TurnchartError

if TYPE_CHECKING:
    import typer

PROBLEMS, NOT_TRUSTED, INTERRUPTED = 1, 3, 130
"""Exit codes, beside 0 and those of wrong usage (2)."""
COMMANDS: Final[Mapping[str, str]] = {
    "run": "run.run",
    "check": "check.check",
    "show": "show.show",
    "diagram": "diagram.diagram",
    "verify": "verify.verify",
    "view": "view.view",
    "flows": "flows.flows",
    "schema": "schema.schema",
    "init": "init.init",
    "test": "test.run_tests",
    "hook": "hook.app",
    "sessions": "sessions.app",
    "worker": "worker.worker",
}
"""Each command, in the order of the help, with its module here and what stands for it there."""
_SWITCHES: Final = ("--strict", "--here", "--no-env", "--lint")
"""Options of ``check`` without a value."""
_RUN_OTHERS: Final = (
    "turnchart.flows.cli.running",
    "turnchart.flows.plugins",
    "turnchart.flows.testfiles.playing",
)
"""Loaded where tools or plug-ins may run, which may rely on what Python does at the exit."""


def _command_line(arguments: Sequence[str]) -> "typer.Typer":
    """Return the command line with the command that is called, or with all of them where none is."""
    import typer

    from turnchart.flows.cli.usage import Command

    app = typer.Typer(
        name="turnchart",
        help="LLM agent turns as explicit state machines, declared in YAML.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )

    def say_version(asked: bool) -> None:
        if asked:
            from turnchart.machine.version import VERSION

            typer.echo(f"turnchart {VERSION}")
            raise typer.Exit

    @app.callback()
    def options(  # with a callback a lone command is still called by its name
        version: Annotated[
            bool,
            typer.Option("--version", callback=say_version, is_eager=True, help="Say which version this is."),
        ] = False,
    ) -> None:
        del version

    called = [name for name in arguments[:1] if name in COMMANDS]
    for name in called or COMMANDS:
        module, _, attribute = COMMANDS[name].partition(".")
        command = getattr(import_module(f"turnchart.flows.cli.{module}"), attribute)
        if isinstance(command, typer.Typer):
            for each in command.registered_commands:
                each.cls = Command
            app.add_typer(command, name=name)
        else:
            app.command(name, cls=Command)(command)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, and end the process with its exit code.

    Args:
        arguments: Without the name of the program; None takes those of the process.
    """
    gc.set_threshold(100_000)  # a command makes much, drops little, and is soon over
    atexit.register(_spare_the_collector)
    os.environ.setdefault("TYPER_USE_RICH", "0")  # asked once, when typer is imported
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    _open_streams()
    try:
        if _is_plain_check(arguments):
            _check(arguments[1:])
        if _is_plain_run(arguments):
            _run(arguments[1:])
        try:
            _command_line(arguments)(args=arguments, prog_name="turnchart")
        finally:
            settle()
    except TurnchartError as error:
        _report(error)
    except BrokenPipeError:  # nobody reads on, as in `turnchart ... | head -1`
        throw_away(sys.stdout)
        sys.exit(PROBLEMS)
    except OSError as error:  # a file or stdout cannot be written; what is read says its own words
        try:
            sys.stdout.flush()
        except OSError:
            throw_away(sys.stdout)
        where = f"{error.filename}: " if error.filename is not None else ""
        _say(f"turnchart: {where}{error.strerror or error}", PROBLEMS)
    except KeyboardInterrupt:  # while a command is loaded
        sys.exit(INTERRUPTED)


def _open_streams() -> None:
    """Let streams that the caller has closed lead nowhere, so that nothing has to ask for them."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # open until the end


def _is_plain_check(arguments: Sequence[str]) -> bool:
    """Tell whether flows are checked with switches alone: editors and hooks of git do that all day."""
    named = [each for each in arguments[1:] if each not in _SWITCHES]
    return arguments[:1] == ["check"] and named != [] and not any(each.startswith("-") for each in named)


def _check(arguments: Sequence[str]) -> NoReturn:
    """Check flows, and end the process; nothing that parses options is loaded for that."""
    from turnchart.flows.cli.checking import say_problems

    gc.disable()  # it is soon over
    flows = [each for each in arguments if each not in _SWITCHES]
    strict, here, no_env, lint = (switch in arguments for switch in _SWITCHES)
    try:
        code = say_problems(flows, strict=strict, here=here, no_env=no_env, lint=lint)
        settle()  # a reader that went away is noticed here
    except KeyboardInterrupt:
        code = INTERRUPTED
    finally:
        gc.enable()
    sys.exit(code)


def _is_plain_run(arguments: Sequence[str]) -> bool:
    """Tell whether a flow is run without options, with a prompt or none: a person waits for that."""
    return (
        arguments[:1] == ["run"]
        and len(arguments) in (2, 3)
        and not any(each.startswith("-") for each in arguments)
    )


def _run(arguments: Sequence[str]) -> None:
    """Run a flow, and end the process; return where the command line has to say what does not fit."""
    from turnchart.flows.cli.starting import start

    try:
        code = start(*arguments)
        settle()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as error:
        from typer import BadParameter

        if isinstance(error, BadParameter):
            return
        raise
    sys.exit(code)


def _report(error: TurnchartError) -> None:
    """Say what is wrong, and end with the exit code for it."""
    from turnchart.flows.problems import FlowError, NotTrusted

    text = str(error) if isinstance(error, FlowError) else f"turnchart: {error}"
    _say(text, NOT_TRUSTED if isinstance(error, NotTrusted) else PROBLEMS)


def _spare_the_collector() -> None:
    """Let the exit be quick: what only our own code made need not be searched for cycles once more."""
    if sys.modules.keys().isdisjoint(_RUN_OTHERS):
        gc.freeze()


def _say(text: str, code: int) -> None:
    from turnchart.flows.cli.words import plain

    print(plain(text), file=sys.stderr)
    sys.exit(code)

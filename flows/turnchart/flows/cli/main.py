"""The command ``turnchart``. What a command needs is imported inside it, so that ``--help`` stays quick."""

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from typing import Final

os.environ.setdefault("TYPER_USE_RICH", "0")  # asked once, when typer is imported

import typer

from turnchart.flows.cli.check import check
from turnchart.flows.cli.diagram import diagram
from turnchart.flows.cli.flows import flows
from turnchart.flows.cli.hook import app as hook
from turnchart.flows.cli.init import init
from turnchart.flows.cli.run import run
from turnchart.flows.cli.schema import schema
from turnchart.flows.cli.sessions import app as sessions
from turnchart.flows.cli.show import show
from turnchart.flows.cli.streams import throw_away
from turnchart.flows.cli.test import run_tests
from turnchart.flows.cli.verify import verify
from turnchart.flows.cli.view import view
from turnchart.flows.problems import FlowError, NotTrusted
from turnchart.machine.errors import TurnchartError

PROBLEMS, NOT_TRUSTED, INTERRUPTED = 1, 3, 130
"""Exit codes, beside 0 and those of wrong usage (2)."""
_RUN_OTHERS: Final = (
    "turnchart.flows.cli.running",
    "turnchart.flows.plugins",
    "turnchart.flows.testfiles.playing",
)
"""Loaded where tools or plug-ins may run, which may rely on what Python does at the exit."""

app = typer.Typer(
    name="turnchart",
    help="LLM agent turns as explicit state machines, declared in YAML.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in (run, check, show, diagram, verify, view, flows, schema, init):
    app.command()(command)
app.command("test")(run_tests)
app.add_typer(hook, name="hook")
app.add_typer(sessions, name="sessions")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, and end the process with its exit code.

    Args:
        arguments: Without the name of the program; None takes those of the process.
    """
    gc.set_threshold(100_000)  # a command makes much, drops little, and is soon over
    atexit.register(_spare_the_collector)
    try:
        app(args=arguments, prog_name="turnchart")
    except NotTrusted as error:
        _say(str(error), NOT_TRUSTED)
    except FlowError as error:
        _say(str(error), PROBLEMS)
    except TurnchartError as error:
        _say(f"turnchart: {error}", PROBLEMS)
    except BrokenPipeError:  # nobody reads on, as in `turnchart ... | head -1`
        throw_away(sys.stdout)
        sys.exit(PROBLEMS)


def _spare_the_collector() -> None:
    """Let the exit be quick: what only our own code made need not be searched for cycles once more."""
    if sys.modules.keys().isdisjoint(_RUN_OTHERS):
        gc.freeze()


def _say(text: str, code: int) -> None:
    from turnchart.flows.cli.words import plain

    print(plain(text), file=sys.stderr)
    sys.exit(code)

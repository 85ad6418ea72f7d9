"""``turnchart sessions``: the commands about recorded sessions. What is new is one more line of the table."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import typer

from turnchart.flows.cli.sessions_delete import delete
from turnchart.flows.cli.sessions_export import export_session
from turnchart.flows.cli.sessions_fork import fork
from turnchart.flows.cli.sessions_import import import_session
from turnchart.flows.cli.sessions_list import list_sessions
from turnchart.flows.cli.sessions_repair import repair
from turnchart.flows.cli.sessions_search import search
from turnchart.flows.cli.sessions_show import show

COMMANDS: Final[Mapping[str, Callable[..., Any]]] = {
    "list": list_sessions,
    "show": show,
    "search": search,
    "fork": fork,
    "export": export_session,
    "import": import_session,
    "delete": delete,
    "repair": repair,
}
"""Each command with the function that does it, in the order of the help."""

app = typer.Typer(
    help="Look at recorded sessions, copy them, move them.", no_args_is_help=True, rich_markup_mode=None
)
for name, command in COMMANDS.items():
    app.command(name)(command)

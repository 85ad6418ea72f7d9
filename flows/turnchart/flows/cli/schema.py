"""``turnchart schema``: the JSON Schema of the format, which lets editors complete and check a flow."""

from pathlib import Path
from typing import Annotated, Final

import typer

from turnchart.flows.cli.options import Plugins, PluginTrust

NAME: Final = "agent.schema.json"


def schema(
    write: Annotated[bool, typer.Option("--write", help=f"Write it to {NAME} in this folder.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write it to this file.")
    ] = None,
    plugins: Plugins = None,
    trust: PluginTrust = False,
) -> None:
    """Print the JSON Schema of a flow. It has the hooks and the tools of this project."""
    import json

    from turnchart.flows.check import known_here
    from turnchart.flows.cli.words import plain
    from turnchart.flows.json_schema import project_schema
    from turnchart.flows.problems import exit_code, render_all

    tools, problems = known_here(plugins or (), trust=trust)
    if problems:
        typer.echo(plain(render_all(problems)), err=True)
    text = json.dumps(project_schema(tools), ensure_ascii=False, indent=1)
    file = output or (Path(NAME) if write else None)
    if file is None:
        typer.echo(text)
    else:
        file.write_text(f"{text}\n", "utf-8")
        modeline = f"# yaml-language-server: $schema=./{file.name}"
        typer.echo(f"{file} is written; a flow beside it names it in its first line:\n{modeline}", err=True)
    raise typer.Exit(exit_code(problems))

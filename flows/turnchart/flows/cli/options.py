"""Arguments and options that several commands take, each said once."""

from pathlib import Path
from typing import Annotated

import typer

FlowFile = Annotated[str, typer.Argument(metavar="FLOW", help="A file, or the name of a shipped flow.")]
Plugins = Annotated[
    list[str] | None, typer.Option("--plugin", metavar="MODULE", help="Import this for its hooks and tools.")
]
Trust = Annotated[bool, typer.Option("--trust", help="Agree to what the flow starts and reaches.")]
PluginTrust = Annotated[bool, typer.Option("--trust", help="Agree to import the plug-ins of the project.")]
Params = Annotated[
    list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="Say what the flow leaves open.")
]
StorePath = Annotated[
    str | None,
    typer.Option("--store", metavar="PATH", help="A .jsonl file, a folder of them, or a SQLite file."),
]
RunStore = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="PATH",
        help="A .jsonl file, a folder of them, or a SQLite file; or memory: the session ends with the run.",
    ),
]
SessionName = Annotated[
    str,
    typer.Argument(metavar="SESSION", help="An id, or how one begins, or a file (.jsonl, .db)."),
]
FlowName = Annotated[
    str | None, typer.Option("--flow", metavar="FLOW", help="Where this flow keeps its sessions.")
]
FlowPlugins = Annotated[
    list[str] | None,
    typer.Option("--plugin", metavar="MODULE", help="Import this for the store of --flow."),
]
FlowTrust = Annotated[bool, typer.Option("--trust", help="Agree to reach the store of --flow.")]
NewId = Annotated[
    str | None, typer.Option("--id", metavar="ID", help="The id of the new session; else one is chosen.")
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there, not to stdout.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

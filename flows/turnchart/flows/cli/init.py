"""``turnchart init``: a flow to begin with, and its test."""

import re
from pathlib import Path
from typing import Annotated, Final

import typer

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")

FLOW: Final = """\
# {name}: an agent as a file. Nobody needs a key or a network to try it:
#   turnchart check {name}.yaml           every mistake, with its line and its cure
#   turnchart test {name}.test.yaml       the conversations that it must stand
#   turnchart run {name}.yaml "Hello"     one turn
#   turnchart schema --write              help in your editor
version: 1
name: {name}
description: Answers questions about the files of this project.

model: test                       # answers "ok"; a real one is written provider:name

prompt:                           # parts are joined with a blank line; "- file: more.md" is one, too
  - text: |
      You answer questions about the files of this project.
      Say file and line for every fact.

tools: [read_file, list_files, shell]

permissions:                      # deny beats ask beats allow beats default
  default: ask                    # with nobody to ask, that is a deny
  deny: ['shell(sudo *)']
  allow: [read_file, list_files, 'shell(git status *)', 'shell(git diff *)']

hooks:                            # a list per hook point, run from top to bottom; see `turnchart hook list`
  pre_tool:
    - use: deny_commands
      id: no-folders              # tests, other files and --disable-hook name it by this
      tools: [shell]
      with: {{patterns: ['\\brm\\s+-\\w*r'], message: Whole folders are deleted by people only.}}

limits: {{max_steps: 30}}           # of one turn
"""

TEST: Final = """\
# What {name}.yaml must stand. The model is a script, and no tool runs: `turnchart test {name}.test.yaml`
version: 1
flow: {name}.yaml
tests:
  - name: it answers
    prompt: What is this project?
    model:                        # what the model says, answer by answer
      - {{text: It is new.}}
    expect:
      reason: completed
      text: It is new.

  - name: whole folders are not deleted
    approve: all                  # whoever is asked says yes; the hook says no all the same
    prompt: Clean up.
    model:
      - {{call: shell, args: {{command: rm -rf build}}}}
      - {{text: I may not do that.}}
    expect:
      reason: completed
      calls: [{{tool: shell, decision: deny, by: no-folders, ran: false}}]
"""


def init(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="What the flow is called; agent, or as the one it is copied from."
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="FLOW", help="Copy this one of `turnchart flows`, with what it names."
        ),
    ] = None,
) -> None:
    """Write NAME.yaml, a flow to begin with, and its test. That is NAME.test.yaml. Nothing is overwritten."""
    name = (name if name is not None else source or "agent").removesuffix(".yaml")
    if not _NAME.fullmatch(name):
        raise typer.BadParameter("use letters, digits, _ and -", param_hint="NAME")
    files = _starter(name) if source is None else _copied(source, name)
    typer.echo(f"{', '.join(map(str, files))}: written\nnext:  turnchart check {name}.yaml")


def _starter(name: str) -> list[Path]:
    from turnchart.machine.errors import TurnchartError

    files = {Path(f"{name}.yaml"): FLOW, Path(f"{name}.test.yaml"): TEST}
    there = [str(path) for path in files if path.exists()]
    if there:
        raise TurnchartError(f"{' and '.join(there)} {'is' if len(there) == 1 else 'are'} there already")
    for path, text in files.items():
        with path.open("x", encoding="utf-8") as file:
            file.write(text.format(name=name))
    return list(files)


def _copied(source: str, name: str) -> list[Path]:
    from turnchart.flows.copying import copy_flow
    from turnchart.flows.shipped import find_shipped, shipped_flows

    path = find_shipped(source)
    if path is None:
        known = ", ".join(flow.name for flow in shipped_flows())
        raise typer.BadParameter(f"no flow {source!r} comes along; there are: {known}", param_hint="--from")
    return copy_flow(path, name, Path())

"""What a run is made of, before anything runs: who says what, which hooks stay, where the log goes."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from turnchart.flows.checks import SCRIPT
from turnchart.flows.cli.inputs import meanwhile, own_prompts
from turnchart.flows.cli.lines import Lines, read_all
from turnchart.flows.cli.places import MEMORY, Shelf, declared, shelf
from turnchart.flows.load import Flow
from turnchart.flows.script import ScriptInput, load_script
from turnchart.machine.version import VERSION

if TYPE_CHECKING:
    import typer


class Plan(NamedTuple):
    """What is said to the agent.

    Attributes:
        prompts: A turn each; none where a person types them.
        inputs: What a script says while a turn runs.
        compact: The conversation is made shorter first; without prompts that is all.
    """

    prompts: tuple[str, ...]
    inputs: tuple[ScriptInput, ...] = ()
    compact: bool = False


def plan_of(
    flow: Flow, prompt: str | None, model: str | None, *, as_json: bool, compact: bool = False
) -> Plan:
    """Return what is said: the prompt of the command line, else those of the script, else what stdin holds.

    With ``compact`` nothing need be said, and only the command line says it.

    Raises:
        BadParameter: If there is nothing to say.
    """
    if compact and prompt is None:
        return Plan((), compact=True)
    inputs = _inputs(flow, model)
    said = own_prompts(inputs) if prompt is None else [prompt]
    if prompt == "-" or not (said or Lines().by_hand):
        said = [read_all().strip()]
    if "" in said or (as_json and not said):
        raise bad_parameter("there is none: give it as an argument, or pipe it in", "PROMPT")
    return Plan(tuple(said), tuple(meanwhile(inputs)), compact)


def _inputs(flow: Flow, model: str | None) -> Sequence[ScriptInput]:
    """Return what the script of the model adds to the conversation."""
    if model is None:
        return flow.script.at if flow.script is not None else ()
    return load_script(Path(model.removeprefix(SCRIPT))).at if model.startswith(SCRIPT) else ()


def without_hooks(flow: Flow, ids: Sequence[str]) -> Flow:
    """Return a flow that leaves these hooks out.

    Raises:
        BadParameter: If it has no hook with one of the ids.
    """
    hooks = flow.checked.hooks
    known = [use.part.id for use in hooks]
    for id in ids:
        if id not in known:
            listed = ", ".join(known) or "none"
            raise bad_parameter(f"no hook has the id {id!r}; the ids: {listed}", "--disable-hook")
    left = [use._replace(disabled=use.disabled or use.part.id in ids) for use in hooks]
    return replace(flow, checked=replace(flow.checked, hooks=left))


def params_of(given: Sequence[str]) -> dict[str, str]:
    """Return what the command line says of the params of the flow.

    Raises:
        BadParameter: If it is not NAME=VALUE, or says one twice.
    """
    found: dict[str, str] = {}
    for text in given:
        name, is_there, value = text.partition("=")
        if not (name and is_there):
            raise bad_parameter(f"{text!r} is not NAME=VALUE", "--param")
        if name in found:
            raise bad_parameter(f"{name} is given twice", "--param")
        found[name] = value
    return found


def shelf_of(flow: Flow, store: str | None, plugins: Sequence[str] = ()) -> Shelf:
    """Return where the session is kept: where the command line says, else the flow, else the usual place.

    The command line may say ``memory``, as a flow does: the session ends with the run.
    """
    if store == "memory":
        return MEMORY
    if store is None and flow.checked.store is not None:
        from turnchart.flows.cli.registered import Registered

        return Registered.of(flow.checked.store, flow.checked.shown, plugins)
    if store is None and flow.session is not None:
        return declared(flow.session.store, flow.session.path, flow.root)
    return shelf(store)


def info_of(flow: Flow) -> dict[str, str]:
    """Return what a session says of the flow and the program that it is used with."""
    return flow.info | {"version": VERSION}


def bad_parameter(text: str, which: str) -> "typer.BadParameter":
    """Return the error that an option does not fit; what says it is loaded only now."""
    import typer

    return typer.BadParameter(text, param_hint=which)

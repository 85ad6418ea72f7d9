"""What ``turnchart run`` does with its options; nothing that parses options is loaded for it."""

from collections.abc import Sequence
from functools import partial
from typing import Literal

from turnchart.flows.cli.plan import bad_parameter, info_of, params_of, plan_of, shelf_of, without_hooks
from turnchart.flows.cli.recording import made, tape_of
from turnchart.flows.cli.running import Run
from turnchart.flows.cli.trusting import load_to_run


def start(
    flow: str,
    prompt: str | None = None,
    *,
    session: str | None = None,
    store: str | None = None,
    as_json: bool = False,
    approve: Literal["all", "reads", "none"] | None = None,
    model: str | None = None,
    plugins: Sequence[str] = (),
    trust: bool = False,
    disabled: Sequence[str] = (),
    params: Sequence[str] = (),
    record: str | None = None,
    compact: bool = False,
    traces: bool = False,
    verbose: bool = False,
) -> int:
    """Run a flow, and return the exit code. The options are those of the command, by the same names.

    Raises:
        BadParameter: If an option does not fit the flow or the others; nothing has run then.
        TurnchartError: If the flow, the session or a file cannot be read.
    """
    given = params_of(params)
    loaded = load_to_run(flow, plugins, trust=trust, ask=not as_json, params=given)
    loaded = without_hooks(loaded, disabled)
    if compact and session is None:
        raise bad_parameter("which conversation? name it with --session ID", "--compact")
    plan = plan_of(loaded, prompt, model, as_json=as_json, compact=compact)
    shelf = shelf_of(loaded, store, plugins)
    tape = tape_of(record)
    again = partial(made, loaded, model, tape, traces=traces)
    agent = again(session=shelf.open(session, loaded.name))
    whole = Run(
        agent, plan, shelf, info_of(loaded), approve, as_json=as_json, again=lambda s: again(session=s),
        verbose=verbose, judged=loaded.file.output is not None,
    )  # fmt: skip
    try:
        return whole.whole()
    finally:
        if tape is not None:
            tape.write()

"""``turnchart worker``: runs the turns of a flow that others ask for, and goes on with those of the dead."""

import signal
from typing import TYPE_CHECKING, Annotated

import typer

from turnchart.flows.cli.options import FlowFile, Params, Plugins, Trust

if TYPE_CHECKING:
    from turnchart.flows.load import Flow
    from turnchart.machine.durable import Worker


def worker(
    flow: FlowFile,
    store: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="The database: postgres://user:password@host/name, or sqlite:PATH on one machine.",
        ),
    ],
    concurrency: Annotated[int, typer.Option(min=1, help="How many turns run at once.")] = 50,
    lease: Annotated[
        float, typer.Option(min=0.5, metavar="SECONDS", help="A worker not heard of for so long is dead.")
    ] = 10.0,
    version: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Turns are gone on with by workers of the same version only."),
    ] = None,
    plugins: Plugins = None,
    trust: Trust = False,
    params: Params = None,
) -> None:
    """Run turns of a flow until stopped. What runs then goes on in another worker (turnchart[durable])."""
    import anyio

    from turnchart.flows.cli.plan import info_of, params_of
    from turnchart.flows.cli.trusting import load_to_run
    from turnchart.machine.durable import Worker
    from turnchart.machine.durable.journal import VERSION
    from turnchart.machine.session import Session

    loaded = load_to_run(flow, plugins or (), trust=trust, params=params_of(params or ()))
    loaded.agent(session=Session.memory())  # what keeps the flow from running is said now, not to every turn
    works = Worker(
        store, lambda session: loaded.agent(session=session), flow=loaded.name, concurrency=concurrency,
        lease=lease, version=version or VERSION, about=info_of(loaded),
    )  # fmt: skip
    anyio.run(_until_stopped, works, loaded)


async def _until_stopped(works: "Worker", flow: "Flow") -> None:
    import anyio

    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with works:
            typer.echo(f"working on turns of {flow.name}; stop with Ctrl-C", err=True)
            async for _ in signals:
                break
    typer.echo("stopped; what ran goes on in another worker", err=True)

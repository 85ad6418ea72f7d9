"""``turnchart worker``: runs the turns of a flow that others ask for, and goes on with those of the dead."""

import signal
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from turnchart.flows.load import Flow
    from turnchart.machine.durable import Worker


def worker(
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="A file, or the name of a shipped flow.")],
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
    plugins: Annotated[
        list[str] | None,
        typer.Option("--plugin", metavar="MODULE", help="Import this for its hooks and tools."),
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Agree to what the flow starts and reaches.")
    ] = False,
    params: Annotated[
        list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="Say what the flow leaves open.")
    ] = None,
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

"""``turnchart flows``: the flows that come along."""

import typer


def flows() -> None:
    """List the flows that come along. The other commands find them by name."""
    from turnchart.flows.cli.words import one_line
    from turnchart.flows.shipped import shipped_flows

    found = shipped_flows()
    width = max((len(flow.name) for flow in found), default=0)
    for flow in found:
        typer.echo(f"{flow.name:<{width}}  {one_line(flow.description)}".rstrip())

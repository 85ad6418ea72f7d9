"""``turnchart view``: a page with the chart beside the sequence, and a player for a session's entries."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnchart.flows.cli.options import FlowName, FlowTrust, Plugins, StorePath

if TYPE_CHECKING:
    from turnchart.machine.stores import Store


def view(
    name: Annotated[
        str, typer.Argument(metavar="SESSION|FLOW", help="A session (id or file), or a flow (file or name).")
    ],
    live: Annotated[
        bool, typer.Option("--live", help="Serve the page on this machine, and follow a running session.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the page there.")
    ] = None,
    opens: Annotated[
        bool, typer.Option("--open/--no-open", help="Open it in the browser; else only say where it is.")
    ] = True,
    port: Annotated[int, typer.Option(help="For --live; 0 takes a free one.", min=0, max=65535)] = 0,
    plugins: Plugins = None,
    store: StorePath = None,
    flow: FlowName = None,
    trust: FlowTrust = False,
) -> None:
    """Show a session or a flow in the browser. Only reads."""
    if live and output is not None:
        raise typer.BadParameter("a page that is served is not written", param_hint="--output")
    if _is_flow(name):
        if live:
            raise typer.BadParameter("only a session can be followed", param_hint="--live")
        from turnchart.diagrams import html_page
        from turnchart.flows.load import flow_to_show

        _show(html_page(flow_to_show(name, plugins or ())), Path(name).stem, output, opens)
        return
    from turnchart.flows.cli.sessions_place import found

    kept = found(name, store, flow, plugins or (), trust=trust)
    if live:
        _serve(kept, lambda: found(name, store, flow, plugins or (), trust=trust), port, opens)
    else:
        _show(_session_page(kept), kept.id, output, opens)


def _is_flow(name: str) -> bool:
    from turnchart.flows.shipped import find_shipped

    return name.endswith((".yaml", ".yml")) or find_shipped(name) is not None


def _session_page(kept: "Store") -> str:
    from turnchart.diagrams import html_page, session_overlay

    return html_page(session_overlay(kept.load(), f"session {kept.id}"))


def _show(page: str, name: str, output: Path | None, opens: bool) -> None:
    """Write a page, say where it is, and open it."""
    if output is None:
        from tempfile import mkdtemp

        output = Path(mkdtemp(prefix="turnchart-")) / f"{_file_name(name)}.html"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(page, encoding="utf-8")
    typer.echo(str(output))
    if opens:
        _open(output.resolve().as_uri())


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)


def _serve(kept: "Store", again: "Callable[[], Store]", port: int, opens: bool) -> None:
    """Serve a session until it is interrupted, or the process is to end."""
    from turnchart.flows.cli.serving import Server

    with _ending_in_order(), Server(kept, again, port) as server:
        typer.echo(server.url)
        typer.echo("it follows the session; Ctrl-C ends it", err=True)
        if opens:
            _open(server.url)
        server.run()


@contextmanager
def _ending_in_order() -> Generator[None]:
    """Let the signals that end the process leave what is open in order, with the exit code for them."""
    import signal

    from turnchart.flows.cli.conversation import ending_signals

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = {each: signal.signal(each, end) for each in ending_signals()}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _open(url: str) -> None:
    import webbrowser

    if not webbrowser.open(url):
        typer.echo("no browser could be opened; open it by hand", err=True)

"""``turnchart hook``: which hooks there are, a payload to try one with, and trying them."""

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnchart.flows.cli.options import AsJson, FlowFile, Plugins, PluginTrust, Trust

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnchart.flows.tool_checks import Named
    from turnchart.hooks.registry import HookSpec
    from turnchart.machine.points import Payload

app = typer.Typer(no_args_is_help=True, help="List, sample and try hooks.", rich_markup_mode=None)

_Point = Annotated[str, typer.Argument(metavar="POINT", help="A hook point, such as pre_tool.")]


@app.command("list")
def list_hooks(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Only these, with their parameters.")
    ] = None,
    point: Annotated[
        str | None, typer.Option("--point", metavar="POINT", help="Only those that run on this point.")
    ] = None,
    as_json: AsJson = False,
    plugins: Plugins = None,
    trust: PluginTrust = False,
) -> None:
    """List the hooks that a flow can name. Each has its points and its parameters."""
    from turnchart.flows.check import known_here
    from turnchart.flows.cli.words import escaped, plain
    from turnchart.flows.problems import exit_code, render_all
    from turnchart.hooks.registry import HOOKS

    _, problems = known_here(plugins or (), trust=trust)
    if problems:
        typer.echo(plain(render_all(problems)), err=True)
    known = _known_names(point)
    for name in names or ():
        if name not in known:
            raise typer.BadParameter(
                f"no hook named {name!r}; the hooks: {', '.join(known)}", param_hint="NAME"
            )
    specs = [spec for name in names or known if (spec := HOOKS.get(name)) is not None]
    if as_json:
        typer.echo(escaped(json.dumps([_record(spec) for spec in specs], ensure_ascii=False, indent=1)))
    elif names:
        typer.echo("\n\n".join(_page(spec) for spec in specs))
    else:
        typer.echo("\n".join(_lines(specs)))
    raise typer.Exit(exit_code(problems))


def _known_names(point: str | None) -> tuple[str, ...]:
    from turnchart.hooks.registry import HOOKS
    from turnchart.machine.points import POINTS

    if point is not None and point not in POINTS:
        raise typer.BadParameter(
            f"there is no such point; the points: {', '.join(POINTS)}", param_hint="--point"
        )
    return HOOKS.names(point)


def _lines(specs: "list[HookSpec]") -> list[str]:
    from turnchart.flows.cli.words import one_line

    width = max((len(spec.name) for spec in specs), default=0)
    return [
        f"{spec.name:<{width}}  {one_line(spec.doc.partition(chr(10))[0])} ({_where(spec)})" for spec in specs
    ]


def _where(spec: "HookSpec") -> str:
    from turnchart.machine.points import POINTS

    return "every point" if len(spec.points) == len(POINTS) else ", ".join(spec.points)


def _page(spec: "HookSpec") -> str:
    from turnchart.flows.cli.words import plain

    lines = [f"{spec.name}  ({_where(spec)})  {spec.where}"]
    lines += [f"  {line}".rstrip() for line in plain(spec.doc).splitlines()]
    for name, about in _parameters(spec).items():
        shown = {key: value for key, value in about.items() if key not in ("title", "default", "required")}
        default = f" = {json.dumps(about['default'])}" if "default" in about else ""
        needed = "  (required)" if about["required"] else ""
        lines.append(f"  with.{name}{default}: {json.dumps(shown)}{needed}")
    return "\n".join(lines)


def _record(spec: "HookSpec") -> dict[str, Any]:
    return {
        "name": spec.name, "points": spec.points, "doc": spec.doc, "where": spec.where,
        "observes": spec.defaults.observes, "parameters": _parameters(spec),
    }  # fmt: skip


def _parameters(spec: "HookSpec") -> dict[str, Any]:
    """Return the parameters as JSON Schema, each with whether it must be given."""
    found = spec.params.model_json_schema()
    required = found.get("required", [])
    return {
        name: {**about, "required": name in required} for name, about in found.get("properties", {}).items()
    }


@app.command("sample")
def sample_payload(
    point: _Point,
    dialect: Annotated[
        str | None, typer.Option(metavar="claude_code", help="As a hook of Claude Code reads it.")
    ] = None,
) -> None:
    """Print a payload as a program reads it on stdin. Try yours: hook sample POINT | ./my_hook.py."""
    from turnchart.flows.samples import sample

    typer.echo(
        json.dumps(_question(sample(point), point, dialect), ensure_ascii=False, indent=1, default=_plain)
    )


def _question(payload: Any, point: str, dialect: str | None) -> Any:
    from turnchart.hooks.command import PROTOCOL

    if dialect is None:
        return payload.json() | {"protocol": PROTOCOL, "point": point}
    from turnchart.hooks.claude_code import EVENTS, question

    if dialect != "claude_code":
        raise typer.BadParameter("there is one dialect: claude_code", param_hint="--dialect")
    asked = question(point, payload, {}, ".") if point in EVENTS else None
    if asked is None:
        raise typer.BadParameter(f"it has no such event; it has: {', '.join(EVENTS)}", param_hint="POINT")
    return asked


def _plain(value: object) -> object:
    from dataclasses import asdict, is_dataclass

    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


@app.command("test")
def try_hook(
    point: _Point,
    flow: FlowFile,
    id: Annotated[str | None, typer.Option("--id", metavar="ID", help="Only this hook of the chain.")] = None,
    tool: Annotated[str | None, typer.Option(metavar="NAME", help="The tool of the call.")] = None,
    args: Annotated[
        str | None, typer.Option(metavar="JSON", help='Its arguments, such as {"command": "ls"}.')
    ] = None,
    payload: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The payload as JSON, whole or in part; - reads stdin."),
    ] = None,
    expect: Annotated[
        str | None,
        typer.Option(metavar="WORD", help="Fail unless this comes out: a decision, none, or failed."),
    ] = None,
    as_json: AsJson = False,
    plugins: Plugins = None,
    trust: Trust = False,
) -> None:
    """Run the hooks of a flow on one payload, and show what each said. Programs that it names are run."""
    import anyio

    from turnchart.flows.cli.trusting import load_to_run
    from turnchart.flows.cli.words import escaped, plain
    from turnchart.flows.samples import payload_of
    from turnchart.flows.trying import try_hooks

    given = _given(payload) | ({"tool": tool} if tool is not None else {})
    if args is not None:
        given["args"] = _object(args, "--args")
    asked = payload_of(point, given)
    if expect is not None:
        _see_word(point, expect)
    loaded = load_to_run(flow, plugins or (), trust=trust, ask=not as_json)
    known = loaded.checked.tools
    if tool is not None and known and not any(each.fits(tool) for each in known):
        names = ", ".join(name for each in known for name in each.shown)
        raise typer.BadParameter(f"the flow has no tool {tool!r}; its tools: {names}", param_hint="--tool")
    if "args" in given:
        _see_arguments(asked, known, "--args" if args is not None else "--payload")
    tried = anyio.run(try_hooks, loaded, point, asked, id)
    if as_json:
        record = {
            "decision": tried.decision, "reason": tried.reason, "changes": tried.changes,
            "notices": tried.notices, "trace": tried.trace,
        }  # fmt: skip
        typer.echo(escaped(json.dumps(record, ensure_ascii=False, indent=1, default=_plain)))
    else:
        typer.echo(plain("\n".join(tried.lines())))
    if expect is not None and tried.decision != expect:
        typer.echo(f"expected {expect}, but it came to {tried.decision}", err=True)
        raise typer.Exit(1)


def _see_arguments(asked: "Payload", known: "Sequence[Named]", option: str) -> None:
    """See that the tool of the flow takes the arguments: with others no call of it gets as far as a hook."""
    from turnchart.machine.tool_arguments import ToolArgumentError

    name = getattr(asked, "tool", None)
    for each in known:
        if each.name == name and each.server is None and each.tool is not None:
            try:
                each.tool.parse(getattr(asked, "args", {}))
            except ToolArgumentError as error:
                raise typer.BadParameter(str(error), param_hint=option) from error


def _see_word(point: str, expect: str) -> None:
    from turnchart.machine.points import POINTS

    words = [*(each.word for each in POINTS[point].decisions), "none", "failed"]
    if expect not in words:
        message = f"at {point} there is no {expect!r}; say one of: {', '.join(words)}"
        raise typer.BadParameter(message, param_hint="--expect")


def _given(payload: str | None) -> dict[str, Any]:
    if payload is None:
        return {}
    if payload == "-":
        return _object(sys.stdin.read(), "--payload")
    try:
        with open(payload, encoding="utf-8") as file:
            return _object(file.read(), "--payload")
    except (OSError, UnicodeDecodeError) as error:
        from turnchart.flows.cli.words import why

        raise typer.BadParameter(why(error), param_hint="--payload") from error


def _object(text: str, option: str) -> dict[str, Any]:
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"it is no JSON: {error}", param_hint=option) from error
    if not isinstance(found, dict):
        raise typer.BadParameter("it must be a JSON object", param_hint=option)
    return found  # pyright: ignore[reportUnknownVariableType]  # plain data

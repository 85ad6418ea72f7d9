"""``turnchart test``: play the conversations of test files, and say what came out otherwise."""

from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

import typer

from turnchart.flows.cli.options import Plugins

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from turnchart.flows.testfiles.suite import Case

Outcome = Literal["passed", "failed", "broken"]
INTERRUPTED: Final = 130
"""What the process ends with after Ctrl-C."""


def run_tests(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Test files, or folders of them; else those below this folder."),
    ] = None,
    wanted: Annotated[
        str, typer.Option("-k", metavar="TEXT", help="Play only tests with this in their name.")
    ] = "",
    plugins: Plugins = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Agree to what the flow starts and reaches where a stub is real.")
    ] = False,
    format: Annotated[Literal["text", "json"], typer.Option(help="How results are printed.")] = "text",
) -> None:
    """Play scripted conversations with a flow. Nothing real is started unless a stub says so."""
    from turnchart.flows.testfiles.finding import find_suites

    found = find_suites(files or ())
    if not found:
        raise typer.BadParameter(
            "there are no test files: they are named *.test.yaml and name a flow", param_hint="FILE"
        )
    try:
        results = [result for name in found for result in _played(name, wanted, plugins or (), trust=trust)]
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    if not results:
        raise typer.BadParameter(f"no test has {wanted!r} in its name", param_hint="-k")
    _print(results, as_json=format == "json")
    raise typer.Exit(int(any(result.outcome != "passed" for result in results)))


class Result(NamedTuple):
    """What came of one test, or of a file that is wrong; then ``name`` is empty."""

    file: str
    line: int
    name: str
    outcome: Outcome
    report: str = ""


def _played(name: str, wanted: str, plugins: "Sequence[str]", *, trust: bool) -> "Iterator[Result]":
    from turnchart.flows.problems import FlowError, NotTrusted
    from turnchart.flows.testfiles.finding import load_suite

    try:
        suite, flow = load_suite(name, plugins, trust=trust)
    except NotTrusted:
        raise
    except FlowError as error:
        yield Result(name, 0, "", "broken", str(error))
        return
    from turnchart.flows.testfiles.judging import differences, report
    from turnchart.flows.testfiles.playing import play_case

    for case in suite.cases:
        if wanted in case.name:
            played = play_case(flow, case, plugins)
            wrong = differences(case, played)
            yield _result(name, case, report(case, played, wrong) if wrong else "")


def _result(name: str, case: "Case", report: str) -> Result:
    return Result(name, case.line, case.name, "failed" if report else "passed", report)


def _print(results: "Sequence[Result]", *, as_json: bool) -> None:
    import json

    from turnchart.flows.cli.words import escaped, plain

    if as_json:
        said = json.dumps([result._asdict() for result in results], ensure_ascii=False, indent=2)
        typer.echo(escaped(said))
        return
    for result in results:
        if result.outcome == "broken":
            typer.echo(plain(result.report))
        else:
            typer.echo(plain(f"{result.outcome}  {result.file}::{result.name}"))
            for line in result.report.splitlines():
                typer.echo(plain(f"    {line}"))
    counts = [(word, sum(result.outcome == word for result in results)) for word in ("passed", "failed")]
    broken = sum(result.outcome == "broken" for result in results)
    told = [f"{count} {word}" for word, count in counts if count]
    told += [f"{broken} {'file' if broken == 1 else 'files'} with problems"] if broken else []
    typer.echo(", ".join(told))

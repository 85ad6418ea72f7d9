"""The decorator, the context of a call, and running a tool on both loops."""

import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest
from anyio import from_thread

from turnchart.machine.abort import AbortSignal
from turnchart.machine.messages import Content
from turnchart.machine.tools import Tool, ToolArgumentError, ToolContext, ToolFailed, run_tool, tool

NOTHING: dict[str, Any] = {}


@tool
def add(a: int, b: int = 2) -> int:
    """Add two
    numbers.

    More that the model does not read.
    """
    return a + b


@tool(subject="path", effects="read", execution="parallel", timeout=None)
async def look(path: str = "here") -> str:
    """Look."""
    return path


def test_a_tool_is_named_and_described_by_its_function() -> None:
    assert (add.name, add.description) == ("add", "Add two numbers.")
    assert (add.execution, add.effects, add.subject, add.timeout, add.is_async) == (
        "exclusive",
        None,
        None,
        120,
        False,
    )
    assert (look.execution, look.effects, look.subject, look.timeout, look.is_async) == (
        "parallel", "read", "path", None, True,
    )  # fmt: skip


def test_settings_win_over_the_function() -> None:
    made = tool(name="server.plus", description="Sum  up.")(add.fn)
    assert (made.name, made.description) == ("server.plus", "Sum  up.")
    assert tool(add.fn, name="plus").name == "plus"


def test_a_tool_is_still_the_function() -> None:
    assert add(1, 2) == 3
    assert add(1, b=5) == 6


def test_methods_partials_and_objects_are_tools() -> None:
    class Shop:
        def buy(self, what: str) -> str:
            """Buy."""
            return what

        async def __call__(self, what: str) -> str:
            """Ask."""
            return what

    assert list(tool(Shop().buy).schema["properties"]) == ["what"]
    asked = tool(name="ask")(Shop())
    assert asked.is_async
    assert list(asked.schema["properties"]) == ["what"]
    assert tool(partial(add.fn, b=3), name="add3").parse({"a": 1}) == {"a": 1, "b": 3}


def test_a_renamed_tool_says_its_new_name() -> None:
    renamed = replace(add, name="plus")
    with pytest.raises(ToolArgumentError, match="tool `plus`"):
        renamed.parse("[]")


def untyped(a, b: int):  # type: ignore[no-untyped-def]  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
    """Have a parameter without a type."""


def packed(*parts: str) -> None:
    """Take what comes."""


def named(**parts: str) -> None:
    """Take what comes by name."""


def positional(a: int, /) -> None:
    """Take it by place only."""


def misnamed(context: ToolContext) -> None:
    """Give the context another name."""


def unknown(a: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable, reportUnknownParameterType]
    """Have a type that does not exist."""


def listed(paths: list[str]) -> None:
    """Take several paths."""


MISTAKES: list[tuple[Any, dict[str, Any], str]] = [
    (untyped, {}, "`a` has no type; annotate it"),
    (packed, {}, "has no schema; name each parameter"),
    (named, {}, "has no schema; name each parameter"),
    (positional, {}, "take the `/` away"),
    (misnamed, {}, "must be named `ctx`"),
    (unknown, {}, "imported or defined above"),
    (lambda: None, {}, "is no name for a tool"),
    (add.fn, {"name": "no blanks"}, "is no name for a tool"),
    (add.fn, {"subject": "c"}, "it must be one of: a, b"),
    (add.fn, {"subject": "a", "subject_kind": "path"}, "compared as a path; type it str"),
    (listed, {"subject": "paths", "subject_kind": "path"}, "compared as a path; type it str"),
    (add.fn, {"execution": "both"}, "execution is 'both'"),
    (add.fn, {"effects": "write"}, 'it must be "read"'),
    (add.fn, {"subject_kind": "url"}, "subject_kind is 'url'"),
    (add.fn, {"timeout": 0}, "timeout is 0"),
    (add.fn, {"sped": "up"}, "`add`: there is no setting `sped`; the settings are: name, description, exec"),
    (add.fn, {"timeot": 1}, "`add`: there is no setting `timeot`; did you mean `timeout`[?] the settings"),
    (add.fn, {"is_async": True}, "`add`: there is no setting `is_async`"),
]


@pytest.mark.parametrize(("fn", "settings", "says"), MISTAKES)
def test_mistakes_are_refused_at_once_with_the_cure(fn: Any, settings: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        tool(fn, **settings)


def test_a_path_may_be_typed_in_several_ways() -> None:
    def read(path: Annotated[str, "below the root"] | Path | None = None) -> None:
        """Read."""

    assert tool(read, subject="path", subject_kind="path").subject_of({}) == ""


@pytest.mark.parametrize(
    ("given", "subject"),
    [
        ({"path": "a"}, "a"),
        ({}, "here"),
        ({"path": None}, ""),
        ({"path": Path("b")}, "b"),
        ({"path": [1]}, "[1]"),
    ],
)
def test_the_subject_is_the_text_of_the_argument_or_its_default(given: dict[str, Any], subject: str) -> None:
    assert look.subject_of(given) == subject


def test_a_required_subject_that_is_missing_is_empty_and_none_means_undeclared() -> None:
    assert replace(add, subject="a").subject_of({}) == ""
    assert add.subject_of({"a": 1}) is None


def said(value: object) -> Tool:
    return tool(add.fn, execution=lambda args: value)


@pytest.mark.parametrize(
    "value", [1, True, "exclusive", None, "Parallel", type("Text", (str,), {})("parallel")]
)
def test_only_the_word_parallel_is_parallel(value: object) -> None:
    assert said(value).classify({"a": 1}) == "exclusive"


def test_a_predicate_sees_checked_arguments() -> None:
    seen: list[dict[str, Any]] = []

    def choose(args: dict[str, Any]) -> str:
        seen.append(args)
        return "parallel"

    assert tool(add.fn, execution=choose).classify('{"a": "7"}') == "parallel"
    assert seen == [{"a": 7, "b": 2}]


def test_a_predicate_that_raises_and_wrong_arguments_are_exclusive() -> None:
    assert tool(add.fn, execution=lambda args: args["nothing"]).classify({"a": 1}) == "exclusive"
    assert said("parallel").classify({"a": "x"}) == "exclusive"
    assert said("parallel").classify({"a": 1}) == "parallel"
    assert (look.classify({}), look.classify("[]"), add.classify({"a": 1})) == (
        "parallel",
        "exclusive",
        "exclusive",
    )


# -- running -----------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_def_runs_in_a_thread_and_inline_and_async_on_the_loop() -> None:
    def where() -> bool:
        return threading.get_ident() == here

    async def awaited() -> bool:
        return where()

    here = threading.get_ident()
    ran = [
        await run_tool(each, {}, ToolContext())
        for each in (tool(where), tool(where, inline=True), tool(awaited))
    ]
    assert [outcome.content[0]["text"] for outcome in ran] == ["false", "true", "true"]


@pytest.mark.anyio
async def test_a_def_that_returns_an_awaitable_is_awaited() -> None:
    async def later() -> str:
        return "done"

    def start() -> object:
        return later()

    outcome = await run_tool(tool(start), {}, ToolContext())
    assert outcome.content == ({"type": "text", "text": "done"},)


@pytest.mark.anyio
async def test_the_context_is_given_and_not_in_the_schema() -> None:
    async def peek(what: str, ctx: ToolContext) -> str:
        return f"{what} {ctx.call_id} {ctx.tool} {ctx.session_id} {ctx.root}"

    async def maybe(what: str, ctx: ToolContext | None = None) -> str:
        return "given" if ctx else "not given"

    ctx = ToolContext("c1", "peek", session_id="s1", root=Path("/r"))
    outcome = await run_tool(tool(peek), {"what": "x"}, ctx)
    assert outcome.content[0]["text"] == "x c1 peek s1 /r"
    assert (await run_tool(tool(maybe), {"what": "x"}, ToolContext())).content[0]["text"] == "given"
    assert list(tool(peek).schema["properties"]) == list(tool(maybe).schema["properties"]) == ["what"]


@pytest.mark.anyio
async def test_progress_is_heard_until_the_call_is_settled() -> None:
    heard: list[Content] = []
    kept: list[ToolContext] = []

    async def work(ctx: ToolContext) -> str:
        ctx.progress("half")
        kept.append(ctx)
        return "done"

    await run_tool(tool(work), {}, ToolContext(report=heard.append))
    kept[0].progress("late")
    ToolContext().progress("to nobody")
    assert heard == ["half"]


@pytest.mark.anyio
async def test_progress_of_a_thread_is_told_on_the_loop() -> None:
    heard: list[bool] = []
    here = threading.get_ident()

    def work(ctx: ToolContext) -> None:
        ctx.progress("half")

    await run_tool(tool(work), {}, ToolContext(report=lambda _: heard.append(threading.get_ident() == here)))
    assert heard == [True]


class Hostile(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("error", "text", "outcome"),
    [
        (ValueError("no"), "ValueError: no", "error"),
        (ValueError(), "ValueError", "error"),
        (Hostile(), "Hostile", "error"),
        (SystemExit(2), "the tool tried to end the program (SystemExit: 2)", "error"),
        (ExceptionGroup("many", [ValueError("a"), KeyError("b")]), "ValueError: a; KeyError: 'b'", "error"),
        (ToolFailed("gone"), "gone", "error"),
    ],
)
@pytest.mark.parametrize("inline", [True, False])
async def test_what_a_tool_raises_is_an_error_outcome(
    error: BaseException, text: str, outcome: str, inline: bool
) -> None:
    def fail() -> None:
        raise error

    given = await run_tool(tool(fail, inline=inline), {}, ToolContext())
    assert (given.content, given.is_error, given.outcome) == (
        ({"type": "text", "text": text},),
        True,
        outcome,
    )


@pytest.mark.anyio
async def test_a_typed_failure_carries_name_and_code() -> None:
    async def fail() -> None:
        raise ToolFailed("no such user", name="NotFound", code="404")

    assert (await run_tool(tool(fail), {}, ToolContext())).details == {"name": "NotFound", "code": "404"}


@pytest.mark.anyio
async def test_checking_for_the_abort_ends_a_tool_as_aborted() -> None:
    async def work(ctx: ToolContext) -> None:
        ctx.abort.check()

    abort = AbortSignal()
    abort.set("user")
    given = await run_tool(tool(work), {}, ToolContext(abort=abort))
    assert (given.content[0]["text"], given.outcome, given.is_error) == ("aborted: user", "aborted", True)


@pytest.mark.anyio
async def test_cancelling_passes_through_and_settles_the_call() -> None:
    started = anyio.Event()
    ctx = ToolContext()

    async def wait() -> None:
        started.set()
        await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        group.start_soon(run_tool, tool(wait), NOTHING, ctx)
        await started.wait()
        assert not ctx.settled
        group.cancel_scope.cancel()
    assert ctx.settled


@pytest.mark.anyio
async def test_a_cancelled_thread_is_waited_for() -> None:
    started, go_on, ended = anyio.Event(), threading.Event(), threading.Event()

    def work() -> None:
        from_thread.run_sync(started.set)
        go_on.wait(5)
        ended.set()

    async with anyio.create_task_group() as group:
        group.start_soon(run_tool, tool(work), NOTHING, ToolContext())
        await started.wait()
        group.cancel_scope.cancel()
        go_on.set()
    assert ended.is_set()


def test_importing_tools_loads_no_pydantic() -> None:
    code = (
        "import turnchart.machine.tools, sys; print('pydantic' in sys.modules, 'statemachine' in sys.modules)"
    )
    path = os.pathsep.join(entry for entry in sys.path if entry)
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "False False\n"


def test_the_schema_is_json_and_always_the_same() -> None:
    assert json.loads(json.dumps(add.schema)) == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert add.schema is add.schema
    assert json.dumps(tool(add.fn).schema) == json.dumps(add.schema)

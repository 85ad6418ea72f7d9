"""Registering hooks, finding them by name, and binding them with what YAML gives."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import field
from pathlib import Path as FilePath
from typing import Any, ClassVar, Literal, cast

import pytest
from pydantic import BaseModel

from turnchart.hooks import (
    HOOKS,
    Context,
    Deny,
    ParamError,
    PreTool,
    Registry,
    Verdict,
    builtin,
    hook,
    run_chain,
)
from turnchart.hooks.params import Command, Path, Pattern
from turnchart.machine.bound import bind
from turnchart.machine.chain import Chain
from turnchart.machine.points import POINTS

pytestmark = pytest.mark.anyio


@pytest.fixture
def registry() -> Registry:
    return Registry()


def friday(registry: Registry) -> Callable[..., Deny | None]:
    @hook("no_friday_deploys", on="pre_tool", registry=registry)
    def no_friday_deploys(payload: PreTool, *, weekday: str = "Friday", max_tries: int) -> Deny | None:
        """Deny deploys on one weekday.

        `weekday`: English name.
        """
        return Deny(f"not on a {weekday} ({max_tries}, {payload.id})")

    return no_friday_deploys


# -- functions --------------------------------------------------------------------------------------


async def test_a_function_with_parameters(registry: Registry) -> None:
    function = friday(registry)
    spec = registry.get("no_friday_deploys")
    assert spec is not None
    assert (spec.name, spec.points, spec.target) == ("no_friday_deploys", ("pre_tool",), function)
    assert spec.doc == "Deny deploys on one weekday.\n\n`weekday`: English name."
    assert spec.where == f"{__file__}:{function.__code__.co_firstlineno}"
    assert [(p.name, p.annotation, p.default) for p in spec.parameters] == [
        ("weekday", str, "Friday"),
        ("max_tries", int, ...),
    ]
    bound = spec.bind("pre_tool", {"max_tries": 2}, where="f.yaml:3", tools=["shell"], timeout=4)
    assert (bound.id, bound.where, bound.tools, bound.timeout) == (
        "no_friday_deploys",
        "f.yaml:3",
        ("shell",),
        4,
    )
    verdict = await run_chain("pre_tool", PreTool(tool="shell"), [bound])
    assert verdict.decision == Deny("not on a Friday (2, no_friday_deploys)")
    assert spec.bind("pre_tool", {"max_tries": 2}, id="mine").id == "mine"


def test_the_decorated_function_can_be_used_as_before(registry: Registry) -> None:
    assert friday(registry)(PreTool(id="x"), max_tries=1) == Deny("not on a Friday (1, x)")


def test_the_schema_of_the_parameters(registry: Registry) -> None:
    friday(registry)
    spec = registry.get("no_friday_deploys")
    assert spec is not None
    schema = spec.params.model_json_schema()
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["max_tries"]
    assert schema["description"] == spec.doc
    assert schema["properties"]["weekday"]["default"] == "Friday"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"max_tries": "many"}, [(("max_tries",), "int_parsing")]),
        ({"max_tries": 1, "weekdy": "x"}, [(("weekdy",), "extra_forbidden")]),
        ({"weekday": 5}, [(("weekday",), "string_type"), (("max_tries",), "missing")]),
    ],
)
def test_wrong_parameters_are_told_with_their_place(
    registry: Registry, given: dict[str, Any], told: list[tuple[tuple[str, ...], str]]
) -> None:
    friday(registry)
    spec = registry.get("no_friday_deploys")
    assert spec is not None
    with pytest.raises(ParamError, match="hook `no_friday_deploys`: ") as caught:
        spec.bind("pre_tool", given)
    assert [(error["loc"], error["type"]) for error in caught.value.errors] == told
    assert caught.value.hook == "no_friday_deploys"


def test_a_hook_is_bound_only_where_it_runs(registry: Registry) -> None:
    friday(registry)
    spec = registry.get("no_friday_deploys")
    assert spec is not None
    with pytest.raises(
        TypeError, match="hook `no_friday_deploys` on request cannot run there; it runs on pre_tool"
    ):
        spec.bind("request", {"max_tries": 1})


def test_parameters_may_be_named_like_methods_of_pydantic(registry: Registry) -> None:
    @hook("odd", on="context", registry=registry)
    def odd(payload: Context, *, copy: str, json: str = "x", model_a: int = 1, untyped=None) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001, RUF100  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]
        seen.append((copy, json, model_a, untyped))  # pyright: ignore[reportUnknownArgumentType]  # that is the test

    seen: list[object] = []
    spec = registry.get("odd")
    assert spec is not None
    spec.make({"copy": "c", "untyped": [1]})(Context())
    assert seen == [("c", "x", 1, [1])]


def test_what_parameters_stand_for_is_listed_for_the_trust_check(registry: Registry) -> None:
    @hook("starts", on="context", registry=registry)
    def starts(payload: Context, *, run: Command, files: tuple[Path, ...] = (), text: str = "") -> None: ...

    spec = registry.get("starts")
    assert spec is not None
    assert [(p.name, p.meaning) for p in spec.parameters] == [
        ("run", "command"),
        ("files", "path"),
        ("text", ""),
    ]


# -- classes ----------------------------------------------------------------------------------------


def counting(registry: Registry) -> Any:
    @hook("counts", registry=registry, on_error="stop", timeout=9)
    class Counts:
        """Count calls."""

        word: Literal["a", "b"] = "a"
        patterns: list[Pattern] = field(default_factory=list[Pattern])
        shared: ClassVar[int] = 0

        def __post_init__(self) -> None:
            if self.word == "b" and not self.patterns:
                raise ValueError("b needs patterns")
            self.calls = 0

        def context(self, payload: Context) -> None:
            self.calls += 1

        async def pre_tool(self, payload: PreTool) -> Deny:
            self.calls += 1
            return Deny(f"{self.word} {self.calls} {payload.id}")

    return Counts


async def test_a_class_with_a_method_a_point(registry: Registry) -> None:
    counts = counting(registry)
    spec = registry.get("counts")
    assert spec is not None
    assert (spec.points, spec.doc) == (("context", "pre_tool"), "Count calls.")
    assert [(p.name, p.meaning) for p in spec.parameters] == [("word", ""), ("patterns", "pattern")]
    legs = spec.legs({}, id="mine", where="f.yaml:1")
    assert list(legs) == ["context", "pre_tool"]
    assert legs["context"].on_error == "stop"
    assert (legs["pre_tool"].on_error, legs["pre_tool"].timeout, legs["pre_tool"].id) == (None, 9, "mine")
    await Chain("context", [legs["context"]]).run(Context())
    verdict = await Chain("pre_tool", [legs["pre_tool"]]).run(PreTool())
    assert verdict.decision == Deny("a 2 mine")
    assert counts(word="a").calls == 0


async def test_every_binding_makes_an_instance_of_its_own(registry: Registry) -> None:
    counting(registry)
    spec = registry.get("counts")
    assert spec is not None
    for _ in range(2):
        verdict = await run_chain("pre_tool", PreTool(), [spec.bind("pre_tool", {})])
        assert verdict.decision == Deny("a 1 counts")


async def test_an_instance_can_be_given_to_a_chain(registry: Registry) -> None:
    counts = counting(registry)
    verdict = await run_chain("pre_tool", PreTool(), [counts(word="a")])
    assert verdict.decision == Deny("a 1 counts")
    with pytest.raises(TypeError, match="Counts is a class: give an instance of it to pre_tool"):
        bind("pre_tool", counts)


def test_what_a_class_refuses_is_told_like_a_wrong_parameter(registry: Registry) -> None:
    counting(registry)
    spec = registry.get("counts")
    assert spec is not None
    with pytest.raises(ParamError, match="hook `counts`: with: b needs patterns") as caught:
        spec.bind("context", {"word": "b"})
    assert caught.value.errors[0]["loc"] == ()
    with pytest.raises(ParamError, match=r"patterns\.0: not a valid regular expression"):
        spec.bind("context", {"patterns": ["("]})


def test_a_class_without_a_docstring_gets_none_from_dataclass(registry: Registry) -> None:
    @hook("bare", registry=registry)
    class Bare:
        def context(self, payload: Context) -> None: ...

    spec = registry.get("bare")
    assert spec is not None
    assert (spec.doc, spec.parameters) == ("", ())
    assert issubclass(spec.params, BaseModel)
    assert isinstance(spec.make({}), Bare)


# -- what is refused --------------------------------------------------------------------------------


def nothing() -> None: ...
def positional(payload: Context, retries: int = 3) -> None: ...
def open_ended(payload: Context, **more: Any) -> None: ...
def needy(payload: Context, other: Any) -> None: ...
def wraps(payload: Context, next: Any) -> None: ...
def plain(payload: Context) -> None: ...
def sees(payload: Context, verdict: Any) -> None: ...


class NoLeg:
    word: str = ""


class WrongLeg:
    def context(self) -> None: ...


@pytest.mark.parametrize(
    ("target", "options", "error", "message"),
    [
        (plain, {"on": ()}, TypeError, "hook `x` runs nowhere: say on= one of session_start"),
        (plain, {"on": "contxt"}, ValueError, "there is no hook point 'contxt'"),
        (plain, {"on": ("context", "pre-tool")}, ValueError, "did you mean pre_tool"),
        (nothing, {}, TypeError, "hook `x` on context takes no payload"),
        (positional, {}, TypeError, "hook `x` takes retries: .* must be keyword-only"),
        (open_ended, {}, TypeError, r"hook `x` takes \*\*more: "),
        (needy, {}, TypeError, "hook `x` on context needs other"),
        (wraps, {"observes": True}, TypeError, "observes, so it cannot take `next`"),
        (sees, {}, TypeError, "takes `verdict`, which only observers get"),
        (plain, {"on": "pre_step", "on_error": "stop"}, TypeError, "none of its points takes it"),
        (NoLeg, {}, TypeError, "runs on context, but has no method of that name"),
        (NoLeg, {"on": ()}, TypeError, "runs nowhere"),
        (WrongLeg, {}, TypeError, "takes no payload"),
    ],
)
def test_a_wrong_registration_is_refused_at_once(
    registry: Registry, target: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    given: dict[str, Any] = {"on": "context", **options}
    with pytest.raises(error, match=message):
        hook("x", **given, registry=registry)(target)
    assert registry.names() == ()


def test_a_name_is_given_once(registry: Registry) -> None:
    friday(registry)
    friday(registry)  # the same code again, as when a module is loaded anew
    with pytest.raises(
        ValueError, match=r"the hook name 'no_friday_deploys' is taken already \(.*test_registry"
    ):
        hook("no_friday_deploys", on="context", registry=registry)(plain)
    with pytest.raises(ValueError, match="'deny_commands' is the name of a built-in hook"):
        hook("deny_commands", on="context")(plain)


def test_a_type_that_cannot_be_found_is_told_when_it_is_needed(registry: Registry) -> None:
    def later(payload: "Unknown", *, word: "Missing" = None) -> None: ...  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore

    hook("later", on="context", registry=registry)(cast(Any, later))
    spec = registry.get("later")
    assert spec is not None
    with pytest.raises(TypeError, match=r"hook `later`: the type of a parameter cannot be found: .*Missing"):
        _ = spec.parameters


# -- the built-in hooks -----------------------------------------------------------------------------


def test_there_is_no_hook_of_another_name() -> None:
    assert HOOKS.get("deny_comands") is None


def test_every_module_is_a_built_in_hook_of_its_name() -> None:
    folder = FilePath(builtin.__file__).parent
    modules = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    assert set(builtin.BUILTIN) == modules
    assert set(builtin.BUILTIN) <= set(HOOKS.names())
    assert list(builtin.BUILTIN) == sorted(builtin.BUILTIN)


@pytest.mark.parametrize("name", builtin.BUILTIN)
def test_a_built_in_hook_says_what_it_does_and_has_a_schema(name: str) -> None:
    spec = HOOKS.get(name)
    assert spec is not None
    assert len(spec.doc) > 20
    assert all(parameter.name in spec.doc for parameter in spec.parameters)
    assert spec.params.model_json_schema()["type"] == "object"


POINTS_OF = {
    "add_context": "session_start assemble",
    "add_text": "session_start assemble context",
    "ask_unless": "pre_tool",
    "audit_log": " ".join(POINTS),
    "deny_commands": "pre_tool",
    "deny_paths": "pre_tool",
    "keep_going": "turn_stopping",
    "model_after_tools": "request",
    "notify": "session_start session_end turn_stopping on_signal",
    "redact_secrets": "context pre_tool post_tool",
    "repeat_guard": "post_tool",
    "require_tool_call": "turn_stopping",
    "rewrite_command": "pre_tool",
    "token_budget": "pre_step",
    "trim_tool_results": "context post_tool",
}


def test_built_in_hooks_run_where_the_table_says() -> None:
    specs = {name: HOOKS.get(name) for name in POINTS_OF}
    assert {name: " ".join(spec.points) for name, spec in specs.items() if spec} == POINTS_OF
    assert "redact_secrets" in HOOKS.names("context")
    assert "redact_secrets" not in HOOKS.names("request")


def test_built_in_hooks_and_pydantic_are_loaded_when_they_are_asked_for() -> None:
    code = (
        "import sys; from turnchart.hooks import HOOKS, hook, run_chain\n"
        "assert 'pydantic' not in sys.modules, 'pydantic'\n"
        "assert not [m for m in sys.modules if m.startswith('turnchart.hooks.builtin.')]\n"
        "HOOKS.get('notify')\n"
        "loaded = [m for m in sys.modules if m.startswith('turnchart.hooks.builtin.')]\n"
        "assert loaded == ['turnchart.hooks.builtin.notify']"
    )
    env = {"PYTHONPATH": ":".join(sys.path)}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_everything_that_the_package_exports_is_there() -> None:
    from turnchart import hooks

    assert all(hasattr(hooks, name) for name in hooks.__all__)
    for point in POINTS.values():
        for kind in (point.payload, *point.decisions):
            assert getattr(hooks, kind.__name__) is kind
    assert hooks.Verdict is Verdict

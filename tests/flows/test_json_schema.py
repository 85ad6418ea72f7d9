"""The schema takes every file that ``check`` takes, and refuses what a schema can refuse."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from turnchart.flows import schema
from turnchart.flows.check import check_flow
from turnchart.flows.json_schema import project_schema
from turnchart.flows.shipped import shipped_flows
from turnchart.flows.source import as_written, read_file, read_text
from turnchart.hooks.builtin import BUILTIN
from turnchart.hooks.registry import HOOKS
from turnchart.machine.points import POINTS

GOLDEN = Path(__file__).parent / "golden"

ONLY_CHECK = {
    # two places of one file
    "dead-matcher", "dead-permission", "delay-order", "duplicate-id", "duplicate-tool", "limit-shadowed",
    "no-fallback", "unknown-id", "chain-unclear", "unknown-server",
    # other files, or this machine
    "env-missing", "extends-cycle", "extends-missing", "file-missing", "path-outside", "plugin", "program",
    "prompt-missing", "agent-cycle",
    # how the text is written
    "env-syntax", "secret-literal", "yaml-alias", "yaml-character", "yaml-cycle", "yaml-duplicate-key",
    "yaml-key", "yaml-merge-key", "yaml-tag",
    # what is checked by code
    "regex", "permission-rule", "json-schema", "unknown-param", "provider-tool",
}  # fmt: skip
"""Codes of what no schema can refuse."""
ONE_BY_ONE = {
    "continues-shadowed", "env-wrong-value", "extends-mistake", "fallback-self", "output-schema",
    "permission-shape", "script-gap", "script-wrong", "tool-as",
}  # fmt: skip
"""Golden files with other codes that no schema can refuse either."""


@pytest.fixture(scope="module")
def validator() -> Any:
    """The schema with the built-in hooks and tools only."""
    builtin = {known: spec for known in BUILTIN if (spec := HOOKS.get(known))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HOOKS, "_specs", builtin)
        made = project_schema()
    Draft7Validator.check_schema(made)
    return Draft7Validator(made)


def refused(validator: Any, text: str) -> list[str]:
    root = read_text("version: 1\n" + text, "a.yaml").root
    assert root is not None
    return [error.message for error in validator.iter_errors(as_written(root))]


@pytest.mark.parametrize("flow", shipped_flows(), ids=lambda flow: flow.name)
def test_every_shipped_flow_is_taken(flow: Any, validator: Any) -> None:
    root = read_file(flow.path).root
    assert root is not None
    assert validator.is_valid(as_written(root))


def test_a_schema_refuses_all_that_a_schema_can(validator: Any) -> None:
    taken: dict[str, set[str]] = {}
    for path in GOLDEN.glob("*.yaml"):
        codes = set(
            re.findall(
                r": error: .* \[([\w-]+)\]$", path.with_suffix(".txt").read_text("utf-8"), re.MULTILINE
            )
        )
        root = read_file(path).root
        if root is not None and codes - ONLY_CHECK and validator.is_valid(as_written(root)):
            taken[path.stem] = codes - ONLY_CHECK
    assert taken.keys() <= ONE_BY_ONE, taken


def test_the_files_of_the_corpus_are_taken_as_far_as_check_takes_them(validator: Any) -> None:
    files = sorted((GOLDEN.parents[1] / "corpus").glob("*.yaml"))
    taken: list[str] = []
    for path in files:
        root = read_file(path).root
        assert root is not None
        problems = [each for each in check_flow(path, env={}) if each.level == "error"]
        if validator.is_valid(as_written(root)):
            taken.append(path.stem)
        else:  # a tool of a plug-in
            assert {each.code for each in problems} & {"unknown-tool"}, path
    assert len(taken) > len(files) // 2


GOOD = [
    "model: test",
    "model: {id: 'a:b', fallback: ['c:d'], extra: {any: [thing]}}",
    'model: {id: "${env:MODEL}"}',
    "prompt: Hello",
    "prompt: {file: a.md}",
    "prompt: [a, {text: b}, {file: c}]",
    "prompt: []",
    "tools: [shell, {use: shell, as: b, with: {timeout: 5}, execution: exclusive}]",
    "tools: [{use: shell, with: {env_from: [A, {B: C}]}}]",
    "x-any: {thing: 1}",
    "hooks: {pre_tool: [inherit, {use: deny_commands, with: {patterns: [a]}, id: x, tools: [a]}]}",
    "hooks: {pre_tool: [{use: redact_secrets, timeout: 5}]}",
    "hooks: {pre_tool: [replace, {run: [a, b], env: {A: b}, env_from: [A, {B: C}]}]}",
    "hooks: {}",
    "hooks: {post_tool: [{use: redact_secrets, on_error: stop, disabled: true}]}",
    "hooks: {turn_stopping: [{use: keep_going, with: {prompt: a}, max_continues: 2}]}",
    'hooks: {pre_tool: [{use: "${env:HOOK}", with: {any: thing}}]}',
    'limits: {max_steps: "${env:STEPS:-5}", max_seconds: 1.5}',
    'retry: {honor_retry_after: "${env:YES}"}',
    'queues: {steering: "${env:MODE}"}',
    "permissions: {default: ask, deny: ['shell(rm *)']}",
    "extends: ./a.yaml\nmodel: {settings: {thinking: high}}",
    "session: {store: memory}",
]


@pytest.mark.parametrize("text", GOOD)
def test_good_files_are_taken(text: str, validator: Any) -> None:
    assert refused(validator, text) == []


BAD = [
    "model: {settings: {}}",
    "model: 5",
    "model: claude",
    "model: {id: 'a:b', idd: 1}",
    "mdel: test",
    "tools: shell",
    "tools: [shel]",
    "tools: [{use: shell, with: {cdw: .}}]",
    "tools: [{use: read_file, only: [a]}]",
    "prompt: [{file: a, text: b}]",
    "prompt: [{}]",
    "hooks: []",
    "hooks: {pre-tool: []}",
    "hooks: {pre_tool: [{use: deny_comands}]}",
    "hooks: {pre_tool: [{use: notify, with: {text: a}}]}",
    "hooks: {pre_tool: [{use: deny_commands}]}",
    "hooks: {pre_tool: [{use: deny_commands, with: {pattern: a}}]}",
    "hooks: {pre_tool: [{use: deny_commands, with: {patterns: a}}]}",
    "hooks: {pre_tool: [{}]}",
    "hooks: {pre_tool: [deny_commands]}",
    "hooks: {pre_tool: [{use: redact_secrets, on_error: stop}]}",
    "hooks: {context: [{use: redact_secrets, tools: [a]}]}",
    "hooks: {pre_tool: [{run: a}]}",
    "hooks: {pre_tool: [{run: [a], use: redact_secrets}]}",
    "hooks: {convert: [{run: [a]}]}",
    "hooks: {pre_tool: [{use: redact_secrets, env: {A: b}}]}",
    "hooks: {pre_tool: [{run: [a], with: {}}]}",
    "hooks: {pre_tool: [{use: redact_secrets, max_continues: 1}]}",
    "queues: {steering: one_at_a_time}",
    "limits: {max_steps: 0}",
    "limits: {max_steps: '5'}",
    "limits: {max_seconds: 5s}",
    "limits: {max_steps: }",
    "retry: {retry_on: [context_window]}",
    "retry: {base_delay: -1}",
    "name: 5",
    "model: {id: 'a:b', api_key_env: 'not a name'}",
    "model: {id: 'a:b', base_url: example.org}",
    "hooks: {pre_tool: [{run: [a], env_from: ['not a name']}]}",
    "permissions: {default: maybe}",
    "session: {path: a}",
    "model: {id: 'a:b', settings: {thinking: huge}}",
]


@pytest.mark.parametrize("text", BAD)
def test_bad_files_are_refused(text: str, validator: Any, tmp_path: Path) -> None:
    assert refused(validator, text) != []
    (tmp_path / "a.yaml").write_text(f"version: 1\n{text}\n", "utf-8")
    assert [each for each in check_flow(tmp_path / "a.yaml", env={}) if each.level == "error"]


# -- whatever check takes, the schema takes --------------------------------------------------------

PARTS: dict[str, list[str]] = {
    "model": [
        "test",
        "{id: test, cooldown: 5}",
        "{id: 'a:b', settings: {temperature: 2}}",
        "{id: ''}",
        "[]",
        "''",
    ],
    "prompt": ["a", "''", "[]", "[{text: a}]", "{text: ''}", "5", "[a, 5]"],
    "tools": [
        "[]",
        "[shell]",
        "[{use: read_file, with: {}}]",
        "[{use: shell, with: {max_output: 1}}]",
        "[{}]",
    ],
    "queues": ["{}", "{steering: all}", "{follow_up: 1}"],
    "retry": ["{}", "{max_attempts: 1, base_delay: 0}", "{max_delay: 0.5}", "{retry_on: []}"],
    "limits": ["{}", "{max_continues: 0}", "{max_continues: -1}", "{max_tool_calls: 1.0}"],
    "permissions": ["{}", "{allow: ['*']}", "{allow: a}"],
    "session": ["{store: jsonl, path: a}", "{store: disk}", "{}"],
    "hooks": [
        "{}",
        "{pre_tool: []}",
        "{pre_tool: [{use: ask_unless}]}",
        "{pre_tool: [{use: ask_unless, with: {exact: [a]}}]}",
        "{post_tool: [{use: repeat_guard, with: {after: 2}, tools: []}]}",
        "{session_start: [{use: notify, with: {text: ''}, on_error: warn}]}",
    ],
    "disable_hooks": ["[]", "[ask_unless]", "a"],
    "name": ["a", "''", "1"],
    "description": ["''", "a", "[]"],
    "x-a": ["1", "[{}]"],
}


def errors_of(text: str, folder: Path) -> list[object]:
    (folder / "a.yaml").write_text(f"version: 1\n{text}", "utf-8")
    return [each for each in check_flow(folder / "a.yaml", env={}) if each.level == "error"]


def files() -> st.SearchStrategy[dict[str, str]]:
    """Return files of parts that ``check`` takes alone; with the others, nearly no file would be taken."""
    with TemporaryDirectory() as folder:
        taken = {
            key: [value for value in values if not errors_of(f"{key}: {value}\n", Path(folder))]
            for key, values in PARTS.items()
        }
    return st.fixed_dictionaries({}, optional={key: st.sampled_from(taken[key]) for key in PARTS})


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.deferred(files))
def test_a_file_without_errors_is_taken(parts: dict[str, str], validator: Any, tmp_path: Path) -> None:
    text = "".join(f"{key}: {value}\n" for key, value in parts.items())
    assume(not errors_of(text, tmp_path))
    assert refused(validator, text) == []


# -- it follows what there is ---------------------------------------------------------------------


def test_every_point_and_every_key_has_its_place(validator: Any) -> None:
    properties = validator.schema["properties"]
    assert properties["hooks"]["properties"].keys() == POINTS.keys()
    assert properties.keys() == {*schema.known_keys(schema.FlowFile), "hooks"}


def test_hooks_and_tools_of_plug_ins_count(monkeypatch: pytest.MonkeyPatch) -> None:
    from turnchart.hooks import PreTool, hook

    HOOKS.names()
    monkeypatch.setattr(HOOKS, "_specs", dict(HOOKS._specs))  # pyright: ignore[reportPrivateUsage]  # restored afterwards

    @hook("schema_own", on="pre_tool")
    def own(payload: PreTool, *, word: str, often: int = 1) -> None:
        """Say a word."""

    assert own is not None
    validator: Any = Draft7Validator(project_schema(["plus"]))
    assert refused(validator, "tools: [plus, {use: plus, as: more}]") == []
    assert refused(validator, "hooks: {pre_tool: [{use: schema_own, with: {word: a, often: 2}}]}") == []
    for text in (
        "tools: [{use: plus, with: {a: 1}}]",
        "hooks: {pre_tool: [{use: schema_own}]}",
        "hooks: {pre_tool: [{use: schema_own, with: {word: a, often: x}}]}",
        "hooks: {post_tool: [{use: schema_own, with: {word: a}}]}",
    ):
        assert refused(validator, text) != []

from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.flows.agreements import agree
from turnchart.flows.check import examine
from turnchart.flows.load import load_flow
from turnchart.flows.problems import NotTrusted
from turnchart.flows.trust import reaches_of

Write = Callable[..., Path]

FLOW = """
version: 1
model: {id: test, base_url: 'https://example.org', api_key_env: KEY}
hooks:
  session_start:
    - {run: [sh, -c, exit 0], env_from: [A, {B: C}]}
    - {run: [sh], disabled: true}
"""


def test_what_a_flow_reaches_is_listed_with_place_and_variables(write: Write) -> None:
    write(FLOW)
    reaches = load_flow("flow.yaml").reaches
    assert [(each.what, each.where, each.variables) for each in reaches] == [
        ("https://example.org", "flow.yaml:2", ("KEY",)),
        ("sh -c 'exit 0'", "flow.yaml:5", ("A", "C")),
    ]


def test_references_stay_unexpanded_in_the_list(write: Write) -> None:
    write("version: 1\nmodel:\n  id: test\n  base_url: https://${env:HOST}\n")
    (reach,) = load_flow("flow.yaml", env={"HOST": "secret.example"}).reaches
    assert reach.what == "https://${env:HOST}"


def test_nothing_is_made_before_somebody_agrees(write: Write) -> None:
    write(FLOW)
    with pytest.raises(NotTrusted) as caught:
        load_flow("flow.yaml").agent()
    assert [(p.code, p.line) for p in caught.value.problems] == [("not-trusted", 2), ("not-trusted", 5)]
    assert load_flow("flow.yaml", trust=True).agent().name == "flow"


def test_a_hook_that_a_tool_or_another_hook_shares_is_asked_about(write: Write) -> None:
    hook = "{run: [sh, -c, exit 0]}"
    write(f"version: 1\nhooks: {{pre_tool: [{hook}], post_tool: [{hook}]}}\n", "house.yaml")
    write("version: 1\nextends: house.yaml\nmodel: test\n", "inner.yaml")
    write(
        "version: 1\nextends: house.yaml\nmodel: test\n"
        "tools: [{use: agent, as: helper, with: {file: inner.yaml}}]\n"
    )
    for point in ("pre_tool", "post_tool"):
        with pytest.raises(NotTrusted, match="this flow starts sh -c 'exit 0'"):
            load_flow("flow.yaml").hooks(point)
        assert len(load_flow("flow.yaml", trust=True).hooks(point)) == 1


def test_a_flow_that_reaches_nothing_needs_no_trust(write: Write) -> None:
    write("version: 1\nmodel: test\ntools: [shell]\n")
    flow = load_flow("flow.yaml")
    assert flow.reaches == ()
    assert flow.agent().name == "flow"


def test_every_command_of_a_parameter_is_listed(write: Write) -> None:
    code = """
        from turnchart.hooks import PreTool, hook
        from turnchart.hooks.params import Command

        @hook("trust_runs", on="pre_tool")
        def trust_runs(payload: PreTool, *, command: Command) -> None: ...
        """
    write(code, "trust_plugin.py")
    write("version: 1\nhooks: {pre_tool: [{use: trust_runs, with: {command: [sh, -c, 'a b']}}]}\n")
    flow = load_flow("flow.yaml", plugins=["trust_plugin"])
    assert [each.what for each in flow.reaches] == ["sh -c 'a b'"]


# -- every key that can name a program, a host or a variable ---------------------------------------

KEYS = {
    "base_url": ("model: {id: 'a:b', base_url: 'https://x.example'}", "address", "https://x.example", ()),
    "api_key_env with base_url": (
        "model: {id: 'a:b', base_url: 'https://x.example', api_key_env: A}",
        "address",
        "https://x.example",
        ("A",),
    ),
    "api_key_env of somebody else": (
        "model: {id: 'anthropic:b', api_key_env: AWS_ACCESS}",
        "variable",
        "anthropic",
        ("AWS_ACCESS",),
    ),
    "run": ("hooks: {pre_tool: [{run: [sh, -c, 'a b']}]}", "program", "sh -c 'a b'", ()),
    "env": (
        "hooks: {pre_tool: [{run: [sh], env: {LD_PRELOAD: 'x y'}}]}",
        "program",
        "LD_PRELOAD='x y' sh",
        (),
    ),
    "env_from": ("hooks: {pre_tool: [{run: [sh], env_from: [A, {B: C}]}]}", "program", "sh", ("A", "C")),
    "a reference in run": (
        "hooks: {pre_tool: [{run: [sh, '-c', \"${env:CODE:-x}\"]}]}",
        "program",
        "sh -c '${env:CODE:-x}'",
        ("CODE",),
    ),
    "a reference in env": (
        'hooks: {pre_tool: [{run: [sh], env: {A: "${env:MINE:-x}"}}]}',
        "program",
        "A='${env:MINE:-x}' sh",
        ("MINE",),
    ),
    "command of require_command": (
        "hooks: {turn_stopping: [{use: require_command, with: {command: [make, test], reason: r}}]}",
        "program",
        "make test",
        (),
    ),
    "command of run_on_file": (
        "hooks: {post_tool: [{use: run_on_file, with: {glob: '*.go', command: [gofmt, '{path}']}}]}",
        "program",
        "gofmt '{path}'",
        (),
    ),
    "a server that is not used": ("mcp: {s: {command: [npx, x], cwd: .}}", "program", "npx x", ()),
    "env_from of a tool": (
        "tools: [{use: shell, with: {env_from: [A_TOKEN]}}]",
        "variable",
        "shell",
        ("A_TOKEN",),
    ),
    "a tool by another name": (
        "tools: [{use: shell, as: sh, with: {env_from: [A_TOKEN]}}]",
        "variable",
        "sh",
        ("A_TOKEN",),
    ),
    "command of a script": (
        "tools: [{use: script, with: {command: [make, '{goal}'], env_from: [A]}}]",
        "program",
        "make '{goal}'",
        ("A",),
    ),
    "command of a server": (
        "mcp: {s: {command: [npx, x], env: {B: c}, env_from: [A]}}",
        "program",
        "B=c npx x",
        ("A",),
    ),
    "url of a server": (
        "mcp: {s: {url: 'https://x.example', bearer_env: A, headers_env: {X-Key: B}}}",
        "address",
        "https://x.example",
        ("A", "B"),
    ),
    "a secret in a text": (
        'prompt: "Key: ${env:MY_API_KEY:-}"',
        "variable",
        "the text here",
        ("MY_API_KEY",),
    ),
}


@pytest.mark.parametrize("what", KEYS)
def test_a_key_that_names_a_program_a_host_or_a_variable_is_listed(write: Write, what: str) -> None:
    text, kind, said, variables = KEYS[what]
    write(f"version: 1\n{text}\n")
    (reach,) = reaches_of(examine("flow.yaml", env={}))
    assert (reach.kind, reach.what, reach.variables) == (kind, said, variables)
    assert reach.where == "flow.yaml:2"


@pytest.mark.parametrize(
    "text",
    [
        "model: {id: 'anthropic:b', api_key_env: ANTHROPIC_API_KEY}",
        "model: {id: 'google:b', api_key_env: GEMINI_API_KEY}",
        "prompt: 'Single quotes: ${env:MY_API_KEY}'",
        'prompt: "Escaped: $${env:MY_API_KEY}"',
        "prompt: Hello ${env:NAME:-you}",
        "hooks: {pre_tool: [{run: [sh], disabled: true}]}",
        "hooks: {pre_tool: [{run: [sh]}]}\ndisable_hooks: [sh]",
        "tools: [shell, read_file]",
    ],
)
def test_what_reaches_nothing_new_is_not_listed(write: Write, text: str) -> None:
    write(f"version: 1\n{text}\n")
    assert reaches_of(examine("flow.yaml", env={})) == ()


# -- digests --------------------------------------------------------------------------------------

PROGRAM = (
    "version: 1\nhooks: {pre_tool: [{run: [python3, hooks/a.py], env: {A: b}, env_from: [C], cwd: .}]}\n"
)


def digests(text: str, write: Write) -> list[str]:
    write(text)
    return [each.digest for each in reaches_of(examine("flow.yaml", env=None))]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("python3", "python"),
        ("A: b", "A: c"),
        ("A: b", "B: b"),
        ("[C]", "[D]"),
        ("[C]", "[{C: D}]"),
        ("[C]", "[]"),
        ("cwd: .", "cwd: hooks"),
    ],
)
def test_any_change_of_what_would_happen_is_a_new_thing(write: Write, old: str, new: str) -> None:
    assert digests(PROGRAM, write) != digests(PROGRAM.replace(old, new), write)


def test_where_it_stands_and_what_else_stands_there_does_not_matter(write: Write) -> None:
    other = "# moved\nversion: 1\nname: other\nhooks:\n  post_tool:\n"
    other += "    - {env_from: [C], run: [python3, hooks/a.py], cwd: ., env: {A: b}}\n"
    assert digests(PROGRAM, write) == digests(other, write)


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("[python3, hooks/a.py]", "hooks/a.py"),
        ("[./hooks/a.sh]", "hooks/a.sh"),
        ("[python3, -m, hooks.a]", "hooks/a.py"),
        ("[python3, -m, hooks]", "hooks/__main__.py"),
        ("[node, --require=hooks/a.js, x]", "hooks/a.js"),
    ],
)
def test_a_change_of_a_script_of_the_project_is_a_new_thing(write: Write, command: str, file: str) -> None:
    text = f"version: 1\nhooks: {{pre_tool: [{{run: {command}}}]}}\n"
    missing = digests(text, write)
    write("one", file)
    first = digests(text, write)
    write("two", file)
    assert len({*missing, *first, *digests(text, write)}) == 3


def test_programs_outside_of_the_project_are_not_read(write: Write, tmp_path: Path) -> None:
    write("", "secret.txt")
    (tmp_path / "project" / ".git").mkdir(parents=True)
    write("version: 1\nhooks: {pre_tool: [{run: [cat, ../secret.txt]}]}\n", "project/flow.yaml")
    before = reaches_of(examine("project/flow.yaml"))
    write("changed", "secret.txt")
    assert [each.digest for each in before] == [e.digest for e in reaches_of(examine("project/flow.yaml"))]


# -- what was agreed to ---------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let answers be kept in a folder of their own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


def agree_to(path: str) -> None:
    checked = examine(path)
    agree(checked.path, checked.place.root, [each.digest for each in reaches_of(checked)])


@pytest.mark.usefixtures("kept")
def test_an_answer_holds_until_something_changes_and_then_only_the_new_is_asked(write: Write) -> None:
    write("pass", "hooks/a.py")
    write(PROGRAM)
    agree_to("flow.yaml")
    flow = load_flow("flow.yaml")
    assert (flow.trusted, flow.new_reaches, len(flow.reaches)) == (True, (), 1)
    assert flow.agent(model="test").name == "flow"
    write(PROGRAM.replace("hooks: {", "model: {id: 'a:b', base_url: 'https://x.example'}\nhooks: {"))
    assert [each.what for each in load_flow("flow.yaml").new_reaches] == ["https://x.example"]
    write("changed", "hooks/a.py")
    assert len(load_flow("flow.yaml").new_reaches) == 2


@pytest.mark.usefixtures("kept")
def test_an_answer_is_for_one_file(write: Write) -> None:
    write(PROGRAM)
    agree_to("flow.yaml")
    write(PROGRAM, "other.yaml")
    assert not load_flow("other.yaml").trusted


def test_a_chain_that_starts_something_is_not_made_untrusted(write: Write) -> None:
    write("version: 1\nhooks:\n  pre_tool: [{run: [sh]}]\n  post_tool: [{use: redact_secrets}]\n")
    flow = load_flow("flow.yaml")
    assert len(flow.chain("post_tool").hooks) == 1
    with pytest.raises(NotTrusted, match="starts sh"):
        flow.chain("pre_tool")
    assert len(load_flow("flow.yaml", trust=True).chain("pre_tool").hooks) == 1


# -- params, and flows as tools -------------------------------------------------------------------

PARAMS = (
    "version: 1\nparams: {PROGRAM: {default: ls}}\nhooks: {pre_tool: [{run: ['sh', \"${param:PROGRAM}\"]}]}\n"
)


def test_what_a_param_stands_for_belongs_to_the_list(write: Write) -> None:
    write(PARAMS)
    (reach,) = reaches_of(examine("flow.yaml", env={}))
    assert reach.what == "sh '${param:PROGRAM}', where PROGRAM is ls"
    write(PARAMS.replace("default: ls", "default: rm"))
    assert reaches_of(examine("flow.yaml", env={}))[0].digest != reach.digest


CHILD = """
version: 1
model: test
params: {P: {default: x}}
hooks: {session_start: [{run: [sh, "${param:P}"]}]}
"""
CALLER = (
    "version: 1\nmodel: test\ntools: [{use: agent, as: helper, with: {file: child.yaml, params: {P: y}}}]\n"
)


def test_what_a_flow_starts_that_is_a_tool_belongs_to_the_list(write: Write) -> None:
    write(CHILD, "child.yaml")
    write(CALLER)
    (reach,) = reaches_of(examine("flow.yaml"))
    assert (reach.what, reach.where) == ("sh '${param:P}', where P is x", "child.yaml:4")
    with pytest.raises(NotTrusted):
        load_flow("flow.yaml").agent()
    write(CALLER.replace("P: y", "P: z"))
    assert reaches_of(examine("flow.yaml"))[0].digest != reach.digest


@pytest.mark.usefixtures("kept")
def test_what_a_tool_starts_is_asked_again_when_it_changes(write: Write) -> None:
    write(CHILD, "child.yaml")
    write(CALLER)
    agree_to("flow.yaml")
    assert load_flow("flow.yaml").trusted
    write(CHILD.replace("[sh,", "[bash,"), "child.yaml")
    assert not load_flow("flow.yaml").trusted

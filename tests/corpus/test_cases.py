"""Every file of this folder loads and does what it says, in a copy that is a project of its own."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from tests.corpus.playing import ENV, Played, call, play, shell, tree

from turnchart.flows import check_flow, load_flow
from turnchart.machine import Failure, ScriptedModel, Session

pytestmark = [pytest.mark.anyio, pytest.mark.checkout]

CORPUS = Path(__file__).parent
NAMES = sorted(path.name for path in CORPUS.glob("*.yaml"))
PLAIN = CORPUS.parent / "machine" / "mcp" / "plain.py"
"""A server with the tools that it is told."""
PLUGINS = {"03_adk_prime.yaml": ["ma_llm"]}

GOFMT = '#!/bin/sh\necho formatted >> "$2"\necho "$@" >> gofmt.log\n'


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the files, which is the current folder; programs that they name are on the PATH."""
    folder = tmp_path / "project"
    shutil.copytree(
        CORPUS, folder, ignore=shutil.ignore_patterns("*.pyc", "__pycache__", "test_*", "playing.py")
    )
    bin = tmp_path / "bin"
    bin.mkdir()
    (bin / "python").symlink_to(sys.executable)
    (bin / "gofmt").write_text(GOFMT)
    (bin / "gofmt").chmod(0o755)
    (bin / "pytest").write_text("#!/bin/sh\n")
    (bin / "pytest").chmod(0o755)
    tools = "search_code get_issue create_issue"
    (bin / "npx").write_text(f"#!/bin/sh\nexec {sys.executable} {PLAIN} {tools}\n")
    (bin / "npx").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin}:{os.environ['PATH']}")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    monkeypatch.delitem(sys.modules, "ma_llm", raising=False)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_each_file_is_right(name: str) -> None:
    problems = check_flow(name, PLUGINS.get(name, ()), ENV)
    assert not [problem for problem in problems if problem.level == "error"]
    assert load_flow(name, PLUGINS.get(name, ()), ENV).checked.shown == name


# -- 01, 03, 04: an assistant, a tool of a plug-in, flows as tools -----------------------------------


async def test_01_the_prompt_is_what_the_model_is_told() -> None:
    played = await play("01_adk_assistant.yaml", "Hello.")
    assert played.texts == ["Hello."]
    assert played.requests()[0].system == "You are an agent to help answer users' various questions."


async def test_02_the_search_is_offered_and_runs_nowhere_here() -> None:
    played = await play("02_adk_search.yaml", call("web_search", query="x"), "Nothing.")
    [header] = [each.data for each in played.entries if each.type == "request/header"]
    offered = [(each["name"], each["at_provider"]) for each in header["tools"]]
    assert offered == [("web_search", True)]
    assert played.requests()[0].tools == header["tools"]
    [(tool, outcome, text)] = played.results()
    assert (tool, outcome) == ("web_search", "error")
    assert text == "There is no tool 'web_search'. The tools are: none."
    assert played.asked == []
    assert played.texts == ["Nothing."]


async def test_03_a_tool_comes_from_a_plug_in() -> None:
    played = await play("03_adk_prime.yaml", call("check_prime", numbers=[2, 4, 7]), plugins=["ma_llm"])
    assert played.results() == [("check_prime", "ok", "2, 7")]
    assert len(played.asked) == 1, "without permissions, what does not only read is asked about"


async def test_04_questions_are_delegated(project: Path) -> None:
    tutor = ScriptedModel(["A loop repeats.", "It is 4."], id="google:gemini-flash-latest")
    session = Session.sqlite(project / "s.db", "parent")
    played = await play(
        "04_adk_learning.yaml", call("code_tutor", prompt="What is a loop?"),
        call("math_tutor", prompt="2 + 2?"), models={"google:gemini-flash-latest": tutor}, session=session,
    )  # fmt: skip
    assert [text for *_, text in played.results()] == ["A loop repeats.", "It is 4."]
    assert [request.system for request in tutor.requests] == [
        "You teach programming.",
        "You teach mathematics.",
    ]
    assert [request.messages[0].text for request in tutor.requests] == ["What is a loop?", "2 + 2?"]
    tools = {each["name"]: each["description"] for each in played.requests()[0].tools}
    assert tools == {"code_tutor": "Explains programming questions.", "math_tutor": "Explains mathematics."}
    linked = [
        each.data["message"]["details"]["session"] for each in played.entries if each.type == "tool/result"
    ]
    child = Session.sqlite(project / "s.db", linked[0])
    said = [each.text for each in child.context() if each.role == "assistant"]
    assert said == ["A loop repeats."]
    [info] = [
        each.data["parent"] for each in child.entries if "parent" in each.data and each.type == "session_info"
    ]
    assert info["session"] == "parent"


# -- 07: rewriting first, then the guard ----------------------------------------------------------------


async def test_07_a_command_is_rewritten_logged_and_the_user_told(project: Path) -> None:
    played = await play("07_docker_hooks.yaml", shell("ls", "ls -a", "ls -h", "lsblk"))
    lines = [json.loads(line) for line in (project / "logs" / "shell.jsonl").read_text().splitlines()]
    assert [line["args"]["command"] for line in lines] == ["ls -h", "ls -h -a", "ls -h", "lsblk"]
    assert "07_docker_hooks.yaml" in played.results()[0][2]
    assert played.notices == ["session started", "session ended"]
    assert [question.args["command"] for question in played.asked][:2] == ["ls -h", "ls -h -a"]


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf precious", "rm  -fr precious", "ls; rm -rf precious", "ls\nrm -rf precious",
        "ls && sudo true", "ls | sudo tee x", "ls -h; rm -Rrf precious", "ls $(rm -rf precious)",
        "mkfs.ext4 /dev/null",
        "dd  if=/dev/zero of=precious/file", "ls\tx; sudo rm x", "ls;rm -xrf precious",
    ],
)  # fmt: skip
async def test_07_rewriting_first_opens_nothing(project: Path, command: str) -> None:
    (project / "precious").mkdir()
    (project / "precious" / "file").write_text("x")
    played = await play("07_docker_hooks.yaml", shell(command))
    assert played.outcomes() == ["denied"]
    assert "Dangerous command pattern." in played.results()[0][2]
    assert (project / "precious" / "file").read_text() == "x"
    assert played.asked == []


# -- 08: strip, review, judge ---------------------------------------------------------------------------


async def judged(*answers: str | Failure, commands: list[str], approve: bool = True) -> Played:
    judge = ScriptedModel(answers, id="openai:gpt-4o-mini")
    return await play(
        "08_docker_phases.yaml", shell(*commands), models={"openai:gpt-4o-mini": judge}, approve=approve
    )


async def test_08_each_hook_sees_what_the_one_before_made_of_it() -> None:
    played = await judged("allow: it reads", commands=["  pwd\n"])
    assert played.outcomes() == ["ok"]
    assert played.decisions() == [("judge", "allow")]
    assert [question.args["command"] for question in played.asked] == ["pwd"], "permissions ask all the same"


async def test_08_the_strictest_of_both_holds() -> None:
    played = await judged(
        "allow", "deny: it writes", "maybe", commands=["echo a", "pwd", "git status"], approve=False
    )
    assert played.decisions() == [("review", "ask"), ("judge", "allow"), ("judge", "deny"), ("judge", "deny")]
    assert played.outcomes() == ["denied"] * 3
    assert "it writes" in played.results()[1][2]
    assert "neither allow, ask nor deny" in played.results()[2][2], "what is no verdict denies"


# -- 09: secrets ------------------------------------------------------------------------------------------

SECRET = "sk-ant-api03-Zq8vK2mXw9Lr4TnB7cYd1HsJ6fGp3QaE5uRi0oWx"


def pieces(secret: str) -> set[str]:
    """Return every part of a secret that is long enough to be told from chance."""
    body = secret.removeprefix("sk-ant-api03-")
    return {body[i : i + 6] for i in range(len(body) - 5)}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (0, 9_000),
        (3_970, 9_000),
        (7_990, 9_000),
        (12_000, 9_000),
        (14_970, 40_000),
        (40_000, 14_900),
        (40_000, 14_915),
    ],
)
@pytest.mark.parametrize("gap", [" ", "\n"])
@pytest.mark.parametrize("trimmed", [True, False])
async def test_09_no_part_of_a_secret_leaks(
    project: Path, before: int, after: int, gap: str, trimmed: bool
) -> None:
    flow = project / "09_docker_redact.yaml"
    if not trimmed:  # only the shell itself cuts what is too long
        flow.write_text(re.sub(r"(?m)^.*trim_tool_results.*\n", "", flow.read_text()))
    filler = "word" + gap
    text = f"{filler * (before // 5)}key {SECRET}{gap}{filler * (after // 5)}"
    (project / "notes.txt").write_text(f"{text}\nANTHROPIC_API_KEY={SECRET}\n")
    played = await play("09_docker_redact.yaml", shell("cat notes.txt"), shell(f"echo {SECRET}"))
    assert played.outcomes() == ["ok", "ok"]
    first, second = (text for *_, text in played.results())
    assert len(first) < (9_000 if trimmed else 31_000)
    assert "[redacted anthropic_key]" in second
    seen = [text for request in played.requests() for text in map(str, request.messages)]
    kept = [str(entry.data) for entry in played.entries if entry.type in ("tool/result", "request/rewritten")]
    spilled = [text for name, text in tree(project).items() if name.startswith(".turnchart")]
    for piece in pieces(SECRET):
        assert not any(piece in text for text in (*seen, *kept, *spilled, first, second))


async def test_09_what_cannot_be_cleaned_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    from turnchart.hooks.builtin import redact_secrets

    def broken(*_: object) -> str:
        raise RuntimeError(SECRET)

    monkeypatch.setattr(redact_secrets, "redact", broken)
    played = await play("09_docker_redact.yaml")
    turn = played.agent.last_turn
    assert turn is not None
    assert turn.reason == "error"
    assert not played.requests(), "it is not sent"


# -- 10, 13: facts, permissions ---------------------------------------------------------------------------


async def test_10_a_new_session_knows_its_facts(project: Path) -> None:
    played = await play("10_docker_context.yaml", prompts=["One.", "Two."])
    told = [each for each in played.requests()[1].messages if "cwd: " in each.text]
    assert [each.text for each in told] == [
        f"session_id: {played.agent.session.id}\nagent: context\ncwd: {project}"
    ], "once"


@pytest.mark.parametrize(
    ("command", "asked", "outcome"),
    [
        ("ls", False, "ok"),
        ("ls -a && cat base.agent.yaml", False, "ok"),
        ("rm x", False, "denied"),
        ("ls; rm x", False, "denied"),
        ("cat x | sudo tee y", False, "denied"),
        ("git push --force origin", False, "denied"),
        ("git reset --hard HEAD", False, "denied"),
        ("go build", True, "denied"),
        ("ls > x", True, "denied"),
        ("cat $(echo x)", True, "denied"),
    ],
)
async def test_13_commands_are_judged_part_by_part(command: str, asked: bool, outcome: str) -> None:
    played = await play("13_docker_permissions.yaml", shell(command), approve=False)
    assert played.outcomes() == [outcome]
    assert bool(played.asked) is asked


# -- 15, 17, 18, 20: after an edit, commands, files, the end of a turn -------------------------------------


async def test_15_what_was_written_is_formatted(project: Path) -> None:
    await play(
        "15_docker_post_edit.yaml", call("write_file", path="pkg/a.go", content="package a\n"),
        call("write_file", path="a.py", content=""),
        call("edit_file", path="pkg/a.go", old_text="package a", new_text="package b"),
        call("edit_file", path="pkg/a.go", old_text="none", new_text="b"), call("read_file", path="pkg/a.go"),
    )  # fmt: skip
    assert (project / "gofmt.log").read_text() == "-w pkg/a.go\n" * 2
    assert (project / "pkg" / "a.go").read_text() == "package b\nformatted\nformatted\n"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("grep x base.agent.yaml", "Use rg instead of grep."),
        ("find . -name '*.py'", "Use rg --files -g pattern."),
        ("grep x base.agent.yaml | wc -l", None),
        ("cat base.agent.yaml | grep model", None),
        ("find . -maxdepth 1", None),
    ],
)
async def test_17_some_commands_have_better_ones(command: str, reason: str | None) -> None:
    played = await play("17_claude_bash_validator.yaml", shell(command))
    [(_, outcome, text)] = played.results()
    assert outcome == ("denied" if reason else "ok")
    assert reason is None or reason in text


@pytest.mark.parametrize(
    "path", [".env", "sub/.env", "package-lock.json", ".git/config", "sub/../.env", "link"]
)
async def test_18_protected_files_are_not_written(project: Path, path: str) -> None:
    for name in (".env", "sub/.env", "package-lock.json", ".git/config"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("old")
    (project / "link").symlink_to(".env")
    before = tree(project)
    played = await play(
        "18_claude_protect_files.yaml", call("write_file", path=path, content="new"),
        call("edit_file", path=path, old_text="old", new_text="new"), call("read_file", path=path),
    )  # fmt: skip
    assert played.outcomes() == ["denied", "denied", "ok"]
    assert "This file is protected." in played.results()[0][2]
    assert tree(project) == before
    played = await play("18_claude_protect_files.yaml", call("write_file", path="a.txt", content="new"))
    assert played.outcomes() == ["ok"]


async def test_20_a_turn_ends_after_the_tests() -> None:
    played = await play("20_hookify_tests_stop.yaml", "Done?", shell("echo pytest"), "Really done.")
    assert played.texts == ["Really done."]
    assert played.decisions() == [("require_tool_call", "continue")]
    assert "Run the tests before you stop." in [each.text for each in played.requests()[1].messages]


async def test_20_it_insists_three_times_only() -> None:
    played = await play("20_hookify_tests_stop.yaml")
    assert played.decisions() == [("require_tool_call", "continue")] * 3
    assert len(played.requests()) == 4


def test_06_its_only_tool_is_known_without_asking() -> None:
    flow = load_flow("06_maf_learn.yaml", env=ENV, trust=True)
    [server] = flow.servers
    assert (str(server.where), server.known) == (
        "https://learn.microsoft.com/api/mcp", ("learn.microsoft_docs_search",),
    )  # fmt: skip


async def test_06_its_only_tool_is_called_without_asking(project: Path) -> None:
    flow = project / "06_maf_learn.yaml"
    plain = [sys.executable, str(PLAIN), "microsoft_docs_search", "microsoft_docs_fetch"]
    text = flow.read_text().replace("url: 'https://learn.microsoft.com/api/mcp'", f"command: {plain}")
    flow.write_text(text)  # the same, but that its server is one of ours
    played = await play(flow.name, call("learn.microsoft_docs_search"), call("learn.microsoft_docs_fetch"))
    assert played.outcomes() == ["ok", "error"]
    assert played.asked == []
    assert [each["name"] for each in played.requests()[0].tools] == ["learn.microsoft_docs_search"]


# -- the sketch, and its parent ------------------------------------------------------------------------------


@pytest.fixture
def sketch(project: Path) -> Path:
    """The sketch."""
    return project / "sketch.agent.yaml"


def test_sketch_what_it_is(sketch: Path) -> None:
    flow = load_flow(sketch.name, env=ENV, trust=True)
    agent = flow.agent(model="test")
    assert agent.settings == {
        "max_tokens": 8192,
        "temperature": 0.2,
        "extra": {"anthropic_cache_messages": True},
    }
    assert (agent.thinking, agent.fallback) == ("high", ("openai:gpt-5.2",))
    assert (agent.limits.max_steps, agent.limits.max_tool_calls, agent.limits.max_seconds) == (60, 200, 1800)
    assert agent.queues.steering == "one-at-a-time"
    assert agent.system_prompt == (
        "Review the change for bugs first, then for clarity.\n\n\nAnswer in British English.\n"
        "Cite file:line for every claim.\n"
    )
    ids = {point: [hook.id for hook in chain.hooks] for point, chain in agent.chains.items()}
    assert ids["pre_tool"] == ["no-secrets", "no-destructive", "python"]
    assert ids["post_tool"] == ["audit_log"], "legacy-audit is off here"
    told = [(reach.kind, reach.what) for reach in flow.reaches]
    assert ("program", "python hooks/check_paths.py") in told
    assert ("program", "pytest -q") in told
    assert any(kind == "address" for kind, _ in told)


async def test_sketch_what_it_denies(sketch: Path, project: Path) -> None:
    (project / ".env").write_text("x")
    haiku = ScriptedModel(["Done."], id="anthropic:claude-haiku-5")
    played = await play(
        sketch.name, shell("rm -rf x", "curl x", "sudo x", "git push --force x"),
        call("write_file", path="docs/a", content="x"), call("write_file", path="src/a", content="x"),
        call("read_file", path=".env"), models={haiku.id: haiku},
    )  # fmt: skip
    assert played.outcomes() == ["denied"] * 5 + ["ok", "denied"]
    texts = [text for *_, text in played.results()]
    assert "Ask the user first. (hook no-destructive)" in texts[0]
    assert "shell(curl *)" in texts[1]
    assert "docs/a is outside src/ and tests/" in texts[4]
    assert "Secrets stay closed." in texts[6]
    assert not (project / "logs" / "all.jsonl").exists()
    assert (project / "logs" / "tools.jsonl").exists()


async def test_sketch_tools_of_its_server(sketch: Path) -> None:
    played = await play(
        sketch.name, call("github.get_issue", n=1), call("github.search_code"), call("github.create_issue")
    )
    assert [tool for tool in played.agent.known_tools if tool.startswith("github.")] == [
        "github.search_code", "github.get_issue",
    ]  # fmt: skip
    assert played.outcomes() == ["ok", "ok", "error"]
    assert played.asked == []


async def test_sketch_tests_are_run_before_the_turn_ends(sketch: Path, tmp_path: Path) -> None:
    program = "#!/bin/sh\ntest -e fixed || { echo 1 failed; exit 1; }\n"
    (tmp_path / "bin" / "pytest").write_text(program)
    played = await play(sketch.name, "Done.", shell("touch fixed"), "Now it is.")
    assert played.texts == ["Now it is."]
    said = [each.text for each in played.requests()[1].messages if "before you stop" in each.text]
    assert said == ["The tests must pass before you stop.\n\n1 failed"]


async def test_sketch_models(sketch: Path) -> None:
    haiku = ScriptedModel(["I read it."], id="anthropic:claude-haiku-5")
    played = await play(
        sketch.name, call("read_file", path="base.agent.yaml"), models={"anthropic:claude-haiku-5": haiku}
    )
    assert played.texts == ["I read it."], "after read_file the small model answers"
    other = ScriptedModel(["From the other."], id="openai:gpt-5.2")
    played = await play(sketch.name, Failure("quota"), models={"openai:gpt-5.2": other})
    assert played.texts == ["From the other."]
    assert [each.data["by"] for each in played.entries if each.type == "llm/retry"] == ["fallback_on"]


async def test_base_what_it_denies(project: Path) -> None:
    (project / "a.pem").write_text("x")
    played = await play("base.agent.yaml", call("read_file", path="a.pem"), shell("curl x"))
    assert played.outcomes() == ["denied", "denied"]
    assert (project / "logs" / "all.jsonl").exists()

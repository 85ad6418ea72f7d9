import pytest

from turnchart.hooks import HOOKS, Ask, PreTool, run_chain

pytestmark = pytest.mark.anyio


async def asked(command: str | None, **params: object) -> object:
    spec = HOOKS.get("ask_unless")
    assert spec is not None
    call = PreTool(tool="shell", args={"command": command}, subject=command, subject_name="command")
    return (await run_chain("pre_tool", call, [spec.bind("pre_tool", params)])).decision


@pytest.mark.parametrize(
    ("command", "passes"),
    [
        ("pwd", True),
        ("git status", True),
        ("git status ", False),
        ("pwd; rm -rf /", False),
        ("git log -1", True),
        ("git log -1\nrm -rf /", False),
        ("x git log", False),
        ("", False),
    ],
)
async def test_only_what_is_listed_runs_without_asking(command: str, passes: bool) -> None:
    answer = await asked(command, exact=["pwd", "git status"], patterns=["git log.*"], reason="sure?")
    assert answer == (None if passes else Ask("sure?"))


async def test_nothing_listed_asks_for_everything() -> None:
    assert await asked("ls") == Ask("it is not on the list of what runs without asking")
    assert isinstance(await asked(None, exact=["ls"]), Ask)


async def test_of_a_tool_without_a_subject_all_texts_must_be_listed() -> None:
    spec = HOOKS.get("ask_unless")
    assert spec is not None
    hook = spec.bind("pre_tool", {"exact": ["a"]})
    for args, passes in (({"x": "a"}, True), ({"x": "a", "y": "b"}, False), ({"x": 1}, False)):
        verdict = await run_chain("pre_tool", PreTool(tool="t", args=args), [hook])
        assert (verdict.decision is None) is passes

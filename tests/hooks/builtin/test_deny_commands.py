import pytest

from turnchart.hooks import HOOKS, Deny, ParamError, PreTool, run_chain
from turnchart.machine.chain import BoundHook

pytestmark = pytest.mark.anyio


def made(**params: object) -> BoundHook:
    spec = HOOKS.get("deny_commands")
    assert spec is not None
    return spec.bind("pre_tool", params)


def shell(command: str) -> PreTool:
    return PreTool(tool="shell", args={"command": command}, subject=command, subject_name="command")


@pytest.mark.parametrize(
    ("command", "denied"),
    [
        ("rm -rf build", True),
        ("cd /tmp && rm -rf build", True),
        ("echo a\nsudo ls", True),
        ("rm -r build", False),
        ("ls", False),
        ("", False),
    ],
)
async def test_a_pattern_is_searched_in_the_whole_command(command: str, denied: bool) -> None:
    hook = made(patterns=["rm -rf .*", "sudo "], message="Ask the user first.")
    verdict = await run_chain("pre_tool", shell(command), [hook])
    assert verdict.decision == (Deny("Ask the user first.") if denied else None)


async def test_without_a_message_the_pattern_is_named() -> None:
    verdict = await run_chain("pre_tool", shell("sudo ls"), [made(patterns=["^sudo"])])
    assert verdict.decision == Deny("it matches the denied pattern '^sudo'")


async def test_other_arguments_of_a_tool_with_a_subject_are_not_searched() -> None:
    call = PreTool(tool="write", args={"path": "a", "text": "sudo"}, subject="a", subject_name="path")
    assert (await run_chain("pre_tool", call, [made(patterns=["sudo"])])).decision is None
    call = PreTool(tool="write", args={"text": "sudo"}, subject=None, subject_name="path")
    assert (await run_chain("pre_tool", call, [made(patterns=["sudo"])])).decision is None


async def test_of_a_tool_without_a_subject_all_texts_are_searched() -> None:
    call = PreTool(tool="shell", args={"n": 1, "steps": [{"run": "sudo ls"}]})
    assert isinstance((await run_chain("pre_tool", call, [made(patterns=["sudo"])])).decision, Deny)
    call = PreTool(tool="add", args={"a": 1, "sudo": 2})
    assert (await run_chain("pre_tool", call, [made(patterns=["sudo"])])).decision is None


def test_a_broken_pattern_is_told_when_the_flow_is_loaded() -> None:
    with pytest.raises(ParamError) as caught:
        made(patterns=["rm -rf (", "sudo"])
    assert caught.value.errors[0]["loc"] == ("patterns", 0)
    with pytest.raises(ParamError, match="patterns: Field required"):
        made(message="no")

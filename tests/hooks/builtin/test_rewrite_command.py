import pytest

from turnchart.hooks import HOOKS, Deny, ParamError, PreTool, run_chain
from turnchart.machine.chain import BoundHook

pytestmark = pytest.mark.anyio


def made(pattern: str, replace: str) -> BoundHook:
    spec = HOOKS.get("rewrite_command")
    assert spec is not None
    return spec.bind("pre_tool", {"pattern": pattern, "replace": replace})


def shell(command: object) -> PreTool:
    return PreTool(
        tool="shell", args={"command": command, "cwd": "ls"}, subject=str(command), subject_name="command"
    )


@pytest.mark.parametrize(
    ("pattern", "replace", "command", "result"),
    [
        (r"^ls(?=\s|$)(?!.* -h)", "ls -h", "ls", "ls -h"),
        (r"^ls(?=\s|$)(?!.* -h)", "ls -h", "ls -h a", "ls -h a"),
        (r"^\s+|\s+$", "", "  pwd ", "pwd"),
        ("a", "b", "aaa", "bbb"),
        (r"(\w+)=(\w+)", r"\2=\1", "a=b c=d", "b=a d=c"),
        ("(?i)LS", "dir", "ls Ls", "dir dir"),
    ],
)
async def test_all_matches_in_the_subject_are_replaced(
    pattern: str, replace: str, command: str, result: str
) -> None:
    verdict = await run_chain("pre_tool", shell(command), [made(pattern, replace)])
    assert verdict.payload.args == {"command": result, "cwd": "ls"}
    assert verdict.payload.subject == result
    assert verdict.trace[0].changed == (("args",) if result != command else ())


async def test_a_guard_below_sees_the_rewritten_command() -> None:
    deny = HOOKS.get("deny_commands")
    assert deny is not None
    guard = deny.bind("pre_tool", {"patterns": ["^rm"]})
    verdict = await run_chain("pre_tool", shell(" rm -rf /"), [made(r"^\s+", ""), guard])
    assert isinstance(verdict.decision, Deny)


@pytest.mark.parametrize(
    "call",
    [
        PreTool(tool="shell", args={"command": "ls"}),
        PreTool(tool="shell", args={}, subject_name="command"),
        shell(5),
    ],
)
async def test_what_has_no_text_as_its_subject_is_left_alone(call: PreTool) -> None:
    verdict = await run_chain("pre_tool", call, [made("ls", "x")])
    assert verdict.payload is call


@pytest.mark.parametrize(("pattern", "replace"), [("a", r"\1"), ("(?P<x>a)", r"\g<y>"), ("a", "\\q")])
def test_a_replacement_that_does_not_fit_is_told_when_the_flow_is_loaded(pattern: str, replace: str) -> None:
    with pytest.raises(ParamError, match="replace does not fit the pattern"):
        made(pattern, replace)

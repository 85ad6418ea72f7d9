from pathlib import Path
from typing import Any

import pytest
from tests.hooks.stub_world import StubWorld

from turnchart.hooks import HOOKS, ParamError, PostTool, run_chain
from turnchart.machine.entries import Frozen
from turnchart.machine.world import Finished

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _files(world: StubWorld) -> None:
    root = Path(world.root)
    (root / "pkg").mkdir()
    for name in ("a.go", "pkg/b.go", "c.py", "-x.go"):
        (root / name).write_text("")
    (root.parent / "out.go").write_text("")
    (root / "link.go").symlink_to(root.parent / "out.go")
    world.programs["gofmt"] = Finished(0, "", "")


async def run(
    world: StubWorld, path: Any, *, name: str = "path", outcome: Any = "ok", **params: Any
) -> PostTool:
    spec = HOOKS.get("run_on_file")
    assert spec is not None
    hook = spec.bind("post_tool", {"glob": "*.go", "command": ["gofmt", "-w", "{path}"], **params})
    payload = PostTool(tool="write_file", args=Frozen({name: path}), outcome=outcome, context="before")
    return (await run_chain("post_tool", payload, [hook], world=world)).payload


@pytest.mark.parametrize(
    ("path", "given"),
    [
        ("a.go", "a.go"),
        ("pkg/b.go", "pkg/b.go"),
        ("pkg/../a.go", "a.go"),
        ("-x.go", "./-x.go"),
        ("c.py", None),
        ("none.go", None),
        ("../out.go", None),
        ("link.go", None),
        ("pkg", None),
        (5, None),
    ],
)
async def test_it_runs_on_files_that_match_below_the_root(
    world: StubWorld, path: Any, given: str | None
) -> None:
    await run(world, path)
    assert world.ran == ([["gofmt", "-w", given]] if given else [])


async def test_other_names_of_the_argument_and_absolute_paths(world: StubWorld) -> None:
    await run(world, str(Path(world.root) / "a.go"), name="file_path")
    await run(world, "a.go", name="something")
    assert world.ran == [["gofmt", "-w", "a.go"]]


@pytest.mark.parametrize("outcome", ["error", "denied", "aborted"])
async def test_only_after_success(world: StubWorld, outcome: str) -> None:
    await run(world, "a.go", outcome=outcome)
    assert world.ran == []


async def test_the_model_is_told_if_it_should_be(world: StubWorld) -> None:
    assert (await run(world, "a.go", tell_model=True)).context == "before"
    world.programs["gofmt"] = Finished(2, "line 3\n", "bad\n")
    assert (await run(world, "a.go")).context == "before"
    assert world.told == ["hook `run_on_file`: gofmt on a.go: line 3\nbad\n[exit code 2]"]
    told = (await run(world, "a.go", tell_model=True)).context
    assert told == "before\n\ngofmt on a.go: line 3\nbad\n[exit code 2]"


def test_the_command_must_name_the_file() -> None:
    spec = HOOKS.get("run_on_file")
    assert spec is not None
    with pytest.raises(ParamError, match="must hold"):
        spec.bind("post_tool", {"glob": "*", "command": ["true"]})

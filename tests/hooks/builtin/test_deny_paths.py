import os
from pathlib import Path

import pytest
from tests.hooks.stub_world import StubWorld

from turnchart.hooks import HOOKS, Deny, PreTool, run_chain
from turnchart.machine.chain import BoundHook

pytestmark = pytest.mark.anyio


def made(*globs: str) -> BoundHook:
    spec = HOOKS.get("deny_paths")
    assert spec is not None
    return spec.bind("pre_tool", {"globs": list(globs), "message": "closed"})


def reads(path: str) -> PreTool:
    return PreTool(tool="read_file", args={"path": path}, subject=path, subject_name="path")


async def denied(world: StubWorld, path: str, *globs: str) -> bool:
    verdict = await run_chain("pre_tool", reads(path), [made(*globs)], world=world)
    assert verdict.decision in (None, Deny("closed"))
    return verdict.decision is not None


@pytest.mark.parametrize(
    ("path", "yes"),
    [
        (".env", True),
        ("./a/../.env", True),
        ("a/.env", True),
        (".git/config", True),
        ("k.pem/..", False),
        ("a/k.pem", True),
        ("env", False),
        ("src/app.py", False),
        ("", False),
        ("/elsewhere/k.pem", True),
        ("../k.pem", True),
        ("x" * 5000 + ".pem", False),
    ],
)
async def test_paths_are_matched_as_git_ignores_them(world: StubWorld, path: str, yes: bool) -> None:
    assert await denied(world, path, ".env", ".git/**", "*.pem") is yes


async def test_absolute_paths_below_and_outside_of_the_root(world: StubWorld) -> None:
    assert await denied(world, f"{world.root}/.env", "/.env")
    assert await denied(world, "/etc/passwd", "/etc/**")
    assert await denied(world, "~/.ssh/id_rsa", ".ssh/")
    assert not await denied(world, f"{world.root}/a/.env", "/.env")


async def test_links_are_resolved(world: StubWorld) -> None:
    root = Path(world.root)
    (root / "vault").mkdir()
    (root / "vault" / "key").write_text("k")
    (root / "harmless.txt").symlink_to("vault/key")
    (root / ".env").symlink_to("vault/key")
    assert await denied(world, "harmless.txt", "vault/")
    assert await denied(world, ".env", ".env"), "the name that was written counts as well"
    assert await denied(world, "vault", "vault/")
    assert not await denied(world, "other", "vault/")


async def test_a_root_that_is_reached_through_a_link(
    world: StubWorld, tmp_path_factory: pytest.TempPathFactory
) -> None:
    link = tmp_path_factory.mktemp("links") / "root"
    link.symlink_to(world.root)
    world.root = str(link)
    assert await denied(world, "a/.env", "/a/.env")
    assert await denied(world, f"{link.resolve()}/a/.env", "/a/.env")


async def test_what_is_no_path_is_denied(world: StubWorld) -> None:
    verdict = await run_chain("pre_tool", reads("a\0b"), [made("*.pem")], world=world)
    assert isinstance(verdict.decision, Deny)
    assert "failed" in verdict.decision.reason


async def test_without_a_world_the_root_is_the_current_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    verdict = await run_chain("pre_tool", reads(f"{os.getcwd()}/a.pem"), [made("/*.pem")])
    assert verdict.decision == Deny("closed")


async def test_without_a_message_the_path_is_named(world: StubWorld) -> None:
    spec = HOOKS.get("deny_paths")
    assert spec is not None
    hook = spec.bind("pre_tool", {"globs": [".env"]})
    verdict = await run_chain("pre_tool", reads("./.env"), [hook], world=world)
    assert verdict.decision == Deny(".env is protected")

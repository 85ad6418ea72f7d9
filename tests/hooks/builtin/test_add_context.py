import getpass
from datetime import datetime

import pytest
from tests.hooks.stub_world import StubWorld

from turnchart.hooks import HOOKS, AddContext, Assemble, ParamError, SessionStart, run_chain
from turnchart.machine.chain import BoundHook
from turnchart.machine.world import Finished

pytestmark = pytest.mark.anyio


def made(point: str, *facts: str) -> BoundHook:
    spec = HOOKS.get("add_context")
    assert spec is not None
    return spec.bind(point, {"facts": list(facts)})


async def told(world: StubWorld, *facts: str, session: str = "s1") -> str:
    payload = SessionStart(session=session, agent="reviewer")
    verdict = await run_chain("session_start", payload, [made("session_start", *facts)], world=world)
    (answer,) = verdict.answers
    assert isinstance(answer, AddContext)
    return answer.text


async def test_a_new_session_is_told_the_facts(world: StubWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    world.programs["git"] = Finished(0, "## main\n M a.py\n", "")
    day = datetime.fromtimestamp(world.time).date().isoformat()
    text = await told(world, "date", "cwd", "git_status", "user", "session_id", "agent")
    assert text == (
        f"date: {day}\ncwd: {world.root}\ngit_status: ## main\n M a.py\n"
        "user: ada\nsession_id: s1\nagent: reviewer"
    )
    assert world.ran == [["git", "status", "--short", "--branch"]]


@pytest.mark.parametrize("source", ["resumed", "forked"])
async def test_an_old_session_is_told_nothing(world: StubWorld, source: str) -> None:
    payload = SessionStart(source=source)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # one of three
    verdict = await run_chain("session_start", payload, [made("session_start", "date")], world=world)
    assert verdict.answers == ()


async def test_git_may_be_missing_or_have_no_repository_or_much_to_say(world: StubWorld) -> None:
    assert await told(world, "git_status") == "git_status: git cannot be started"
    world.programs["git"] = Finished(128, "", "fatal: not a git repository")
    assert await told(world, "git_status") == "git_status: not a git repository"
    world.programs["git"] = Finished(0, "x" * 3000, "")
    assert await told(world, "git_status") == "git_status: " + "x" * 2000 + "\n..."


async def test_a_machine_without_a_user_name(world: StubWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> str:
        raise KeyError("uid")

    monkeypatch.setattr(getpass, "getuser", unknown)
    assert await told(world, "user") == "user: unknown"


async def test_on_assemble_the_facts_stand_beside_those_of_others(world: StubWorld) -> None:
    payload = Assemble(session="s1", contexts={"other": "x"})
    verdict = await run_chain("assemble", payload, [made("assemble", "session_id", "cwd")], world=world)
    assert verdict.payload.contexts == {"other": "x", "session_id": "s1", "cwd": world.root}
    again = await run_chain("assemble", verdict.payload, [made("assemble", "session_id")], world=world)
    assert again.trace[0].changed == ()


def test_facts_must_be_named() -> None:
    with pytest.raises(ParamError):
        made("assemble")
    with pytest.raises(ParamError, match=r"facts\.0: Input should be 'date', 'cwd'"):
        made("assemble", "weather")

from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.flows import NotTrusted
from turnchart.flows.testfiles import playing
from turnchart.flows.testfiles.finding import load_suite
from turnchart.flows.testfiles.playing import CallFact, HookFact, Played, play_case

Play = Callable[..., Played]

SHELL = "prompt: Go.\nmodel: [{call: shell, args: {command: COMMAND}}, Done.]\n"


def shell(command: str, more: str = "tools: {shell: {returns: listed}}") -> str:
    return SHELL.replace("COMMAND", command) + more


def test_a_conversation_is_played_to_its_end(play: Play) -> None:
    played = play(shell("ls src"))
    assert (played.reason, played.text, played.faults, played.error) == ("completed", "Done.", (), "")
    assert " ".join(played.walk) == (
        "idle claiming pre_step requesting tooling stopping claiming pre_step requesting stopping idle"
    )
    assert played.calls == (
        CallFact("shell", {"command": "ls src"}, "allow", "shell(ls *)", True, "ok", "listed"),
    )
    assert [(request.step, request.model) for request in played.requests] == [
        (1, "anthropic:claude-sonnet-4-5"), (2, "anthropic:claude-sonnet-4-5"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "decision", "by", "ran", "outcome"),
    [
        ("ls", "allow", "shell(ls *)", True, "ok"),
        ("sudo ls", "deny", "shell(sudo *)", False, "denied"),
        ("rm -rf build", "deny", "no-destructive", False, "denied"),
        ("make", "ask", "default", False, "denied"),
    ],
)
def test_who_decided_of_a_call_is_told(
    command: str, decision: str, by: str, ran: bool, outcome: str, play: Play
) -> None:
    [call] = play(shell(command)).calls
    assert (call.decision, call.by, call.ran, call.outcome) == (decision, by, ran, outcome)


@pytest.mark.parametrize(
    ("approve", "ran"),
    [("none", False), ("reads", False), ("all", True), ("['shell(make *)']", True), ("[read_file]", False)],
)
def test_questions_are_answered_beforehand(approve: str, ran: bool, play: Play) -> None:
    [call] = play(shell("make all", f"tools: {{shell: {{returns: x}}}}\napprove: {approve}")).calls
    assert (call.decision, call.by, call.ran) == ("ask", "default", ran)


def test_a_call_of_an_unknown_tool_comes_to_no_decision(play: Play) -> None:
    [call] = play("prompt: x\nmodel: [{call: nothing}, y]").calls
    assert (call.tool, call.decision, call.by, call.ran, call.outcome) == (
        "nothing",
        None,
        "",
        False,
        "error",
    )


def test_what_hooks_did_is_told(play: Play) -> None:
    assert play(shell("rm -rf .")).hooks == (
        HookFact("pre_tool", "no-destructive", "deny", play(shell("rm -rf .")).hooks[0].reason, (), ""),
    )


def test_failures_are_waited_out_on_a_clock_of_their_own(play: Play) -> None:
    played = play("prompt: x\nmodel: [{fail: rate_limit, retry_after: 50}, y]")
    assert (played.reason, played.walk.count("retrying")) == ("completed", 1)


def test_each_prompt_is_a_turn(play: Play) -> None:
    played = play("prompts: [a, b]\nmodel: [one, two]")
    assert (played.text, played.walk.count("idle")) == ("two", 3)


def test_people_may_speak_meanwhile(play: Play) -> None:
    more = "tools: {shell: {returns: x}}\nat: [{state: tooling, step: 1, steer: Only src.}]"
    played = play(shell("ls", more))
    assert [m.text for m in played.requests[1].messages][-1] == "Only src."
    assert played.faults == ()


def test_people_may_stop_it(play: Play) -> None:
    played = play("prompt: x\nmodel: [{call: shell, args: {command: ls}}]\nat: [{state: tooling, abort: no}]")
    assert (played.reason, played.faults) == ("aborted", ())


def test_a_prompt_may_come_from_a_person_at_rest(play: Play) -> None:
    assert play("at: [{state: idle, follow_up: Hello.}]\nmodel: [Hi.]").text == "Hi."


def test_an_input_whose_place_never_comes_is_a_fault(play: Play) -> None:
    played = play(
        "prompt: x\nmodel: [y]\nat: [{state: tooling, step: 2, steer: never}, {state: idle, inject: z}]"
    )
    assert played.faults == ("the agent never came to tooling of step 2, where steer was to happen",)


def test_a_reply_that_nobody_asks_for_is_a_fault(play: Play) -> None:
    [fault] = play("prompt: x\nmodel: [y, z]").faults
    assert fault.startswith("1 reply of the script")


def test_a_request_that_has_no_reply_is_a_fault(play: Play) -> None:
    played = play("prompt: x\nmodel: [{call: shell, args: {command: ls}}]\ntools: {shell: {returns: y}}")
    assert played.reason == "error"
    assert "the script of model" in played.faults[0]


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ("prompt: x", "the model 'anthropic:claude-sonnet-4-5' has no script; write model: "),
        (
            shell("ls", ""),
            "the tool 'shell' has no stub; write tools: {shell: {returns: ...}}, or {real: true}",
        ),
    ],
)
def test_what_has_no_stub_is_named_and_not_started(keys: str, named: str, play: Play) -> None:
    played = play(keys)
    assert any(fault.startswith(named) for fault in played.faults)


FLOW_WITH_PROGRAM = """\
version: 1
model: test
hooks:
  turn_stopping:
    - run: [./check.sh, --quick]
      id: check
"""


def test_programs_are_played(play: Play) -> None:
    keys = """\
        prompt: x
        commands:
          check.sh:
            - {output: '{"decision": "continue", "reason": "Not yet."}'}
            - {exit: 0, errors: all is well}    # which decides nothing
    """
    played = play(keys, FLOW_WITH_PROGRAM)
    assert (played.walk.count("requesting"), played.faults) == (2, ())
    assert [(hook.id, hook.decision) for hook in played.hooks] == [("check", "continue")]


def test_a_program_without_a_stub_is_named_and_not_started(play: Play) -> None:
    [fault] = play("prompt: x", FLOW_WITH_PROGRAM).faults
    assert fault.startswith("the program ")
    assert fault.endswith(
        "check.sh --quick' has no stub; write commands: {check.sh: {exit: 0, output: ...}}, or {real: true}"
    )


def test_a_program_that_takes_too_long_is_stopped_at_once(play: Play) -> None:
    played = play("prompt: x\ncommands: {check.sh --quick: {delay: 31}}", FLOW_WITH_PROGRAM)
    [hook] = played.hooks
    assert (played.reason, hook.error) == ("error", "it took longer than 30 s")


def test_hooks_see_what_the_flow_names_and_the_files_of_the_test(
    play: Play, write: Callable[..., Path]
) -> None:
    write("Be kind.", "rules.md")
    write("Be quick.", "other.md")
    flow = "version: 1\nmodel: test\nhooks:\n  context:\n    - {use: add_text, with: {file: rules.md}}\n"
    assert "Be kind." in play("prompt: x", flow).requests[0].messages[0].text
    assert "Be brief." in play("prompt: x\nfiles: {rules.md: Be brief.}", flow).requests[0].messages[0].text


def test_what_is_real_works_in_a_copy_of_the_folder(
    write: Callable[..., Path], suite: Callable[..., str], tmp_path: Path, loop: str
) -> None:
    write("the project's own", "notes.txt")
    more = "tools: {shell: {real: true}}\napprove: all\nfiles: {more.txt: the test's}"
    loaded, flow = load_suite(suite(shell("cat notes.txt more.txt && rm notes.txt", more)), trust=True)
    [call] = play_case(flow, loaded.cases[0], loop=loop).calls
    assert "the project's ownthe test's" in call.result
    assert (tmp_path / "notes.txt").exists()


def test_a_real_program_needs_somebody_who_agreed(
    write: Callable[..., Path], suite: Callable[..., str]
) -> None:
    write("#!/bin/sh\necho '{}'\n", "check.sh").chmod(0o755)
    name = suite("prompt: x\ncommands: {check.sh: {real: true}}", FLOW_WITH_PROGRAM)
    loaded, flow = load_suite(name)
    with pytest.raises(NotTrusted):
        play_case(flow, loaded.cases[0])
    loaded, flow = load_suite(name, trust=True)
    played = play_case(flow, loaded.cases[0])
    assert (played.reason, played.faults) == ("completed", ())


def test_a_conversation_that_hangs_is_given_up(
    suite: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(playing, "LONGEST", 0.01)
    loaded, flow = load_suite(suite("prompt: x\nmodel: [y]"))
    monkeypatch.setattr(type(flow), "agent", _hanging(type(flow).agent))
    [fault, *_] = play_case(flow, loaded.cases[0]).faults
    assert fault == "given up after 0.01 seconds: something waits for what never comes"


def _hanging(make: Callable[..., object]) -> Callable[..., object]:
    import anyio

    async def never(payload: object) -> None:
        await anyio.sleep_forever()

    def agent(self: object, **given: object) -> object:
        return make(self, **given, hooks={"pre_step": [never]})

    return agent

from collections.abc import Callable

import pytest

from turnchart.flows.testfiles.finding import load_suite
from turnchart.flows.testfiles.playing import Played
from turnchart.flows.testfiles.stage import Stage
from turnchart.flows.testfiles.suite import Case

Play = Callable[..., Played]
LS = "{call: shell, args: {command: ls}}"
TWO = f"prompt: x\nmodel: [{{calls: [{LS}, {LS}]}}, y]\n"


@pytest.fixture
def stage(suite: Callable[..., str]) -> Callable[..., Stage]:
    """Set a stage for a test whose keys are given."""

    def stage(keys: str) -> Stage:
        loaded, flow = load_suite(suite(keys))
        case: Case = loaded.cases[0]
        return Stage(flow, case)

    return stage


def test_a_stub_has_the_parameters_of_its_tool(stage: Callable[..., Stage]) -> None:
    tools = stage("prompt: x\nmodel: [y]").agent.known_tools
    shell = tools["shell"]
    assert set(shell.schema["properties"]) == {"command"}
    assert (shell.subject, shell.subject_of({"command": "ls"})) == ("command", "ls")
    assert tools["read_file"].effects == "read"
    assert set(tools["read_file"].schema["properties"]) == {"path", "offset", "limit"}


def test_the_stubs_of_a_tool_are_taken_in_turn_and_the_last_stays(play: Play) -> None:
    played = play(f"{TWO}tools: {{shell: [{{returns: a}}, {{fails: b}}]}}")
    assert [(call.outcome, call.result) for call in played.calls] == [("ok", "a"), ("error", "b")]
    assert [call.result for call in play(f"{TWO}tools: {{shell: {{returns: {{n: 1}}}}}}").calls] == [
        '{"n":1}'
    ] * 2


def test_a_stub_may_take_its_time_which_is_none(play: Play) -> None:
    played = play(f"{TWO}tools: {{shell: {{returns: a, delay: 100}}}}")
    assert [call.result for call in played.calls] == ["a", "a"]


def test_every_model_has_its_own_script_where_there_are_several(play: Play) -> None:
    flow = "version: 1\nmodel: {id: openai:a, fallback: [openai:b]}\nretry: {max_attempts: 1}\n"
    played = play("prompt: x\nmodel: {openai:a: [{fail: overloaded}], openai:b: [from b]}", flow)
    assert (played.text, [request.model for request in played.requests]) == (
        "from b",
        ["openai:a", "openai:b"],
    )
    assert played.faults == ()


def test_one_script_answers_for_all_models(play: Play) -> None:
    flow = "version: 1\nmodel: {id: openai:a, fallback: [openai:b]}\nretry: {max_attempts: 1}\n"
    assert play("prompt: x\nmodel: [{fail: overloaded}, from b]", flow).text == "from b"


def test_the_script_of_the_flow_is_played_where_the_test_has_none(
    play: Play, write: Callable[..., object]
) -> None:
    write("at: [{state: idle, follow_up: Hello.}]\nmodel: [Hi.]", "s.yaml")
    played = play("approve: none", "version: 1\nmodel: script:s.yaml\n")
    assert (played.text, [m.text for m in played.requests[0].messages]) == ("Hi.", ["Hello."])


def test_the_longest_name_of_a_program_wins(play: Play) -> None:
    flow = "version: 1\nmodel: test\nhooks:\n  session_start:\n    - run: [python, tell.py]\n"
    keys = 'prompt: x\ncommands: {python: {exit: 1}, python tell.py: {output: \'{"context": "told"}\'}}'
    assert [m.text for m in play(keys, flow).requests[0].messages] == ["told", "x"]

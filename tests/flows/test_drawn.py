import os
from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.diagrams import sequence_diagram, state_diagram
from turnchart.flows.load import load_flow
from turnchart.machine.states import State

Write = Callable[..., Path]

DRAWN = Path(__file__).parent / "drawn"
"""A flow and its pictures; with TURNCHART_UPDATE_GOLDEN=1 they are renewed."""


def test_hooks_and_settings_are_drawn_where_they_act(write: Write) -> None:
    write(
        """
        version: 1
        name: drawn
        model: {id: test, fallback: [a:b]}
        tools: [shell, read_file]
        permissions: {default: deny, allow: [read_file]}
        hooks:
          pre_tool:
            - {use: redact_secrets, tools: [shell, 'read_*']}
            - {use: redact_secrets, id: off, disabled: true}
          context: [{use: redact_secrets, id: clean}]
        limits: {max_steps: 5, max_seconds: 2.5}
        """
    )
    overlay = load_flow("flow.yaml").overlay()
    assert overlay.title == "drawn"
    assert overlay.hooks == {
        "pre_tool": ("redact_secrets [shell, read_*] (flow.yaml:8)",),
        "context": ("clean (flow.yaml:10)",),
    }
    assert overlay.notes[State.TOOLING] == (
        "tools: shell, read_file", "permissions: default deny", "allow: read_file",
    )  # fmt: skip
    assert overlay.notes[State.RETRYING] == (
        "retry: 5 attempts, 1 to 60 s", "limits: max_retries 20", "fallback: a:b",
    )  # fmt: skip
    assert overlay.notes[State.STOPPING] == ("limits: max_steps 5, max_seconds 2.5, max_continues 8",)
    assert overlay.notes[State.REQUESTING] == ("model: test",)


def test_a_bare_flow_says_little(write: Write) -> None:
    write("version: 1\ntools: [shell]\n")
    overlay = load_flow("flow.yaml").overlay()
    assert overlay.hooks == {}
    assert State.REQUESTING not in overlay.notes
    assert overlay.notes[State.TOOLING][1] == "permissions: reads allowed, the rest asks"


@pytest.mark.parametrize(
    ("written", "drawn"),
    [
        ("{}", "compaction: summarize above 80% of the window, last 2 turns kept"),
        (
            "{strategy: drop_oldest, trigger: 0.5, keep_last: 1, model: 'a:b'}",
            "compaction: drop_oldest above 50% of the window, last 1 turns kept, model a:b",
        ),
        ("{strategy: none}", "compaction: none"),
    ],
)
def test_compaction_is_drawn_where_it_acts(write: Write, written: str, drawn: str) -> None:
    write(f"version: 1\ncompaction: {written}\n")
    assert load_flow("flow.yaml").overlay().notes[State.PRE_STEP] == (drawn,)


@pytest.mark.parametrize("view", ["state.mmd", "state.dot", "sequence.mmd"])
def test_a_flow_with_hooks_is_drawn_as_written_down(view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DRAWN)
    flow = load_flow("reviewer.yaml")
    made = {
        "state.mmd": lambda: state_diagram(flow),
        "state.dot": lambda: state_diagram(flow, "dot"),
        "sequence.mmd": lambda: sequence_diagram(flow),
    }[view]()
    file = DRAWN / f"reviewer-{view}"
    if "TURNCHART_UPDATE_GOLDEN" in os.environ:
        file.write_text(made, "utf-8")
    assert made == file.read_text("utf-8")


def test_what_holds_the_last_answer_against_a_schema_is_drawn_as_a_hook(write: Write) -> None:
    write("version: 1\nmodel: test\noutput:\n  schema: {type: integer}\n")
    assert load_flow("flow.yaml").overlay().hooks == {"turn_stopping": ("output (flow.yaml:4)",)}

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.diagrams.escape import unescaped
from turnchart.diagrams.fold import MAX_CHARS, MAX_EDGES, SAID
from turnchart.diagrams.overlay import Overlay, session_overlay
from turnchart.diagrams.sequence import sequence_diagram
from turnchart.machine.entries import Entry
from turnchart.machine.states import State
from turnchart.machine.table import LIFECYCLE

Recorded = Callable[[str], list[Entry]]

GOLDEN = Path(__file__).parent / "golden" / "lifecycle.mmd"

LINE = re.compile(
    r"---|title: .*|sequenceDiagram|  participant \w+( as .*)?"
    r"|( {2})+(\w+--?>>\w+: [^:;#]([^:;#]|#\d+;)*|Note over \w+(,\w+)?: .+|(alt|else|opt|loop|break) .+|end)"
)


def normal(text: str) -> list[str]:
    """Undo entities, drop code tags, fold white space."""
    lines = (re.sub(r"</?code>", "", unescaped(line)) for line in text.splitlines())
    return [" ".join(line.split()) for line in lines if line.strip()]


def test_the_bare_view_is_the_golden_one() -> None:
    assert normal(sequence_diagram()) == normal(GOLDEN.read_text(encoding="utf-8"))


def test_the_bare_view_is_indented_as_the_golden_one() -> None:
    golden = GOLDEN.read_text(encoding="utf-8").splitlines()
    assert [len(line) - len(line.lstrip()) for line in sequence_diagram().splitlines()] == [
        len(line) - len(line.lstrip()) for line in golden
    ]


@pytest.mark.parametrize("detail", [False, True])
def test_the_same_input_gives_the_same_bytes(recorded: Recorded, nasty: Overlay, detail: bool) -> None:
    for drawn in (LIFECYCLE, nasty, session_overlay(recorded("tools"))):
        assert sequence_diagram(drawn, detail=detail) == sequence_diagram(drawn, detail=detail)


@pytest.mark.parametrize("detail", [False, True])
def test_every_line_is_of_a_known_form_and_every_block_ends(
    recorded: Recorded, nasty: Overlay, detail: bool
) -> None:
    for drawn in (LIFECYCLE, nasty, session_overlay(recorded("tools"), 'a "quoted" name')):
        lines = sequence_diagram(drawn, detail=detail).splitlines()
        assert not [line for line in lines if not LINE.fullmatch(line)]
        opened = [line for line in lines if re.match(r" *(alt|opt|loop|break) ", line)]
        assert len(opened) == len([line for line in lines if line.strip() == "end"])


def test_detail_draws_silent_lines_with_their_reasons() -> None:
    text = unescaped(sequence_diagram(detail=True))
    assert "Driver->>Session: llm/retry, maybe: before the wait of a retry\n" in text
    assert "Driver-->>SDK: agent/error: the error is told before turn/end\n" in text
    assert "Driver->>Session: hook/result, any number: a dispatch that decided" in text
    assert "break cancel, claiming to idle (aborted, max_seconds" in text
    assert "llm/retry" not in sequence_diagram()


def test_the_hooks_of_a_flow_stand_at_their_points() -> None:
    overlay = Overlay("f", hooks={"pre_step": ("budget (f.yaml:3)", "second"), "after_step": ("stop",)})
    text = unescaped(sequence_diagram(overlay))
    assert (
        "Driver->>Hooks: agent/pre-step waterfall\n"
        "  Note over Driver,Hooks: pre_step 1: budget (f.yaml:3)<br/>pre_step 2: second\n" in text
    )
    assert re.search(r"Driver->>Hooks: after_step.*\n +Note over Driver,Hooks: after_step 1: stop\n", text)
    assert "llm/retry" not in text


def test_the_settings_of_a_flow_stand_at_their_states() -> None:
    overlay = Overlay(
        "f", {State.RETRYING: ("max_attempts 5",)}, {"on_signal": ("tell",), "compact": ("veto",)}
    )
    text = unescaped(sequence_diagram(overlay))
    assert "Note over Driver: in state retrying<br/>max_attempts 5\n" in text
    assert text.count("Note over Driver,Hooks: compact 1: veto\n") == 2  # in pre-step and in retrying
    assert "Note over Driver: in state idle<br/>on_signal 1: tell\n" in text


def test_no_block_is_empty() -> None:
    """Mermaid draws all that follows an empty block at no place at all."""
    text = sequence_diagram(detail=True)
    assert not re.search(r"^ *(alt|opt|break|loop|else)\b.*\n *(else|end)\b", text, re.MULTILINE)
    assert "break maintained, maintenance to idle\n      Note over Driver: nothing else happens\n" in text


@pytest.mark.parametrize("detail", [False, True])
def test_a_long_picture_is_folded_and_says_so(detail: bool) -> None:
    long = Overlay("t" * 100_000, dict.fromkeys(State, ("x" * 500,) * 100))
    text = sequence_diagram(long, detail=detail)
    assert len(text) <= MAX_CHARS
    assert text.count(">>") <= MAX_EDGES
    assert SAID in text
    assert SAID not in sequence_diagram(detail=detail)

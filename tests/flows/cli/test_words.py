from pathlib import Path
from typing import Any

import pytest

from turnchart.flows.cli.words import Words, arguments, one_line, plain, why, words
from turnchart.machine.entries import Entry, Frozen, freeze


def entry(type: str, **data: Any) -> Entry:
    return Entry(0, None, type, 0.0, Frozen(freeze(data)))


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], **more}


CALLS = {"content": [{"type": "tool_call", "name": "shell"}]}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("all right\n\tas it is: é 日本 👍🏽", "all right\n\tas it is: é 日本 👍🏽"),
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("bell\x07 back\x08 return\r", "bell␇ back␈ return␍"),
        ("\x7f", "␡"),
        ("\x9b2J", "\ufffd2J"),
        ("a\u202ebc\u2066d", "a\ufffdbc\ufffdd"),
        ("a\ud800b\u2028c", "a\ufffdb\ufffdc"),
    ],
)
def test_no_text_is_a_command_to_a_terminal(given: str, shown: str) -> None:
    assert plain(given) == shown


def test_a_text_on_one_line_is_cut_where_it_is_long() -> None:
    assert one_line(" a\n b\t c ") == "a b c"
    assert one_line("x" * 200, 10) == "xxxxxxxxx…"


def test_arguments_that_are_no_json_are_shown_as_they_came() -> None:
    assert arguments('{"broken') == '{"broken'
    assert arguments({"path": "é"}) == '{"path": "é"}'


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (entry("turn/start", turn=2), Words("turn", "2")),
        (entry("turn/end", turn=2, reason="completed", steps=1), Words("end", "completed after 1 step")),
        (
            entry("turn/end", turn=2, reason="aborted", steps=2, cause="user"),
            Words("end", "aborted after 2 steps, cut off: user"),
        ),
        (
            entry("turn/end", turn=2, reason="error", steps=1, error={"kind": "quota", "message": "spent"}),
            Words("end", "error after 1 step: quota: spent"),
        ),
        (entry("step/start", turn=1, step=3), Words("step", "3")),
        (entry("user/message", message=said("hi")), Words("user", "hi")),
        (entry("user/message", message=said("hi", source="hook x")), Words("user (hook x)", "hi")),
        (
            entry("assistant/message", message=CALLS, interrupted=True),
            Words("assistant", "[shell] (interrupted)"),
        ),
        (entry("assistant/attempt", failure={"kind": "timeout"}), Words("attempt", "failed: timeout")),
        (entry("assistant/attempt"), Words("attempt", "cut off")),
        (entry("tool/call", tool="shell", arguments={"a": 1}), Words("call", 'shell {"a": 1}')),
        (
            entry("tool/result", outcome="denied", message=said("no", tool="shell")),
            Words("result", "shell denied: no"),
        ),
        (
            entry("agent/inbox/spliced", target="next-step", inserted=[{"messages": [said("quick")]}]),
            Words("inbox", "next-step: quick"),
        ),
        (
            entry("agent/inbox/spliced", target="next-step", removed_count=2, outcome="discarded"),
            Words("inbox", "2 discarded"),
        ),
        (entry("agent/inbox/spliced", target="next-step", removed_count=2), None),
        (
            entry("hook/result", point="pre_tool", id="x", where="a.yaml:3", decision="deny", reason="no"),
            Words("hook", "pre_tool x (a.yaml:3): deny: no"),
        ),
        (
            entry("hook/result", point="pre_tool", id="x", decision="deny", reason="x failed: E", error="E"),
            Words("hook", "pre_tool x: deny: x failed: E"),
        ),
        (
            entry("hook/result", point="context", id="x", error="late", changed=["messages"]),
            Words("hook", "context x: failed: late: changed messages"),
        ),
        (
            entry("hook/result", point="pre_tool", id="x", stderr="looked\ntwice\n"),
            Words("hook", "pre_tool x: stderr: twice"),
        ),
        (
            entry("llm/retry", retry=1, after=0.5, kind="rate_limit", by="policy", model="b"),
            Words("retry", "rate_limit: again in 0.5 s with b (retry 1, policy)"),
        ),
        (entry("approval/asked", tool="shell", reason="a rule"), Words("asks", "shell: a rule")),
        (entry("approval/decided", outcome="refused", reason="no"), Words("answer", "refused: no")),
        (entry("step/end", turn=1, step=1), None),
        (entry("label", target=3, text="here"), Words("label", "3: here")),
        (entry("label", target=3), Words("label", "3: none")),
        (entry("compaction", summary="so far\nso good"), Words("compacted", "so far so good")),
        (entry("branch_summary", summary="left"), Words("summary", "left")),
        (entry("model_change", model="a:b"), Words("model", "a:b")),
        (entry("thinking_level_change", thinking="high"), Words("thinking", "high")),
        (entry("active_tools_change", tools=["x", "y"]), Words("tools", "x, y")),
        (entry("active_tools_change", tools=[]), Words("tools", "none")),
        (entry("custom", kind="mine", data={"n": 1}), Words("custom", 'mine: {"n": 1}')),
        (entry("leaf", target=3), Words("leaf", '{"target": 3}')),
    ],
    ids=lambda value: value.type if isinstance(value, Entry) else "",
)  # fmt: skip
def test_entries_in_words(given: Entry, expected: Words | None) -> None:
    assert words(given) == expected


def test_an_entry_that_lacks_something_is_shown_all_the_same() -> None:
    assert words(entry("tool/call", tool="shell")) == Words("tool/call", '{"tool": "shell"}')


def test_what_the_system_refused_is_told_without_its_number(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        (tmp_path / "none").read_text()
    assert why(raised.value) == f"{tmp_path / 'none'}: No such file or directory"
    assert why(OSError(5, "Input/output error")) == "Input/output error"
    assert (why(OSError("odd")), why(ValueError("no number"))) == ("odd", "no number")

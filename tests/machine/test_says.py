from turnchart.machine.says import (
    Arrow,
    Block,
    Kind,
    Note,
    Part,
    Silent,
    call,
    emit,
    hook,
    log,
    loop,
    names,
    opt,
    reply,
    silent,
)


def test_participants_are_introduced_by_their_id() -> None:
    assert [part.id for part in Part] == [
        "User", "Agent", "Driver", "Hooks", "Prompt", "LLM", "Tools", "Session", "SDK",
    ]  # fmt: skip
    assert Part.HOOKS.value == "Hooks as hook listeners"


def test_an_arrow_is_labelled_with_what_it_does() -> None:
    assert log("a", "b", text="as needed").label == "`a` and `b` as needed"
    assert log(label="own words").label == "own words"
    assert emit("agent/status running", "running").label == "`agent/status` running"
    assert (
        hook("assemble", Part.PROMPT, "system-prompt/assemble").label == "`system-prompt/assemble` waterfall"
    )


def test_an_arrow_names_what_stands_behind_it() -> None:
    assert emit("agent/status running").does == ("agent/status running",)
    assert hook("assemble", Part.PROMPT, "shown").does == ("assemble",)
    assert log("a", times="*").times == "*"
    assert call(Part.DRIVER, Part.LLM, "x", does=("prepare",)) == Arrow(
        Kind.CALL, Part.DRIVER, Part.LLM, "x", ("prepare",)
    )


def test_a_reply_performs_nothing() -> None:
    assert reply(Part.LLM, Part.DRIVER, "chunks", again=True).does == ()


def test_a_silent_line_says_why() -> None:
    line = silent(Kind.LOG, "a", "b", times="?", reason="why", anywhere=True)
    assert line == Silent(Kind.LOG, ("a", "b"), "?", "why", True)


def test_names_flattens_blocks() -> None:
    block = loop("l", opt("o", log("b"), silent(Kind.EMIT, "c", reason="r")))
    assert isinstance(block, Block)
    assert names([log("a"), Note(Part.USER, Part.AGENT, "x"), block]) == ("a", "b", "c")

import re

from turnchart.flows.cli.chat.painting import Painter
from turnchart.flows.cli.chat.transcript import Transcript

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def drawn(transcript: Transcript, height: int = 10) -> tuple[list[str], list[str]]:
    above, tail = transcript.draw(40, height)
    return [ANSI.sub("", line) for line in above], [ANSI.sub("", line) for line in tail]


def made() -> Transcript:
    return Transcript(Painter(colours=False))


def test_lines_go_up_once() -> None:
    transcript = made()
    transcript.line("one")
    transcript.line("")
    transcript.line("two", "bad")
    assert drawn(transcript) == (["one", "", "two"], [])
    assert drawn(transcript) == ([], [])


def test_what_comes_in_is_drawn_again_until_it_is_complete() -> None:
    transcript = made()
    transcript.piece("answer", "Hel")
    assert drawn(transcript) == ([], ["Hel"])
    transcript.piece("answer", "lo")
    assert drawn(transcript) == ([], ["Hello"])
    transcript.end()
    assert drawn(transcript) == (["Hello"], [])
    transcript.end()
    assert drawn(transcript) == ([], [])


def test_thoughts_and_answers_stand_in_order() -> None:
    transcript = made()
    transcript.piece("thought", "hm")
    transcript.piece("answer", "Hello")
    transcript.end()
    transcript.line("over")
    assert drawn(transcript) == (["│ hm", "Hello", "over"], [])


def test_a_line_breaks_no_block() -> None:
    transcript = made()
    transcript.piece("answer", "one ")
    transcript.line("> typed")
    assert drawn(transcript) == ([], ["one", "> typed"])
    transcript.piece("answer", "two\n\nthree")
    assert drawn(transcript) == (["one two", "> typed"], ["", "three"])
    transcript.line("> more")
    transcript.end()
    assert drawn(transcript) == (["", "three", "> more"], [])


def test_what_comes_in_leaves_room_for_what_stands_below() -> None:
    transcript = made()
    transcript.piece("answer", "- " + "\n- ".join("abcdef"))
    assert drawn(transcript, 2) == ([], [" • e", " • f"])


def test_a_note_stands_below_until_the_next_one() -> None:
    transcript = made()
    transcript.note("half")
    assert drawn(transcript) == ([], ["half"])
    transcript.note("")
    assert drawn(transcript) == ([], [])

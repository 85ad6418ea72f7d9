import io
import os
import sys
from pathlib import Path

import pytest

from turnchart.flows.cli.streams import excuse, forgive, leads_on, same_file, settle, throw_away, write


def test_text_is_written_at_once() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="utf-8") as stream:
        write(stream, "now")
        assert os.read(reading, 10) == b"now"
    os.close(reading)


def test_a_reader_that_has_gone_breaks_nothing() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", encoding="utf-8") as stream:
        write(stream, "for nobody")
        write(stream, "nor this")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is always full")
def test_what_could_not_be_written_is_said_when_all_is_done() -> None:
    with open("/dev/full", "w", encoding="utf-8") as stream:
        write(stream, "for nobody")
        write(stream, "nor this")
    with pytest.raises(OSError, match="No space left on device"):
        settle()
    settle()
    with open("/dev/full", "w", encoding="utf-8") as stream:
        write(stream, "for nobody")
    excuse()
    settle()


def test_whether_two_streams_lead_to_one_place(tmp_path: Path) -> None:
    with (tmp_path / "a").open("w") as one, (tmp_path / "b").open("w") as other:
        assert not same_file(one, other)
        with os.fdopen(os.dup(one.fileno()), "w") as again:
            assert same_file(one, again)
    assert not same_file(one, other), "both are closed"
    text = io.StringIO()
    assert same_file(text, text)
    assert not same_file(text, io.StringIO())


def test_whether_a_stream_may_lead_to_a_terminal(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading), os.fdopen(writing, "w") as pipe, (tmp_path / "a").open("w") as file:
        assert [leads_on(each) for each in (pipe, file, io.StringIO())] == [True, False, False]
    assert not leads_on(pipe), "it is closed"
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        assert not leads_on(nowhere)
    ours, theirs = os.openpty()
    with os.fdopen(ours, "w") as terminal:
        assert leads_on(terminal)
    os.close(theirs)


def test_a_stream_can_lead_nowhere() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="utf-8") as stream:
        throw_away(stream)
        stream.write("gone")
    assert os.read(reading, 10) == b""
    os.close(reading)


def test_what_an_encoding_lacks_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    forgive()
    write(stream, "é")
    assert written.getvalue() == b"?"

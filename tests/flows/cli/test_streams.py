import io
import os
import sys
from pathlib import Path

import pytest

from turnchart.flows.cli.streams import forgive, same_file, throw_away, write


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


def test_whether_two_streams_lead_to_one_place(tmp_path: Path) -> None:
    with (tmp_path / "a").open("w") as one, (tmp_path / "b").open("w") as other:
        assert not same_file(one, other)
        with os.fdopen(os.dup(one.fileno()), "w") as again:
            assert same_file(one, again)
    assert not same_file(one, other), "both are closed"
    text = io.StringIO()
    assert same_file(text, text)
    assert not same_file(text, io.StringIO())


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

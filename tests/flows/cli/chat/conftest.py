"""A terminal that a test types at, with what is drawn on it."""

import io
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from turnchart.flows.cli.chat.painting import Painter


class Terminal:
    """Takes keys, and keeps what was written."""

    def __init__(self, input: PipeInput) -> None:
        self.input = input
        self.written = io.StringIO()
        self.size = Size(rows=24, columns=60)
        self.output = Vt100_Output(self.written, lambda: self.size, term="xterm", enable_cpr=False)
        self.painter = Painter(colours=False)

    def type(self, keys: str) -> None:
        """Type some keys; ``\\r`` is Enter, ``\\x1b\\r`` Alt-Enter."""
        self.input.send_text(keys)

    @property
    def shown(self) -> str:
        """Everything that was written until now."""
        return self.written.getvalue()


@contextmanager
def terminal() -> Generator[Terminal]:
    with create_pipe_input() as input:
        yield Terminal(input)


@pytest.fixture
def at() -> Iterator[Terminal]:
    """Return a terminal."""
    with terminal() as made:
        yield made

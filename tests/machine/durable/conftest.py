"""A worker in the process of the tests, for what needs no second one."""

from collections.abc import AsyncIterator, Callable

import pytest

from turnchart.machine import Agent
from turnchart.machine.durable import Worker
from turnchart.machine.session import Session


class Makes:
    """Makes the agents of the worker; a test says how."""

    def __init__(self) -> None:
        self.how: Callable[[Session], Agent] | None = None

    def __call__(self, session: Session) -> Agent:
        assert self.how is not None
        return self.how(session)


@pytest.fixture(scope="module")
async def works(dsn: str) -> AsyncIterator[Makes]:
    """Let a worker run, once for the tests of a file."""
    makes = Makes()
    about = {"flow": "tests", "path": "here", "digest": "d1"}
    async with Worker(dsn, makes, lease=2, poll=0.02, about=about):
        yield makes

"""What the tests of the machine share: a Postgres server, started by the first test that asks for it."""

from collections.abc import Generator

import pytest
from tests.machine.postgres_server import Server, binaries, server


@pytest.fixture(scope="session")
def running() -> Generator[Server]:
    if binaries() is None:
        pytest.skip("Postgres is not installed")
    with server() as one:
        yield one


@pytest.fixture(scope="module")
def dsn(running: Server) -> str:
    """The address of a new database."""
    return running.dsn()

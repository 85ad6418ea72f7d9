"""What every test of hooks gets."""

from pathlib import Path

import pytest
from tests.hooks.stub_world import StubWorld


@pytest.fixture
def world(tmp_path: Path) -> StubWorld:
    """A world whose root is an empty folder."""
    return StubWorld(str(tmp_path))

"""What the tests of MCP servers share."""

import pytest
from tests.machine.mcp.memory import Memory, use


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    """Servers that run in this process."""
    return use(monkeypatch)

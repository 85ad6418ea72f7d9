"""What a command leaves out that it does not need, so that it is quick."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_PLUGINS: Final = "PYDANTIC_DISABLE_PLUGINS"


@contextmanager
def without_pydantic_plugins() -> Generator[None]:
    """Build pydantic models without a look at every installed package for plug-ins that watch them.

    For commands that run nothing: in a run, such a plug-in may be somebody's tracing.
    """
    before = os.environ.get(_PLUGINS)
    os.environ[_PLUGINS] = "__all__"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_PLUGINS]
        else:
            os.environ[_PLUGINS] = before

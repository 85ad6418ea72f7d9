"""Models of real providers, over ``pydantic_ai``: the extra ``providers``, imported when it is first used."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .adapter import ProviderModel as ProviderModel
    from .answers import from_provider as from_provider
    from .conversations import to_provider as to_provider

_WHERE = {"ProviderModel": "adapter", "from_provider": "answers", "to_provider": "conversations"}

__all__ = ["ProviderModel", "from_provider", "to_provider"]


if not TYPE_CHECKING:  # checkers read the imports above, and complain of a name that is not there

    def __getattr__(name):
        module = _WHERE.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{module}"), name)

"""Helpers for those who test agents, and the pytest plugin. Nothing is imported before it is used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnchart.testing.clock import FakeClock as FakeClock
    from turnchart.testing.recording import Recording as Recording
    from turnchart.testing.recording import record as record
    from turnchart.testing.stores import check_store as check_store

_WHERE = {"FakeClock": "clock", "Recording": "recording", "record": "recording", "check_store": "stores"}

__all__ = ["FakeClock", "Recording", "check_store", "record"]


def __getattr__(name: str) -> Any:
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)

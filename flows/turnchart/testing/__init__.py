"""Helpers for those who test agents, and the pytest plugin. Nothing is imported before it is used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnchart.flows.testfiles.suite import CommandStub as CommandStub
    from turnchart.flows.testfiles.suite import ToolStub as ToolStub
    from turnchart.machine.conducting import WalkDiffers as WalkDiffers
    from turnchart.testing.clock import FakeClock as FakeClock
    from turnchart.testing.coverage import LifecycleCoverage as LifecycleCoverage
    from turnchart.testing.fixtures import AgentFrom as AgentFrom
    from turnchart.testing.models import check_model as check_model
    from turnchart.testing.recording import Recording as Recording
    from turnchart.testing.recording import record as record
    from turnchart.testing.stores import check_store as check_store

_WHERE = {
    "AgentFrom": "testing.fixtures", "CommandStub": "flows.testfiles.suite", "FakeClock": "testing.clock",
    "LifecycleCoverage": "testing.coverage", "Recording": "testing.recording",
    "ToolStub": "flows.testfiles.suite",
    "WalkDiffers": "machine.conducting", "check_model": "testing.models",
    "check_store": "testing.stores", "record": "testing.recording",
}  # fmt: skip

__all__ = [
    "AgentFrom",
    "CommandStub",
    "FakeClock",
    "LifecycleCoverage",
    "Recording",
    "ToolStub",
    "WalkDiffers",
    "check_model",
    "check_store",
    "record",
]


def __getattr__(name: str) -> Any:
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"turnchart.{module}"), name)

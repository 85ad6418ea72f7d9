"""Flows: YAML files that declare an agent. Read, checked with every mistake at its place, and made to run.

Names are loaded when they are first used, so that a command that reads no flow does not load the reader.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnchart.flows.check import check_flow as check_flow
    from turnchart.flows.load import Flow as Flow
    from turnchart.flows.load import load_flow as load_flow
    from turnchart.flows.problems import FlowError as FlowError
    from turnchart.flows.problems import NotTrusted as NotTrusted
    from turnchart.flows.problems import Problem as Problem
    from turnchart.flows.problems import render_all as render_all
    from turnchart.flows.script import Script as Script
    from turnchart.flows.script import load_script as load_script
    from turnchart.flows.shipped import Shipped as Shipped
    from turnchart.flows.shipped import shipped_flows as shipped_flows

__all__ = [
    "Flow",
    "FlowError",
    "NotTrusted",
    "Problem",
    "Script",
    "Shipped",
    "check_flow",
    "load_flow",
    "load_script",
    "render_all",
    "shipped_flows",
]

_WHERE = {
    "Flow": "load", "FlowError": "problems", "NotTrusted": "problems", "Problem": "problems",
    "Script": "script", "Shipped": "shipped", "check_flow": "check", "load_flow": "load",
    "load_script": "script", "render_all": "problems", "shipped_flows": "shipped",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

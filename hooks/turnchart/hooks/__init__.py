"""Hooks: the contract to write one against, the registry, and the built-in hooks.

The types of parameters that only YAML needs (``Pattern``, ``Glob``, ``Command``, ``Path``) are in
``turnchart.hooks.params``, the built-in hooks in ``turnchart.hooks.builtin``.

Names are loaded when they are first used, so that a flow is checked without the chain that runs hooks.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnchart.hooks.registry import HOOKS as HOOKS
    from turnchart.hooks.registry import HookSpec as HookSpec
    from turnchart.hooks.registry import ParamError as ParamError
    from turnchart.hooks.registry import Registry as Registry
    from turnchart.hooks.registry import hook as hook
    from turnchart.hooks.stores import STORES as STORES
    from turnchart.hooks.stores import Sessions as Sessions
    from turnchart.hooks.stores import StoreSpec as StoreSpec
    from turnchart.hooks.stores import session_store as session_store
    from turnchart.machine.chain import BoundHook as BoundHook
    from turnchart.machine.chain import Chain as Chain
    from turnchart.machine.chain import Dispatch as Dispatch
    from turnchart.machine.chain import Verdict as Verdict
    from turnchart.machine.chain import run_chain as run_chain
    from turnchart.machine.points import AddContext as AddContext
    from turnchart.machine.points import AfterStep as AfterStep
    from turnchart.machine.points import Allow as Allow
    from turnchart.machine.points import Ask as Ask
    from turnchart.machine.points import Assemble as Assemble
    from turnchart.machine.points import Block as Block
    from turnchart.machine.points import Call as Call
    from turnchart.machine.points import Compact as Compact
    from turnchart.machine.points import Context as Context
    from turnchart.machine.points import Continue as Continue
    from turnchart.machine.points import Convert as Convert
    from turnchart.machine.points import Decision as Decision
    from turnchart.machine.points import Deny as Deny
    from turnchart.machine.points import Enter as Enter
    from turnchart.machine.points import GiveUp as GiveUp
    from turnchart.machine.points import OnSignal as OnSignal
    from turnchart.machine.points import Payload as Payload
    from turnchart.machine.points import PostTool as PostTool
    from turnchart.machine.points import PreStep as PreStep
    from turnchart.machine.points import PreTool as PreTool
    from turnchart.machine.points import Reject as Reject
    from turnchart.machine.points import Request as Request
    from turnchart.machine.points import RequestError as RequestError
    from turnchart.machine.points import Retry as Retry
    from turnchart.machine.points import RunTool as RunTool
    from turnchart.machine.points import SessionEnd as SessionEnd
    from turnchart.machine.points import SessionStart as SessionStart
    from turnchart.machine.points import Stop as Stop
    from turnchart.machine.points import Stream as Stream
    from turnchart.machine.points import Summary as Summary
    from turnchart.machine.points import ToolOutcome as ToolOutcome
    from turnchart.machine.points import TurnStopping as TurnStopping
    from turnchart.machine.points import TurnView as TurnView
    from turnchart.machine.points import Veto as Veto
    from turnchart.machine.points import World as World

__all__ = [
    "HOOKS",
    "STORES",
    "AddContext",
    "AfterStep",
    "Allow",
    "Ask",
    "Assemble",
    "Block",
    "BoundHook",
    "Call",
    "Chain",
    "Compact",
    "Context",
    "Continue",
    "Convert",
    "Decision",
    "Deny",
    "Dispatch",
    "Enter",
    "GiveUp",
    "HookSpec",
    "OnSignal",
    "ParamError",
    "Payload",
    "PostTool",
    "PreStep",
    "PreTool",
    "Registry",
    "Reject",
    "Request",
    "RequestError",
    "Retry",
    "RunTool",
    "SessionEnd",
    "SessionStart",
    "Sessions",
    "Stop",
    "StoreSpec",
    "Stream",
    "Summary",
    "ToolOutcome",
    "TurnStopping",
    "TurnView",
    "Verdict",
    "Veto",
    "World",
    "hook",
    "run_chain",
    "session_store",
]

_MODULES = {
    "turnchart.hooks.registry": ("HOOKS", "HookSpec", "ParamError", "Registry", "hook"),
    "turnchart.hooks.stores": ("STORES", "Sessions", "StoreSpec", "session_store"),
    "turnchart.machine.chain": ("BoundHook", "Chain", "Dispatch", "Verdict", "run_chain"),
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names}
"""Where the names are from; the others are from ``turnchart.machine.points``."""


if not TYPE_CHECKING:  # checkers read the imports above, and complain of a name that is not there

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value = getattr(import_module(_WHERE.get(name, "turnchart.machine.points")), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

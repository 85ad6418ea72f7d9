"""The lifecycle of an LLM agent's turn: chart, table, session, driver, tools, models.

Names are loaded when they are first used, so that ``turnchart.machine.points`` or ``tool`` load no chart.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnchart.machine.abort import AbortSignal as AbortSignal
    from turnchart.machine.agent import Agent as Agent
    from turnchart.machine.approvals import Approve as Approve
    from turnchart.machine.approvals import ApproveForSession as ApproveForSession
    from turnchart.machine.approvals import Question as Question
    from turnchart.machine.approvals import Refuse as Refuse
    from turnchart.machine.clock import Clock as Clock
    from turnchart.machine.compaction import Compacted as Compacted
    from turnchart.machine.config import Compaction as Compaction
    from turnchart.machine.config import Limits as Limits
    from turnchart.machine.config import Queues as Queues
    from turnchart.machine.config import RetryPolicy as RetryPolicy
    from turnchart.machine.entries import Entry as Entry
    from turnchart.machine.errors import AgentBusy as AgentBusy
    from turnchart.machine.errors import AppendRefused as AppendRefused
    from turnchart.machine.errors import CompactionFailed as CompactionFailed
    from turnchart.machine.errors import HookFailed as HookFailed
    from turnchart.machine.errors import InternalError as InternalError
    from turnchart.machine.errors import McpError as McpError
    from turnchart.machine.errors import RequestFailed as RequestFailed
    from turnchart.machine.errors import ScriptError as ScriptError
    from turnchart.machine.errors import SessionCorrupt as SessionCorrupt
    from turnchart.machine.errors import SessionError as SessionError
    from turnchart.machine.errors import SessionLocked as SessionLocked
    from turnchart.machine.errors import SessionReadOnly as SessionReadOnly
    from turnchart.machine.errors import TransitionError as TransitionError
    from turnchart.machine.errors import TurnchartError as TurnchartError
    from turnchart.machine.errors import TurnFailed as TurnFailed
    from turnchart.machine.errors import UnknownModel as UnknownModel
    from turnchart.machine.inbox import Item as Item
    from turnchart.machine.inbox import Queued as Queued
    from turnchart.machine.kinds import register_message as register_message
    from turnchart.machine.mcp.servers import McpServer as McpServer
    from turnchart.machine.messages import AssistantMessage as AssistantMessage
    from turnchart.machine.messages import CustomMessage as CustomMessage
    from turnchart.machine.messages import Failure as Failure
    from turnchart.machine.messages import Image as Image
    from turnchart.machine.messages import Message as Message
    from turnchart.machine.messages import Text as Text
    from turnchart.machine.messages import Thinking as Thinking
    from turnchart.machine.messages import ToolCall as ToolCall
    from turnchart.machine.messages import ToolResultMessage as ToolResultMessage
    from turnchart.machine.messages import UserMessage as UserMessage
    from turnchart.machine.messages import normalize_prompt_input as normalize_prompt_input
    from turnchart.machine.models import Model as Model
    from turnchart.machine.models import ModelRequest as ModelRequest
    from turnchart.machine.models import PreparedCall as PreparedCall
    from turnchart.machine.navigating import Moved as Moved
    from turnchart.machine.permissions import Permissions as Permissions
    from turnchart.machine.scripted import Reply as Reply
    from turnchart.machine.scripted import ScriptedModel as ScriptedModel
    from turnchart.machine.session import Session as Session
    from turnchart.machine.signals import Signal as Signal
    from turnchart.machine.states import Event as Event
    from turnchart.machine.states import Facts as Facts
    from turnchart.machine.states import State as State
    from turnchart.machine.statistics import Statistics as Statistics
    from turnchart.machine.table import LIFECYCLE as LIFECYCLE
    from turnchart.machine.table import Row as Row
    from turnchart.machine.table import Table as Table
    from turnchart.machine.tools import Tool as Tool
    from turnchart.machine.tools import ToolContext as ToolContext
    from turnchart.machine.tools import ToolFailed as ToolFailed
    from turnchart.machine.tools import tool as tool
    from turnchart.machine.turn import Turn as Turn
    from turnchart.machine.ui import UiEvent as UiEvent
    from turnchart.machine.view import AgentState as AgentState

_MODULES = {
    "abort": ("AbortSignal",),
    "agent": ("Agent",),
    "approvals": ("Approve", "ApproveForSession", "Question", "Refuse"),
    "clock": ("Clock",),
    "compaction": ("Compacted",),
    "config": ("Compaction", "Limits", "Queues", "RetryPolicy"),
    "entries": ("Entry",),
    "errors": (
        "AgentBusy", "AppendRefused", "CompactionFailed", "HookFailed", "InternalError", "McpError",
        "RequestFailed", "ScriptError", "SessionCorrupt", "SessionError", "SessionLocked", "SessionReadOnly",
        "TransitionError", "TurnFailed", "TurnchartError", "UnknownModel",
    ),
    "inbox": ("Item", "Queued"),
    "kinds": ("register_message",),
    "mcp.servers": ("McpServer",),
    "messages": (
        "AssistantMessage", "CustomMessage", "Failure", "Image", "Message", "Text", "Thinking", "ToolCall",
        "ToolResultMessage", "UserMessage", "normalize_prompt_input",
    ),
    "models": ("Model", "ModelRequest", "PreparedCall"),
    "navigating": ("Moved",),
    "permissions": ("Permissions",),
    "scripted": ("Reply", "ScriptedModel"),
    "session": ("Session",),
    "signals": ("Signal",),
    "states": ("Event", "Facts", "State"),
    "statistics": ("Statistics",),
    "table": ("LIFECYCLE", "Row", "Table"),
    "tools": ("Tool", "ToolContext", "ToolFailed", "tool"),
    "turn": ("Turn",),
    "ui": ("UiEvent",),
    "view": ("AgentState",),
}  # fmt: skip
_WHERE = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "LIFECYCLE",
    "AbortSignal",
    "Agent",
    "AgentBusy",
    "AgentState",
    "AppendRefused",
    "Approve",
    "ApproveForSession",
    "AssistantMessage",
    "Clock",
    "Compacted",
    "Compaction",
    "CompactionFailed",
    "CustomMessage",
    "Entry",
    "Event",
    "Facts",
    "Failure",
    "HookFailed",
    "Image",
    "InternalError",
    "Item",
    "Limits",
    "McpError",
    "McpServer",
    "Message",
    "Model",
    "ModelRequest",
    "Moved",
    "Permissions",
    "PreparedCall",
    "Question",
    "Queued",
    "Queues",
    "Refuse",
    "Reply",
    "RequestFailed",
    "RetryPolicy",
    "Row",
    "ScriptError",
    "ScriptedModel",
    "Session",
    "SessionCorrupt",
    "SessionError",
    "SessionLocked",
    "SessionReadOnly",
    "Signal",
    "State",
    "Statistics",
    "Table",
    "Text",
    "Thinking",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolFailed",
    "ToolResultMessage",
    "TransitionError",
    "Turn",
    "TurnFailed",
    "TurnchartError",
    "UiEvent",
    "UnknownModel",
    "UserMessage",
    "normalize_prompt_input",
    "register_message",
    "tool",
]


def __getattr__(name: str) -> Any:
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

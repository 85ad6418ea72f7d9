"""The format as pydantic models: what may be written where, before anything is known of hooks and tools.

Closed: an unknown key is an error everywhere but in ``model.extra``, and a key without a value is one too.
``with:`` stays plain data here; it is checked against the parameters of the hook or the tool it belongs to.
There are no unions of shapes: a short form becomes its long form first, so an error has one place.
"""

import re
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from turnchart.machine.points import POINTS

VERSION: Final = 1
"""The version of the format that this program reads."""

T = TypeVar("T")

VARIABLE: Final = r"^[A-Za-z_][A-Za-z0-9_]*$"
TOOL_NAME: Final = r"^[A-Za-z_][A-Za-z0-9_-]*$"
PARAM_NAME: Final = r"^[A-Za-z][A-Za-z0-9_]*$"
ADDRESS: Final = r"^https?://\S+$"


def says(what: str, help: str = "") -> PydanticCustomError:
    """Return an error that is printed as ``KEY is VALUE; what``, with this cure."""
    return PydanticCustomError("says", "{what}", {"what": what, "help": help})


_UNIT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|sec|secs|seconds?|m|min|mins|minutes?|h|hours?)\s*")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}


def _seconds(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        found = _UNIT.fullmatch(value) if isinstance(value, str) else None
        unit = found[2] if found and found[2] == "ms" else found[2][0] if found else ""
        help = f"write {float(found[1]) * _SECONDS[unit]:g}" if found else ""
        raise says("it must be a plain number of seconds", help)
    return value


def _given(value: object) -> object:
    if value is None:
        raise says("give it a value, or leave the key out")
    return value


def _renamed(value: object) -> object:
    return {value: value} if isinstance(value, str) else value


def _one_part(value: object) -> object:
    one: list[object] = [value]
    return one if isinstance(value, str | dict) else value


def _model_id(value: object) -> object:
    if isinstance(value, str) and not is_model_id(value):
        help = f"for example {_provider(value)}:{value}" if re.fullmatch(r"[\w.-]+", value) else ""
        raise says("a model is written provider:name", help)
    return value


def is_model_id(text: str) -> bool:
    """Tell whether text names a model: ``provider:name``, ``test`` or ``script:FILE``."""
    return re.fullmatch(MODEL_ID, text) is not None


def _provider(name: str) -> str:
    known = {
        "claude": "anthropic",
        "gpt": "openai",
        "o1": "openai",
        "o3": "openai",
        "o4": "openai",
        "gemini": "google",
    }
    return next((provider for start, provider in known.items() if name.startswith(start)), "anthropic")


Maybe: TypeAlias = Annotated[T | None, BeforeValidator(_given)]
"""A key that may be left out, but not written without a value."""
Count: TypeAlias = Annotated[int, Field(ge=1)]
FromZero: TypeAlias = Annotated[int, Field(ge=0)]
Seconds: TypeAlias = Annotated[float, BeforeValidator(_seconds), Field(ge=0)]
Timeout: TypeAlias = Annotated[float, BeforeValidator(_seconds), Field(gt=0)]
Name: TypeAlias = Annotated[str, Field(min_length=1)]
ToolName: TypeAlias = Annotated[str, Field(pattern=TOOL_NAME)]
Variable: TypeAlias = Annotated[str, Field(pattern=VARIABLE)]
Renamed: TypeAlias = Annotated[dict[Variable, Variable], BeforeValidator(_renamed)]
"""``NAME``, or ``{NAME: OTHER}``: the program sees OTHER of ours as NAME."""
MODEL_ID: Final = r"^(test|[A-Za-z][\w-]*:\S(.*\S)?)$"
"""``provider:name``, ``test`` or ``script:FILE``."""
ModelId: TypeAlias = Annotated[
    str, BeforeValidator(_model_id), WithJsonSchema({"type": "string", "pattern": MODEL_ID})
]
Thinking = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]
QueueMode = Literal["all", "one-at-a-time"]
RetryKind = Literal[
    "rate_limit", "overloaded", "server_error", "timeout", "connection", "incomplete_stream", "empty_response"
]


class Closed(BaseModel):
    """A map that takes only the keys it names."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, protected_namespaces=(), defer_build=True
    )


class ModelSettings(Closed):
    """What is asked of the provider with every request."""

    max_tokens: Maybe[Count] = None
    temperature: Maybe[Annotated[float, Field(ge=0, le=2)]] = None
    top_p: Maybe[Annotated[float, Field(ge=0, le=1)]] = None
    top_k: Maybe[Count] = None
    seed: Maybe[int] = None
    stop_sequences: Maybe[list[str]] = None
    presence_penalty: Maybe[float] = None
    frequency_penalty: Maybe[float] = None
    parallel_tool_calls: Maybe[bool] = None
    thinking: Maybe[Thinking] = None


class ModelSpec(Closed):
    """Which model answers, and how it is reached."""

    id: ModelId
    settings: ModelSettings = Field(default_factory=ModelSettings.model_construct)
    extra: dict[str, Any] = {}
    fallback: list[ModelId] = []
    api_key_env: Maybe[Variable] = None
    base_url: Maybe[Annotated[str, Field(pattern=ADDRESS)]] = None
    context_window: Maybe[Count] = None
    cooldown: Seconds = 0

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"id": value} if isinstance(value, str) else value


class PromptPart(Closed):
    """A part of the system prompt: a file, or text."""

    file: Maybe[Name] = None
    text: Maybe[str] = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"text": value} if isinstance(value, str) else value


class ToolEntry(Closed):
    """A tool of the agent."""

    use: Maybe[Name] = None
    mcp: Maybe[Name] = None
    only: list[str] = []
    arguments: dict[str, Any] = Field(default={}, alias="with")
    name: Maybe[ToolName] = Field(default=None, alias="as")
    execution: Maybe[Literal["exclusive", "parallel"]] = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"use": value} if isinstance(value, str) else value


class ServerSpec(Closed):
    """An MCP server: a program that is started (``command``), or an address (``url``)."""

    command: Maybe[Annotated[list[str], Field(min_length=1)]] = None
    env: dict[str, str] = {}
    env_from: list[Renamed] = []
    cwd: Maybe[Name] = None
    url: Maybe[Annotated[str, Field(pattern=ADDRESS)]] = None
    bearer_env: Maybe[Variable] = None
    headers_env: dict[str, Variable] = {}
    timeout: Maybe[Timeout] = None


COMMAND_ONLY: Final = ("env", "env_from", "cwd")
"""Keys that a server may have only beside ``command``."""
URL_ONLY: Final = ("bearer_env", "headers_env")
"""Keys that a server may have only beside ``url``."""


class HookEntry(Closed):
    """A hook in the chain of one point: a registered one (``use``) or a program (``run``)."""

    use: Maybe[Name] = None
    run: Maybe[Annotated[list[str], Field(min_length=1)]] = None
    arguments: dict[str, Any] = Field(default={}, alias="with")
    id: Maybe[Name] = None
    tools: Maybe[list[str]] = None
    timeout: Maybe[Timeout] = None
    on_error: Maybe[Literal["warn", "stop"]] = None
    disabled: bool = False
    max_continues: Maybe[Count] = None
    env: dict[str, str] = {}
    env_from: list[Renamed] = []
    cwd: Maybe[Name] = None
    dialect: Maybe[Literal["claude_code"]] = None


RUN_ONLY: Final = ("env", "env_from", "cwd", "dialect")
"""Keys that an entry may have only beside ``run``."""


class PermissionRules(Closed):
    """What tools may do without asking."""

    default: Maybe[Literal["allow", "ask", "deny"]] = None
    deny: list[str] = []
    ask: list[str] = []
    allow: list[str] = []


class QueueModes(Closed):
    """How many waiting messages are taken at once."""

    steering: QueueMode = "all"
    follow_up: QueueMode = "one-at-a-time"


class RetryRules(Closed):
    """When a failed request is tried again."""

    max_attempts: Count = 5
    base_delay: Seconds = 1
    max_delay: Seconds = 60
    honor_retry_after: bool = True
    retry_on: Maybe[list[RetryKind]] = None


class CompactionRules(Closed):
    """How a conversation is made shorter that does not fit the model's context window."""

    strategy: Literal["none", "drop_oldest", "summarize"] = "summarize"
    trigger: Annotated[float, Field(gt=0, le=1)] = 0.8
    keep_last: FromZero = 2
    model: Maybe[ModelId] = None


class SessionSpec(Closed):
    """Where the log is kept."""

    store: Name
    path: Maybe[Name] = None
    arguments: dict[str, Any] = Field(default={}, alias="with")


class LimitRules(Closed):
    """What one turn may spend."""

    max_steps: Count = 100
    max_tool_calls: Maybe[Count] = None
    max_seconds: Maybe[Timeout] = None
    max_continues: FromZero = 8
    max_retries: FromZero = 20


class ExtensionEntry(Closed):
    """One object with a hook at each of several points."""

    use: Name
    arguments: dict[str, Any] = Field(default={}, alias="with")
    id: Maybe[Name] = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"use": value} if isinstance(value, str) else value


ParamType = Literal["string", "integer", "number", "boolean"]


class ParamSpec(Closed):
    """Something that is said anew for every run: ``--param NAME=VALUE``, written ``${param:NAME}``."""

    type: ParamType = "string"
    default: Maybe[Any] = None
    description: Maybe[str] = None


class OutputSpec(Closed):
    """What the last answer of a turn must look like: JSON that fits a schema."""

    shape: Any = Field(alias="schema", description="A JSON Schema, or the file that holds it.")


class FlowFile(Closed):
    """A whole file."""

    version: Literal[1]
    name: Maybe[Name] = None
    description: Maybe[str] = None
    extends: Maybe[Name] = None
    params: dict[Annotated[str, Field(pattern=PARAM_NAME)], ParamSpec] = {}
    model: Maybe[ModelSpec] = None
    prompt: Annotated[list[PromptPart], BeforeValidator(_one_part)] = []
    tools: list[ToolEntry] = []
    permissions: Maybe[PermissionRules] = None
    hooks: dict[str, list[HookEntry]] = {}
    disable_hooks: list[str] = []
    extensions: list[ExtensionEntry] = []
    output: Maybe[OutputSpec] = None
    queues: QueueModes = Field(default_factory=QueueModes.model_construct)
    retry: RetryRules = Field(default_factory=RetryRules.model_construct)
    compaction: Maybe[CompactionRules] = None
    session: Maybe[SessionSpec] = None
    limits: LimitRules = Field(default_factory=LimitRules.model_construct)
    mcp: dict[str, ServerSpec] = {}


def known_keys(model: type[BaseModel]) -> list[str]:
    """Return the keys that a map may have, as they are written."""
    return [field.alias or name for name, field in model.model_fields.items()]


TOP_KEYS: Final = tuple(known_keys(FlowFile))
POINT_NAMES: Final = tuple(POINTS)

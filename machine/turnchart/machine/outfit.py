"""What an agent is fitted out with: model, prompt, tools, permissions; and what its effects ask of these."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from inspect import isawaitable
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from turnchart.machine.approvals import Approver
from turnchart.machine.asking import answered
from turnchart.machine.chain import BoundHook, Chain
from turnchart.machine.clock import SYSTEM_CLOCK, Clock
from turnchart.machine.config import Compaction, Limits, Queues, RetryPolicy
from turnchart.machine.cooling import Cooling
from turnchart.machine.driver import Driver
from turnchart.machine.entries import Entry, Frozen, freeze
from turnchart.machine.errors import RequestFailed, UnknownModel
from turnchart.machine.inbox import Inbox, Item, Origin, Target
from turnchart.machine.message_fields import plain
from turnchart.machine.messages import (
    Content,
    Message,
    Prompt,
    ToolCall,
    content_blocks,
    normalize_prompt_input,
)
from turnchart.machine.models import Chunk, Model, ModelRequest, RequestConfig, Resolver
from turnchart.machine.permissions import Permissions
from turnchart.machine.points import AddContext, SessionStart
from turnchart.machine.session import Session
from turnchart.machine.states import State
from turnchart.machine.tools import Tool
from turnchart.machine.turning import Turning
from turnchart.machine.world import AgentWorld
from turnchart.machine.writers import Write, check_write

if TYPE_CHECKING:
    from turnchart.machine.asking import Purpose
    from turnchart.machine.compaction import Compactor
    from turnchart.machine.mcp.servers import McpServer
    from turnchart.machine.mcp.toolset import Toolset

Poll = Callable[[], "Prompt | Awaitable[Prompt | None] | None"]
"""Returns input, or nothing; may be async."""
WatchAside: TypeAlias = "Callable[[ModelRequest, AsyncIterator[Chunk], Purpose], AsyncIterator[Chunk]]"
Hooks = Mapping[str, Sequence[Callable[..., Any] | BoundHook]]


ALLOW_ALL = Permissions.all()
"""What an agent made in Python permits where nothing else is said."""
QUEUES, RETRY, LIMITS, COMPACTION = Queues(), RetryPolicy(), Limits(), Compaction()
NO_SETTINGS, NO_CHAINS = Frozen(), MappingProxyType[str, Chain]({})
"""The defaults, made once for all agents."""


class Outfit(Driver):
    """A driver with everything that its turns need.

    Attributes:
        queues: How many waiting messages are taken at once; assign another at any time.
        approver: Who answers where a tool call asks; None denies.
        compaction: How its conversation is made shorter; assign another at any time.
        watch_aside: Sees the streams of requests that are no part of the conversation, and what they are for.
    """

    __slots__ = (
        "_approved", "_random", "_seed", "_specs", "_tools", "_world", "approver", "compaction",
        "compactor", "context_window", "cooling", "fallback", "mcp", "model", "model_id", "models",
        "permissions", "poll_follow_up", "poll_steering", "prompt_sections", "root", "settings", "thinking",
        "watch_aside",
    )  # fmt: skip

    def __init__(
        self,
        model: Model | str,
        *,
        prompt: str | Sequence[str] = (),
        tools: Sequence[Tool] = (),
        hooks: Hooks | None = None,
        session: Session | None = None,
        queues: Queues | None = None,
        retry: RetryPolicy | None = None,
        limits: Limits | None = None,
        compaction: Compaction | None = None,
        permissions: Permissions | None = None,
        approver: Approver | None = None,
        clock: Clock | None = None,
        seed: int | None = None,
        models: Resolver | None = None,
        fallback: Sequence[str] = (),
        cooldown: float = 0,
        settings: Mapping[str, Any] | None = None,
        thinking: str | None = None,
        context_window: int | None = None,
        poll_steering: Poll | None = None,
        poll_follow_up: Poll | None = None,
        root: Path | str | None = None,
        mcp: Sequence[McpServer] = (),
        name: str = "agent",
        flow: str = "",
    ) -> None:
        """Make an agent; nothing runs and nothing is written yet.

        Args:
            model: The model, or its id, which ``models`` resolves.
            prompt: The system prompt, or its parts, which are joined with a blank line.
            tools: What the model may call. Names must be unique.
            hooks: Callables by point, in order; see ``points.POINTS``.
            session: The log; None: one in memory.
            queues: How many waiting messages are taken at once.
            retry: When a failed request is tried again.
            limits: What one turn may spend.
            compaction: How a conversation is made shorter that does not fit the model's window.
            permissions: Which calls may run; None allows all.
            approver: Asked where a rule or a hook asks; None denies.
            clock: Where time comes from.
            seed: Makes the random part of retry waits repeatable.
            models: Finds other models by their ids, for request hooks and fallbacks.
            fallback: Ids to try in order, when retries of a step are spent.
            cooldown: Seconds that a model is left alone after another one was asked in its place.
            settings: Sampling settings of every request.
            thinking: The thinking level of every request.
            context_window: Of the model, in tokens; None: as it says itself.
            poll_steering: Asked for next-step input at every claim.
            poll_follow_up: Asked for prompts where a turn opens without input, or the agent would rest.
            root: The folder that files and programs start from; None: the current one.
            mcp: Servers whose tools it has too, as ``NAME.TOOL``; connected while the agent is open.
            name: What logs and hooks call the agent.
            flow: The name of the flow that it was made from.

        Raises:
            ValueError: If two tools have one name, or ``hooks`` names no point.
            TypeError: If a hook cannot take a payload, or the model is none.
        """
        super().__init__()
        self.model = None if isinstance(model, str) else model
        self.model_id = model if isinstance(model, str) else _id_of(model)
        self.models, self.fallback = models, tuple(fallback)
        self.cooling = Cooling(cooldown) if cooldown else None
        self.settings: Frozen = freeze(dict(settings)) if settings else NO_SETTINGS
        self.thinking = thinking
        self.prompt_sections = (prompt,) if isinstance(prompt, str) else tuple(prompt)
        self._tools = _by_name(tools)
        self._specs: tuple[tuple[str, ...], tuple[Frozen, ...]] | None = None
        self.chains = _chains(hooks) if hooks else NO_CHAINS
        self.session = Session.memory() if session is None else session
        self.queues = queues or QUEUES
        self.retry = retry or RETRY
        self.limits = limits or LIMITS
        self.compaction = compaction or COMPACTION
        self.compactor: Compactor | None = None
        self.context_window = context_window
        self.permissions = permissions or ALLOW_ALL
        self.approver = approver
        self._approved: tuple[tuple[str, str | None], ...] = ()
        self.clock = clock or SYSTEM_CLOCK
        self._seed = seed
        self._random: Random | None = None
        self.poll_steering, self.poll_follow_up = poll_steering, poll_follow_up
        self.root = _folder(os.getcwd()) if root is None else Path(root)
        self.name, self.flow = name, flow
        self.mcp = _toolset(mcp) if mcp else None
        self._world: AgentWorld | None = None
        self.watch_aside: WatchAside | None = None
        self.turning = Turning(self.session.brackets.turn)

    async def begin(self, source: Literal["new", "resumed", "forked"]) -> tuple[Callable[[], None], ...]:
        """Connect to the MCP servers and run ``session_start``; return what closes the connections.

        Raises:
            McpError: If a server cannot be started or reached.
        """
        stops: tuple[Callable[[], None], ...] = ()
        if self.mcp is not None and self._group is not None:
            stops = (await self.mcp.open(self, self._group),)
        if "session_start" not in self.chains:
            return stops
        verdict = await self.ask("session_start", lambda: SessionStart(source=source, **self.common()))
        if verdict is not None and source == "new":
            for answer in verdict.answers:
                if isinstance(answer, AddContext) and answer.text:
                    self.put(normalize_prompt_input(answer.text), "next-step", "hook", source="session_start")
        return stops

    def retool(self, tools: Mapping[str, Tool]) -> None:
        """Give the agent other tools, from the next step on."""
        self._tools = dict(tools)
        self._specs = None
        if self.signals.ui is not None:
            self.signals.hint("tools", self.turning.abort)
            self.pump()

    def put(self, messages: Sequence[Message], target: Target, origin: Origin, *, source: str = "") -> Item:
        """Put messages into a list of the inbox, as one item; they get their ids here.

        Raises:
            ValueError: If one brings an id along that a message here has already.
        """
        item = Item(f"i{len(self.session.entries)}", origin, self.named(messages, source))
        self.insert(item, target)
        return item

    def named(
        self, messages: Sequence[Message], source: str = "", old: Item | None = None
    ) -> tuple[Message, ...]:
        """Return messages with ids and times.

        Args:
            messages: Some may bring their ids along.
            source: Where they come from, for those that do not say so.
            old: Its messages make room for these, so these may have their ids.

        Raises:
            ValueError: If one brings an id along that a message here has already.
        """
        at, time, inbox = len(self.session.entries), self.clock.now(), self.session.inbox
        given = [id for each in messages if (id := each.get("id"))]
        if given:
            _check_given(given, inbox, old)
        fresh: list[Message] = []
        for i, each in enumerate(messages):
            id = f"m{at}" if not i else f"m{at}.{i}"
            while inbox.knows(id) or id in given:
                id += "'"
            fresh.append(_named(each, id, time, source))
        return tuple(fresh)

    @property
    def world(self) -> AgentWorld:
        """How hooks and tools reach the world; made when they first do."""
        if self._world is None:
            self._world = AgentWorld(self.root, self.clock, self.notice, self._ask_model, self._inject)
        return self._world

    @world.setter
    def world(self, world: AgentWorld) -> None:
        self._world = world

    @property
    def compaction_asked(self) -> bool:
        """Somebody said how conversations are to be made shorter, and that they are."""
        return self.compaction is not COMPACTION and self.compaction.strategy != "none"

    @property
    def rng(self) -> Random:
        """Where the random part of waits comes from; made when it is first needed."""
        if self._random is None:
            self._random = Random(self._seed)  # spreads retries, guards nothing
        return self._random

    # -- settings that count from the next step ------------------------------------------------------

    def set_model(self, model: str) -> None:
        """Ask another model from the next step on; written to the log."""
        self.write("model_change", Frozen(model=plain("model", model)))

    def set_thinking_level(self, level: str | None) -> None:
        """Change the thinking level from the next step on; written to the log."""
        level = level if level is None else plain("level", level)
        self.write("thinking_level_change", Frozen(thinking=level))

    def set_active_tools(self, names: Sequence[str]) -> None:
        """Let the model call only these tools from the next step on; written to the log.

        Raises:
            ValueError: If there is no such tool, or a name comes twice.
        """
        for i, name in enumerate(names):
            if plain("the name of a tool", name) not in self._tools:
                raise ValueError(f"there is no tool {name!r}; the tools are: {', '.join(self._tools)}")
            if name in names[:i]:
                raise ValueError(f"the tool {name!r} is named twice")
        self.write("active_tools_change", Frozen(tools=tuple(names)))

    def append_message(self, content: Prompt) -> None:
        """Write something to the conversation: at once while idle, else at the end of the step.

        Raises:
            ValueError: If it is empty or malformed.
        """
        given = normalize_prompt_input(content)
        self._check_ids(given)
        for said in given:
            kind = "custom_message" if said.role == "custom" else "user/message"
            check_write(self.session, kind, Frozen(message=said))
            self.write(kind, Frozen(message=said), fresh=True)

    def _check_ids(self, given: Sequence[Message]) -> None:
        """Refuse an id that a message brings along and another one here has, or will have."""
        self.named(given)
        waiting = {write.data["message"].get("id") for write in self._buffer if write.fresh}
        for said in given:
            if said.get("id") and said["id"] in waiting:
                raise ValueError(f"a message {said['id']!r} waits to be written already: give it another id")

    def write_now(self, write: Write) -> Entry:
        """Put a write into the log; a message gets its id and its time now."""
        if write.fresh:
            write = write._replace(data=Frozen(message=self.named([write.data["message"]])[0]))
        return super().write_now(write)

    @property
    def unwritten(self) -> tuple[Write, ...]:
        """What was asked for while the step runs and is not in the log yet, in order.

        Where the store failed it stays here: write it to the session once that is open again.
        """
        return tuple(self._buffer)

    # -- for the effects -----------------------------------------------------------------------------

    @property
    def system_prompt(self) -> str:
        """The parts of the prompt, joined."""
        return "\n\n".join([each for each in self.prompt_sections if each])

    def tool(self, name: str) -> Tool | None:
        """Return the tool of this name, if the running step may call it."""
        found = self._tools.get(name) if name in self.turning.tools else None
        return None if found is None or found.at_provider else found

    def callable_tools(self) -> list[str]:
        """Return the names of the tools that the running step may call."""
        return [name for name in self.turning.tools if self.tool(name) is not None]

    @property
    def known_tools(self) -> Mapping[str, Tool]:
        """Every tool by its name, whether the next step may call it or not."""
        return self._tools

    def active_tools(self) -> tuple[str, ...]:
        """Return the names of the tools that the next step may call."""
        chosen = self.session.view.tools
        if chosen is None:
            return tuple(self._tools)
        return tuple(name for name in self._tools if name in chosen or name in self.added_tools)

    def specs(self, names: tuple[str, ...]) -> tuple[Frozen, ...]:
        """Return name, description and schema of these tools, in the order of their names.

        Those that run at the provider are left out where the permissions refuse them.
        """
        if self._specs is None or self._specs[0] != names:
            known = [self._tools[name] for name in sorted(set(names)) if name in self._tools]
            offered = [tool for tool in known if not tool.at_provider or self.permissions.offers(tool.name)]
            self._specs = (names, tuple([tool.spec for tool in offered]))
        return self._specs[1]

    def progress(self, call: ToolCall, content: Content) -> None:
        """Tell the listeners how far a tool is: at once, also where the driver itself runs the tool."""
        if self.state is State.TOOLING:
            self.did("tool/progress")
            self.tell("tool/progress", call_id=call.id, tool=call.name, content=content_blocks(content))
            self.signals.deliver_now(self._start_short)

    def approved_for_session(self, tool: Tool, args: Mapping[str, Any]) -> bool:
        """Somebody approved such a call for the whole session."""
        return (tool.name, tool.subject_of(args)) in self._approved

    def approve_for_session(self, tool: Tool, args: Mapping[str, Any]) -> None:
        """Do not ask again for such a call."""
        self._approved = (*self._approved, (tool.name, tool.subject_of(args)))

    async def find_model(self, id: str) -> Model:
        """Return the model with this id.

        Raises:
            UnknownModel: If neither the agent's model nor its resolver has it.
        """
        if self.model is not None and (id == self.model.id or not id):
            return self.model
        models = self.models
        found: Any = None
        if callable(models):
            found = models(id)
            if isawaitable(found):
                found = await found
        elif models is not None:
            found = models.get(id)
        if found is None:
            raise UnknownModel(f"no model {id!r}: give Agent(models=) a mapping or function that knows it")
        return cast(Model, found)

    def _inject(self, text: str, source: str) -> None:
        self.put(normalize_prompt_input(text), "next-step", "hook", source=source)

    async def _ask_model(self, id: str, question: str) -> str:
        model = await self.find_model(id)
        now = self.turning
        prepared = await model.prepare(RequestConfig(id, self.settings, None), now.abort)
        request = ModelRequest(
            prepared.config.model, "", normalize_prompt_input(question), (), prepared.config.settings,
            prepared.config.thinking, now.abort, self.clock, self.session.id, now.number, now.step,
        )  # fmt: skip
        answer = await answered(self, prepared, request, "question")
        if answer.failure is not None:
            raise RequestFailed(answer.failure)
        return answer.message(id, self.clock.now(), "q").text


@lru_cache(maxsize=8)
def _folder(path: str) -> Path:
    """Return a path; agents of one folder share it."""
    return Path(path)


def _check_given(given: Sequence[str], inbox: Inbox, old: Item | None) -> None:
    going = {each.get("id") for each in old.messages} if old else set[str]()
    seen: set[str] = set()
    for id in given:
        if id in seen or (inbox.knows(id) and id not in going):
            raise ValueError(f"a message {id!r} is here already: give this one another id, or none")
        seen.add(id)


def _named(message: Message, id: str, time: float, source: str) -> Message:
    fields = dict(message)
    if not fields.get("id"):
        fields["id"] = id
    if not fields.get("time"):
        fields["time"] = time
    if source and not fields.get("source"):
        fields["source"] = source
    return message.of_fields(fields)


def _toolset(servers: Sequence[McpServer]) -> Toolset:
    from turnchart.machine.mcp.toolset import Toolset  # few agents have servers

    return Toolset(servers)


def _id_of(model: Model) -> str:
    if isinstance(model, type) or not hasattr(model, "prepare") or not hasattr(model, "id"):
        what = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise TypeError(
            'a model is an id such as "openai:gpt-5.2", or an object with `id` and `prepare`'
            f' as ScriptedModel(["hello"]) is one, not {what}'
        )
    return model.id


def _by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    for tool in tools:
        try:
            name = tool.name
        except AttributeError:
            function = getattr(tool, "__name__", None)
            how = f"it with @tool or tool({function})" if function else "a typed function with @tool"
            what = f"tools[{len(found)}] is a {type(tool).__name__}"
            raise TypeError(f"{what}: make a tool of {how}") from None
        if name in found:
            raise ValueError(f"two tools have the name {name!r}; give one of them another with @tool(name=)")
        found[name] = tool
    return found


def _chains(hooks: Hooks) -> dict[str, Chain]:
    for point, given in hooks.items():
        if callable(given):
            raise TypeError(f"hooks[{point!r}] must be a list of hooks, in order, not one of them")
    return {point: Chain(point, given) for point, given in hooks.items() if given}

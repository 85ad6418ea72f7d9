"""The stage of a case: an agent whose models, tools and programs are played, in a folder of its own.

Nothing real is started unless a stub says ``real``. What is asked for and has no stub fails, and is noted.
"""

import inspect
import os
import shlex
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from anyio.lowlevel import checkpoint

from turnchart.flows.checks import SCRIPT
from turnchart.flows.script import to_model
from turnchart.flows.testfiles.servers import runs_servers, server_tools
from turnchart.flows.testfiles.suite import EVERY_MODEL, Case, CommandStub, ToolStub
from turnchart.machine.approvals import (
    Answer,
    Approve,
    Question,
    Refuse,
    approve_all,
    approve_none,
    approve_reads,
)
from turnchart.machine.clock import SYSTEM_CLOCK
from turnchart.machine.errors import ScriptError
from turnchart.machine.messages import Failure
from turnchart.machine.models import Finish, Model, ModelRequest, PreparedCall, RequestConfig
from turnchart.machine.permissions import Permissions, Ruling
from turnchart.machine.records import record
from turnchart.machine.scripted import ScriptedModel
from turnchart.machine.tools import Tool, ToolContext, ToolFailed, hints_of, run_tool
from turnchart.machine.world import AgentWorld, Finished
from turnchart.testing.clock import FakeClock

if TYPE_CHECKING:
    from turnchart.flows.load import Flow
    from turnchart.machine.abort import AbortSignal
    from turnchart.machine.agent import Agent
    from turnchart.machine.models import Chunk

S = TypeVar("S")
CallKey = tuple[int, int, str]
"""Turn, step and id of a call."""


class Stage:
    """What stands around the agent of one case.

    Attributes:
        agent: Not open yet.
        clock: Its time, which passes when everybody waits.
        requests: What models were asked, in order.
        rulings: What permissions said, by the place of the call in the log.
        ran: The calls whose tool was started.
        missing: What was asked for and is not in the case.
    """

    def __init__(
        self,
        flow: "Flow",
        case: Case,
        *,
        clock: FakeClock | None = None,
        scripts: Mapping[str, ScriptedModel] | None = None,
    ) -> None:
        """Set the stage; nothing runs yet.

        Args:
            flow: Its root is the folder of this case alone.
            case: What is played.
            clock: Its time; None makes one.
            scripts: What models answer, by id, instead of the scripts of the case.

        Raises:
            NotTrusted: If something real of the flow would be reached that nobody agreed to.
        """
        self.case = case
        self.clock = FakeClock() if clock is None else clock
        self.requests: list[ModelRequest] = []
        self.rulings: dict[int, tuple[Mapping[str, Any], Ruling]] = {}
        self.ran: set[CallKey] = set()
        self.missing: list[str] = []
        self._scripts = dict(scripts or {})
        if scripts is None:
            for id, steps in case.scripts.items():
                self._scripts[id] = to_model(steps, id=id or flow.model or "scripted")
        self._used: dict[object, int] = {}
        self.agent: Agent = flow.agent(
            model=Actor(flow.model or "scripted", self),
            tools=[self._stub(tool) for tool in (*flow.tools, *server_tools(flow, case))],
            approver=self._approver(), clock=self.clock, seed=0,
        )  # fmt: skip
        if self.agent.mcp is not None and runs_servers(flow, case):
            self.agent.mcp.wrap = self._stub
        else:
            self.agent.mcp = None
        self._offline = self.agent.models
        self.agent.models = self._actor
        self.agent.permissions = _witness(self.agent.permissions, self)
        self.agent.world = StagedWorld(self.agent.world, self)

    def leftovers(self) -> list[str]:
        """Return which scripts were not played to their end."""
        found: list[str] = []
        for script in self._scripts.values():
            try:
                script.check()
            except ScriptError as error:
                found.append(str(error))
        return found

    def lacks(self, text: str) -> str:
        """Note that something has no stub, and return the note."""
        if text not in self.missing:
            self.missing.append(text)
        return text

    def next_stub(self, key: object, stubs: Sequence[S]) -> S:
        """Return the stub of the next call; the last one stays."""
        used = self._used.get(key, 0)
        self._used[key] = used + 1
        return stubs[min(used, len(stubs) - 1)]

    # -- models ------------------------------------------------------------------------------------

    def _actor(self, id: str) -> "Actor":
        return Actor(id, self)

    async def script(self, id: str) -> Model | None:
        """Return what answers for a model: its script, that for all, or what the flow brings along."""
        found = self._scripts.get(id) or self._scripts.get(EVERY_MODEL)
        if found is None and (id == "test" or id.startswith(SCRIPT)):
            offline = self._offline
            assert callable(offline), "an agent of a flow has the resolver of the flow"
            made = offline(id)
            model = await made if inspect.isawaitable(made) else made
            if isinstance(model, ScriptedModel):
                self._scripts[id] = model
            return model
        return found

    # -- tools -------------------------------------------------------------------------------------

    def _stub(self, tool: Tool) -> Tool:
        """Return a tool with the same name, parameters and subject whose body is played."""
        stubs = self.case.tools.get(tool.name, ())

        async def played(args: dict[str, Any], ctx: ToolContext) -> Any:
            now = self.agent.turning
            self.ran.add((now.number, now.step, ctx.call_id))
            if not stubs:
                write = f"tools: {{{tool.name}: {{returns: ...}}}}, or {{real: true}}"
                raise ToolFailed(self.lacks(f"the tool {tool.name!r} has no stub; write {write}"), "NoStub")
            stub = self.next_stub(("tool", tool.name), stubs)
            if stub.delay:
                await self.clock.sleep(stub.delay)
            return await self._given(tool, stub, args, ctx)

        if tool.input_schema is not None:
            return replace(tool, fn=played)

        @wraps(tool.fn, updated=())
        async def body(*, ctx: ToolContext, **args: Any) -> Any:
            return await played(args, ctx)

        body.__annotations__ = hints_of(tool.name, tool.fn)
        vars(body)["__signature__"] = inspect.signature(tool.fn)
        return replace(tool, fn=body, is_async=True, inline=False, takes_ctx=True)

    async def _given(self, tool: Tool, stub: ToolStub, args: dict[str, Any], ctx: ToolContext) -> Any:
        if stub.real:
            with self.clock.standing(), SYSTEM_CLOCK.timeout(tool.timeout or 120):
                return await run_tool(tool, args, ctx)
        await checkpoint()
        if stub.fails is not None:
            raise ToolFailed(stub.fails)
        return stub.returns

    # -- people ------------------------------------------------------------------------------------

    def _approver(self) -> Any:
        given = self.case.approve
        if isinstance(given, str):
            return {"all": approve_all, "reads": approve_reads, "none": approve_none}[given]
        rules = Permissions(default="deny", allow=given)

        async def approver(question: Question, /) -> Answer:
            tool = self.agent.known_tools[question.tool]
            if rules.judge(tool, question.args, self.agent.root).verdict == "allow":
                return Approve()
            return Refuse(f"the test approves no such call ({question.reason})")

        return approver


class Actor:
    """Answers in the place of one model. Notes what it was asked, and when it has nothing to say."""

    def __init__(self, id: str, stage: Stage) -> None:
        self.id = id
        self._stage = stage

    async def prepare(self, config: RequestConfig, abort: "AbortSignal") -> PreparedCall:
        """Bind one call."""
        script = await self._stage.script(self.id)
        if script is None:
            return PreparedCall(config, self._silent)
        call = await script.prepare(config, abort)
        return PreparedCall(
            call.config, partial(self._played, call), context_window=call.context_window,
            capabilities=call.capabilities,
        )  # fmt: skip

    async def _silent(self, request: ModelRequest) -> "AsyncIterator[Chunk]":
        self._stage.requests.append(request)
        text = f"the model {self.id!r} has no script; write model: [{{text: ...}}], or a list per model id"
        yield Finish("error", Failure("no_model", message=self._stage.lacks(text)))

    async def _played(self, call: PreparedCall, request: ModelRequest) -> "AsyncIterator[Chunk]":
        self._stage.requests.append(request)
        chunks = cast("AsyncGenerator[Chunk]", call.stream(request))
        try:
            async for chunk in chunks:
                yield chunk
        except ScriptError as error:
            self._stage.lacks(str(error))
            raise
        finally:
            await chunks.aclose()


class StagedWorld(AgentWorld):
    """The world of an agent in which programs are played."""

    __slots__ = ("_stage",)

    def __init__(self, world: AgentWorld, stage: Stage) -> None:
        for name in AgentWorld.__slots__:
            object.__setattr__(self, name, getattr(world, name))
        self._stage = stage

    async def run(self, argv: Sequence[str], **how: Any) -> Finished:
        """Return what the stub of a program says.

        Raises:
            TimeoutError: If it takes longer than ``timeout`` seconds on the clock of the case.
            OSError: If it has no stub: nothing is started.
        """
        stage = self._stage
        key, stubs = _stubs_of(argv, stage.case.commands)
        if not stubs:
            program = os.path.basename(argv[0])
            write = f"commands: {{{program}: {{exit: 0, output: ...}}}}, or {{real: true}}"
            raise OSError(stage.lacks(f"the program {shlex.join(argv)!r} has no stub; write {write}"))
        stub = stage.next_stub(("command", key), stubs)
        if stub.real:
            with stage.clock.standing():
                return await _real(self).run(argv, **how)
        with stage.clock.timeout(how.get("timeout", 30)):
            await stage.clock.sleep(stub.delay)
        return Finished(stub.exit, stub.output, stub.errors)


def _real(world: AgentWorld) -> AgentWorld:
    """Return a world like this one in which programs run, and their time is real."""
    real = AgentWorld.__new__(AgentWorld)
    for name in AgentWorld.__slots__:
        object.__setattr__(real, name, SYSTEM_CLOCK if name == "_clock" else getattr(world, name))
    return real


def _stubs_of(
    argv: Sequence[str], commands: Mapping[str, tuple[CommandStub, ...]]
) -> tuple[str, tuple[CommandStub, ...]]:
    """Return the stubs whose name says most of a command line: its program, or its first words."""
    words = [os.path.basename(argv[0]), *argv[1:]]
    best, length = "", 0
    for key in commands:
        named = shlex.split(key)
        begins = words[: len(named)] == named or list(argv[: len(named)]) == named
        if begins and len(named) > length:
            best, length = key, len(named)
    return best, commands.get(best, ()) if length else ()


@record
class Witness(Permissions):
    """Permissions that write down what they said of each call."""

    rulings: dict[int, tuple[Mapping[str, Any], Ruling]] = field(
        default_factory=dict[int, tuple[Mapping[str, Any], Ruling]], compare=False
    )
    stage: "Stage | None" = field(default=None, compare=False)

    def judge(self, tool: Tool | str, args: Mapping[str, Any], root: Path | str = Path()) -> Ruling:
        """Return what holds for one call, and note it at the place of the call in the log."""
        ruling = Permissions.judge(self, tool, args, root)
        entries = self.stage.agent.session.entries if self.stage is not None else ()
        calls = (entry.seq for entry in reversed(entries) if entry.type == "tool/call")
        self.rulings[next(calls, -1)] = (args, ruling)
        return ruling


def _witness(permissions: Permissions, stage: Stage) -> Witness:
    return Witness(
        permissions.default, permissions.deny, permissions.ask, permissions.allow, permissions.by_effects,
        permissions.also, rulings=stage.rulings, stage=stage,
    )  # fmt: skip

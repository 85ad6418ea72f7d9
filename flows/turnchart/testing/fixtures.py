"""What the fixtures of the pytest plugin give: scripted models, and agents of flows that are played."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from turnchart.flows.load import Flow, load_flow
from turnchart.flows.shipped import find_shipped
from turnchart.flows.source import MapNode, Source
from turnchart.flows.testfiles.stage import Stage
from turnchart.flows.testfiles.suite import EVERY_MODEL, Case, CommandStub, ToolStub
from turnchart.machine.agent import Agent
from turnchart.machine.scripted import Scripted, ScriptedModel
from turnchart.testing.clock import FakeClock


class ScriptedFactory(Protocol):
    """Makes scripted models."""

    def __call__(
        self, *replies: Scripted, default: Scripted | None = None, id: str = "test"
    ) -> ScriptedModel:
        """Return a model that gives these replies in order, then ``default`` for ever."""
        ...


def scripted_model(*replies: Scripted, default: Scripted | None = None, id: str = "test") -> ScriptedModel:
    """Return a model that gives these replies in order, then ``default`` for ever."""
    return ScriptedModel(replies, default=default, id=id)


class AgentFrom:
    """Makes agents of flows: their models, tools and programs are played, in a folder of their own.

    A flow that asks for passing tests goes on once with ``agent_from("reviewer.yaml", ["Done.", "Now they
    do."], commands={"pytest": [1, 0]})``; its agent is opened with ``async with``, as any other.
    """

    def __init__(self, folder: Path, root: Path, clock: FakeClock) -> None:
        """Make none yet.

        Args:
            folder: What the path of a flow is relative to.
            root: Where the folders of the agents are made.
            clock: The time of the agents.
        """
        self._folder = folder
        self._root = root
        self._clock = clock
        self._stages: list[Stage] = []

    def __call__(
        self,
        flow: str | Path | Flow,
        model: ScriptedModel | Sequence[Scripted] | Mapping[str, ScriptedModel | Sequence[Scripted]] = (),
        *,
        tools: Mapping[str, Any] | None = None,
        commands: Mapping[str, Any] | None = None,
        files: Mapping[str, str] | None = None,
        approve: str | Sequence[str] = "none",
    ) -> Agent:
        """Return an agent, to be opened with ``async with``.

        Args:
            flow: A file, relative to that of the test; the name of a shipped flow; or a loaded flow.
            model: What every model answers, or a map of answers by the id of the model. Without it, what
                the flow itself brings along, for ``test`` and ``script:FILE``.
            tools: What tools return, by name; an exception is how one fails, a ``ToolStub`` says more, and a
                list of these is one a call.
            commands: What programs do, by name: the exit code, the output, both, or a ``CommandStub``; a list
                is one a call.
            files: Contents of files in the folder of the agent, by path.
            approve: all, reads, none, or rules as in permissions.

        Raises:
            FlowError: If the flow is wrong; it holds every problem.
            ValueError: If the flow has no such tool.
        """
        loaded = flow if isinstance(flow, Flow) else self._load(flow)
        root = self._root / f"agent-{len(self._stages) + 1}"
        for path, content in {**(files or {})}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(content, encoding="utf-8")
        root.mkdir(parents=True, exist_ok=True)
        known = [tool.name for tool in loaded.tools]
        for name in tools or {}:
            if name not in known:
                raise ValueError(
                    f"the flow has no tool {name!r}; its tools are: {', '.join(known) or 'none'}"
                )
        case = Case(
            "", MapNode(Source("", Path(), ()), 0, 0, 0),
            approve=approve if isinstance(approve, str) else tuple(approve),
            tools={name: _tool_stubs(given) for name, given in (tools or {}).items()},
            commands={name: _command_stubs(given) for name, given in (commands or {}).items()},
        )  # fmt: skip
        stage = Stage(
            replace(loaded, root=root, trusted=True), case, clock=self._clock, scripts=_scripts(model)
        )
        self._stages.append(stage)
        return stage.agent

    def missing(self) -> list[str]:
        """Return what agents asked for and nobody had given a stub."""
        return [text for stage in self._stages for text in stage.missing]

    def _load(self, flow: str | Path) -> Flow:
        file = self._folder / flow
        shipped = isinstance(flow, str) and not file.exists() and find_shipped(flow) is not None
        return load_flow(flow if shipped else file, trust=True)


def _scripts(
    given: ScriptedModel | Sequence[Scripted] | Mapping[str, ScriptedModel | Sequence[Scripted]],
) -> dict[str, ScriptedModel]:
    if isinstance(given, Mapping):
        return {id: _model(each, id) for id, each in given.items()}
    return {EVERY_MODEL: _model(given, "scripted")} if given else {}


def _model(given: ScriptedModel | Sequence[Scripted], id: str) -> ScriptedModel:
    return given if isinstance(given, ScriptedModel) else ScriptedModel(given, id=id)


def _tool_stubs(given: Any) -> tuple[ToolStub, ...]:
    several: list[Any] = given if isinstance(given, list) else []  # pyright: ignore[reportUnknownVariableType]  # anything may be given
    if several and all(isinstance(each, ToolStub) for each in several):
        return tuple(several)
    return (_tool_stub(given),)


def _command_stubs(given: Any) -> tuple[CommandStub, ...]:
    several: list[Any] = given if isinstance(given, list) else [given]  # pyright: ignore[reportUnknownVariableType]  # as above
    return tuple(_command_stub(each) for each in several)


def _tool_stub(given: Any) -> ToolStub:
    if isinstance(given, ToolStub):
        return given
    return ToolStub(fails=str(given)) if isinstance(given, Exception) else ToolStub(returns=given)


def _command_stub(given: Any) -> CommandStub:
    match given:
        case CommandStub():
            return given
        case int():
            return CommandStub(exit=given)
        case (int(code), str(output)):
            return CommandStub(exit=code, output=output)
        case _:
            return CommandStub(output=str(given))

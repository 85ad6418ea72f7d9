"""Loading a flow: a file that is right becomes a ``Flow``, which makes agents and chains and can be drawn."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import isawaitable
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from turnchart.flows.check import Checked, examine
from turnchart.flows.checks import SCRIPT, prompt_file
from turnchart.flows.hook_checks import MAX_CONTINUES, HookUse
from turnchart.flows.models import Models, Route
from turnchart.flows.paths import beside
from turnchart.flows.problems import FlowError, NotTrusted, Problem, exit_code
from turnchart.flows.schema import FlowFile, SessionSpec
from turnchart.flows.script import Script, read_script
from turnchart.flows.source import as_written
from turnchart.flows.tool_checks import permissions_of
from turnchart.flows.trust import Reach, not_agreed, of_hook, reaches_of
from turnchart.machine.points import POINTS

if TYPE_CHECKING:
    from turnchart.diagrams import Overlay
    from turnchart.flows.output import Output
    from turnchart.flows.subflows import SubAgent
    from turnchart.machine.agent import Agent
    from turnchart.machine.approvals import Approver
    from turnchart.machine.chain import BoundHook, Chain
    from turnchart.machine.clock import Clock
    from turnchart.machine.mcp.servers import McpServer
    from turnchart.machine.models import Model, Resolver
    from turnchart.machine.session import Session
    from turnchart.machine.tools import Tool


@dataclass(frozen=True)
class Flow:
    """A flow that can run.

    Attributes:
        name: From the file, else its name without suffixes.
        path: Where the file is.
        root: What tools and programs work in.
        digest: SHA-256 of the content with parents and prompt files, references unexpanded, in hex.
        prompt: The parts of the system prompt.
        trusted: Everything that it reaches was agreed to.
        warnings: What is likely wrong, or missing on this machine.
    """

    name: str
    path: Path
    root: Path
    digest: str
    prompt: tuple[str, ...]
    trusted: bool
    warnings: tuple[Problem, ...]
    checked: Checked

    @property
    def file(self) -> FlowFile:
        """The settings, as the format names them."""
        assert self.checked.parts is not None, "a flow is made of a file without errors"
        return self.checked.parts.file

    @property
    def description(self) -> str:
        """What it is for; empty where the file does not say."""
        return self.file.description or ""

    @property
    def model(self) -> str | None:
        """The id of its model; None where it names none."""
        return self.file.model.id if self.file.model else None

    @property
    def session(self) -> SessionSpec | None:
        """Where the file wants its log to be kept; the path is relative to the root."""
        return self.file.session

    @cached_property
    def tools(self) -> "tuple[Tool, ...]":
        """Its tools, in the order of the file; their code is loaded here."""
        return tuple(each.tool for each in self.checked.tools if each.tool is not None)

    @cached_property
    def servers(self) -> "tuple[McpServer, ...]":
        """Its MCP servers, one for each entry of ``tools`` that names one; none is started here."""
        return tuple(each.server for each in self.checked.tools if each.server is not None)

    @cached_property
    def reaches(self) -> tuple[Reach, ...]:
        """What it starts or reaches: the list that a person agrees to."""
        return reaches_of(self.checked)

    @cached_property
    def script(self) -> Script | None:
        """The script that its model plays; None for other models."""
        file = self._scripts().get(self.model or "")
        return read_script(file)[0] if file is not None else None

    @property
    def info(self) -> dict[str, str]:
        """What a session says of the flow it was made with: the data of ``session_info``."""
        return {"flow": self.name, "path": str(self.path), "digest": self.digest}

    @cached_property
    def new_reaches(self) -> tuple[Reach, ...]:
        """What of ``reaches`` nobody agreed to yet."""
        return () if self.trusted else not_agreed(self.checked)

    # -- hooks --

    def hooks(self, point: str, made: "dict[int, Any] | None" = None) -> "list[BoundHook]":
        """Return the hooks of a point, made anew, without the disabled ones.

        ``made`` holds the objects of extensions: give the same for every point whose legs share them.

        Raises:
            NotTrusted: If one of them starts something, and nobody agreed to that.
        """
        uses = [use for use in self.checked.hooks if use.part.point.name == point and not use.disabled]
        _refuse(self._new_at(use) for use in uses)
        bound = [_bound(use, {} if made is None else made) for use in uses]
        if point == "turn_stopping" and self.file.output is not None:
            bound.append(_output(self.checked).hook())
        return bound

    def _new_at(self, use: HookUse) -> tuple[Reach, ...]:
        """Return what of a hook nobody agreed to; of one that only a plug-in can know, the plug-ins."""
        if use.spec is None and use.part.spec.use is not None:
            return tuple(reach for reach in self.new_reaches if reach.kind == "plug-in")
        own = of_hook(self.checked, use)
        return tuple(reach for reach in self.new_reaches if reach.digest in own)

    def chain(self, point: str) -> "Chain":
        """Return the chain of a point, made anew: ``await flow.chain("pre_tool").run(payload)``.

        Raises:
            NotTrusted: If one of its hooks starts something, and nobody agreed to that.
            ValueError: If there is no such point.
        """
        from turnchart.machine.chain import Chain

        return Chain(point, self.hooks(point))

    # -- running --

    def agent(
        self,
        *,
        session: "Session | None" = None,
        model: "Model | str | None" = None,
        tools: "Sequence[Tool]" = (),
        hooks: "Mapping[str, Sequence[Callable[..., Any]]] | None" = None,
        approver: "Approver | None" = None,
        clock: "Clock | None" = None,
        seed: int | None = None,
        models: "Resolver | None" = None,
        mcp: "Sequence[McpServer]" = (),
    ) -> "Agent":
        """Make an agent; nothing runs and nothing is written yet.

        Args:
            session: The log; None: one in memory.
            model: Instead of the flow's; ``script:FILE`` is relative to the current folder.
            tools: Beside those of the flow; one with the same name takes its place.
            hooks: Run after those of the flow.
            approver: Asked where a rule or a hook asks; None denies.
            clock: Where time comes from.
            seed: Makes the random part of retry waits repeatable.
            models: Finds models by their ids, before the built-in ones.
            mcp: Servers beside those of the flow.

        Raises:
            NotTrusted: If the flow reaches something, and nobody agreed to that.
            FlowError: If the flow names no model and none is given, or a param has no value.
            UnknownModel: If nobody knows the model.
        """
        from turnchart.machine.agent import Agent

        _refuse([self.new_reaches])
        if self.checked.missing:
            raise FlowError(self.checked.missing)
        named: dict[str, Tool] = {tool.name: tool for tool in (*self.tools, *tools)}
        inner = self._inner(models)
        named |= {name: sub.tool(name) for name, sub in inner.items() if named[name] not in tools}
        chains: dict[str, list[Any]] = {}
        made: dict[int, Any] = {}
        for point in dict.fromkeys((*POINTS, *(hooks or ()))):  # the agent refuses what is no point
            chains[point] = [*self.hooks(point, made), *(hooks or {}).get(point, ())]
        agent = Agent(
            **self._model(model, models), **_settings(self.file), prompt=self.prompt,
            tools=list(named.values()), hooks={point: chain for point, chain in chains.items() if chain},
            session=session, approver=approver, clock=clock, seed=seed, root=self.root, name=self.name,
            flow=self.name, mcp=(*self.servers, *mcp),
        )  # fmt: skip
        for sub in inner.values():
            sub.caller = agent
        return agent

    def _inner(self, models: "Resolver | None") -> "dict[str, SubAgent]":
        """Return the flows that are tools of this one, made anew."""
        flows = {each.name: each.flow for each in self.checked.tools if each.flow is not None}
        if not flows:
            return {}
        from turnchart.flows.subflows import sub_agent

        return {name: sub_agent(flow, models) for name, flow in flows.items()}

    def _model(self, model: "Model | str | None", given: "Resolver | None") -> dict[str, Any]:
        routes = self._routes()
        models = Models(self.path.parent, given, self._scripts(), routes)
        id = model if model is not None else self.model
        if id is None:
            raise FlowError(
                [Problem("missing-key", "the flow names no model", self.checked.shown, help=_MODEL)]
            )
        if isinstance(id, str):
            found = models(id) if model is None else Models(Path.cwd(), given, routes=routes)(id)
            return {"model": id if isawaitable(found) else found, "models": models}
        return {"model": id, "models": models}

    def _routes(self) -> dict[str, Route]:
        """Return how the provider of the flow's model is reached; it holds for all its models."""
        spec = self.file.model
        if spec is None:
            return {}
        said = Route()
        if spec.base_url is not None:
            said["base_url"] = spec.base_url
        if spec.api_key_env is not None:
            said["api_key_env"] = spec.api_key_env
        return {spec.id.partition(":")[0]: said}

    def _scripts(self) -> dict[str, Path]:
        """Return the files of the scripts that the flow names; each is relative to the file that wrote it."""
        parts, spec = self.checked.parts, self.file.model
        if parts is None or spec is None:
            return {}
        ids = {spec.id: parts.at("model", "id")}
        ids |= {id: parts.at("model", "fallback", i) for i, id in enumerate(spec.fallback)}
        return {
            id: beside(node.source, id.removeprefix(SCRIPT))[0]
            for id, node in ids.items()
            if id.startswith(SCRIPT)
        }

    # -- drawing --

    def overlay(self) -> "Overlay":
        """Return what the pictures draw of it over the lifecycle."""
        from turnchart.flows.drawn import overlay

        return overlay(self)


def _refuse(new: "Iterable[tuple[Reach, ...]]") -> None:
    problems = [reach.problem() for reaches in new for reach in reaches]
    if problems:
        raise NotTrusted(problems)


_MODEL = "write model: provider:name, or give one with --model"


def load_flow(
    path: str | os.PathLike[str],
    plugins: Iterable[str] = (),
    env: Mapping[str, str] | None = os.environ,
    trust: bool = False,
    params: Mapping[str, Any] = MappingProxyType({}),
) -> Flow:
    """Load a flow.

    Args:
        path: The file, or the name of a shipped flow.
        plugins: Modules whose hooks and tools the flow may name; they are imported.
        env: The variables that ``${env:NAME}`` reads.
        trust: Somebody agrees to what the flow and the plug-ins of its project start or reach. Without it
            holds what was agreed to on the command line, as long as nothing has changed.
        params: Values of the params that the flow declares; one without a value is missed by ``agent``.

    Raises:
        FlowError: If anything is wrong; it holds every problem.
    """
    checked = examine(path, plugins, env, trust, params=params)
    if exit_code(checked.problems) or checked.parts is None:
        raise FlowError(checked.problems)
    return flow_of(checked, trusted=trust or checked.shipped or not not_agreed(checked))


def flow_to_show(path: str | os.PathLike[str], plugins: Iterable[str] = ()) -> Flow:
    """Load a flow to look at it: no value of a variable or a param is needed, and it cannot run.

    Raises:
        FlowError: If anything is wrong; it holds every problem.
    """
    problems = examine(path, plugins, None).problems
    checked = examine(path, plugins, None, unexpanded=True)
    if exit_code(problems) or checked.parts is None:
        raise FlowError(problems)
    name = checked.parts.file.name or checked.path.name.split(".")[0]
    return Flow(name, checked.path, checked.place.root, "", (), False, tuple(problems), checked)


def flow_of(checked: Checked, *, trusted: bool) -> Flow:
    """Return a flow that was looked at and is right."""
    assert checked.parts is not None, "a flow is made of a file without errors"
    file = checked.parts.file
    prompt = tuple(_prompt(checked))
    return Flow(
        name=file.name or checked.path.name.split(".")[0],
        path=checked.path,
        root=checked.place.root,
        digest=_digest(checked, prompt),
        prompt=prompt,
        trusted=trusted,
        warnings=tuple(checked.problems),
        checked=checked,
    )


def _prompt(checked: Checked) -> Iterable[str]:
    assert checked.parts is not None
    for i, part in enumerate(checked.parts.file.prompt):
        if part.text is not None:
            yield part.text
        elif part.file is not None:
            found = prompt_file(checked.parts.at("prompt", i, "file"), part.file, checked.place)
            if isinstance(found, Problem):
                raise FlowError([found])
            yield found.read_text(encoding="utf-8-sig")  # some editors begin a file with a mark
    if checked.parts.file.output is not None:
        yield _output(checked).prompt


def _output(checked: Checked) -> "Output":
    from turnchart.flows.output import output_of  # most flows answer as they like

    return output_of(checked)


def _digest(checked: Checked, prompt: Sequence[str]) -> str:
    assert checked.parts is not None
    fields = checked.parts.root.fields
    content = {key: as_written(node) for key, (_, node) in fields.items() if not key.startswith("x-")}
    parts = zip(checked.parts.file.prompt, prompt, strict=False)
    files = [text for part, text in parts if part.file is not None]
    text = json.dumps([content, files], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _bound(use: HookUse, made: dict[int, Any]) -> "BoundHook":
    part, entry = use.part, use.part.spec
    continues = (entry.max_continues or MAX_CONTINUES) if part.point.name == "turn_stopping" else None
    said: dict[str, Any] = {
        "id": part.id, "where": part.where, "timeout": entry.timeout, "on_error": entry.on_error,
        "tools": entry.tools or (), "max_continues": continues,
    }  # fmt: skip
    from turnchart.machine.chain import bind

    if use.spec is not None and part.leg:
        key = id(part.node)
        if key not in made:
            made[key] = use.spec.make(use.params)
        return bind(part.point.name, made[key], **said)
    if use.spec is not None:
        return use.spec.bind(part.point.name, use.params, **said)
    from turnchart.hooks.command import TIMEOUT, Command

    passed = {name: other for pair in entry.env_from for name, other in pair.items()}
    command = Command(
        part.point.name, use.argv, entry.env, passed, entry.timeout or TIMEOUT, entry.cwd or ".",
        entry.dialect, use.tools,
    )  # fmt: skip
    return bind(part.point.name, command, **said)


def _settings(file: FlowFile) -> dict[str, Any]:
    """Return the settings as the agent takes them."""
    from turnchart.machine.config import Compaction, Limits, Queues, RetryPolicy

    retry = file.retry.model_dump(exclude_none=True)
    model = file.model
    settings = model.settings.model_dump(exclude_none=True) if model else {}
    thinking = settings.pop("thinking", None)
    if model is not None and model.extra:
        settings["extra"] = model.extra
    return {
        "queues": Queues(**file.queues.model_dump()), "retry": RetryPolicy(**retry),
        "limits": Limits(**file.limits.model_dump()),
        "compaction": Compaction(**file.compaction.model_dump()) if file.compaction else None,
        "context_window": model.context_window if model else None,
        "permissions": permissions_of(file.permissions),
        "fallback": tuple(model.fallback) if model else (), "cooldown": model.cooldown if model else 0,
        "settings": settings, "thinking": thinking,
    }  # fmt: skip

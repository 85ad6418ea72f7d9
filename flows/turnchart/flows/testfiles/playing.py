"""Playing a case: its agent is opened in a folder of its own and talked to, and what came of it is told."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.lowlevel import checkpoint

from turnchart.flows.cli.inputs import meanwhile, own_prompts, play
from turnchart.flows.load import load_flow
from turnchart.flows.openings import closed
from turnchart.flows.script import ScriptInput
from turnchart.flows.testfiles.stage import CallKey, Stage
from turnchart.flows.testfiles.suite import Case
from turnchart.machine.driver import first_error
from turnchart.machine.entries import Entry
from turnchart.machine.errors import TurnchartError, TurnFailed
from turnchart.machine.models import ModelRequest
from turnchart.machine.records import record
from turnchart.machine.verdict import acted

if TYPE_CHECKING:
    from turnchart.flows.load import Flow

LONGEST: Final = 60
"""Seconds after which a case that waits for something that never comes is given up."""
_NOT_COPIED: Final = (
    ".venv",
    "venv",
    "node_modules",
    "__pycache__",
    ".turnchart",
    ".mypy_cache",
    ".ruff_cache",
)


@record
class CallFact:
    """What became of one tool call.

    Attributes:
        tool: Its name.
        args: What it ran with, or was judged with; as the model gave them where it came to neither.
        decision: What hooks and permissions said; None where it never came to them.
        by: The id of the hook, or the rule; ``default`` where no rule is about it.
        ran: The tool was started.
        outcome: ok, error, denied or aborted; empty where it has no result.
        result: What the model reads.
    """

    tool: str
    args: Any
    decision: str | None
    by: str
    ran: bool
    outcome: str
    result: str


@record
class HookFact:
    """A hook decided, changed or failed."""

    point: str
    id: str
    decision: str | None
    reason: str
    changed: tuple[str, ...]
    error: str


@record
class Played:
    """What came of a case.

    Attributes:
        reason: Why the last turn ended; empty where there was none.
        text: The last answer.
        walk: The states, in order.
        calls: The tool calls, in the order in which they were taken up.
        hooks: What hooks did, in order.
        requests: What models were asked, in order.
        faults: What went wrong whatever was expected: missing stubs, replies that nobody asked for.
        error: What broke the last turn; empty where nothing did.
    """

    reason: str
    text: str
    walk: tuple[str, ...]
    calls: tuple[CallFact, ...]
    hooks: tuple[HookFact, ...]
    requests: tuple[ModelRequest, ...]
    faults: tuple[str, ...]
    error: str


def play_case(flow: "Flow", case: Case, plugins: Sequence[str] = (), *, loop: str = "asyncio") -> Played:
    """Play a case on an event loop of its own, and return what came of it.

    Args:
        flow: As it was loaded; the case gets a copy of its settings.
        case: What is said and answered.
        plugins: What the flow was loaded with.
        loop: asyncio or trio.

    Raises:
        NotTrusted: If the case makes something real that nobody agreed to.
    """
    with TemporaryDirectory(prefix="turnchart-test-") as name:
        folder = Path(name).resolve()
        staged = _copied(flow, folder, plugins) if case.real else _alone(flow, folder)
        _write(staged.root, case.files)
        inputs = case.inputs if case.scripts or flow.script is None else (*flow.script.at, *case.inputs)
        talk = _Talk(Stage(staged, case), case, inputs)
        anyio.run(talk.whole, backend=loop)
        return talk.facts()


def has_prompt(flow: "Flow", case: Case) -> bool:
    """Tell whether a case, or the script of the flow that it plays, says anything."""
    own = flow.script.at if flow.script is not None and not case.scripts else ()
    return bool(case.prompts or own_prompts((*own, *case.inputs)))


def _alone(flow: "Flow", folder: Path) -> "Flow":
    """Return the flow in an empty folder, with only those files of its project that its hooks name."""
    for use in flow.checked.hooks:
        for parameter in use.spec.parameters if use.spec is not None else ():
            path = use.params.get(parameter.name) if parameter.meaning == "path" else None
            if isinstance(path, str) and (flow.root / path).is_file():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(flow.root / path, folder / path)
    return replace(flow, root=folder, trusted=True)


def _copied(flow: "Flow", folder: Path, plugins: Sequence[str]) -> "Flow":
    """Return the flow as it is in a copy of its project: what is real works there."""
    root = folder / "project"
    shutil.copytree(
        flow.root, root, symlinks=True, ignore=shutil.ignore_patterns(*_NOT_COPIED), dirs_exist_ok=True
    )
    git = root / ".git"
    if git.is_file():  # it leads to the real repository
        git.unlink()
        git.mkdir()
    copy = flow
    if flow.path.is_relative_to(flow.root):
        copy = load_flow(root / flow.path.relative_to(flow.root), plugins, trust=flow.trusted)
    return replace(copy, root=root, checked=closed(copy.checked))


def _write(root: Path, files: Mapping[str, str]) -> None:
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")


class _Talk:
    """One conversation."""

    def __init__(self, stage: Stage, case: Case, inputs: Sequence[ScriptInput]) -> None:
        self.faults: list[str] = []
        self._stage = stage
        self._agent = stage.agent
        self._prompts = (*case.prompts, *([] if case.prompts else own_prompts(inputs)))
        self._inputs = meanwhile(inputs)
        self._given = 0
        self._rows = self._agent.walk()
        self._text = self._error = ""

    async def whole(self) -> None:
        """Open the agent, say everything, close it."""
        try:
            with anyio.fail_after(LONGEST):
                await self._talk()
        except TimeoutError:
            self.faults.append(f"given up after {LONGEST} seconds: something waits for what never comes")
        except (TurnchartError, ExceptionGroup) as error:
            self.faults.append(f"the agent broke: {first_error(error)}")

    async def _talk(self) -> None:
        async with self._agent:
            await self._say_all()
            turn = self._agent.last_turn
            if turn is not None:
                self._text, self._error = turn.text, str(turn.error or "")

    async def _say_all(self) -> None:
        async with anyio.create_task_group() as group:
            if self._inputs:
                group.start_soon(play, self._agent, self._counted())
                await checkpoint()  # so that it waits for the first state already
            for prompt in self._prompts:
                try:
                    await self._agent.prompt(prompt)
                except TurnFailed as failed:
                    if failed.turn is None or failed.turn.ok:
                        self.faults.append(str(failed))
            group.cancel_scope.cancel()
        self._agent.go_on()
        await self._agent.idle()

    def _counted(self) -> Iterator[ScriptInput]:
        for given in self._inputs:
            yield given
            self._given += 1

    # -- facts ---------------------------------------------------------------------------------------

    def facts(self) -> Played:
        """Return what happened."""
        entries = self._agent.session.entries
        ends = [entry.data["reason"] for entry in entries if entry.type == "turn/end"]
        return Played(
            ends[-1] if ends else "", self._text, ("idle", *(row.target.value for row in self._rows)),
            tuple(_calls(entries, self._stage)), tuple(_hooks(entries)), tuple(self._stage.requests),
            tuple(self._all_faults()), self._error,
        )  # fmt: skip

    def _all_faults(self) -> Iterator[str]:
        yield from self._stage.missing
        yield from self.faults
        yield from self._stage.leftovers()
        for given in self._inputs[self._given :]:
            step = f" of step {given.step}" if given.step is not None else ""
            yield f"the agent never came to {given.state}{step}, where {given.action} was to happen"


def _hooks(entries: Sequence[Entry]) -> Iterator[HookFact]:
    for entry in entries:
        if entry.type == "hook/result" and acted(entry.data):
            data = entry.data
            yield HookFact(
                data["point"], data["id"], data.get("decision"), data.get("reason", ""),
                tuple(data.get("changed", ())), data.get("error", ""),
            )  # fmt: skip


def _calls(entries: Sequence[Entry], stage: Stage) -> Iterator[CallFact]:
    results = {
        _key(entry.data, entry.data["message"]["call_id"]): entry
        for entry in entries
        if entry.type == "tool/result"
    }
    for entry in entries:
        if entry.type == "tool/call":
            key = _key(entry.data, entry.data["call_id"])
            yield _call(entry, results.get(key), key, entries, stage)


def _key(data: Mapping[str, Any], call_id: str) -> CallKey:
    return (data["turn"], data["step"], call_id)


def _call(
    entry: Entry, result: Entry | None, key: CallKey, entries: Sequence[Entry], stage: Stage
) -> CallFact:
    args, decision, by = entry.data["arguments"], None, ""
    said = [(word, id) for word, id in _said(entries, entry.seq) if word in ("deny", "ask")]
    hooks = dict(reversed(said))
    ruled = stage.rulings.get(entry.seq)
    if "deny" in hooks:
        decision, by = "deny", hooks["deny"]
    elif ruled is not None:
        args, ruling = ruled
        decision, by = ruling.verdict, ruling.rule or "default"
        if "ask" in hooks and decision != "deny":
            decision, by = "ask", hooks["ask"]
    return CallFact(
        entry.data["tool"], args, decision, by, key in stage.ran,
        result.data["outcome"] if result is not None else "",
        _text(result.data["message"]) if result is not None else "",
    )  # fmt: skip


def _said(entries: Sequence[Entry], seq: int) -> Iterator[tuple[str, str]]:
    """Yield what the hooks decided of the call at a place of the log; calls are taken up one by one."""
    for entry in entries[seq + 1 :]:
        if entry.type == "tool/call":
            return
        if entry.type == "hook/result" and entry.data["point"] == "pre_tool" and "decision" in entry.data:
            yield entry.data["decision"], entry.data["id"]


def _text(message: Mapping[str, Any]) -> str:
    return "".join(block.get("text", "") for block in message["content"])

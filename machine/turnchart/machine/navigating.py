"""Moving a conversation to another place of its tree, with a summary of what is left where that is wanted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import anyio

from turnchart.machine.abort import Aborted
from turnchart.machine.asking import answered
from turnchart.machine.branches import LEFT
from turnchart.machine.entries import Frozen, freeze
from turnchart.machine.errors import AgentBusy, RequestFailed
from turnchart.machine.message_fields import plain
from turnchart.machine.messages import AssistantMessage, Failure, Message, UserMessage, message
from turnchart.machine.models import ModelRequest, PreparedCall, RequestConfig
from turnchart.machine.states import State
from turnchart.machine.summaries import SUMMARY
from turnchart.machine.summary_prompt import SYSTEM, Files, as_text
from turnchart.machine.tokens import message_tokens
from turnchart.machine.tree import abandoned, check_place, settled

if TYPE_CHECKING:
    from turnchart.machine.abort import AbortSignal
    from turnchart.machine.agent import Agent
    from turnchart.machine.context import Node
    from turnchart.machine.entries import Entry
    from turnchart.machine.session import Session

T = TypeVar("T")

WINDOW = 128_000
"""The context window that is assumed of a model that does not say its own, in tokens."""
RESERVE = 16_384
"""So many tokens of the window are left for instructions and answer."""
MAX_TOKENS = 2048
"""So long may a summary be, in tokens."""
_NEARLY_FULL = 0.9

_ASKS = """\
The conversation above is a branch that the user left to go on from an earlier place. Summarise it, so that
what was learned and done there is not lost. Use these headings, and leave none out (write "none" where there
is nothing):

## Goal
What the user wanted to reach on this branch.
## Constraints & Preferences
What the user asked for or ruled out.
## Progress
### Done
### In Progress
### Blocked
## Key Decisions
Each with its reason.
## Next Steps
In order."""


class Moved(NamedTuple):
    """What a move came to.

    Attributes:
        leaf: The entry that the next one follows; None before the first.
        text: What was said at the place that was chosen, to be changed and said again; empty where it was no
            message of a user.
        summary: The ``branch_summary`` entry; None without one.
        cancelled: The summary was aborted, and nothing has moved.
    """

    leaf: int | None
    text: str = ""
    summary: Entry | None = None
    cancelled: bool = False


class Wish(NamedTuple):
    """How a summary is wanted.

    Attributes:
        summarize: The model writes one.
        summary: Somebody wrote it already.
        instructions: What the model should look at besides.
        replace: The instructions stand in the place of the usual ones.
    """

    summarize: bool = False
    summary: str = ""
    instructions: str = ""
    replace: bool = False


async def navigate(agent: Agent, seq: int | None, wish: Wish, label: str | None = None) -> Moved:
    """Move to where a conversation can go on from an entry, see ``Agent.navigate``."""
    session = agent.session
    if agent.state is not State.IDLE:
        raise AgentBusy(agent.state)
    if seq is not None:
        check_place(seq, session.entries)
    if seq == session.leaf:
        return Moved(seq)
    to, text = _place(session.entries, seq)
    try:
        entry = await _move(agent, to, wish, label)
    except Aborted:
        return Moved(session.leaf, cancelled=True)
    return Moved(session.leaf, text, entry if entry.type == "branch_summary" else None)


async def summarize(agent: Agent, seq: int | None) -> Entry:
    """Move right to an entry, with a summary by the model, see ``Session.navigate``.

    Raises:
        Aborted: If the summary was aborted; nothing has moved.
    """
    if agent.state is not State.IDLE:
        raise AgentBusy(agent.state)
    return await _move(agent, seq, Wish(summarize=True))


async def _move(agent: Agent, to: int | None, wish: Wish, label: str | None = None) -> Entry:
    """Move, and return the last entry that says so. No turn can begin between a summary and its move."""
    session, left = agent.session, agent.session.leaf
    nodes = _left(session, to) if wish.summarize and not wish.summary else ()

    def move(told: Frozen | None) -> Entry:
        entry = session.move(to, told, left)
        target = to if told is None else entry.seq
        if label is not None and target is not None:
            session.append_label(target, label)
        return entry

    async def sum_up(_: Agent) -> Entry:
        return move(await _summary(agent, nodes, wish))

    if nodes:
        moved: Entry = await agent.maintain(sum_up)
        return moved
    agent.mend()
    return move(Frozen(summary=plain("summary", wish.summary)) if wish.summary else None)


def _place(entries: Sequence[Entry], seq: int | None) -> tuple[int | None, str]:
    """Return where the conversation goes on, and what was said there by a user."""
    if seq is None:
        return None, ""
    entry = entries[seq]
    if entry.type in ("user/message", "custom_message"):
        return entry.parent, message(entry.data["message"]).text  # of a log that was opened it is plain JSON
    return settled(entries, seq), ""


# -- the summary -----------------------------------------------------------------------------------------


def _left(session: Session, to: int | None) -> Sequence[Node]:
    """Return what the model sees of what a move leaves; nothing where nothing was said there."""
    seqs = {entry.seq for entry in abandoned(session.entries, session.leaf, to)}
    nodes = [node for node in session.view.nodes if node.seq in seqs]
    return nodes if any(map(_counts, nodes)) else ()


def _counts(node: Node) -> bool:
    return node.message["role"] not in ("tool_result", "system")


async def _summary(agent: Agent, nodes: Sequence[Node], wish: Wish) -> Frozen:
    files = Files()
    for node in nodes:
        files.remember(agent.session.entries[node.seq].data.get("details"))
    files.follow([node.message for node in nodes])
    answer = await _asked(agent, nodes, wish)
    if not answer.text.strip():
        raise RequestFailed(Failure("empty_response", message="the model wrote no summary"))
    more: dict[str, Any] = {"model": answer.model} if answer.model else {}
    if answer.usage:
        more["usage"] = answer.usage
    if files.details():
        more["details"] = freeze(files.details())
    return Frozen(summary=answer.text, **more)


def _prompt(nodes: Sequence[Node], window: int | None, wish: Wish) -> str:
    parts = as_text(_within([node.message for node in nodes if _counts(node)], (window or WINDOW) - RESERVE))
    asks = wish.instructions if wish.replace and wish.instructions else _ASKS
    focus = "" if wish.replace or not wish.instructions else f"\n\nAdditional focus: {wish.instructions}"
    return "<conversation>\n" + "\n\n".join(parts) + f"\n</conversation>\n\n{asks}{focus}"


def _within(messages: Sequence[Message], budget: int) -> list[Message]:
    """Return the newest messages that fit; a summary is worth being a little over."""
    found: list[Message] = []
    spent = 0
    for said in reversed(messages):
        size = message_tokens(said)
        if spent + size > budget:
            if said.get("source") in (SUMMARY, LEFT) and spent < _NEARLY_FULL * budget:
                found.append(said)
            break
        found.append(said)
        spent += size
    return found[::-1]


# -- asking ----------------------------------------------------------------------------------------------


async def _asked(agent: Agent, nodes: Sequence[Node], wish: Wish) -> AssistantMessage:
    """Ask the model of the conversation; tried again as the retry policy says.

    Raises:
        Aborted: If the agent is aborted meanwhile.
        RequestFailed: If no attempt succeeded.
    """
    policy, abort, view = agent.retry, agent.turning.abort, agent.session.view
    id = view.model or agent.model_id
    thinking = view.thinking if view.thinking is not None else agent.thinking
    settings = freeze({**agent.settings, "max_tokens": MAX_TOKENS})
    attempt = 1
    while True:
        model = await agent.find_model(id)
        prepared = await model.prepare(RequestConfig(id, settings, thinking), abort)
        request = _request(agent, prepared, _prompt(nodes, prepared.context_window, wish), attempt)
        agent.did("summarise")
        answer = await _unless(abort, _answer, agent, prepared, request)
        abort.check()
        assert answer is not None, "only an abort leaves it out"
        if isinstance(answer, AssistantMessage):
            return answer
        wait = policy.wait(answer, attempt, prepared.retry_kinds, agent.rng)
        if wait is None:
            raise RequestFailed(answer, note="; the branch was not summarised, and nothing has moved")
        await _unless(abort, agent.clock.sleep, wait)
        abort.check()
        attempt += 1


def _request(agent: Agent, prepared: PreparedCall, prompt: str, attempt: int) -> ModelRequest:
    config, now = prepared.config, agent.turning
    said = (UserMessage(prompt, time=agent.clock.now()),)
    return ModelRequest(
        config.model, SYSTEM, said, (), config.settings, config.thinking, now.abort, agent.clock,
        f"{agent.session.id}/{LEFT}/{len(agent.session.entries)}", now.number, 0, attempt,
    )  # fmt: skip


async def _answer(agent: Agent, prepared: PreparedCall, request: ModelRequest) -> AssistantMessage | Failure:
    """Read an answer to its end, and return what it came to."""
    answer = await answered(agent, prepared, request, "summary")
    return answer.failure or answer.message(request.model, request.clock.now(), "s")


async def _unless(abort: AbortSignal, fn: Callable[..., Awaitable[T]], *args: Any) -> T | None:
    """Do something, and return what it came to; None where an abort cut it off."""
    came: T | None = None
    failed: list[Exception] = []
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            await abort.wait()
            group.cancel_scope.cancel()

        group.start_soon(watch)
        try:
            came = await fn(*args)
        except Exception as error:  # noqa: BLE001  # raised again, outside of the group
            failed.append(error)
        group.cancel_scope.cancel()
    if failed:
        raise failed[0]
    return came

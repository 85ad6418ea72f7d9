"""Asking a model for a summary of what is compacted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from turnchart.machine.asking import answered
from turnchart.machine.entries import Frozen
from turnchart.machine.errors import CompactionFailed, RequestFailed
from turnchart.machine.messages import Message, UserMessage
from turnchart.machine.models import ModelRequest, PreparedCall, RequestConfig
from turnchart.machine.summary_prompt import (
    SYSTEM,
    as_text,
    chunks,
    joined,
    prefix_prompt,
    summary_prompt,
)
from turnchart.machine.tokens import CHARS_PER_TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnchart.machine.outfit import Outfit
    from turnchart.machine.stream import Answer

SUMMARY_TOKENS = 8192
"""So long may a summary be; shorter where the model's answers are, or its window is small."""
ROOM = 0.75
"""So much of the window of the model that summarises may the conversation take."""
LEAST_CHARS = 2000


class Summarised(NamedTuple):
    """A summary, and what it took to write it, summed over the requests."""

    text: str
    usage: Mapping[str, int]


class Summariser:
    """Writes the summary of one compaction.

    Attributes:
        usage: The tokens of all its requests.
    """

    def __init__(self, agent: Outfit, focus: str = "") -> None:
        self._agent = agent
        self._focus = focus
        self._most: int | None = None
        self._window: int | None = None
        self._first, self._count = len(agent.session.entries), 0
        self.usage: dict[str, int] = {}

    async def summarise(
        self, history: Sequence[Message], prefix: Sequence[Message], previous: str
    ) -> Summarised:
        """Return one summary of what came before, and of the beginning of a turn that goes on.

        Args:
            history: Whole turns.
            prefix: The beginning of the turn that the cut goes through; empty where it splits none.
            previous: An earlier summary of what came before these; empty for none. It is brought up to date.

        Raises:
            CompactionFailed: If the model gives no text.
            RequestFailed: If it cannot be asked, after as many tries as the retry policy allows.
            UnknownModel: If nobody knows it.
        """
        whole = await self._told(as_text(history), previous, summary_prompt) if history else previous
        begun = await self._told(as_text(prefix), "", prefix_prompt) if prefix else ""
        return Summarised(joined(whole, begun), self.usage)

    async def _told(
        self, parts: Sequence[str], previous: str, prompt: Callable[[Sequence[str], str, str], str]
    ) -> str:
        """Return the summary of a text. What does not fit one request is summarised piece by piece."""
        most = self._most or max(sum(map(len, parts)), LEAST_CHARS)
        said = previous
        try:
            for group in chunks(parts, most):
                said = await self._tried(prompt(group, said, self._focus))
        except RequestFailed as error:
            if error.failure.kind != "context_window" or most <= LEAST_CHARS:
                raise
            self._most = max(self._fitting() or most // 2, LEAST_CHARS)
            if self._most >= most:
                self._most = max(most // 2, LEAST_CHARS)
            return await self._told(parts, previous, prompt)
        return said

    def _fitting(self) -> int | None:
        """Return how many characters fit the window of the model that summarises; None where unknown."""
        return None if self._window is None else int(self._window * ROOM) * CHARS_PER_TOKEN

    async def _tried(self, prompt: str) -> str:
        """Ask, and try again as the retry policy of the agent says."""
        agent, attempts = self._agent, 0
        while True:
            attempts += 1
            prepared = await self._prepared()
            answer = await self._asked(prepared, prompt)
            counts: Mapping[str, int] = answer.usage or {}
            for name, count in counts.items():
                self.usage[name] = self.usage.get(name, 0) + count
            if answer.failure is None:
                text = answer.message(prepared.config.model, agent.clock.now(), "s").text.strip()
                if not text:
                    raise CompactionFailed("summary", "the model gave no text as a summary")
                return text
            wait = agent.retry.wait(answer.failure, attempts, prepared.retry_kinds, agent.rng)
            if wait is None:
                raise RequestFailed(answer.failure)
            await agent.clock.sleep(wait)

    async def _prepared(self) -> PreparedCall:
        agent = self._agent
        view, now = agent.session.view, agent.turning
        model = await agent.find_model(agent.compaction.model or now.model or view.model or agent.model_id)
        declared = view.header["settings"].get("max_tokens") if view.header is not None else None
        most = min(declared or SUMMARY_TOKENS, SUMMARY_TOKENS)
        prepared = await model.prepare(RequestConfig(model.id, Frozen(max_tokens=most)), now.abort)
        self._window = prepared.context_window
        return prepared

    async def _asked(self, prepared: PreparedCall, prompt: str) -> Answer:
        """Make one request, of a session of its own, so that no provider takes it for the conversation."""
        agent, now, config = self._agent, self._agent.turning, prepared.config
        self._count += 1
        agent.did("summarise")
        request = ModelRequest(
            config.model, SYSTEM, (UserMessage(prompt, time=agent.clock.now()),), (), config.settings,
            config.thinking, now.abort, agent.clock, f"{agent.session.id}.{self._first}.{self._count}",
            now.number, now.step,
        )  # fmt: skip
        if agent.steps is not None:
            ask = partial(answered, agent, prepared, request, "summary")
            return await agent.steps.answer(agent, f"{config.model} {prompt}", ask)
        return await answered(agent, prepared, request, "summary")

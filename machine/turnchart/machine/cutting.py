"""Where a conversation may be cut, and which results may be shortened. Pure.

A cut never parts a call from its result. What stands before it is replaced; what follows stays as it is. The
prompt at the head of a conversation is not part of it, so no cut can touch it.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import inf
from typing import NamedTuple

from turnchart.machine.context import Node
from turnchart.machine.entries import Entry
from turnchart.machine.messages import Block, Message, Text
from turnchart.machine.summaries import SUMMARY
from turnchart.machine.tokens import message_tokens

MOST_CHARS = 8192
"""Longer results are shortened before anything is summarised."""
HEAD_CHARS, TAIL_CHARS = 4096, 1024
"""What stays of a result that is shortened."""


class Cut(NamedTuple):
    """Where to cut.

    Attributes:
        at: The position of the first node that stays; everything before it is replaced.
        split: Where the turn begins that the cut goes through; equal to ``at`` where it splits none.
    """

    at: int
    split: int


class Surface:
    """The nodes of a conversation, with what a cut needs to know of them.

    Attributes:
        nodes: What the model sees, in order.
        sizes: The estimate of each node, in tokens.
        turns: Where each turn of the user begins.
    """

    def __init__(self, nodes: Sequence[Node], entries: Sequence[Entry]) -> None:
        self.nodes = nodes
        self.sizes = [message_tokens(node.message) for node in nodes]
        self._entries = entries
        self.turns = list(self._turns())
        self._inside = set(self._pairs())

    # -- asking ------------------------------------------------------------------------------------

    def is_summary(self, index: int) -> bool:
        """The node stands for what was compacted before."""
        node = self.nodes[index]
        return self._entries[node.seq].type == "compaction" and node.message.get("source") == SUMMARY

    def legal(self, at: int) -> bool:
        """A cut there parts no call from its result, and nothing that one entry brought along."""
        seq = self.nodes[at].seq if at < len(self.nodes) else -1
        return at not in self._inside and (at == 0 or self.nodes[at - 1].seq != seq)

    def says_more(self, at: int) -> bool:
        """Before this place stands something that no summary holds yet."""
        return any(self._entries[self.nodes[i].seq].type != "compaction" for i in range(at))

    def size(self, start: int, end: int) -> int:
        """Return the estimate of a range of nodes, in tokens."""
        return sum(self.sizes[start:end])

    def cut(self, keep: int, room: float = inf) -> Cut | None:
        """Return where to cut so that the last turns stay; None where nothing can be replaced.

        Args:
            keep: So many turns stay; fewer where they take too much room, or nothing is left to replace.
            room: So many tokens may stay.
        """
        end = len(self.nodes)
        behind = list(accumulate(reversed(self.sizes), initial=0))
        if keep == 0:
            return Cut(end, end) if self.says_more(end) else None
        whole: Cut | None = None
        for kept in range(min(keep, len(self.turns)), 0, -1):
            at = self._head_ward(self.turns[-kept])
            if self.says_more(at):
                whole = Cut(at, at)
                if behind[end - at] <= room:
                    return whole
        return self._split(behind, room) or whole

    def _split(self, behind: Sequence[int], room: float) -> Cut | None:
        """Cut through the last turn: behind an answer, so that what was asked last is answered or stays."""
        start, end = self.turns[-1] if self.turns else 0, len(self.nodes)
        answers = [i for i in range(start, end) if self.nodes[i].message["role"] == "assistant"]
        first = answers[0] + 1 if answers else end
        places = [at for at in range(first, end) if self.legal(at) and self.says_more(at)]
        if not places:
            return None
        fits = (at for at in places if behind[end - at] <= room)
        return Cut(next(fits, places[-1]) if room != inf else places[-1], start)

    def _head_ward(self, at: int) -> int:
        while at and not self.legal(at):
            at -= 1
        return at

    # -- looking -----------------------------------------------------------------------------------

    def _turns(self) -> Iterator[int]:
        """Yield where turns begin; outside of turns, what a person says begins one."""
        number = None
        for index, (seq, said) in enumerate(self.nodes):
            entry = self._entries[seq]
            turn = entry.data.get("turn") if entry.type != "compaction" else None
            if turn is None:
                if said["role"] == "user" and not said.get("source"):
                    yield index
            elif turn != number:
                number = turn
                yield index

    def _pairs(self) -> Iterator[int]:
        """Yield the places between a call and its result, and those right before a result."""
        asked: dict[str, int] = {}
        for index, (_, said) in enumerate(self.nodes):
            if said["role"] == "assistant":
                for part in said["content"]:
                    if part["type"] == "tool_call":
                        asked[part["id"]] = index
            elif said["role"] == "tool_result":
                yield from range(asked.pop(said["call_id"], index - 1) + 1, index + 1)


# -- results that are too long -----------------------------------------------------------------------


class Long(NamedTuple):
    """A result that is too long: where it stands, what it becomes, and how many characters that saves."""

    at: int
    message: Message
    saved: int


def long_results(nodes: Sequence[Node], end: int) -> Iterator[Long]:
    """Yield the results among the first nodes that are too long, the oldest first."""
    for index in range(end):
        said = nodes[index].message
        if said["role"] == "tool_result":
            length = len(said.text)
            if length > MOST_CHARS:
                shorter = said.with_content(shortened(said.content))
                yield Long(index, shorter, length - len(shorter.text))


def shortened(content: Sequence[Block]) -> tuple[Block, ...]:
    """Return content whose text is its beginning and its end; images stay."""
    text = "".join(part["text"] for part in content if part["type"] == "text")
    images = [part for part in content if part["type"] != "text"]
    return (Text(clipped(text, HEAD_CHARS, TAIL_CHARS)), *images)


def clipped(text: str, head: int, tail: int) -> str:
    """Return the beginning and the end of a text, and how much is missing between them."""
    missing = len(text) - head - tail
    if missing <= 0:
        return text
    return f"{text[:head]}\n[{missing} characters left out]\n{text[len(text) - tail :]}"


def seen(nodes: Sequence[Node]) -> int:
    """Return how many nodes the model has answered: those up to its last answer."""
    return next((i for i in range(len(nodes), 0, -1) if nodes[i - 1].message["role"] == "assistant"), 0)

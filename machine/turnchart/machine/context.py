"""What the model sees of one branch, kept entry by entry: a step costs the same however long the log is."""

# pyright: reportPrivateUsage=false
# The tables at the end name methods of the class above them.

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar, cast, overload

from turnchart.machine.branches import branch_message
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.messages import CustomMessage, Message, as_user, message, to_llm
from turnchart.machine.summaries import retained_messages, summary_message

T = TypeVar("T")

RUNTIME_CONTEXT = "runtime-context"
"""The source of the message that tells the model the facts of the moment."""


class Prefix(Sequence[T]):
    """The first ``n`` items of a list that only grows: a frozen snapshot of the history in O(1)."""

    __slots__ = ("_items", "_n")

    def __init__(self, items: list[T], n: int) -> None:
        self._items = items
        self._n = n

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[T]:
        return islice(self._items, self._n)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return tuple(self._items[i] for i in range(*index.indices(self._n)))
        if not -self._n <= index < self._n:
            raise IndexError(f"index {index} is outside a history of {self._n}")
        return self._items[index if index >= 0 else index + self._n]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Sequence) and not isinstance(other, str):
            return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # any sequence may come
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # like every list: compared by content, never a key

    def __repr__(self) -> str:
        return f"Prefix({list(self)!r})"


class SystemMessage(Message):
    """A prompt inside the history, for models that take a later system message as the one that counts."""

    __slots__ = ()

    def __init__(self, text: str) -> None:
        super().__init__(role="system", content=(Frozen(type="text", text=text),) if text else ())


class Node(NamedTuple):
    """One entry of the conversation and its message; an empty one is in the log but not shown."""

    seq: int
    message: Message


class Context:
    """The conversation of one branch, and what was last said about its requests.

    Attributes:
        system: The system nodes, the head first: seq and text.
        nodes: Every other node in order.
        generation: Moves when something is replaced, or another branch is followed; that ends a series.
        header: The data of the last ``request/header`` of the whole log.
        route: The data of the last ``request/context``.
        model: Set by ``agent.set_model``; None before.
        thinking: Set by ``agent.set_thinking_level``; None before.
        tools: Set by ``agent.set_active_tools``; None means all.
        facts: The text of the runtime context that the model last read; None before.
    """

    __slots__ = (
        "_llm", "_messages", "facts", "generation", "header", "model", "nodes", "route", "system", "thinking",
        "tools",
    )  # fmt: skip

    def __init__(self) -> None:
        self.system: tuple[tuple[int, str], ...] = ()
        self.nodes: list[Node] = []
        self.generation = 0
        self.header: Frozen | None = None
        self.route: Frozen | None = None
        self.model: str | None = None
        self.thinking: str | None = None
        self.tools: tuple[str, ...] | None = None
        self.facts: str | None = None
        self._messages: list[Message] = []
        self._llm: list[Message] | None = None
        """What the model sees, once it differs from ``_messages``."""

    @property
    def window(self) -> int | None:
        """The context window of the model that was asked last, in tokens; None where unknown."""
        return None if self.route is None else self.route.get("context_window")

    @property
    def prompt(self) -> str:
        """The text of the system prompt at the head."""
        return self.system[0][1] if self.system else ""

    @property
    def effective_prompt(self) -> str:
        """The last system text that is not empty; the head's where all are."""
        return next((text for _, text in reversed(self.system) if text), self.prompt)

    def messages(self) -> Sequence[Message]:
        """Return the messages of the conversation as this project writes them; a snapshot, in O(1)."""
        return Prefix(self._messages, len(self._messages))

    def llm_messages(self) -> Sequence[Message]:
        """Return the messages in the form that models know; a snapshot, in O(1)."""
        items = self._messages if self._llm is None else self._llm
        return Prefix(items, len(items))

    def add(self, entry: Entry) -> None:
        """Take the next entry of the branch into the view."""
        fold = FOLD.get(entry.type)
        if fold is not None:
            fold(self, entry)

    def check(self, entry: Entry) -> None:
        """Do nothing where ``add`` can take the entry.

        Raises:
            ValueError: If it replaces what is no part of the conversation.
            KeyError: If a field is missing. A field of another type may raise a TypeError or AttributeError.
        """
        check = CHECKS.get(entry.type)
        if check is not None:
            check(self, entry)

    # -- the fold ------------------------------------------------------------------------------

    def _message(self, entry: Entry) -> None:
        said = entry.data["message"]
        if not isinstance(said, Message):
            said = message(said)
        if entry.replaces:
            self._replace(entry, Node(entry.seq, said))
        else:
            self.nodes.append(Node(entry.seq, said))
            self._show(said)

    def _check_message(self, entry: Entry) -> None:
        said = entry.data["message"]
        if not isinstance(said, Message):
            said = message(said)
        if said["role"] == "custom":
            to_llm(said)
        if not entry.replaces:
            return
        first, last = self._range(entry)
        if entry.type == "tool/result" and (first != last or _call(said) != _call(self.nodes[first].message)):
            raise ValueError("it replaces something else than one result of the same call")

    def _show(self, said: Message) -> None:
        if not said["content"] and said["role"] in ("assistant", "system"):
            return
        if said.get("source") == RUNTIME_CONTEXT:
            self.facts = said.text
        seen = said if said["role"] != "custom" else _seen(said)
        if self._llm is None and seen is not said:
            self._llm = list(self._messages)
        self._messages.append(said)
        if self._llm is not None and seen is not None:
            self._llm.append(seen)

    def _replace(self, entry: Entry, node: Node) -> None:
        self._swap(*self._range(entry), [node])

    def _swap(self, first: int, last: int, nodes: list[Node]) -> None:
        shadowed = {each.seq for each in self.nodes[first : last + 1]}
        self.system = tuple([each for each in self.system if each[0] not in shadowed])
        self.nodes = [*self.nodes[:first], *nodes, *self.nodes[last + 1 :]]
        self.generation += 1
        self._messages, self._llm, self.facts = [], None, None
        for each in self.nodes:
            self._show(each.message)

    def _range(self, entry: Entry) -> tuple[int, int]:
        """Return where the first and the last node stand that an entry replaces."""
        first, last = entry.replaces or (-1, -1)
        at = {node.seq: i for i, node in enumerate(self.nodes)}
        if first not in at or last not in at or at[first] > at[last]:
            raise ValueError(f"it replaces {first} to {last}, which is no part of the conversation")
        start = at[first]
        while start and self.nodes[start - 1].seq == first:  # an imported compaction brings several along
            start -= 1
        return start, at[last]

    def _compacted(self, entry: Entry) -> None:
        """Show the summary, and what an imported entry brings along, in the place of what it replaces."""
        shown = [summary_message(entry.data, entry.time), *retained_messages(entry.data)]
        self._swap(*self._compacted_range(entry), [Node(entry.seq, each) for each in shown])

    def _compacted_range(self, entry: Entry) -> tuple[int, int]:
        """Return the range of a compaction; one that names none ends before the first that it keeps."""
        if entry.replaces:
            return self._range(entry)
        kept = entry.data.get("first_kept")
        if kept is None:
            return 0, len(self.nodes) - 1
        for index, node in enumerate(self.nodes):
            if node.seq == kept:
                return 0, index - 1
        raise ValueError(f"it keeps what follows from {kept} on, which is no part of the conversation")

    def _check_compacted(self, entry: Entry) -> None:
        summary_message(entry.data, entry.time)
        for each in retained_messages(entry.data):
            to_llm(each)
        self._compacted_range(entry)

    def _branch_summary(self, entry: Entry) -> None:
        said = branch_message(entry.data, entry.time)
        if said is not None:
            self.nodes.append(Node(entry.seq, said))
            self._show(said)

    def _system(self, entry: Entry) -> None:
        said = SystemMessage(_system_text(entry))
        if entry.replaces:
            index = self._system_index(entry)
            self.system = (*self.system[:index], (entry.seq, said.text), *self.system[index + 1 :])
            if index:
                self._replace(entry, Node(entry.seq, said))
            else:
                self.generation += 1
            return
        if self.system:
            self.nodes.append(Node(entry.seq, said))
            self._show(said)
        self.system += ((entry.seq, said.text),)

    def _check_system(self, entry: Entry) -> None:
        _system_text(entry)
        if entry.replaces and self._system_index(entry):
            self._range(entry)

    def _system_index(self, entry: Entry) -> int:
        first = entry.replaces[0] if entry.replaces else -1
        for index, (seq, _) in enumerate(self.system):
            if seq == first:
                return index
        raise ValueError(f"it replaces {first}, which is no system message")

    def _header(self, entry: Entry) -> None:
        self.header = entry.data

    def _route(self, entry: Entry) -> None:
        self.route = entry.data

    def _model(self, entry: Entry) -> None:
        self.model = entry.data["model"]

    def _thinking(self, entry: Entry) -> None:
        self.thinking = entry.data["thinking"]

    def _tools(self, entry: Entry) -> None:
        self.tools = tuple(entry.data["tools"])


def _seen(said: Message) -> Message | None:
    """Return what the model sees of a custom message; a rule that fails later on makes no log unreadable."""
    try:
        return to_llm(said)
    except ValueError:
        return as_user(cast(CustomMessage, said))


def _system_text(entry: Entry) -> str:
    content = entry.data["message"]["content"]
    return cast(str, content[0]["text"]) if content else ""


def _call(said: Message) -> tuple[Any, ...]:
    """Return what a result that replaces another has in common with it."""
    return said["role"], said.get("call_id"), said.get("tool"), said.get("is_error")


FOLD: dict[str, Callable[[Context, Entry], Any]] = {
    "user/message": Context._message,
    "assistant/message": Context._message,
    "tool/result": Context._message,
    "custom_message": Context._message,
    "compaction": Context._compacted,
    "branch_summary": Context._branch_summary,
    "system/message": Context._system,
    "request/header": Context._header,
    "request/context": Context._route,
    "model_change": Context._model,
    "thinking_level_change": Context._thinking,
    "active_tools_change": Context._tools,
}
CHECKS: dict[str, Callable[[Context, Entry], object]] = {
    "user/message": Context._check_message,
    "assistant/message": Context._check_message,
    "tool/result": Context._check_message,
    "custom_message": Context._check_message,
    "compaction": Context._check_compacted,
    "branch_summary": lambda _view, entry: branch_message(entry.data, entry.time),
    "system/message": Context._check_system,
    "model_change": lambda _view, entry: entry.data["model"],
    "thinking_level_change": lambda _view, entry: entry.data["thinking"],
    "active_tools_change": lambda _view, entry: tuple(entry.data["tools"]),
}
"""What the fold of a type needs, found out beforehand."""

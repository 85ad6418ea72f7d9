"""Random logs that follow the rules of a session, and everything that a session folds from its log."""

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, get_args

from hypothesis import strategies as st

from turnchart.machine.entries import Entry, Frozen, freeze
from turnchart.machine.errors import AppendRefused
from turnchart.machine.inbox import MODES, Item, Origin, home
from turnchart.machine.messages import AssistantMessage, ToolCall, ToolResultMessage, UserMessage
from turnchart.machine.session import Session
from turnchart.machine.stores import MemoryStore, Store

ORIGINS: tuple[Origin, ...] = get_args(Origin)

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
TEXTS = st.lists(st.text(), min_size=1, max_size=3)

Act = tuple[str, Any]
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("advance"), st.integers(0, 3)),
        st.tuples(st.just("insert"), st.tuples(st.sampled_from(ORIGINS), TEXTS)),
        st.tuples(st.just("claim"), st.tuples(st.booleans(), st.sampled_from(MODES), st.sampled_from(MODES))),
        st.tuples(st.just("write"), st.tuples(st.integers(0, 6), JSON)),
        st.tuples(st.just("navigate"), st.integers(-1, 30)),
        st.tuples(st.just("replace"), st.tuples(st.integers(0, 5), st.integers(0, 5), st.text())),
    ),
    max_size=40,
)
"""What ``history`` does, in order; what the rules refuse at that moment is left out."""


def history(acts: Sequence[Act], store: Store | None = None) -> Session:
    """Return the session in which these acts were done."""
    ticks = count()
    session = Session(store, now=lambda: 1790000000.0 + next(ticks) / 7)
    for name, given in acts:
        try:
            _DO[name](session, given)
        except AppendRefused:
            continue
    return session


def folds(session: Session) -> dict[str, Any]:
    """Return everything that a session folds from its log, with the types of its messages."""
    view, inbox, brackets = session.view, session.inbox, session.brackets
    return {
        "entries": session.entries,
        "leaf": session.leaf,
        "messages": [(type(said), said) for said in view.messages()],
        "llm": [(type(said), said) for said in view.llm_messages()],
        "view": {name: getattr(view, name) for name in view.__slots__ if not name.startswith("_")},
        "queued": inbox.queued(),
        "claimed": inbox.claimed,
        "brackets": {name: getattr(brackets, name) for name in brackets.__slots__},
    }


def lines(entries: Sequence[Entry]) -> list[str]:
    """Return what a store keeps of these entries."""
    return [entry.line() for entry in entries]


class Kept(MemoryStore):
    """Remembers what it took, and refuses what it is told to."""

    def __init__(self, entries: Iterable[Entry] = (), refuse: Exception | None = None) -> None:
        super().__init__("kept")
        self.entries = list(entries)
        self.refuse = refuse

    def load(self) -> Iterable[Entry]:
        return tuple(self.entries)

    def append(self, entry: Entry) -> None:
        if self.refuse is not None:
            raise self.refuse
        self.entries.append(entry)


def item(id: str, origin: Origin = "steer", *texts: str) -> Item:
    """Return an item of messages with the ids ``<id>.0``, ``<id>.1``, ..."""
    said = texts or (id,)
    return Item(id, origin, tuple(UserMessage(text, id=f"{id}.{i}") for i, text in enumerate(said)))


def turn(session: Session, *calls: str) -> None:
    """Log a turn up to an answer that asks for these tools."""
    session.append("turn/start", Frozen(turn=session.brackets.turn + 1))
    session.append("step/start", Frozen(turn=session.brackets.turn, step=1))
    said = AssistantMessage([ToolCall("add", id=call) for call in calls] or "done")
    here = {"turn": session.brackets.turn, "step": 1}
    session.append("assistant/message", Frozen(message=said, stream=(), **here), attempt=1)


def put(session: Session, id: str, origin: Origin, *texts: str) -> None:
    """Log that an item came in."""
    made = item(id, origin, *texts)
    session.append("agent/inbox/spliced", session.inbox.insert(home(made), made))


def claim(session: Session) -> None:
    """Log a claim that opens a turn."""
    for splice in session.inbox.claim(opens=True, steering="all", follow_up="one-at-a-time"):
        session.append("agent/inbox/spliced", splice.data)


def reopened(session: Session) -> Session:
    """Return what another program finds in the store of a session."""
    assert isinstance(session.store, Kept)
    return Session(Kept(session.store.entries))


# -- the acts ----------------------------------------------------------------------------------


def _insert(session: Session, given: tuple[Origin, list[str]]) -> None:
    origin, texts = given
    made = item(f"i{len(session.entries)}", origin, *texts)
    session.append("agent/inbox/spliced", session.inbox.insert(home(made), made))


def _claim(session: Session, given: tuple[bool, Any, Any]) -> None:
    opens, steering, follow_up = given
    if session.brackets.turn_open:
        for splice in session.inbox.claim(opens=opens, steering=steering, follow_up=follow_up):
            session.append("agent/inbox/spliced", splice.data)


def _advance(session: Session, way: int) -> None:
    """Do what comes next in a turn; ``way`` chooses where there is a choice."""
    at = session.brackets
    here = {"turn": at.turn, "step": at.step}
    if not at.turn_open:
        session.append("turn/start", Frozen(turn=at.turn + 1))
    elif not at.step_open and way:
        session.append("step/start", Frozen(turn=at.turn, step=at.step + 1))
    elif not at.step_open:
        session.append("turn/end", Frozen(turn=at.turn, reason="completed", steps=at.step))
    elif session.inbox.claimed and way:
        session.append("user/message", Frozen(message=session.inbox.claimed[0].messages[0], **here))
    elif at.calls and way:
        _tool(session, here)
    elif way:
        calls = [ToolCall("add", {"n": i}, id=f"c{at.turn}.{at.step}.{i}") for i in range(way)]
        said = AssistantMessage(calls, model="m", stop_reason="tool_calls")
        session.append("assistant/message", Frozen(message=said, stream=(), **here), attempt=1)
    else:
        session.append("step/end", Frozen(here))


def _tool(session: Session, here: dict[str, int]) -> None:
    call_id, (state, tool) = next(iter(session.brackets.calls.items()))
    if state == "asked":
        called = Frozen(call_id=call_id, tool=tool, arguments=Frozen(), execution="exclusive", **here)
        session.append("tool/call", called)
    else:
        said = ToolResultMessage(call_id, tool, "3")
        session.append("tool/result", Frozen(message=said, outcome="ok", **here))


def _write(session: Session, given: tuple[int, Any]) -> None:
    kind, value = given
    here = {"turn": session.brackets.turn, "step": session.brackets.step}
    writes: tuple[Callable[[], object], ...] = (
        lambda: session.append_custom("mine", value),
        lambda: session.append_custom_message("mine", f"{value}"),
        lambda: session.set_name(f"{value}"),
        lambda: session.append("model_change", Frozen(model=f"{value}")),
        lambda: session.append("active_tools_change", Frozen(tools=(f"{value}",))),
        lambda: session.append("of another program", Frozen(value=freeze(value)), ignorable=True),
        lambda: session.append("system/message", Frozen(message=_prompt(f"{value}"), **here)),
    )
    writes[kind]()


def _prompt(text: str) -> Frozen:
    return Frozen(role="system", content=(Frozen(type="text", text=text),))


def _navigate(session: Session, seq: int) -> None:
    if seq < len(session.entries):
        session.navigate(None if seq < 0 else seq)


def _replace(session: Session, given: tuple[int, int, str]) -> None:
    first, last, text = given
    seqs = [node.seq for node in session.view.nodes]
    if first <= last < len(seqs):
        session.append(
            "user/message",
            Frozen(message=UserMessage(text)),
            replaces=(seqs[first], seqs[last]),
            sources=tuple(seqs[first : last + 1]),
        )


_DO: dict[str, Callable[[Session, Any], None]] = {
    "advance": _advance, "insert": _insert, "claim": _claim, "write": _write, "navigate": _navigate,
    "replace": _replace,
}  # fmt: skip

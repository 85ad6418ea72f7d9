"""What the order of entries cannot say: books that are kept while a log is read.

``Fields`` looks at each entry alone, ``Turns`` counts turns and steps, ``Requests`` attempts, headers and
retries. Beside them stand ``queue_book`` (every message from the inbox into the conversation) and
``call_book`` (every tool call to its result). A book is shown each entry that the automaton has let pass; it
answers with what is wrong, or takes the entry in.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple, cast

from turnchart.machine.automaton import RECOVERED
from turnchart.machine.chart import BROKEN, CUT
from turnchart.machine.entries import ENTRIES, Entry


class Wrong(NamedTuple):
    """What is wrong with an entry, and what would have been right."""

    text: str
    expected: str


Rule = Callable[[Entry], Wrong | None]


class Book:
    """Rules by entry type. A subclass fills ``rules`` in; a type without a rule is taken as it is."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self._rules = rules

    def take(self, entry: Entry) -> Wrong | None:
        """Take the next entry in, or say what is wrong with it."""
        rule = self._rules.get(entry.type)
        return rule(entry) if rule else None


class Fields(Book):
    """Every field that the catalogue demands is there, and has the type that the other books need."""

    def __init__(self) -> None:
        super().__init__({})

    def take(self, entry: Entry) -> Wrong | None:
        """Say which field is missing or has a wrong type, if one is."""
        for name in _demanded(entry.type):
            if name not in entry.data:
                return Wrong(f"field `{name}` is missing", ENTRIES[entry.type])
        for name, type in _TYPES.items():
            value = entry.data.get(name)
            if value is not None and not isinstance(value, type):
                return Wrong(f"field `{name}` is {value!r}", _TYPE_NAMES[type])
        return None


class Turns(Book):
    """Turns and steps: their numbers, and that every entry names the open ones.

    Attributes:
        number: The turn that is open, or was last.
        open: A turn is open.
        step: How many steps the turn has; the open one is the last.
        step_open: A step is open.
    """

    def __init__(self) -> None:
        self.number = self.step = 0
        self.open = self.step_open = False
        super().__init__({
            "turn/start": self._turn_starts, "turn/end": self._turn_ends,
            "step/start": self._step_starts, "step/end": self._step_ends,
        })  # fmt: skip

    def take(self, entry: Entry) -> Wrong | None:
        """Take the next entry in, or say what is wrong with it."""
        rule = self._rules.get(entry.type)
        return rule(entry) if rule else self._named(entry)

    def _turn_starts(self, entry: Entry) -> Wrong | None:
        if entry.data["turn"] != self.number + 1:
            return differs("turn", entry.data["turn"], self.number + 1)
        self.number, self.open, self.step = self.number + 1, True, 0
        return None

    def _turn_ends(self, entry: Entry) -> Wrong | None:
        given, steps = entry.data["turn"], entry.data["steps"]
        if not self.open:
            return Wrong("no turn is open", "turn/start")
        if self.step_open:
            return Wrong(f"step {self.step} is still open", "step/end")
        if given != self.number:
            return differs("turn", given, self.number)
        if steps != self.step:
            return differs("steps", steps, self.step)
        self.open = False
        return None

    def _step_starts(self, entry: Entry) -> Wrong | None:
        given = (entry.data["turn"], entry.data["step"])
        if given != (self.number, self.step + 1):
            return differs("turn, step", given, (self.number, self.step + 1))
        self.step, self.step_open = self.step + 1, True
        return None

    def _step_ends(self, entry: Entry) -> Wrong | None:
        given = (entry.data["turn"], entry.data["step"])
        if not self.step_open:
            return Wrong("no step is open", "step/start")
        if given != (self.number, self.step):
            return differs("turn, step", given, (self.number, self.step))
        self.step_open = False
        return None

    def _named(self, entry: Entry) -> Wrong | None:
        if not self.open or entry.replaces is not None:
            return None
        turn, step = entry.data.get("turn"), entry.data.get("step")
        if turn is not None and turn != self.number:
            return differs("turn", turn, self.number)
        proposed = self.step + 1 if entry.type == "hook/result" and not self.step_open else self.step
        if step is not None and step not in (self.step, proposed):
            return differs("step", step, self.step)
        return None


class Requests(Book):
    """Attempts, headers, system messages and retries.

    Attributes:
        header: The data of the last ``request/header``.
    """

    def __init__(self) -> None:
        self.header: Mapping[str, Any] | None = None
        self._attempts = 0
        self._system: Any = None
        self._retry: Any = None
        self._answered = self._interrupted = False
        super().__init__({
            "step/start": self._starts, "turn/end": self._ends, "leaf": self._moves,
            "request/header": self._header, "system/message": self._system_message,
            "assistant/message": self._settles, "assistant/attempt": self._settles,
            "llm/retry": self._announces, "llm/retry-started": self._retries,
        })  # fmt: skip

    def take(self, entry: Entry) -> Wrong | None:
        """Take the next entry in, or say what is wrong with it."""
        if entry.replaces is not None and entry.type != "system/message":
            self._system = None  # what said the prompt may be among what it replaces
        return super().take(entry)

    def _starts(self, _entry: Entry) -> Wrong | None:
        self._attempts, self._retry = 0, None
        self._answered = self._interrupted = False
        return None

    def _header(self, entry: Entry) -> Wrong | None:
        data = entry.data
        again = self.header is not None and _envelope(data) == _envelope(self.header)
        if again and not data.get("starts_series") and data["reason"] not in ("resume", "series"):
            return Wrong("it repeats the last header and starts no series", "a header that differs, or none")
        self.header = data
        return None

    def _system_message(self, entry: Entry) -> Wrong | None:
        said = entry.data["message"].get("content")
        if entry.replaces is None and self._system is not None and said == self._system:
            return Wrong("the prompt says so already", "a prompt that differs, or none")
        self._system = said
        return None

    def _moves(self, _entry: Entry) -> Wrong | None:
        self._system = None
        return None

    def _settles(self, entry: Entry) -> Wrong | None:
        if self.header is None:
            return Wrong("no request header was logged before", "request/header")
        if self._answered:
            return Wrong("the step has its answer", "step/end, after the calls that the answer asks for")
        if self._retry is not None:
            return Wrong(f"retry {self._retry} was announced and has not started", "llm/retry-started")
        if entry.attempt != self._attempts + 1:
            return differs("attempt", entry.attempt, self._attempts + 1)
        self._attempts += 1
        self._answered = entry.type == "assistant/message"
        self._interrupted = bool(entry.data.get("interrupted"))
        return None

    def _announces(self, entry: Entry) -> Wrong | None:
        self._retry = entry.data["retry"]
        return None

    def _retries(self, entry: Entry) -> Wrong | None:
        given = entry.data["retry"]
        if self._retry is None or given != self._retry:
            due = "no retry was announced" if self._retry is None else f"retry {self._retry} was announced"
            return Wrong(f"retry {given} starts, but {due}", "llm/retry first, with the same number")
        self._retry = None
        return None

    def _ends(self, entry: Entry) -> Wrong | None:
        allowed = (*CUT, *BROKEN, RECOVERED)
        if self._interrupted and entry.data["reason"] not in allowed:
            return Wrong("the last answer was interrupted", f"a reason among {', '.join(allowed)}")
        self._interrupted = False
        return None


_TYPES: Mapping[str, type] = {
    "turn": int, "step": int, "steps": int, "start": int, "removed_count": int, "message": Mapping,
}  # fmt: skip
_TYPE_NAMES: Mapping[type, str] = {int: "a whole number", Mapping: "an object"}


@cache
def _demanded(type: str) -> tuple[str, ...]:
    fields = ENTRIES.get(type, "").split(";")[0]
    return tuple(name for name in fields.replace(" ", "").split(",") if name and not name.endswith("?"))


def differs(name: str, given: object, due: object) -> Wrong:
    """Return that a field has one value where another was due."""
    return Wrong(f"`{name}` is {_shown(given)}", _shown(due))


def as_object(value: Any) -> Mapping[str, Any]:
    """Return a JSON object as it is, and anything else as an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def as_list(value: Any) -> "tuple[Any, ...] | list[Any]":
    """Return a JSON list as it is, and anything else as an empty one."""
    return cast("tuple[Any, ...]", value) if isinstance(value, tuple | list) else ()


def _shown(value: object) -> str:
    return ", ".join(map(str, cast("tuple[object, ...]", value))) if isinstance(value, tuple) else str(value)


def _envelope(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name in _HEADER}


_HEADER = ("model", "settings", "thinking", "tools", "defaults")

"""What a state or a row *says*: the arrows, notes and blocks of the sequence view, as data.

A line is drawn and it is performed: ``does`` names the log entries, live signals and hook points behind it.
The driver may perform nothing that no line names, and the picture is made of these lines alone, so what
runs and what is drawn cannot differ.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Literal, NamedTuple

Times = Literal["1", "?", "*"]
"""How often each name in ``does`` happens where its line stands: once, at most once, any number of times."""


class Part(StrEnum):
    """Participants of the sequence view in drawing order; the value is how each is introduced."""

    USER = "User"
    AGENT = "Agent"
    DRIVER = "Driver"
    HOOKS = "Hooks as hook listeners"
    PROMPT = "Prompt as ctx.systemPrompt"
    LLM = "LLM as ctx.llm"
    TOOLS = "Tools as ctx.tools"
    SESSION = "Session"
    SDK = "SDK as UI or SDK listener"

    @property
    def id(self) -> str:
        """The identifier that arrows use."""
        return self.value.split(" ", 1)[0]


class Kind(StrEnum):
    """What a line performs: a call, a reply, a log entry, a hook chain or a live signal."""

    CALL = "call"
    REPLY = "reply"
    LOG = "log"
    HOOK = "hook"
    EMIT = "emit"


class Arrow(NamedTuple):
    """One arrow of the sequence view, and what stands behind it."""

    kind: Kind
    source: Part
    target: Part
    label: str
    does: tuple[str, ...] = ()
    times: Times = "1"
    again: bool = False
    """Drawn again where a walk comes back to the state."""
    dashed: bool = False
    """Drawn dashed although its kind is not."""


class Note(NamedTuple):
    """A remark over two participants; performs nothing."""

    left: Part
    right: Part
    text: str
    again: bool = False


class Silent(NamedTuple):
    """Performed, but not drawn in the bare sequence view; ``--detail`` draws it."""

    kind: Kind
    does: tuple[str, ...]
    times: Times = "1"
    reason: str = ""
    """Why the bare view leaves it out."""
    anywhere: bool = False
    """May happen at any moment while the state lasts, not only where the line stands."""


class Block(NamedTuple):
    """An ``opt`` or ``loop`` inside one state. Alternatives between states come from the rows."""

    kind: Literal["opt", "loop"]
    label: str
    lines: tuple["Line", ...]


Line = Arrow | Note | Silent | Block


def call(source: Part, target: Part, label: str, *, does: tuple[str, ...] = (), times: Times = "1") -> Arrow:
    """Return a call from one participant to another."""
    return Arrow(Kind.CALL, source, target, label, does, times)


def reply(source: Part, target: Part, label: str, *, again: bool = False) -> Arrow:
    """Return an answer; it is drawn dashed and performs nothing."""
    return Arrow(Kind.REPLY, source, target, label, again=again)


def log(
    *types: str,
    source: Part = Part.DRIVER,
    target: Part = Part.SESSION,
    label: str = "",
    text: str = "",
    times: Times = "1",
    dashed: bool = False,
) -> Arrow:
    """Return the arrow of one or more log entries, labelled with their types unless ``label`` is given."""
    return Arrow(Kind.LOG, source, target, label or _label(types, text), types, times, dashed=dashed)


def emit(
    name: str, text: str = "", *, source: Part = Part.DRIVER, times: Times = "1", again: bool = False
) -> Arrow:
    """Return the arrow of a live signal. ``name`` may carry a variant: ``agent/status running``."""
    shown = name.split(" ", 1)[0]
    return Arrow(Kind.EMIT, source, Part.SDK, _label((shown,), text), (name,), times, again=again)


def hook(
    point: str,
    target: Part,
    shown: str,
    text: str = "waterfall",
    *,
    again: bool = False,
) -> Arrow:
    """Return the arrow of a hook chain: ``point`` is ours, ``shown`` the name that the picture uses."""
    return Arrow(Kind.HOOK, Part.DRIVER, target, _label((shown,), text), (point,), again=again)


def silent(kind: Kind, *does: str, times: Times = "1", reason: str, anywhere: bool = False) -> Silent:
    """Return a line that is performed and not drawn, with the reason."""
    return Silent(kind, does, times, reason, anywhere)


def opt(label: str, *lines: Line) -> Block:
    """Return lines that may or may not happen."""
    return Block("opt", label, lines)


def loop(label: str, *lines: Line) -> Block:
    """Return lines that repeat."""
    return Block("loop", label, lines)


def names(lines: Iterable[Line]) -> tuple[str, ...]:
    """Return everything that these lines perform, in order, blocks flattened."""
    found: list[str] = []
    for line in lines:
        if isinstance(line, Block):
            found += names(line.lines)
        elif not isinstance(line, Note):
            found += line.does
    return tuple(found)


def _label(shown: tuple[str, ...], text: str) -> str:
    return " ".join((" and ".join(f"`{name}`" for name in shown), text)).strip()

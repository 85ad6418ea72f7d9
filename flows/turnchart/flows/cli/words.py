"""A log in words: one line an entry, and text that no terminal takes for a command."""

import json
import unicodedata
from collections.abc import Callable, Mapping
from time import localtime, strftime
from typing import Any, Final, NamedTuple

from turnchart.machine.entries import Entry

SHORT: Final = 160
"""So many characters of a text are shown on one line."""

_PICTURES: Final = 0x2400
"""Where Unicode keeps the pictures of the control characters: U+001B is shown as U+241B."""
_TURNS_ROUND: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def plain(text: str) -> str:
    """Return text without what would move the cursor, colour the terminal or turn a line round.

    Line ends and tabs stay. It goes character by character, so a stream may be given piece by piece.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join([char if char in "\n\t" else _shown(char) for char in text])


def escaped(json_text: str) -> str:
    """Return JSON that says the same, with escapes for what a terminal could take for a command."""
    if json_text.isascii():  # there it has escapes already
        return json_text.replace("\x7f", "\\u007f")
    return "".join(
        [char if char == "\n" or _shown(char) == char else f"\\u{ord(char):04x}" for char in json_text]
    )


def _shown(char: str) -> str:
    if char in _TURNS_ROUND:
        return "\N{REPLACEMENT CHARACTER}"
    if unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp"):
        return char
    if char < " ":
        return chr(_PICTURES + ord(char))
    return "\N{SYMBOL FOR DELETE}" if char == "\x7f" else "\N{REPLACEMENT CHARACTER}"


def one_line(text: str, most: int | None = SHORT) -> str:
    """Return text on one line, cut where it is long; a terminal can show it."""
    line = " ".join(plain(text).split())
    return line if most is None or len(line) <= most else f"{line[: most - 1]}…"


def moment(time: float, form: str) -> str:
    """Return Unix seconds as local time; a question mark for a time that no calendar has."""
    try:
        return strftime(form, localtime(time))
    except (OverflowError, ValueError, OSError):
        return "?"


def arguments(given: object, most: int | None = SHORT) -> str:
    """Return the arguments of a call on one line."""
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)
    return one_line(text, most)


def text_of(message: Mapping[str, Any]) -> str:
    """Return the text of a message, and a word for each part that is none."""
    shown = {"image": "[image]", "thinking": ""}
    parts = (block.get("text", shown.get(block["type"], "")) for block in message["content"])
    return "".join(parts)


def why(error: Exception) -> str:
    """Return what went wrong; of what the system refused, where and why, without its number."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


def failure(data: Mapping[str, Any]) -> str:
    """Return an error or a failed request, as the log keeps it, in words."""
    return one_line(": ".join(part for part in (data.get("kind", ""), data.get("message", "")) if part))


def attempted(data: Mapping[str, Any]) -> str:
    """Return why an attempt came to nothing."""
    return failure(data.get("failure") or {"message": "cut off"})


def ended(data: Mapping[str, Any]) -> str:
    """Return how a turn ended, and after how many steps."""
    steps = data.get("steps", 0)
    return f"{data['reason']} after {steps} {'step' if steps == 1 else 'steps'}"


class Words(NamedTuple):
    """An entry in words: what it is, and what it says."""

    label: str
    text: str


MALFORMED: Final = (KeyError, TypeError, AttributeError, ValueError, IndexError)
"""What is raised where an entry that was imported, or changed by hand, lacks what others of its type have."""


def words(entry: Entry) -> Words | None:
    """Return an entry in words; None where it is only of use to the machine."""
    if entry.type in _HIDDEN:
        return None
    say = _SAY.get(entry.type)
    try:
        return _as_json(entry) if say is None else say(entry.data)
    except MALFORMED:
        return _as_json(entry)


def _as_json(entry: Entry) -> Words:
    return Words(one_line(entry.type), arguments(entry.data))


_HIDDEN: Final = frozenset(
    ("step/end", "request/header", "request/context", "request/rewritten", "llm/retry-started")
)


def _turn_end(data: Mapping[str, Any]) -> Words:
    said = ended(data)
    if data.get("cause"):
        said += f", cut off: {one_line(data['cause'])}"
    if data.get("error"):
        said += f": {failure(data['error'])}"
    return Words("end", said)


def _assistant(data: Mapping[str, Any]) -> Words:
    message = data["message"]
    asks = [f"[{block['name']}]" for block in message["content"] if block["type"] == "tool_call"]
    cut = ["(interrupted)"] if data.get("interrupted") else []
    return Words("assistant", one_line(" ".join([text_of(message), *asks, *cut])))


def _user(data: Mapping[str, Any]) -> Words:
    message = data["message"]
    source = message.get("source")
    return Words(f"user ({one_line(source, 40)})" if source else "user", one_line(text_of(message)))


def _result(data: Mapping[str, Any]) -> Words:
    message = data["message"]
    return Words("result", one_line(f"{message['tool']} {data['outcome']}: {text_of(message)}"))


def _spliced(data: Mapping[str, Any]) -> Words | None:
    said = [text_of(message) for item in data.get("inserted", ()) for message in item["messages"]]
    if said:
        return Words("inbox", one_line(f"{data['target']}: {' | '.join(said)}"))
    if data.get("outcome"):
        return Words("inbox", f"{data['removed_count']} {data['outcome']}")
    return None


def only_wrote(data: Mapping[str, Any]) -> bool:
    """Tell whether a hook had no opinion, and is in the log for what it wrote to stderr."""
    from turnchart.machine.verdict import acted  # a check, which takes words from here, runs no hooks

    return not acted(data)


def hook_result(data: Mapping[str, Any], most: int | None = 2 * SHORT) -> str:
    """Return what a hook did: its point, its name and line, and what it decided, changed or failed at.

    Of what it wrote to stderr the last line is told.
    """
    where = f" ({data['where']})" if data.get("where") else ""
    did = [data.get("decision") or "", data.get("reason") or ""]
    if data.get("error") and str(data["error"]) not in str(did[1]):  # else it is the denial
        did.append(f"failed: {data['error']}")
    if data.get("changed"):
        did.append(f"changed {', '.join(data['changed'])}")
    wrote = str(data.get("stderr") or "").strip()
    if wrote:
        did.append(f"stderr: {wrote.splitlines()[-1]}")
    return one_line(f"{data['point']} {data['id']}{where}: {': '.join(part for part in did if part)}", most)


def retry(data: Mapping[str, Any]) -> str:
    """Return when and why a request is tried again."""
    model = f" with {one_line(data['model'])}" if data.get("model") else ""
    return f"{data['kind']}: again in {data['after']:.3g} s{model} (retry {data['retry']}, {data['by']})"


def _attempt(data: Mapping[str, Any]) -> Words:
    return Words("attempt", f"failed: {failure(data['failure'])}" if data.get("failure") else "cut off")


def _decided(data: Mapping[str, Any]) -> Words:
    reason = f": {one_line(data['reason'])}" if data.get("reason") else ""
    return Words("answer", f"{data['outcome']}{reason}")


def _info(data: Mapping[str, Any]) -> Words:
    return Words("session", one_line(", ".join(f"{name} {value}" for name, value in data.items() if value)))


def _label(data: Mapping[str, Any]) -> Words:
    return Words("label", f"{data['target']}: {one_line(data['text']) if data.get('text') else 'none'}")


def _custom(data: Mapping[str, Any]) -> Words:
    return Words("custom", one_line(f"{data['kind']}: {json.dumps(data['data'], ensure_ascii=False)}"))


_SAY: Final[Mapping[str, Callable[[Mapping[str, Any]], Words | None]]] = {
    "turn/start": lambda data: Words("turn", str(data["turn"])),
    "turn/end": _turn_end,
    "step/start": lambda data: Words("step", str(data["step"])),
    "system/message": lambda data: Words("system", one_line(text_of(data["message"]))),
    "user/message": _user,
    "custom_message": lambda data: Words("custom", one_line(text_of(data["message"]))),
    "assistant/message": _assistant,
    "assistant/attempt": _attempt,
    "tool/call": lambda data: Words("call", f"{one_line(data['tool'])} {arguments(data['arguments'])}"),
    "tool/result": _result,
    "agent/inbox/spliced": _spliced,
    "hook/result": lambda data: Words("hook", hook_result(data)),
    "approval/asked": lambda data: Words("asks", f"{one_line(data['tool'])}: {one_line(data['reason'])}"),
    "approval/decided": _decided,
    "llm/retry": lambda data: Words("retry", retry(data)),
    "session_info": _info,
    "compaction": lambda data: Words("compacted", one_line(data["summary"])),
    "branch_summary": lambda data: Words("summary", one_line(data["summary"])),
    "model_change": lambda data: Words("model", one_line(data["model"])),
    "thinking_level_change": lambda data: Words("thinking", one_line(str(data["thinking"]))),
    "active_tools_change": lambda data: Words("tools", one_line(", ".join(data["tools"]) or "none")),
    "label": _label,
    "custom": _custom,
}

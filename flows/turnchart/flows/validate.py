"""From nodes to models: what pydantic finds wrong becomes problems with a place and a cure."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from turnchart.flows import schema
from turnchart.flows.interpolate import Filled, fill, has_references
from turnchart.flows.problems import Problem, meant, nearest, quoted, sentence
from turnchart.flows.source import AnyNode, ListNode, MapNode, NotFinite, Scalar, scalars, value_of

M = TypeVar("M", bound=BaseModel)
Loc: TypeAlias = tuple[str | int, ...]


class Found(NamedTuple):
    """Where a ``loc`` leads: the key node, the value, and the parts that were followed."""

    key: Scalar | None
    value: AnyNode
    loc: Loc
    exact: bool
    """Every part was followed."""


def find(node: AnyNode, loc: Sequence[str | int]) -> Found:
    """Follow a ``loc`` of pydantic through the nodes.

    A part that is not there (a missing key, a short form, the tag of a foreign union) is passed over.
    """
    key: Scalar | None = None
    followed: list[str | int] = []
    for part in loc:
        if isinstance(node, MapNode) and isinstance(part, str) and part in node.fields:
            key, node = node.fields[part]
        elif isinstance(node, ListNode) and isinstance(part, int) and part < len(node.items):
            key, node = None, node.items[part]
        else:
            continue
        followed.append(part)
    return Found(key, node, tuple(followed), len(followed) == len(loc))


def dotted(loc: Sequence[str | int]) -> str:
    """Return a place as people write it: ``hooks.pre_tool[1].with.patterns[0]``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return text.removeprefix(".")


def shown(node: AnyNode) -> str:
    """Return what a value is, for a message; references stay unexpanded, so that no secret is printed."""
    if isinstance(node, MapNode):
        return "a map"
    if isinstance(node, ListNode):
        return "a list"
    if node.style != "plain" or isinstance(value_of(node.text), str):
        return quoted(node.text)
    return node.text if value_of(node.text) is not None else "empty"


@dataclass(slots=True, eq=False)
class Reading:
    """Collects what is wrong while nodes become data and data becomes models.

    Attributes:
        env: The variables; None leaves every reference unknown.
        problems: What was found so far.
        references: ``${env:NAME}`` is filled in; where not, it is text like any other.
        unexpanded: What holds references stays as it is written, and is not judged.
        params: The params that the flow declares, with their values; None where nobody gave one.
    """

    env: Mapping[str, str] | None
    problems: list[Problem] = field(default_factory=list[Problem])
    references: bool = True
    unexpanded: bool = False
    params: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    _unknown: set[int] = field(default_factory=set[int])

    def plain(self, node: AnyNode) -> Any:
        """Return the content as plain data with references filled in; what is unknown is None."""
        if isinstance(node, MapNode):
            return {key: self.plain(value) for key, (_, value) in node.fields.items()}
        if isinstance(node, ListNode):
            return [self.plain(item) for item in node.items]
        if node.broken:
            self._unknown.add(id(node))
            return None
        if self.references and has_references(node):
            text, problems = fill(node, self.env, self.params)
            self.problems += problems
            if text is None or self.unexpanded:
                self._unknown.add(id(node))
                return node.text if self.unexpanded else None
            return text if node.style == "block" else Filled(text)
        return value_of(node.text) if node.style == "plain" else node.text

    def unknown(self, node: AnyNode) -> bool:
        """Tell whether the value could not be known, so that nothing that follows from it is reported."""
        return id(node) in self._unknown

    def knows(self, node: AnyNode) -> bool:
        """Tell whether every value below a node is known."""
        return not any(id(each) in self._unknown for each in scalars(node))

    def valid(self, model: type[M], node: AnyNode, loc: Loc, data: Any) -> M | None:
        """Return data as a model, without the keys that are wrong; None where too little is left.

        Args:
            model: What it should be.
            node: Where the data stands.
            loc: The way from the root of the file to there.
            data: The plain data of the node.
        """
        try:
            return model.model_validate(data)
        except ValidationError as error:
            found = error.errors(include_url=False)
        data, again = _retyped(data, found)
        if again:
            return self.valid(model, node, loc, data)
        misspelt = {each["loc"][:-1] for each in found if each["type"] == "extra_forbidden"}
        told: set[int] = set()
        for each in found:
            if each["type"] == "missing" and each["loc"][:-1] in misspelt and _near(each, found):
                continue
            at = find(node, each["loc"])
            if not at.exact and each["type"] != "missing" and id(at.value) in told:
                continue  # the other branches of a union say the same
            told.add(id(at.value))
            self._report(model, node, loc, each["type"], tuple(each["loc"]), each["msg"], each.get("ctx", {}))
        wrong = {each["loc"][0] if each["loc"] else None for each in found}
        if None in wrong or not isinstance(data, dict):
            return None
        rest: dict[str, Any] = {key: value for key, value in data.items() if key not in wrong}  # pyright: ignore[reportUnknownVariableType]  # plain data
        try:
            return model.model_validate(rest)
        except ValidationError:
            return None

    def _report(
        self,
        model: type[BaseModel],
        node: AnyNode,
        at: Loc,
        kind: str,
        loc: Loc,
        text: str,
        ctx: Mapping[str, Any],
    ) -> None:
        found = find(node, loc)
        if self.unknown(found.value):
            return
        whole = (*at, *loc)
        if kind == "extra_forbidden" and found.key is not None:
            self.problems.append(
                unknown_key(found.key, whole[:-1], _keys_at(model, loc[:-1]), _beside(model, loc))
            )
        elif kind == "missing":
            self.problems.append(missing_key(found.value, whole, model, loc))
        else:
            self.problems.append(bad_value(found.value, (*at, *found.loc), kind, text, ctx))


def _retyped(data: Any, found: Sequence[ErrorDetails]) -> tuple[Any, bool]:
    """Read scalars that held references as if their text stood in the file, where text was wrong."""
    changed = False
    for each in found:
        if isinstance(each["input"], Filled):
            data, here = _read_again(data, each["loc"])
            changed = changed or here
    return data, changed


def _read_again(data: Any, loc: Sequence[str | int]) -> tuple[Any, bool]:
    if isinstance(data, Filled):
        meaning = _meaning(data)
        return (meaning, True) if meaning is not None and not isinstance(meaning, str) else (str(data), True)
    for i, part in enumerate(loc):
        try:
            inner, changed = _read_again(data[part], loc[i + 1 :])
        except (KeyError, IndexError, TypeError):
            continue  # the tag of a union
        if changed:
            data = data.copy()
            data[part] = inner
        return data, changed
    return data, False


def _near(missing: ErrorDetails, found: Sequence[ErrorDetails]) -> bool:
    """Tell whether a key is missing only because it is misspelt."""
    name, beside = str(missing["loc"][-1]), missing["loc"][:-1]
    return any(
        each["type"] == "extra_forbidden"
        and each["loc"][:-1] == beside
        and nearest(str(each["loc"][-1]), [name])
        for each in found
    )


def unknown_key(key: Scalar, inside: Loc, known: Sequence[str], more: str = "") -> Problem:
    """Return the problem of a key that does not exist there."""
    where = f"in {dotted(inside)}" if inside else "at the top of the file"
    help = sentence(meant(key.text, known), f"known keys: {', '.join(known)}" if known else "", more)
    return key.problem("unknown-key", f"unknown key {quoted(key.text)} {where}", help=help)


def missing_key(node: AnyNode, whole: Loc, model: type[BaseModel], loc: Loc) -> Problem:
    """Return the problem of a key that must be given, at the value that should have it."""
    field = model.model_fields.get(str(loc[0])) if len(loc) == 1 else None
    return node.problem(
        "missing-key", f"{dotted(whole)} is missing", help=(field and field.description) or ""
    )


def _keys_at(model: type[BaseModel], loc: Loc) -> list[str]:
    inner: type[BaseModel] | None = model
    for part in loc:
        if isinstance(part, str) and inner is not None:
            inner = _model_below(inner, part)
    return schema.known_keys(inner) if inner is not None else []


def _model_below(model: type[BaseModel], key: str) -> type[BaseModel] | None:
    for name, info in model.model_fields.items():
        if key == (info.alias or name):
            return _model_in(info.annotation)
    return None


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in get_args(annotation) if (found := _model_in(each))), None)


def _beside(model: type[BaseModel], loc: Loc) -> str:
    entry = model in (schema.HookEntry, schema.ToolEntry) and len(loc) == 1
    if loc[:1] == ("prompt",):
        return '(text that holds ": " goes in quotes)'
    return "(parameters stand below with:)" if entry else ""


# -- wrong values ---------------------------------------------------------------------------------

_TEXT = re.compile(r"\bstring\b")
_KINDS: Final[Mapping[str, str]] = {
    "int_type": "a whole number", "int_parsing": "a whole number", "int_from_float": "a whole number",
    "float_type": "a number", "float_parsing": "a number", "finite_number": "a finite number",
    "bool_type": "true or false", "bool_parsing": "true or false", "string_type": "text",
    "list_type": "a list", "tuple_type": "a list", "set_type": "a list", "dict_type": "a map",
    "model_type": "a map", "model_attributes_type": "a map", "dataclass_type": "a map",
    "greater_than": "more than {gt:g}", "greater_than_equal": "at least {ge:g}",
    "less_than": "less than {lt:g}", "less_than_equal": "at most {le:g}",
    "string_too_short": "not empty", "too_short": "a list that is not empty",
}  # fmt: skip
_REGEX: Final = ("regex", "pattern_regex")
_PATTERNS: Final[Mapping[str, str]] = {
    schema.VARIABLE: "the name of an environment variable",
    schema.TOOL_NAME: "a name of letters, digits, _ and -",
    schema.PARAM_NAME: "a name of letters, digits and _",
    schema.ADDRESS: "an address that begins with http:// or https://",
}
_YES: Final[Mapping[str, str]] = {
    "yes": "true",
    "on": "true",
    "y": "true",
    "no": "false",
    "off": "false",
    "n": "false",
}


def bad_value(node: AnyNode, loc: Loc, kind: str, text: str, ctx: Mapping[str, Any]) -> Problem:
    """Return the problem of a value of a wrong kind, from an error of pydantic."""
    name = dotted(loc) or "the file"
    if kind == "says":
        return node.problem("bad-value", f"{name} is {shown(node)}; {ctx['what']}", help=ctx["help"])
    own = _own_words(kind, text)
    if own:
        return node.problem("regex" if kind in _REGEX else "bad-value", f"{name}: {own}")
    known = _choices(kind, ctx)
    if known:
        must = f"one of: {', '.join(known)}" if len(known) > 1 else known[0]
        help = meant(node.text, known) if isinstance(node, Scalar) else ""
    else:
        must = _must(kind, text, ctx)
        help = _cure(node, str(loc[-1]) if loc else "", must)
    return node.problem("bad-value", f"{name} is {shown(node)}; it must be {must}", help=help)


def _own_words(kind: str, text: str) -> str:
    """Return what a validator of a hook or a tool says itself; nothing for the errors of pydantic's own."""
    if kind in ("value_error", "assertion_error"):
        return text.partition(", ")[2]
    if kind == "pattern_regex":
        return "not a valid regular expression"
    if kind in _KINDS or kind == "string_pattern_mismatch":
        return ""
    return "" if text.startswith("Input should be ") else text


def _choices(kind: str, ctx: Mapping[str, Any]) -> list[str]:
    if kind not in ("literal_error", "enum"):
        return []
    return re.findall(r"'([^']*)'", str(ctx.get("expected", "")))


def _must(kind: str, text: str, ctx: Mapping[str, Any]) -> str:
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(ctx["pattern"], f"text that matches {ctx['pattern']}")
    if kind in _KINDS:
        return _KINDS[kind].format_map(ctx)
    return _TEXT.sub("text", text.removeprefix("Input should be "))


def _cure(node: AnyNode, key: str, must: str) -> str:
    """Return what to write instead, where the mistake is one of the usual ones."""
    if isinstance(node, MapNode):
        return 'text that holds ": " goes in quotes' if must == "text" else _dash(must)
    if isinstance(node, ListNode):
        return "write one value, without brackets or dashes" if must == "text" else ""
    text = node.text
    if must == "a list":
        return _as_list(text, key)
    if must == "true or false" and text.lower() in _YES:
        return f"write {_YES[text.lower()]}"
    if must == "text":
        return f"put it in quotes: '{text}'" if text and "'" not in text else ""
    if must in ("a whole number", "a number") and node.style != "plain" and text.strip().isdecimal():
        return f"write {text.strip()} without quotes"
    return ""


def _dash(must: str) -> str:
    return "begin the entry with a dash: - key: value" if must == "a list" else ""


def _as_list(text: str, key: str) -> str:
    if not text:
        return "write [] for an empty list, or leave the key out"
    try:
        parts = shlex.split(text) if key in ("run", "command") else re.split(r"\s*[|,]\s*|\s+", text.strip())
    except ValueError:
        return "write a list, one argument an item"
    return f"write [{', '.join(flow_item(part) for part in parts)}]"


def flow_item(text: str) -> str:
    """Return text as an item of a list in brackets, in quotes where it needs them."""
    plain = re.fullmatch(r"[A-Za-z_./][\w./ -]*", text) is not None and isinstance(_meaning(text), str)
    return text if plain else "'" + text.replace("'", "''") + "'"


def _meaning(text: str) -> object:
    try:
        return value_of(text)
    except NotFinite:
        return None

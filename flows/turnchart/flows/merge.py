"""``extends``: a file and its parents become one tree, in which every value keeps its own file and line.

Maps merge key by key, everything else replaces. Three exceptions: ``permissions.deny`` and
``permissions.ask`` are the union with the parent's; a chain of hooks must say with ``inherit`` or
``replace`` what becomes of the parent's; an entry with the id of an inherited hook takes its place.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from turnchart.flows import schema
from turnchart.flows.paths import Place, beside, outside
from turnchart.flows.problems import Problem, quoted
from turnchart.flows.source import (
    AnyNode,
    Document,
    ListNode,
    MapNode,
    Mark,
    Scalar,
    Source,
    read_file,
    value_of,
)

_DEEPEST: Final = 20
INHERIT: Final = "inherit"
REPLACE: Final = "replace"
_NO_CHAINS: Final = ("prompt", "tools")
"""Lists in which somebody may hope that the words of chains mean something."""
_Pair = tuple[Scalar, AnyNode]


@dataclass(slots=True, eq=False)
class Merged:
    """A flow with its parents.

    Attributes:
        root: The merged tree; None where it makes no sense to read on.
        sources: The files it was made of, the flow's own first.
        problems: What is wrong so far.
    """

    root: MapNode | None = None
    sources: list[Source] = field(default_factory=list[Source])
    problems: list[Problem] = field(default_factory=list[Problem])


def read_merged(path: Path, name: str, place: Place) -> Merged:
    """Read a flow and the files that it extends, and merge them."""
    merged = Merged()
    merged.root = _read(path, name, place, merged, ())
    return merged


def _read(path: Path, name: str, place: Place, merged: Merged, below: tuple[Path, ...]) -> MapNode | None:
    document = read_file(path, name, empty_help="a flow begins with version: 1")
    merged.sources.append(document.source)
    merged.problems += document.problems
    root = _checked_root(document, merged.problems)
    if root is None:
        return None
    extends = root.get("extends")
    if extends is None or (isinstance(extends, Scalar) and extends.broken):
        return _without_parent(root, merged.problems)
    before = len(merged.problems)
    parent = _parent(extends, place, merged, (*below, path.resolve()))
    if parent is None:
        # Everything else would follow from the parent that is missing.
        merged.problems[:] = merged.problems[before:] or merged.problems
        return None
    return merge_maps(parent, root, merged.problems)


def _checked_root(document: Document, problems: list[Problem]) -> MapNode | None:
    root = document.root
    if root is None:
        return None
    if not isinstance(root, MapNode):
        if not (isinstance(root, Scalar) and root.broken):
            help = "a flow is a map: version: 1, name: ..., model: ..."
            problems.append(root.problem("bad-value", "the file is no map", help=help))
        return None
    wrong = version_problem(document.source, root)
    if wrong is not None:
        problems.append(wrong)
        return None if wrong.code == "version" and "newer" in wrong.message else root
    return root


def version_problem(source: Source, root: MapNode) -> Problem | None:
    """Return what is wrong with the version that a file says it has."""
    node = root.get("version")
    help = f"write version: {schema.VERSION}"
    if node is None:
        return source.problem(
            "version", "the key version is missing", Mark(1, 1), help=f"{help} on the first line"
        )
    if isinstance(node, Scalar) and node.broken:
        return None
    value = value_of(node.text) if isinstance(node, Scalar) and node.style == "plain" else None
    if type(value) is not int:
        return node.problem("version", f"the version must be the number {schema.VERSION}", help=help)
    if value > schema.VERSION:
        message = f"version {value} of the format is newer than this program, which reads {schema.VERSION}"
        return node.problem("version", message, help="update turnchart")
    if value != schema.VERSION:
        return node.problem("version", f"there is no version {value} of the format", help=help)
    return None


def _parent(node: AnyNode, place: Place, merged: Merged, below: tuple[Path, ...]) -> MapNode | None:
    if not isinstance(node, Scalar) or not node.text or "${" in node.text:
        help = "extends: ./base.yaml; no list, and no variables"
        merged.problems.append(node.problem("bad-value", "extends must name one file", help=help))
        return None
    target, name = beside(node.source, node.text)
    wrong = outside(node, node.text, target, place.reach)
    if wrong is None and target.resolve() in below:
        chain = " extends ".join([*(path.name for path in below), target.name])
        wrong = node.problem("extends-cycle", "a file cannot extend itself", help=chain)
    if wrong is None and len(below) >= _DEEPEST:
        wrong = node.problem("extends-cycle", f"more than {_DEEPEST} files extend each other")
    if wrong is None and not os.path.isfile(target):
        help = "the path is relative to the file that wrote it"
        wrong = node.problem(
            "extends-missing", f"the parent file {quoted(node.text)} is not there", help=help
        )
    if wrong is not None:
        merged.problems.append(wrong)
        return None
    return _read(target, name, place, merged, below)


# -- merging --------------------------------------------------------------------------------------


def merge_maps(parent: MapNode, child: MapNode, problems: list[Problem]) -> MapNode:
    """Return the top map of a child over its parent's."""
    fields = {key: pair for key, pair in parent.fields.items() if not _own(key)}
    for key, pair in child.fields.items():
        above = fields.get(key)
        if key in _NO_CHAINS and isinstance(pair[1], ListNode):
            fields[key] = (pair[0], _without_words(key, pair[1], problems))
        elif above is None:
            fields[key] = pair
        elif key == "hooks":
            fields[key] = (pair[0], _hooks(above[1], pair[1], problems))
        elif key == "permissions":
            fields[key] = (pair[0], _permissions(above[1], pair[1]))
        else:
            fields[key] = (pair[0], _over(_long_model(key, above), pair[1]))
    if "hooks" in fields and parent.get("hooks") is None:
        fields["hooks"] = (fields["hooks"][0], _hooks(None, fields["hooks"][1], problems))
    return replace(child, fields=fields)


def _without_words(key: str, below: ListNode, problems: list[Problem]) -> ListNode:
    """Report the words of chains in another list, which takes the place of the parent's."""
    kept: list[AnyNode] = []
    for i, item in enumerate(below.items):
        if isinstance(item, Scalar) and item.style == "plain" and _is_word(item):
            message = f"{key}[{i}]: only a chain of hooks takes {item.text}"
            help = "write here too what is to stay of the parent's list: this one takes its place"
            problems.append(item.problem("bad-value", message, help=help))
        else:
            kept.append(item)
    return below if len(kept) == len(below.items) else replace(below, items=tuple(kept))


def _own(key: str) -> bool:
    """Tell whether a key is the parent's own affair."""
    return key in ("extends", "name", "description", "version") or key.startswith("x-")


def _long_model(key: str, above: _Pair) -> AnyNode:
    node = above[1]
    if key != "model" or not isinstance(node, Scalar):
        return node
    return MapNode(node.source, node.line, node.column, node.length, {"id": (node, node)})


def _over(above: AnyNode, below: AnyNode) -> AnyNode:
    if not (isinstance(above, MapNode) and isinstance(below, MapNode)):
        return below
    fields: dict[str, _Pair] = dict(above.fields)
    for key, (name, value) in below.fields.items():
        fields[key] = (name, _over(fields[key][1], value)) if key in fields else (name, value)
    return replace(below, fields=fields)


def _permissions(above: AnyNode, below: AnyNode) -> AnyNode:
    together = _over(above, below)
    if not (isinstance(together, MapNode) and isinstance(above, MapNode) and isinstance(below, MapNode)):
        return above if isinstance(above, MapNode) and not isinstance(below, MapNode) else together
    fields = dict(together.fields)
    for key in ("deny", "ask"):
        first, second = above.get(key), below.get(key)
        if isinstance(first, ListNode) and isinstance(second, ListNode):
            fields[key] = (below.fields[key][0], replace(second, items=(*first.items, *second.items)))
    return replace(together, fields=fields)


# -- chains ---------------------------------------------------------------------------------------


def _without_parent(root: MapNode, problems: list[Problem]) -> MapNode:
    hooks = root.fields.get("hooks")
    if hooks is None:
        return root
    chains = _hooks(None, hooks[1], problems, alone=True)
    return replace(root, fields={**root.fields, "hooks": (hooks[0], chains)})


def _hooks(above: AnyNode | None, below: AnyNode, problems: list[Problem], *, alone: bool = False) -> AnyNode:
    if not isinstance(below, MapNode):
        return below
    fields: dict[str, _Pair] = dict(above.fields) if isinstance(above, MapNode) else {}
    for point, (key, chain) in below.fields.items():
        if not isinstance(chain, ListNode):
            fields[point] = (key, chain)
            continue
        inherited = fields[point][1] if point in fields else None
        first = inherited.items if isinstance(inherited, ListNode) else ()
        fields[point] = (key, replace(chain, items=_chain(point, key, first, chain.items, problems, alone)))
    return replace(below, fields=fields)


def _chain(
    point: str,
    key: Scalar,
    above: Sequence[AnyNode],
    below: Sequence[AnyNode],
    problems: list[Problem],
    alone: bool,
) -> tuple[AnyNode, ...]:
    words = [(i, item) for i, item in enumerate(below) if _is_word(item)]
    own = [item for item in below if not _is_word(item)]
    if not words:
        if above:
            problems.append(_unclear(point, key, above))
        return tuple(own)
    at, word = words[0]
    if alone:
        message = f"{_text(word)} needs a parent, and this file has no extends"
        problems.append(word.problem("chain-unclear", message, help="delete this item"))
        return tuple(own)
    wrong = words[1][1] if len(words) > 1 else word if _text(word) == REPLACE and at != 0 else None
    if wrong is not None:
        message = f"hooks.{point} says more than once, or too late, what becomes of the parent's chain"
        help = "write - inherit once, where the parent's hooks go, or - replace as the first item"
        problems.append(wrong.problem("chain-unclear", message, help=help))
    if _text(word) == REPLACE:
        return tuple(own)
    return _spliced(above, below[:at], [item for item in below[at:] if not _is_word(item)])


def _spliced(
    above: Sequence[AnyNode], before: Sequence[AnyNode], after: Sequence[AnyNode]
) -> tuple[AnyNode, ...]:
    instead = {_id(item): item for item in (*before, *after) if _id(item)}
    inherited = [instead.get(_id(item) or "", item) for item in above]
    taken = {id(item) for item in inherited}
    own_before = [item for item in before if id(item) not in taken]
    return (*own_before, *inherited, *(item for item in after if id(item) not in taken))


def _is_word(node: AnyNode) -> bool:
    return isinstance(node, Scalar) and not node.broken and node.text in (INHERIT, REPLACE)


def _text(node: AnyNode) -> str:
    return node.text if isinstance(node, Scalar) else ""


def _id(node: AnyNode) -> str | None:
    given = node.get("id") if isinstance(node, MapNode) else None
    return given.text if isinstance(given, Scalar) and given.text else None


def _unclear(point: str, key: Scalar, above: Sequence[AnyNode]) -> Problem:
    names = ", ".join(_called(item) for item in above)
    message = f"hooks.{point} does not say what becomes of the parent's chain: {names}"
    help = "write - inherit where the parent's hooks go, or - replace as the first item"
    return key.problem("chain-unclear", message, help=help)


def _called(node: AnyNode) -> str:
    fields: Mapping[str, _Pair] = node.fields if isinstance(node, MapNode) else {}
    for key in ("id", "use", "run"):
        value = fields[key][1] if key in fields else None
        first = value.items[0] if isinstance(value, ListNode) and value.items else value
        if isinstance(first, Scalar):
            return first.text
    return "a hook"

"""What one JSON value has that another lacks, as JSON: ``patched(a, difference(a, b)) == b`` for any two.

    {"set": {"api": "chat", "cost": null}, "drop": ["usage"], "within": {"content": {"within": {"0": ...}}}}

``set`` holds whole values, ``drop`` names, ``within`` differences by name, or by index where the value is a
list. A difference of objects that are equal is empty. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from turnchart.machine.interchange.fields import as_list, as_object


def difference(base: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``patched`` needs to make ``wanted`` of ``base``."""
    whole: dict[str, Any] = {}
    within: dict[str, Any] = {}
    for name, value in wanted.items():
        if name not in base:
            whole[name] = value
        elif not same(base[name], value):
            inner = _inner(base[name], value)
            if inner is None:
                whole[name] = value
            else:
                within[name] = inner
    found = {"set": whole, "drop": [name for name in base if name not in wanted], "within": within}
    return {name: value for name, value in found.items() if value}


def _inner(base: Any, wanted: Any) -> dict[str, Any] | None:
    """Return the difference of two objects, or of two lists of one length; None where there is none."""
    left, right = as_object(base), as_object(wanted)
    if left is not None and right is not None:
        return difference(left, right)
    old, new = as_list(base), as_list(wanted)
    if old is not None and new is not None and len(old) == len(new):
        return difference(_numbered(old), _numbered(new))
    return None


def patched(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with a difference applied.

    Raises:
        KeyError: If the difference was made of another object.
    """
    made = {name: value for name, value in base.items() if name not in changes.get("drop", ())}
    for name, inner in changes.get("within", {}).items():
        made[name] = _patched_within(base[name], inner)
    made |= changes.get("set", {})
    return made


def _patched_within(base: Any, changes: Mapping[str, Any]) -> Any:
    items = as_list(base)
    return patched(base, changes) if items is None else list(patched(_numbered(items), changes).values())


def same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are written alike; the order of an object's names does not count.

    ``1``, ``1.0`` and ``true`` are three values here; a tuple and a list are one.
    """
    left, right = as_object(one), as_object(other)
    if left is not None and right is not None:
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    old, new = as_list(one), as_list(other)
    if old is not None and new is not None:
        return len(old) == len(new) and all(map(same, old, new))
    return type(one) is type(other) and bool(one == other)


def _numbered(items: Sequence[Any]) -> dict[str, Any]:
    return {str(index): item for index, item in enumerate(items)}

"""What is wrong with ``session``: the name of the store, and what stands beside it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from turnchart.flows.parts import Parts
from turnchart.flows.paths import Place, outside
from turnchart.flows.problems import meant, quoted, sentence
from turnchart.flows.validate import Reading, find
from turnchart.machine.stores import BUILTIN_STORES

if TYPE_CHECKING:
    from turnchart.hooks.stores import Sessions, StoreSpec


class StoreUse(NamedTuple):
    """A registered store of a flow, ready to be made.

    Attributes:
        spec: What is registered.
        params: What ``with:`` says, checked, with paths relative to the root.
    """

    spec: "StoreSpec"
    params: Mapping[str, Any]

    def sessions(self) -> "Sessions":
        """Return where it keeps sessions; nothing is opened yet.

        Raises:
            ParamError: If the parameters do not fit.
        """
        return self.spec.sessions(self.params)


def check_session(parts: Parts, reading: Reading, place: Place) -> StoreUse | None:
    """Look the store of a flow up; what is wrong goes to ``reading.problems``. None for a built-in one."""
    spec = parts.file.session
    if spec is None:
        return None
    if spec.store not in BUILTIN_STORES:
        return _registered(parts, reading, place)
    if spec.arguments:
        message = f"session.with is not allowed with store: {spec.store}"
        help = "only stores that a plug-in registers have parameters; delete with:"
        reading.problems.append(parts.at("session", "with").problem("key-not-here", message, help=help))
    if spec.path is None:
        return None
    node = parts.at("session", "path")
    if spec.store == "memory":
        message = "session.path is not allowed with store: memory"
        reading.problems.append(node.problem("key-not-here", message, help="delete the path"))
    wrong = outside(node, spec.path, place.root / spec.path, place.root)
    if wrong is not None:
        reading.problems.append(wrong)
    return None


def _registered(parts: Parts, reading: Reading, place: Place) -> StoreUse | None:
    from turnchart.hooks.stores import STORES  # most flows keep their sessions in a file

    spec = parts.file.session
    assert spec is not None, "a registered store is named by the file"
    node, found = parts.at("session", "store"), STORES.get(spec.store)
    if found is None:
        known = STORES.names()
        help = sentence(
            meant(spec.store, known),
            f"session stores: {', '.join(known)}. Yours come in by a plug-in; a file cannot import",
        )
        message = f"no session store named {quoted(spec.store)}"
        reading.problems.append(node.problem("unknown-store", message, help=help))
        return None
    if spec.path is not None:
        message = f"session.path is not allowed with store: {spec.store}"
        help = "its parameters stand under with:"
        reading.problems.append(parts.at("session", "path").problem("key-not-here", message, help=help))
    params = _params(parts, found, reading, place)
    return StoreUse(found, params) if params is not None else None


def _params(parts: Parts, spec: "StoreSpec", reading: Reading, place: Place) -> Mapping[str, Any] | None:
    from turnchart.flows.hook_checks import made_parameters

    said = parts.file.session.arguments if parts.file.session is not None else {}
    given = find(parts.root, ("session", "with"))
    node = given.value if given.exact else parts.at("session", "store")
    return made_parameters(
        spec, "session store", node, ("session", "with"), said,
        lambda *way: parts.at("session", "with", *way), reading, place,
    )  # fmt: skip

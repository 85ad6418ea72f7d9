"""Names and ids as providers take them: letters, digits, ``_`` and ``-``, and not many of them. Pure."""

import hashlib
import re
from collections.abc import Iterable
from typing import Final

LONGEST_NAME: Final = 64
LONGEST_ID: Final = 40
_FITS_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,%d}" % LONGEST_ID)  # noqa: UP031  # braces count in both
_STRANGE: Final = re.compile(r"[^A-Za-z0-9_-]")


class WireNames:
    """Names of tools in one request, both ways. A dot becomes ``__``: ``server.tool`` is ``server__tool``."""

    __slots__ = ("_back", "_wire")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._wire: dict[str, str] = {}
        self._back: dict[str, str] = {}
        given = list(names)
        for name in sorted(given, key=lambda name: _plain(name) != name):  # what fits keeps its name
            self.wire(name)

    def wire(self, name: str) -> str:
        """Return what the provider is told; a name that was never seen gets one."""
        known = self._wire.get(name)
        if known is None:
            known = _plain(name)
            if known in self._back or not known:
                known = f"{known[: LONGEST_NAME - 9]}_{_digest(name, 8)}"
            self._wire[name] = known
            self._back[known] = name
        return known

    def own(self, wire: str) -> str:
        """Return whose name this is on the wire; a name that nobody has stays as it is."""
        return self._back.get(wire, wire)


class WireIds:
    """The ids of the calls of one conversation, oldest first: no two are the same, as some models have it."""

    __slots__ = ("_now", "_order", "_used")

    def __init__(self) -> None:
        self._now: dict[str, str] = {}
        self._used: set[str] = set()
        self._order: list[tuple[str, str, str | None]] = []
        """The calls in their order: their ids, here and on the wire, and what the first meant before."""

    @property
    def count(self) -> int:
        """How many calls there were."""
        return len(self._order)

    def call(self, id: str) -> str:
        """Return the id of a call."""
        known = wire_id(id)
        if known in self._used:
            known = f"call_{_digest(f'{len(self._used)} {id}', 24)}"
        self._order.append((id, known, self._now.get(id)))
        self._used.add(known)
        self._now[id] = known
        return known

    def forget(self, count: int) -> None:
        """Forget all calls behind the first ``count``."""
        while len(self._order) > count:
            id, known, before = self._order.pop()
            self._used.discard(known)
            if before is None:
                del self._now[id]
            else:
                self._now[id] = before

    def result(self, id: str) -> str:
        """Return the id of a result, which is that of the last call with it."""
        return self._now.get(id) or wire_id(id)


def wire_id(id: str) -> str:
    """Return the id of a call as every provider takes it: itself where it fits, else one made of it."""
    return id if _FITS_ID.fullmatch(id) else f"call_{_digest(id, 24)}"


def _plain(name: str) -> str:
    return _STRANGE.sub("_", name.replace(".", "__"))[:LONGEST_NAME]


def _digest(text: str, length: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]

"""What a session came to: messages, tokens, cost, and the share of each model. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, cast

from turnchart.machine.entries import Entry

TOKENS = ("input", "output", "cache_read", "cache_write")
"""The kinds of tokens that are counted apart."""

Prices = Mapping[str, Mapping[str, float]]
"""What a million tokens cost, by model and then by kind of token."""

_SPENDS = frozenset(("assistant/message", "compaction", "branch_summary"))
_MESSAGES = frozenset(("user/message", "assistant/message", "tool/result", "custom_message"))


@dataclass(slots=True)
class Spent:
    """Tokens and their cost.

    Attributes:
        input: Tokens that were read and not cached.
        output: Tokens that were written.
        cache_read: Tokens that were read from a cache.
        cache_write: Tokens that were read and put into a cache.
        total: All tokens.
        cost: In the unit of the prices; None where nothing says what any of it costs.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total: int = 0
    cost: float | None = None

    @property
    def cached(self) -> int:
        """Tokens that a cache saved."""
        return self.cache_read

    @property
    def uncached(self) -> int:
        """Tokens that were read in full."""
        return self.input + self.cache_write

    def add(self, usage: Mapping[str, Any], prices: Mapping[str, float]) -> None:
        """Add what one answer used."""
        counts = {name: usage.get(name) or 0 for name in TOKENS}
        for name, count in counts.items():
            setattr(self, name, getattr(self, name) + count)
        self.total += usage.get("total") or sum(counts.values())
        cost = _said_cost(usage.get("cost"))
        if cost is None and prices:
            cost = sum(count * prices.get(name, 0.0) for name, count in counts.items()) / 1_000_000
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost


@dataclass(slots=True)
class Statistics(Spent):
    """What a session came to.

    Attributes:
        messages: How many messages were said, those on other branches and those that were replaced included.
        roles: How many of them by role.
        entries: How many entries by type.
        tools: How many calls by the name of the tool.
        models: What each model spent, by its id; what no model is named for stands under the empty id.
    """

    messages: int = 0
    roles: dict[str, int] = field(default_factory=dict[str, int])
    entries: dict[str, int] = field(default_factory=dict[str, int])
    tools: dict[str, int] = field(default_factory=dict[str, int])
    models: dict[str, Spent] = field(default_factory=dict[str, Spent])


def statistics(entries: Iterable[Entry], prices: Prices | None = None) -> Statistics:
    """Count what a whole log says.

    Tokens and cost are those of answers, compactions and branch summaries; what tools used on their own is
    not counted. A malformed usage is passed over. A message that took the place of another is not counted.
    """
    found = Statistics()
    roles, types, tools = Counter[str](), Counter[str](), Counter[str]()
    for entry in entries:
        types[entry.type] += 1
        if entry.type in _MESSAGES and entry.replaces is None:
            roles[entry.data["message"]["role"]] += 1
        elif entry.type == "tool/call":
            tools[entry.data["tool"]] += 1
        if entry.type in _SPENDS:
            _spend(found, entry, prices or {})
    found.messages = sum(roles.values())
    found.roles, found.entries, found.tools = dict(roles), dict(types), dict(tools)
    return found


def _spend(found: Statistics, entry: Entry, prices: Prices) -> None:
    said = entry.data["message"] if entry.type == "assistant/message" else entry.data
    usage = _sound(said.get("usage"))
    if usage is None:
        return
    model = said.get("model") or ""
    price = prices.get(model, {})
    found.add(usage, price)
    found.models.setdefault(model, Spent()).add(usage, price)


def _sound(usage: Any) -> Mapping[str, Any] | None:
    """Return a usage that is what a model reports: counts by name, none of them negative; else None."""
    if not isinstance(usage, Mapping):
        return None
    given = cast("Mapping[str, Any]", usage)
    counts = [given.get(name) for name in (*TOKENS, "total")]
    sound = all(count is None or (type(count) is int and count >= 0) for count in counts)
    return given if sound else None


def _said_cost(cost: Any) -> float | None:
    """Return the cost that a usage says: a number, or an object with a total; None for none."""
    if isinstance(cost, Mapping):
        cost = cast("Mapping[str, Any]", cost).get("total")
    if type(cost) not in (int, float) or not isfinite(cost) or cost < 0:
        return None
    return float(cost)

"""What came out otherwise than expected, each difference with its place in the test file."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from turnchart.flows.testfiles.playing import CallFact, HookFact, Played
from turnchart.flows.testfiles.suite import ANY, CallRule, Case, HookRule, RequestRule, TextRule
from turnchart.machine.models import ModelRequest
from turnchart.machine.sides import align, side_by_side

R = TypeVar("R")
F = TypeVar("F")


class Difference(NamedTuple):
    """One thing that came out otherwise.

    Attributes:
        where: ``file:line`` of what was expected.
        text: What is different.
        lines: The two sides, for sequences.
    """

    where: str
    text: str
    lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"{self.where}: {self.text}", *(f"    {line}" for line in self.lines)])


def differences(case: Case, played: Played) -> list[Difference]:
    """Return everything that came out otherwise than the case expects."""
    found = [Difference(case.where, fault) for fault in played.faults]
    found += _reason(case, played)
    found += _text(case, played)
    found += _walk(case, played)
    found += _calls(case, played)
    found += _hooks(case, played)
    found += _requests(case, played)
    return found


def report(case: Case, played: Played, found: Sequence[Difference]) -> str:
    """Return the differences as text, with the walk where no line of them shows it."""
    lines = [str(each) for each in found]
    if not any(each.text.startswith("the walk") for each in found):
        lines.append(f"the walk was: {' > '.join(played.walk)}")
    return "\n".join(lines)


def _where(case: Case, *loc: str | int) -> str:
    node = case.at("expect", *loc)
    return f"{node.source.name}:{node.line}"


def _reason(case: Case, played: Played) -> Iterator[Difference]:
    if played.reason == case.expect.reason:
        return
    because = f" ({played.error})" if played.error else ""
    given = played.reason or "that there was none"
    yield Difference(
        _where(case, "reason"), f"the last turn should end as {case.expect.reason}, not as {given}{because}"
    )


def _text(case: Case, played: Played) -> Iterator[Difference]:
    rule = case.expect.text
    if rule is not None and not rule.holds(played.text):
        yield Difference(_where(case, "text"), f"the last answer should be {rule}, not {played.text!r}")


def _walk(case: Case, played: Played) -> Iterator[Difference]:
    states = case.expect.states
    if states is None:
        return
    expected = [None if state == ANY else state for state in states]
    pairs = align(expected, played.walk, str.__eq__)
    if not all(pair.fits for pair in pairs):
        lines = side_by_side(pairs, expected, played.walk)
        yield Difference(_where(case, "states"), "the walk is another one", tuple(lines))


# -- calls ----------------------------------------------------------------------------------------


def _calls(case: Case, played: Played) -> Iterator[Difference]:
    rules = case.expect.calls
    if rules is None:
        return
    pairs = align(rules, played.calls, _is_call)
    wrong = [pair for pair in pairs if not pair.fits]
    if not wrong:
        return
    names = [None if rule is None else _rule(rule) for rule in rules]
    lines = side_by_side(pairs, names, [_call(call) for call in played.calls])
    for pair in wrong:
        if pair.expected is not None and pair.actual is not None:
            rule, call = rules[pair.expected], played.calls[pair.actual]
            told = "; ".join(_unlike(rule, call)) if rule is not None else ""
            lines.append(f"calls[{pair.expected}]: {told}")
    first = next((pair.expected for pair in wrong if pair.expected is not None), None)
    where = _where(case, "calls") if first is None else _where(case, "calls", first)
    yield Difference(where, "the calls are others", tuple(lines))


def _is_call(rule: CallRule, call: CallFact) -> bool:
    return not any(_unlike(rule, call))


def _unlike(rule: CallRule, call: CallFact) -> Iterator[str]:
    for key in ("tool", "args", "decision", "by", "ran", "outcome"):
        expected, given = getattr(rule, key), getattr(call, key)
        if expected is not None and not _same(expected, given):
            yield f"{key} should be {_shown(expected)}, not {_shown(given)}"
    if rule.result is not None and not rule.result.holds(call.result):
        yield f"result should be {rule.result}, not {call.result!r}"


def _rule(rule: CallRule) -> str:
    said = {key: getattr(rule, key) for key in ("decision", "by", "ran", "outcome")}
    args = "" if rule.args is None else _shown(rule.args)
    return f"{rule.tool}({args}){_keys(said)}"


def _call(call: CallFact) -> str:
    said = {"decision": call.decision, "by": call.by or None, "ran": call.ran, "outcome": call.outcome}
    return f"{call.tool}({_shown(call.args)}){_keys(said)}"


def _keys(said: Mapping[str, object]) -> str:
    return "".join(f" {key}={_shown(value)}" for key, value in said.items() if value is not None)


# -- hooks ----------------------------------------------------------------------------------------


def _hooks(case: Case, played: Played) -> Iterator[Difference]:
    rules = case.expect.hooks
    if rules is None:
        return
    if not rules:
        if played.hooks:
            lines = tuple(_hook(fact) for fact in played.hooks)
            yield Difference(_where(case, "hooks"), "no hook should do anything", lines)
        return
    missing = _in_order(rules, played.hooks, _is_hook)
    if missing is not None:
        lines = tuple(_hook(fact) for fact in played.hooks) or ("(no hook did anything)",)
        rule = _fields(rules[missing])
        text = f"no hook did what hooks[{missing}] says ({rule}), in this order; the hooks did:"
        yield Difference(_where(case, "hooks", missing), text, lines)


def _in_order(rules: Sequence[R], facts: Sequence[F], same: Callable[[R, F], bool]) -> int | None:
    """Return the first rule that nothing behind what the rules before it found is like; None for none."""
    at = 0
    for i, rule in enumerate(rules):
        found = next((j for j in range(at, len(facts)) if same(rule, facts[j])), None)
        if found is None:
            return i
        at = found + 1
    return None


def _is_hook(rule: HookRule, fact: HookFact) -> bool:
    pairs = [(rule.point, fact.point), (rule.id, fact.id), (rule.decision, fact.decision)]
    if any(expected is not None and expected != given for expected, given in pairs):
        return False
    if rule.changed is not None and set(rule.changed) != set(fact.changed):
        return False
    if rule.failed is not None and rule.failed != bool(fact.error):
        return False
    return rule.reason is None or rule.reason.holds(fact.reason)


def _hook(fact: HookFact) -> str:
    said = {
        "decision": fact.decision, "reason": fact.reason or None, "changed": list(fact.changed) or None,
        "failed": fact.error or None,
    }  # fmt: skip
    return f"{fact.point} {fact.id}{_keys(said)}"


def _fields(rule: HookRule | RequestRule) -> str:
    given = rule.model_dump(exclude_unset=True, exclude_none=True)
    return ", ".join(f"{key}: {_shown(value)}" for key, value in given.items())


# -- requests -------------------------------------------------------------------------------------


def _requests(case: Case, played: Played) -> Iterator[Difference]:
    rules = case.expect.requests
    if rules is None:
        return
    if not rules and played.requests:
        yield Difference(
            _where(case, "requests"),
            f"no model should be asked, but {len(played.requests)} requests were made",
        )
    for i, rule in enumerate(rules):
        of = [request for request in played.requests if _is_about(rule, request)]
        wrong = _no_request(rule, of)
        if wrong:
            yield Difference(_where(case, "requests", i), f"requests[{i}]: {wrong}")


def _is_about(rule: RequestRule, request: ModelRequest) -> bool:
    return rule.turn in (None, request.turn) and rule.step in (None, request.step)


def _no_request(rule: RequestRule, of: Sequence[ModelRequest]) -> str:
    """Return why no request is as the rule says; empty where one is."""
    if not of:
        return "there was no such request"
    for request in of:
        for text in rule.lacks:
            if text in _seen(request):
                return f"request {request.turn}.{request.step} should not show {text!r}"
    reasons = [_unlike_request(rule, request) for request in of]
    return "" if "" in reasons else reasons[-1]


def _unlike_request(rule: RequestRule, request: ModelRequest) -> str:
    tools = [spec["name"] for spec in request.tools]
    pairs: list[tuple[str, object, object]] = [
        ("model", rule.model, request.model), ("thinking", rule.thinking, request.thinking),
        ("tools", sorted(rule.tools) if rule.tools is not None else None, sorted(tools)),
    ]  # fmt: skip
    for key, expected, given in pairs:
        if expected is not None and expected != given:
            return f"{key} should be {_shown(expected)}, not {_shown(given)}"
    seen = _seen(request)
    lacking = [text for text in rule.contains if text not in seen]
    return (
        f"request {request.turn}.{request.step} should show {lacking[0]!r}; it shows:\n{seen}"
        if lacking
        else ""
    )


def _seen(request: ModelRequest) -> str:
    """Return everything that a model reads as text: the prompt, messages, calls and results."""
    parts = [request.system] if request.system else []
    for message in request.messages:
        for block in message["content"]:
            if block["type"] == "tool_call":
                parts.append(f"{block['name']}({_shown(block['arguments'])})")
            else:
                parts.append(str(block.get("text", block["type"])))
    return "\n".join(parts)


# -- words ----------------------------------------------------------------------------------------


def _same(expected: Any, given: Any) -> bool:
    return bool(expected == given) or _shown(expected) == _shown(given)


def _shown(value: object) -> str:
    if isinstance(value, str | TextRule):
        return str(value)
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)

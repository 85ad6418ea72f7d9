"""The page about the hook points, made from the contract that the run time reads."""

from tests.docs.markdown import code, codes, page, sentence, table
from tests.docs.source import Field, fields_of, text_of

from turnchart.machine.points import POINTS, FailureRule, Payload, Point, PointKind

HEAD = """\
# Hook points

Where hooks stand in a turn, what they get, and what they may answer. The run time, the schema of the files
and the pictures read the same contract, and this page is made from it. [Hooks](hooks.md) says how a chain
is written, and which hooks come along.
"""
KINDS: dict[PointKind, str] = {
    "all": "every hook runs, whatever the others say",
    "rewrite": "each hook may change what the next one gets",
    "gate": "the strictest decision counts, and a hook that fails blocks",
    "wrap": "a hook runs around what comes after it, and may call it again or not at all",
    "first answer": "the first decision ends the chain",
    "observer": "hears, and changes nothing",
}
FAILURES: dict[FailureRule, str] = {
    "turn error": "the turn ends as an error",
    "call denied": "the call is denied",
    "error result": "the model reads an error as the result",
    "withheld": "the result is withheld from the model",
    "does not start": "the session does not start",
    "reported": "it is told, and nothing else happens",
}


def hook_points() -> str:
    """Return the page."""
    rows = [
        (
            f"[{code(each.name)}](#{each.name})",
            codes(state.value for state in each.states) or "any",
            each.kind,
            codes(each.decision_names) or "-",
            each.does,
        )
        for each in POINTS.values()
    ]
    return page(
        HEAD,
        table(("point", "states", "kind", "decisions", "what it does"), rows),
        "## Kinds",
        table(("kind", "how the answers of a chain combine"), KINDS.items()),
        "## What every hook gets",
        text_of(Payload),
        _fields(fields_of(Payload), Payload.may_change),
        *(part for each in POINTS.values() for part in _point(each)),
        "## Decisions",
        "Each is frozen, is imported from `turnchart.hooks`, and stands in the log as `hook/result`.",
        *_decisions(),
    )


def _point(point: Point) -> tuple[str, ...]:
    common = {each.name for each in fields_of(Payload)}
    own = [each for each in fields_of(point.payload) if each.name not in common]
    rule = sentence(f"a hook that fails or is late: {FAILURES[point.failure]}")
    if point.on_error == "warn":
        rule = sentence(
            "a hook that fails or is late is told and passed over (`on_error: warn`);"
            f" with `on_error: stop` {FAILURES[point.failure]}"
        )
    elif point.on_error == "stop":
        rule = sentence(
            f"when a hook fails or is late, {FAILURES[point.failure]} (`on_error: stop`);"
            " with `on_error: warn` it is told and passed over"
        )
    takes = [
        f"Decisions: {codes(point.decision_names) or 'none'}.",
        f"Programs (`run:`) may {'' if point.run else 'not '}stand here.",
        *(["An entry may have `tools:` globs."] if point.tools else []),
    ]
    return (
        f"## {point.name}",
        f"{sentence(point.does)} {sentence(f'{point.kind}: {KINDS[point.kind]}')}",
        " ".join((*takes, rule)),
        f"Payload {code(point.payload_name)}: {text_of(point.payload)}",
        _fields(own, point.payload.may_change),
    )


def _fields(fields: list[Field], may_change: frozenset[str]) -> str:
    if not fields:
        return ""
    rows = [
        (code(each.name), code(each.type), "yes" if each.name in may_change else "", each.told)
        for each in fields
    ]
    told = any(each.told for each in fields)
    head = ("field", "type", "may be replaced", "what it is")
    return table(head, rows) if told else table(head[:3], [row[:3] for row in rows])


def _decisions() -> tuple[str, ...]:
    taken: dict[str, list[str]] = {}
    for point in POINTS.values():
        for name in point.decision_names:
            taken.setdefault(name, []).append(point.name)
    classes = {kind.__name__: kind for point in POINTS.values() for kind in point.decisions}
    rows = [
        (
            code(name),
            codes(points),
            codes(f"{each.name}: {each.type}" for each in fields_of(classes[name])) or "-",
            text_of(classes[name]),
        )
        for name, points in taken.items()
    ]
    return (table(("decision", "points", "fields", "what it says"), rows),)

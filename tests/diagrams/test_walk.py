"""The rules of the walk, and what the bare view leaves out: all of it in lists made by hand, with reasons."""

from collections.abc import Iterable, Iterator

import pytest

from turnchart.diagrams.walk import Fork, Mark, Node, title, walk
from turnchart.machine.says import Arrow, Block, Kind, Line, Note, Part, Silent, log
from turnchart.machine.states import Event, State
from turnchart.machine.table import LIFECYCLE, Row, Table

EVERY_STATE = "leaves the main line from every state; the table view shows it"
NEXT_TURN = "the next queued prompt: the same line once more, without idle between"
GIVES_UP = "the original error ends the turn; drawn beside retry it would hide it"
NO_TURN = "not part of a turn"

UNDRAWN = """
idle        maintain    -             no turn
claiming    cancel      -             every state
claiming    fail        -             every state
pre_step    enter       prompt_due    next turn
pre_step    cancel      -             every state
requesting  cancel      has_text      every state
requesting  cancel      dispatched    every state
requesting  cancel      -             every state
requesting  fail        dispatched    every state
requesting  fail        -             every state
retrying    give_up     -             gives up
retrying    cancel      -             every state
retrying    fail        -             every state
tooling     cancel      -             every state
tooling     fail        -             every state
stopping    settle      prompt_due    next turn
stopping    cancel      -             every state
stopping    fail        -             every state
maintenance maintained  wake_latched  no turn
maintenance maintained  -             no turn
"""
REASONS = {"no turn": NO_TURN, "every state": EVERY_STATE, "next turn": NEXT_TURN, "gives up": GIVES_UP}

RESULT = "a dispatch that decided, changed or failed writes down what it did"
CALLBACK = "the callback form of the inbox"
CALLBACK_CLAIMS = "claims what the callbacks returned"
REWRITES = "rewrites what this request shows, never the log"
ASKS = "only where a rule or a hook asks"

COMPACTS = "only where the conversation is to be made shorter"
SHORTENED = "shortened before anything else"
COMPACTING: list[tuple[str, str]] = [
    ("compact", COMPACTS),
    ("hook/result", RESULT),
    ("compaction/start", COMPACTS),
    ("compaction/prune", SHORTENED),
    ("tool/result", "the shorter one, unless it was refused"),
    ("summarise", "only where a model writes the summary"),
    ("compaction", "only where that is not enough"),
    ("compaction/end", COMPACTS),
]
LEFT = "moving in the tree with a summary of what is left"
COMPACTING_STATES = (State.PRE_STEP, State.RETRYING, State.MAINTENANCE)

SILENT: list[tuple[State, str, str]] = [
    (State.IDLE, "session_start", "once per open, before any turn"),
    (State.IDLE, "session_end", "once per close, after every turn"),
    (State.IDLE, "hook/result", RESULT),
    (State.IDLE, "writes", "written at once while no turn is open"),
    (State.IDLE, "branch_summary", "moving in the tree, between turns"),
    (State.IDLE, "leaf", "moving in the tree, between turns"),
    (State.CLAIMING, "poll_steering", CALLBACK),
    (State.CLAIMING, "poll_follow_up", CALLBACK),
    (State.CLAIMING, "agent/inbox/spliced", CALLBACK_CLAIMS),
    (State.CLAIMING, "agent/inbox/claimed", CALLBACK_CLAIMS),
    (State.CLAIMING, "hook/result", RESULT),
    (State.PRE_STEP, "hook/result", RESULT),
    (State.REQUESTING, "hook/result", RESULT),
    (State.REQUESTING, "context", REWRITES),
    (State.REQUESTING, "convert", REWRITES),
    (State.REQUESTING, "request/rewritten", "only when context or convert changed it"),
    (State.REQUESTING, "agent/assistant-stream start", "opens the frames below"),
    (State.RETRYING, "hook/result", RESULT),
    (State.RETRYING, "llm/retry", "before the wait of a retry"),
    (State.RETRYING, "llm/retry-started", "after the wait of a retry"),
    (State.TOOLING, "approval/asked", ASKS),
    (State.TOOLING, "approval/decided", ASKS),
    (State.TOOLING, "tool", "the execute of the arrow above"),
    (State.TOOLING, "hook/result", RESULT),
    (State.TOOLING, "tool/progress", "whenever a running tool reports"),
    (State.STOPPING, "after_step", "the boundary of every step"),
    (State.STOPPING, "hook/result", RESULT),
    (State.STOPPING, "poll_steering", CALLBACK),
    (State.STOPPING, "poll_follow_up", CALLBACK),
    (State.MAINTENANCE, "writes", "written at once while no turn is open"),
    *((State.MAINTENANCE, name, LEFT) for name in ("summarise", "leaf", "branch_summary")),
    *((state, *line) for state in COMPACTING_STATES for line in COMPACTING),
]
SILENT_IN_ROWS = {
    "writes": "what was asked for while the step ran, in order",
    "agent/error": "the error is told before turn/end",
}
UNSEEN_IN_THE_BARE_VIEW = [
    (State.PRE_STEP, Event.ENTER, None),  # one line stands for all three rows of its branch
    (State.PRE_STEP, Event.FAIL, None),  # the same
    (State.REQUESTING, Event.RESPOND, None),  # a way without tools: the loop of calls runs no times
    (State.STOPPING, Event.SETTLE, "results_due"),  # a way back beside a way on is not drawn
]
"""Drawn rows that the bare view merges with others; ``--detail`` tells them apart."""


def key(row: Row) -> tuple[State, Event, str | None]:
    return row.source, row.event, row.guard


def flat(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        match node:
            case Fork():
                for way in node.ways:
                    yield from flat(way.nodes)
            case Block():
                yield from flat(node.lines)
            case _:
                yield node


def titles(nodes: Iterable[Node]) -> set[str]:
    found = {node.text for node in flat(nodes) if isinstance(node, Note)}
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if isinstance(node, Fork):
            found |= {way.label for way in node.ways}
            todo += [each for way in node.ways for each in way.nodes]
    return found


def test_every_undrawn_row_is_in_the_list_with_its_reason() -> None:
    listed = [line.split(None, 3) for line in UNDRAWN.strip().splitlines()]
    expected = {(*row[:3], REASONS[row[3]]) for row in listed}
    found = {
        (row.source, row.event, row.guard or "-", row.undrawn) for row in LIFECYCLE.rows if not row.drawn
    }
    assert found == expected


def test_every_silent_line_is_in_the_list_with_its_reason() -> None:
    found = {
        (state, name, line.reason)
        for state, says in LIFECYCLE.says.items()
        for line in flat(says) if isinstance(line, Silent) for name in line.does
    }  # fmt: skip
    assert found == set(SILENT)
    in_rows = {
        (name, line.reason)
        for row in LIFECYCLE.rows for line in row.says if isinstance(line, Silent) for name in line.does
    }  # fmt: skip
    assert in_rows == set(SILENT_IN_ROWS.items())


def test_detail_draws_every_row_and_every_silent_line() -> None:
    tree = walk(LIFECYCLE, detail=True)
    assert {title(row) for row in LIFECYCLE.rows} <= titles(tree)
    drawn = [node for node in flat(tree) if isinstance(node, Silent)]
    for lines in (*LIFECYCLE.says.values(), *(row.says for row in LIFECYCLE.rows)):
        assert all(line in drawn for line in flat(lines) if isinstance(line, Silent))


def test_the_bare_view_names_no_row() -> None:
    assert not {title(row) for row in LIFECYCLE.rows} & titles(walk(LIFECYCLE))


def visible(nodes: Iterable[Node]) -> list[object]:
    """What the bare view draws: forks and blocks by their labels, everything but silent lines and marks."""
    found: list[object] = []
    for node in nodes:
        match node:
            case Fork():
                found.append([(way.label, visible(way.nodes)) for way in node.ways])
            case Block():
                found.append((node.label, visible(node.lines)))
            case Arrow() | Note():
                found.append(node)
            case Mark() | Silent():
                pass
    return found


@pytest.mark.parametrize("row", LIFECYCLE.rows, ids=lambda row: "-".join(filter(None, key(row))))
def test_taking_a_row_away_takes_its_lines_away(row: Row) -> None:
    less = LIFECYCLE.without(row)
    assert title(row) not in titles(walk(less, detail=True))
    assert walk(less, detail=True) != walk(LIFECYCLE, detail=True)
    same = visible(walk(less)) == visible(walk(LIFECYCLE))
    assert same == (not row.drawn or key(row) in UNSEEN_IN_THE_BARE_VIEW)


def test_a_state_is_drawn_once() -> None:
    marks = [node.state for node in flat(walk(LIFECYCLE)) if isinstance(node, Mark)]
    assert sorted(marks) == sorted(set(State) - {State.MAINTENANCE})
    marks = [node.state for node in flat(walk(LIFECYCLE, detail=True)) if isinstance(node, Mark)]
    assert sorted(marks) == sorted(State)


# -- the rules, on tables of a few rows --------------------------------------------------------------


def arrow(text: str) -> Arrow:
    return log(label=text)


def row(source: State, event: Event, target: State, *says: Line, branch: str | None = None) -> Row:
    return Row(source, event, None, target, says, (), branch, "", ())


def table(*rows: Row, **says: Line) -> Table:
    return Table(rows, {state: (says[state],) if state in says else () for state in State})


def shown(nodes: Iterable[Node]) -> list[object]:
    found: list[object] = []
    for node in nodes:
        match node:
            case Fork():
                found.append((node.kind, [(way.label, shown(way.nodes)) for way in node.ways]))
            case Arrow():
                found.append(node.label)
            case _:
                pass
    return found


S, E = State, Event


def test_a_table_without_rows_is_its_idle_state() -> None:
    assert shown(walk(table(idle=arrow("hello")))) == ["hello"]


def test_labelled_rows_are_alternatives() -> None:
    two = table(
        row(S.IDLE, E.WAKE, S.CLAIMING),
        row(S.CLAIMING, E.CLAIMED, S.IDLE, arrow("a"), branch="left"),
        row(S.CLAIMING, E.FAIL, S.IDLE, arrow("b"), branch="right"),
    )
    assert shown(walk(two)) == [("alt", [("left", ["a"]), ("right", ["b"])])]
    assert shown(walk(two.without(two.rows[2]))) == [("opt", [("left", ["a"])])]


def test_what_all_rows_into_a_state_say_last_is_drawn_there() -> None:
    ways = table(
        row(S.IDLE, E.WAKE, S.CLAIMING),
        row(S.CLAIMING, E.CLAIMED, S.PRE_STEP, arrow("short"), arrow("both")),
        row(S.CLAIMING, E.FAIL, S.TOOLING),
        row(S.TOOLING, E.TOOLS_DONE, S.PRE_STEP, arrow("long"), arrow("both")),
        row(S.PRE_STEP, E.SETTLE, S.IDLE, arrow("rest")),
        tooling=arrow("tools"), pre_step=arrow("meeting"),
    )  # fmt: skip
    assert shown(walk(ways)) == ["short", "tools", "long", "both", "meeting", "rest"]


def test_a_way_back_says_what_is_said_again() -> None:
    again = Arrow(Kind.REPLY, Part.LLM, Part.DRIVER, "again", again=True)
    back = table(
        row(S.IDLE, E.WAKE, S.CLAIMING),
        row(S.CLAIMING, E.CLAIMED, S.PRE_STEP),
        row(S.PRE_STEP, E.SETTLE, S.CLAIMING, arrow("back"), branch="once more"),
        row(S.PRE_STEP, E.REJECT, S.IDLE, arrow("rest")),
        claiming=again, pre_step=arrow("said once"),
    )  # fmt: skip
    assert shown(walk(back)) == ["again", "said once", ("opt", [("once more", ["back", "again"])]), "rest"]


def test_a_row_in_words() -> None:
    words = [title(row) for row in LIFECYCLE.rows]
    assert "respond if has_tool_calls, requesting to tooling" in words
    assert "reject, pre-step to idle (blocked)" in words
    assert len(set(words)) == len(words)

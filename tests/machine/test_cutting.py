from collections.abc import Sequence
from math import inf

import pytest
from tests.machine.test_tokens import session

from turnchart.machine import AssistantMessage, Image, Text, UserMessage
from turnchart.machine.context import Node
from turnchart.machine.cutting import Cut, Surface, clipped, long_results, seen, shortened
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.messages import Message, ToolCall, ToolResultMessage

SIZE = 4
"""Characters of every message below: one token each."""


def surface(*kinds: str) -> Surface:
    """A conversation of nodes: ``u1`` a user, turn 1, ``a1`` an answer, ``cx1`` a call x, ``rx1`` its result.

    ``s`` is a summary, ``u`` and ``a`` stand outside of turns, ``f1`` is a fact that the program tells.
    """
    entries: list[Entry] = []
    nodes: list[Node] = []
    for seq, kind in enumerate(kinds):
        turn = int(kind[-1]) if kind[-1].isdigit() else None
        name = kind.strip("0123456789")
        message: Message
        match name[0]:
            case "u":
                type, message = "user/message", UserMessage("u" * SIZE)
            case "f":
                type, message = "user/message", UserMessage("f" * SIZE, source="runtime-context")
            case "s":
                type, message = "compaction", UserMessage("s" * SIZE, source="compaction")
            case "a":
                type, message = "assistant/message", AssistantMessage("a" * SIZE, model="m")
            case "c":
                asked = [ToolCall("t", {}, id) for id in name[1:]]
                type, message = "assistant/message", AssistantMessage(asked, model="m")
            case _:
                type, message = "tool/result", ToolResultMessage(name[1:], "t", "r" * SIZE)
        data = Frozen(message=message, **({} if turn is None else {"turn": turn}))
        entries.append(Entry(seq, None, type, 0.0, data))
        nodes.append(Node(seq, message))
    return Surface(nodes, entries)


@pytest.mark.parametrize(
    ("kinds", "turns"),
    [
        ("u1 a1 u2 a2", [0, 2]),
        ("u1 a1 u1 a1 u2", [0, 4]),  # steered in turn 1
        ("f1 u1 a1 f2 u2", [0, 3]),
        ("s u3 a3", [1]),
        ("u a u a", [0, 2]),  # imported: what a person says begins a turn
        ("s a", []),
    ],
)
def test_turns_begin_with_what_the_user_says(kinds: str, turns: list[int]) -> None:
    assert surface(*kinds.split()).turns == turns


@pytest.mark.parametrize(
    ("kinds", "illegal"),
    [
        ("u1 cx1 rx1 a1", {2}),
        ("u1 cxy1 rx1 ry1 a1", {2, 3}),
        ("rx1 u1", {0}),  # its call is not shown
        ("u1 cx1 rx1 cx1 rx1", {2, 4}),  # ids repeat in later steps
        ("u1 cx1 a1 u2", set[int]()),  # a call that never got a result holds nothing together
    ],
)
def test_a_cut_stands_nowhere_between_a_call_and_its_result(kinds: str, illegal: set[int]) -> None:
    made = surface(*kinds.split())
    assert {at for at in range(len(made.nodes)) if not made.legal(at)} == illegal


@pytest.mark.parametrize(
    ("kinds", "keep", "room", "cut"),
    [
        ("u1 a1 u2 a2 u3 a3", 2, inf, Cut(2, 2)),
        ("u1 a1 u2 a2 u3 a3", 1, inf, Cut(4, 4)),
        ("u1 a1 u2 a2 u3 a3", 2, 3, Cut(4, 4)),  # two do not fit
        ("u1 a1 u2 a2 u3 a3", 2, 1, Cut(4, 4)),  # none does, and the last one cannot be split
        ("u1 a1 u2 a2 u3 a3", 0, inf, Cut(6, 6)),
        ("u1 a1", 2, inf, None),
        ("u1 a1", 0, inf, Cut(2, 2)),
        ("u1 a1 u2", 2, 0, Cut(2, 2)),  # what was asked last stays, whatever its size
        ("u1 cx1 rx1 cy1 ry1 a1", 2, 3, Cut(3, 0)),
        ("u1 cx1 rx1 cy1 ry1 a1", 2, 1, Cut(5, 0)),
        ("u1 cx1 rx1 cy1 ry1", 2, inf, Cut(3, 0)),
        ("u1 cx1 rx1", 1, inf, None),  # only a pair
        ("u1", 1, inf, None),
        ("", 1, inf, None),
        ("", 0, inf, None),
        ("s", 0, inf, None),  # nothing new
        ("s u2 a2", 1, inf, None),
        ("s u2 a2 u3 a3", 1, inf, Cut(3, 3)),
        ("s u2 cx2 rx2 a2 a2", 1, inf, Cut(5, 1)),
    ],
)
def test_where_a_conversation_is_cut(kinds: str, keep: int, room: float, cut: Cut | None) -> None:
    assert surface(*kinds.split()).cut(keep, room) == cut


def test_what_one_entry_brought_along_stays_together() -> None:
    log = session(UserMessage("a"), UserMessage("b"))
    tail = (UserMessage("kept"), UserMessage("kept too"))
    log.append("compaction", Frozen(summary="s", first_kept=1, retained_tail=tail, tokens_before=9))
    made = Surface(log.view.nodes, log.entries)
    assert [node.message.text[:4] for node in made.nodes][1:] == ["kept", "kept", "b"]
    assert [made.legal(at) for at in range(5)] == [True, False, False, True, True]
    assert [made.is_summary(at) for at in range(4)] == [True, False, False, False]
    assert not made.says_more(3)
    assert made.says_more(4)


def results(*lengths: int) -> Sequence[Node]:
    return [Node(i, ToolResultMessage("c", "t", "r" * length)) for i, length in enumerate(lengths)]


def test_results_above_8192_characters_are_too_long() -> None:
    nodes = [*results(8192, 8193, 10), Node(3, UserMessage("u" * 9000))]
    (long,) = long_results(nodes, 4)
    assert (long.at, long.message.text[:3]) == (1, "rrr")
    assert long.saved == 8193 - len(long.message.text)
    assert list(long_results(nodes, 1)) == []


def test_a_shortened_result_has_its_beginning_its_end_and_its_images() -> None:
    image = Image("aGk=", "image/png")
    short = shortened([Text("a" * 5000), image, Text("b" * 5000)])
    assert short == (Text("a" * 4096 + "\n[4880 characters left out]\n" + "b" * 1024), image)
    assert list(long_results([Node(0, ToolResultMessage("c", "t", short))], 1)) == []


def test_a_text_that_fits_is_not_clipped() -> None:
    assert clipped("abcdef", 3, 3) == "abcdef"
    assert clipped("abcdef", 2, 1) == "ab\n[3 characters left out]\nf"


def test_what_the_model_has_answered_is_what_it_has_seen() -> None:
    assert seen(surface("u1", "a1", "u2").nodes) == 2
    assert seen(surface("u1").nodes) == 0

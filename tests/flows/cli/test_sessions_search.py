import json
from collections.abc import Callable
from typing import Any

import pytest

from turnchart.flows.cli.places import shelf
from turnchart.flows.cli.sessions_search import shown
from turnchart.machine.entries import Frozen
from turnchart.machine.messages import UserMessage
from turnchart.machine.searching import Hit

Cli = Callable[..., Any]


def said(store: str, id: str, *texts: str) -> None:
    session = shelf(store).open(id, "x")
    for text in texts:
        session.append("user/message", Frozen(message=UserMessage(text)), time=0.0)
    session.close()


@pytest.mark.parametrize("store", ["some.db", "many/", "one.jsonl"])
def test_messages_are_found_in_every_kind_of_store(cli: Cli, store: str) -> None:
    said(store, "one", "fix the parser", "thanks")
    if store != "one.jsonl":
        said(store, "two", "the parser again")
    ended = cli("sessions", "search", "parser", "the", "--store", store)
    assert (ended.code, ended.err) == (0, "")
    lines = sorted(ended.out.splitlines())
    assert [line.split()[:2] for line in lines] == [["one", "0"], ["two", "0"]][: len(lines)]
    assert lines[0].endswith("  user: fix the parser")
    assert len(lines) == (1 if store == "one.jsonl" else 2)
    found = json.loads(cli("sessions", "search", "thanks", "--json", "--store", store).out)
    assert found == [
        {"session": "one", "seq": 1, "type": "user/message", "time": 0.0, "text": "thanks", "marks": [[0, 6]]}
    ]


def test_the_usual_place_is_searched_and_nothing_found_is_said(cli: Cli) -> None:
    assert cli("sessions", "search", "x") == (1, "", "nothing found in .turnchart/sessions.db\n")
    assert json.loads(cli("sessions", "search", "x", "--json").out) == []


def test_no_more_than_asked_for(cli: Cli) -> None:
    said("some.db", "one", *["again"] * 5)
    assert len(cli("sessions", "search", "again", "--limit", "2", "--store", "some.db").out.splitlines()) == 2


def test_wrong_usage(cli: Cli) -> None:
    assert cli("sessions", "search").code == 2
    ended = cli("sessions", "search", "...")
    assert (ended.code, "there is no word to search for in '...'" in ended.err) == (2, True)


def test_the_words_are_bold_on_a_terminal() -> None:
    hit = Hit("a\nb", 3, "tool/result", 0.0, "a needle here", ((2, 8),))
    assert shown(hit).endswith("  result: a needle here")
    assert shown(hit, bold=True).endswith("  result: a \x1b[1mneedle\x1b[0m here")
    assert "\n" not in shown(hit)

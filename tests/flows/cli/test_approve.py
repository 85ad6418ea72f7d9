import io
from collections.abc import Mapping
from typing import Any

import pytest

from turnchart.flows.cli.approve import BEFOREHAND, NOBODY, answered, at_terminal, decoded, on_stdin
from turnchart.flows.cli.render import Screen
from turnchart.machine.approvals import Answer, Approve, ApproveForSession, Question, Refuse

QUESTION = Question("c1", "shell", {"command": "make"}, "a rule asks")


class Typist:
    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)

    async def __call__(self) -> str | None:
        return self._lines.pop(0) if self._lines else None


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("y", Approve()),
        (" Yes ", Approve()),
        ("always", ApproveForSession()),
        ("a", ApproveForSession()),
        ("n", Refuse("the user said no")),
        ("no: use the other one", Refuse("use the other one")),
        ("n not on Fridays", Refuse("not on Fridays")),
        ("maybe", None),
        ("a better idea: use the other one", None),
        ("yes but only the first", None),
        ("", None),
    ],
)
def test_what_a_person_may_type(line: str, answer: Answer | None) -> None:
    assert answered(line) == answer


async def test_a_person_is_asked_until_there_is_an_answer() -> None:
    err = io.StringIO()
    ask = at_terminal(Screen(io.StringIO(), err), Typist("hm", "n too loud"))
    assert await ask(QUESTION) == Refuse("too loud")
    assert err.getvalue() == (
        '  may shell run? {"command": "make"}  (a rule asks)\n'
        "  [y]es, [a]lways in this session, [n]o and why:   [y]es, [a]lways in this session, [n]o and why: "
    )


async def test_nobody_at_the_terminal() -> None:
    assert await at_terminal(Screen(io.StringIO(), io.StringIO()), Typist())(QUESTION) == Refuse(NOBODY)


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ('{"approve": "c1"}', Approve()),
        ('{"approve": "c1", "session": true}', ApproveForSession()),
        ('{"approve": "c1", "session": "yes"}', Approve()),
        ('{"refuse": "c1", "reason": "late"}', Refuse("late")),
        ('{"refuse": "c1"}', Refuse("refused")),
    ],
)
def test_what_a_program_may_write(line: str, answer: Answer) -> None:
    assert decoded(line, "c1") == answer


@pytest.mark.parametrize(
    "line", ["", "yes", "[]", "{}", '{"approve": "c2"}', '{"approve": true}', "[" * 100_000]
)
def test_what_is_no_answer_is_told_so(line: str) -> None:
    assert decoded(line, "c1") == 'write {"approve": "c1"} or {"refuse": "c1", "reason": "..."}'


def test_who_says_both_has_refused() -> None:
    assert decoded('{"approve": "c1", "refuse": "c1", "reason": "no"}', "c1") == Refuse("no")


async def test_a_program_is_asked_by_an_event() -> None:
    told: list[Mapping[str, Any]] = []
    assert await on_stdin(told.append, Typist("?", '{"approve": "c1"}'))(QUESTION) == Approve()
    assert told[0] == {
        "type": "approval/asked", "id": "c1", "tool": "shell", "args": {"command": "make"},
        "reason": "a rule asks",
    }  # fmt: skip
    assert [record["type"] for record in told] == ["approval/asked", "notice"]
    assert await on_stdin(told.append, Typist())(QUESTION) == Refuse(NOBODY)


async def test_answers_beforehand() -> None:
    reads = Question("c1", "read_file", {}, effects="read")
    assert await BEFOREHAND["all"](QUESTION) == Approve()
    assert isinstance(await BEFOREHAND["none"](reads), Refuse)
    assert await BEFOREHAND["reads"](reads) == Approve()
    assert isinstance(await BEFOREHAND["reads"](QUESTION), Refuse)

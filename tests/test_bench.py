"""What judges the figures of tests/bench: the budget of a turn, and the page of the benchmarks."""

import json
import sys
from pathlib import Path

import pytest
from tests.bench import budget, durable, page, report
from tests.bench.rounds import Results

BUDGET = {"a": {"calls": 100, "entries": 10}}


def results(ours: float, theirs: float) -> Results:
    found = Results()
    found.about = {"date": "1 May 2026", "python": "3.13.0", "rounds": "3", "machine": "two processors"}
    for peer, value in (("bare", 2.0), ("agno", theirs), ("turnchart", ours)):
        found.add(peer, {"a": {"value": value}})
    return found


@pytest.mark.parametrize("counts", [{"calls": 102, "entries": 10}, {"calls": 1, "entries": 1}])
def test_a_turn_within_its_budget_is_fine(counts: budget.Counts) -> None:
    assert budget.exceeded({"a": counts}, BUDGET) == []


def test_a_count_over_its_budget_is_named_with_its_row() -> None:
    found = {"a": {"calls": 103, "entries": 11}}
    assert budget.exceeded(found, BUDGET) == [
        "Row a, calls: 103 a turn, and the budget is 100 (and 2%).",
        "Row a, entries: 11 a turn, and the budget is 10.",
    ]


def test_every_budget_has_every_row_and_count() -> None:
    budgets = json.loads(budget.FILE.read_text("utf-8"))
    wanted = {(row, count) for row in budget.ROWS for count in budget.TOLERANCE}
    assert {version: budget.kinds(each) for version, each in budgets.items()} == dict.fromkeys(
        budgets, wanted
    )


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A budget of this version of Python, which its turns exceed."""
    counts = dict.fromkeys(budget.TOLERANCE, 10)
    path = tmp_path / "budget.json"
    path.write_text(json.dumps({budget.VERSION: {"a": counts}}), "utf-8")
    monkeypatch.setattr(budget, "FILE", path)
    monkeypatch.setattr(budget, "counted", lambda: {"a": counts | {"calls": 200}})
    monkeypatch.setattr(sys, "argv", ["budget"])
    return path


@pytest.mark.usefixtures("file")
def test_a_turn_over_its_budget_fails_and_says_how_to_renew_it() -> None:
    with pytest.raises(SystemExit, match=r"calls: 200 .*\n.*`make budget ARGS=--write`"):
        budget.main()


def test_the_budget_is_written_anew_when_asked(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["budget", "--write"])
    budget.main()
    assert json.loads(file.read_text("utf-8"))[budget.VERSION]["a"]["calls"] == 200


@pytest.mark.usefixtures("file")
def test_a_version_without_a_budget_is_not_judged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(budget, "VERSION", "3.99")
    budget.main()
    assert "Python 3.99 has no budget, so nothing is judged" in capsys.readouterr().out


def test_a_budget_of_other_counts_is_refused(file: Path) -> None:
    file.write_text(json.dumps({budget.VERSION: BUDGET}), "utf-8")
    with pytest.raises(SystemExit, match=r"in budget\.json are not those that are counted now"):
        budget.main()


def test_the_page_gives_multiples_of_the_floor() -> None:
    text = page.page(results(ours=100, theirs=150))
    assert "| 2.00 µs |    50.0 x | 75.0 x |" in text
    assert "Turnchart is ahead of every peer on every line." in text
    assert "Measured on 1 May 2026 with Python 3.13.0" in text


def test_the_page_says_who_is_ahead() -> None:
    text = page.page(results(ours=200, theirs=150))
    assert "ahead of every peer on 0 of 1 lines" in text
    assert "| a: one turn, one request, a two-letter answer | agno: 0.75 x |" in text


def test_the_page_says_who_was_left_out_and_that_the_machine_was_busy() -> None:
    found = results(ours=1, theirs=2)
    found.leave_out("burr is left out: no network")
    found.about["busy"] = "9.5"
    text = page.page(found)
    assert "Burr is left out: no network." in text
    assert "a load of 9.5" in text


def measured(turns: float) -> dict[str, float]:
    rates = {durable.rate_of(many, pause): turns * many for pause in durable.MODELS for many in (1, 2)}
    return rates | {durable.STEP: 0.9, durable.PLAIN: 3.0, durable.CHUNK[50]: 14, durable.CHUNK[95]: 25}


def test_the_page_tells_of_durable_turns_where_they_were_measured() -> None:
    found = results(ours=1, theirs=2)
    assert page.DURABLE not in page.page(found)
    found.add("turnchart", {name: {"value": value} for name, value in measured(40).items()})
    text = page.page(found)
    assert "| an instant model |       40.0 |        80.0 |" in text
    assert "takes 0.90 ms: 0.30 times what one takes" in text.replace("\n", " ")
    (judged,) = [each for each in report.goals(found) if each.figure == durable.STEP]
    assert (judged.unit, judged.mark) == ("ms", "met")
    section = page.durable(measured(50))
    again = page.with_durable(text, section)
    assert page.with_durable(again, section) == again
    assert "| an instant model |       50.0 |         100 |" in again
    before, _, rest = text.partition(page.DURABLE)
    assert again.startswith(before)
    assert again.endswith(rest[rest.index(page.LEGEND) :])


def test_the_page_tells_of_a_machine_that_had_other_work() -> None:
    assert "a load of 99.0" in page.durable(measured(40), load=99.0)


def test_results_that_were_written_are_read_again(tmp_path: Path) -> None:
    found = results(ours=1, theirs=2)
    found.write(tmp_path / "found.json", goals=[])
    assert page.page(Results.read(tmp_path / "found.json")) == page.page(found)


def test_a_goal_is_a_multiple_of_the_floor() -> None:
    (judged,) = report.goals(results(ours=150, theirs=2))
    assert (judged.figure, judged.found, judged.mark) == ("a", 75, "met")

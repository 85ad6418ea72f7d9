import json
from typing import Any

from turnchart.flows.problems import Problem, render_all
from turnchart.flows.reports import github, sarif
from turnchart.machine.version import VERSION

WRONG = Problem("unknown-key", 'unknown key "a"', "a b.yaml", 3, 5, 2, 'did you mean "b"?')
WHOLE = Problem("file-missing", "cannot read 100%", "/x/gone,1:2.yaml", level="note")


def test_workflow_commands_say_where_and_what() -> None:
    place = "file=a b.yaml,line=3,col=5,endColumn=7,title=unknown-key"
    assert github([WRONG]) == f'::error {place}::unknown key "a"%0Ahelp: did you mean "b"?'


def test_workflow_commands_escape_what_would_end_them() -> None:
    assert github([WHOLE]) == ("::notice file=/x/gone%2C1%3A2.yaml,title=file-missing::cannot read 100%25")
    assert "\n" not in github([Problem("program", "a\nb\r", "f", level="warning")])


def test_no_problems_are_no_commands() -> None:
    assert github([]) == ""


def results(text: str) -> list[dict[str, Any]]:
    log = json.loads(text)
    assert (log["version"], len(log["runs"])) == ("2.1.0", 1)
    return list(log["runs"][0]["results"])


def test_sarif_holds_the_same_facts() -> None:
    text = sarif([WRONG, WHOLE])
    first, second = results(text)
    driver = json.loads(text)["runs"][0]["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("turnchart", VERSION)
    rules = driver["rules"]
    assert [each["id"] for each in rules] == ["file-missing", "unknown-key"]
    assert rules[first["ruleIndex"]]["id"] == first["ruleId"] == "unknown-key"
    assert (first["level"], second["level"]) == ("error", "note")
    assert first["message"]["text"] == 'unknown key "a"\nhelp: did you mean "b"?'
    place = first["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": "a%20b.yaml"},
        "region": {"startLine": 3, "startColumn": 5, "endColumn": 7},
    }


def test_a_problem_of_a_whole_file_has_no_region() -> None:
    [result] = results(sarif([WHOLE]))
    place = result["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "file:///x/gone%2C1%3A2.yaml"}}


def test_a_log_without_problems_is_one_all_the_same() -> None:
    assert results(render_all([], "sarif")) == []
    assert render_all([WRONG], "github") == github([WRONG])

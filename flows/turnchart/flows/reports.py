"""Problems for programs that show them beside the code: GitHub workflows, and readers of SARIF."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from turnchart.flows.problems import CODES, Problem
from turnchart.machine.version import VERSION

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def github(problems: Sequence[Problem]) -> str:
    """Return one workflow command a problem: GitHub shows it at its line of the change."""
    return "\n".join(_command(problem) for problem in problems)


def _command(problem: Problem) -> str:
    place = {"file": problem.file}
    if problem.line:
        place |= {
            "line": str(problem.line),
            "col": str(problem.column),
            "endColumn": str(problem.column + problem.length),
        }
    place["title"] = problem.code
    given = ",".join(f"{name}={_property(value)}" for name, value in place.items())
    kind = "notice" if problem.level == "note" else problem.level
    return f"::{kind} {given}::{_data(_told(problem))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _told(problem: Problem) -> str:
    return f"{problem.message}\nhelp: {problem.help}" if problem.help else problem.message


def sarif(problems: Sequence[Problem]) -> str:
    """Return a SARIF 2.1.0 log with one run."""
    codes = sorted({problem.code for problem in problems})
    driver: dict[str, Any] = {
        "name": "turnchart",
        "version": VERSION,
        "rules": [{"id": code, "shortDescription": {"text": CODES[code]}} for code in codes],
    }
    results = [_result(problem, codes.index(problem.code)) for problem in problems]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, ensure_ascii=False, indent=2)


def _result(problem: Problem, rule: int) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(problem.file)}}
    if problem.line:
        place["region"] = {
            "startLine": problem.line,
            "startColumn": problem.column,
            "endColumn": problem.column + problem.length,
        }
    return {
        "ruleId": problem.code,
        "ruleIndex": rule,
        "level": problem.level,
        "message": {"text": _told(problem)},
        "locations": [{"physicalLocation": place}],
    }


def _uri(file: str) -> str:
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())

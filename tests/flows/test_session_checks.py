"""``session`` in a flow: built-in stores, and those that a plug-in registers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from turnchart.flows import load_flow
from turnchart.flows.check import check_flow, examine
from turnchart.flows.json_schema import project_schema
from turnchart.flows.problems import NotTrusted, Problem
from turnchart.flows.trust import reaches_of
from turnchart.hooks import session_store
from turnchart.hooks.params import Command
from turnchart.hooks.stores import STORES
from turnchart.machine.jsonl import JsonlStore
from turnchart.machine.stores import Store

Problems = Callable[..., list[Problem]]
Found = Callable[..., list[tuple[str, int, int]]]
Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STORES, "_specs", {})

    @session_store("drawer")
    class Drawer:  # pyright: ignore[reportUnusedClass]  # registered
        """Keep sessions in a drawer."""

        folder: str
        locker: Command | None = None
        most: int = 10

        def __post_init__(self) -> None:
            if self.most > 99:
                raise ValueError("a drawer holds 99")

        def open(self, id: str) -> Store:
            return JsonlStore(Path(self.folder) / f"{id}.jsonl", id=id)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("session: {store: sqlite, path: a.db}\n", []),
        ("session: {store: sqlite, with: {}}\n", []),
        ("session: {store: memory, path: a.db}\n", [("key-not-here", 2, 32)]),
        ("session: {store: jsonl, path: ../a}\n", [("path-outside", 2, 31)]),
        ("session: {store: jsonl, with: {folder: x}}\n", [("key-not-here", 2, 31)]),
        ("session: {store: drawer, with: {folder: x}}\n", []),
        ("session: {store: drawer}\n", [("missing-key", 2, 18)]),
        ("session: {store: drawer, with: {folder: x}, path: y}\n", [("key-not-here", 2, 51)]),
        ("session: {store: drawer, with: {foldr: x}}\n", [("unknown-key", 2, 33)]),
        ("session: {store: drawer, with: {folder: x, most: many}}\n", [("bad-value", 2, 50)]),
        ("session: {store: drawer, with: {folder: x, most: 100}}\n", [("bad-value", 2, 32)]),
        ("session: {store: drawr, with: {folder: x}}\n", [("unknown-store", 2, 18)]),
        ("session: {store: ''}\n", [("bad-value", 2, 18)]),
        ("session: {store: [a]}\n", [("bad-value", 2, 18)]),
        ("session: {path: a}\n", [("missing-key", 2, 10)]),
    ],
)
def test_what_is_wrong_with_it(found: Found, text: str, expected: list[tuple[str, int, int]]) -> None:
    assert found(text) == expected


def test_a_name_that_is_not_known_is_told_with_those_that_are(problems: Problems) -> None:
    [problem] = problems("session: {store: drawr}\n")
    assert problem.message == 'no session store named "drawr"'
    assert problem.help == (
        'did you mean "drawer"? session stores: memory, jsonl, sqlite, drawer. Yours come in by a plug-in; a'
        " file cannot import"
    )
    [problem] = problems("session: {store: sqlit}\n")
    assert problem.help.startswith('did you mean "sqlite"?')


def test_without_the_plug_in_that_nobody_agreed_to_it_is_a_warning(write: Write) -> None:
    write('[tool.turnchart]\nplugins = ["drawers"]\n', "pyproject.toml")
    write("version: 1\nsession: {store: closet}\n")
    levels = {each.code: each.level for each in check_flow("flow.yaml")}
    assert levels == {"plugin-not-trusted": "warning", "unknown-store": "warning"}


def test_what_it_gets_and_starts_is_agreed_to(write: Write) -> None:
    write("version: 1\nmodel: test\nsession: {store: drawer, with: {folder: x, locker: [lock, -a]}}\n")
    listed = [str(reach) for reach in reaches_of(examine("flow.yaml"))]
    assert listed == [
        'reaches the session store drawer (folder "x", locker ["lock", "-a"])', "starts lock -a",
    ]  # fmt: skip
    with pytest.raises(NotTrusted, match="reaches the session store drawer"):
        load_flow("flow.yaml").agent()
    before = {reach.digest for reach in reaches_of(examine("flow.yaml"))}
    write("version: 1\nmodel: test\nsession: {store: drawer, with: {folder: y, locker: [lock, -a]}}\n")
    assert len(before - {reach.digest for reach in reaches_of(examine("flow.yaml"))}) == 1


def test_a_flow_knows_what_its_store_takes(write: Write) -> None:
    write("version: 1\nmodel: test\nsession: {store: drawer, with: {folder: '${env:D}'}}\n")
    write('version: 1\nmodel: test\nsession: {store: drawer, with: {folder: "${env:D}"}}\n')
    use = load_flow("flow.yaml", env={"D": "deep"}).checked.store
    assert use is not None
    assert (use.spec.name, dict(use.params)) == ("drawer", {"folder": "deep"})


SCHEMA_CASES: list[tuple[dict[str, Any], bool]] = [
    ({"store": "sqlite", "path": "a.db"}, True),
    ({"store": "memory"}, True),
    ({"store": "drawer", "with": {"folder": "x"}}, True),
    ({"store": "${env:STORE}"}, True),
    ({"store": "drawer"}, False),
    ({"store": "drawer", "with": {"folder": "x"}, "path": "y"}, False),
    ({"store": "drawer", "with": {"folder": "x", "more": 1}}, False),
    ({"store": "sqlite", "with": {"folder": "x"}}, False),
    ({"store": "memory", "path": "x"}, False),
    ({"store": "closet"}, False),
]


@pytest.mark.parametrize(("session", "good"), SCHEMA_CASES, ids=lambda case: json.dumps(case))
def test_the_schema_knows_it(session: dict[str, Any], good: bool) -> None:
    validator: Any = Draft7Validator(project_schema())
    assert validator.is_valid({"version": 1, "session": session}) == good

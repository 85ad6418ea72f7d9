"""What DBOS is told of turns."""

import re

import pytest
from tests.machine.processes import run

from turnchart.machine.durable.journal import (
    DurableError,
    alchemy_url,
    app_of,
    asked_for,
    serializer,
    version_of,
)


def test_a_turn_is_one_workflow_in_the_partition_of_its_session() -> None:
    asked = asked_for("reviewer", "s1", 3)
    assert asked.get("workflow_id") == "s1:3"
    assert asked.get("queue_partition_key") == "s1"
    assert asked["queue_name"] == asked.get("application_name") == app_of("reviewer")


def test_each_flow_is_an_application_with_versions_of_its_own() -> None:
    flows = ("reviewer", "Reviewer", "re viewer", "ü", "", "x" * 300, "a:1")
    names = [app_of(flow) for flow in flows]
    assert len(set(names)) == len(flows)
    assert all(re.fullmatch("[a-z0-9-_]{3,256}", name) for name in names), "DBOS takes no others"
    assert app_of("reviewer").startswith("turnchart-reviewer-")
    assert len({version_of(flow, version) for flow in ("a", "a:1") for version in ("1", "1:1")}) == 4


def test_an_address_is_written_for_sqlalchemy() -> None:
    assert alchemy_url("postgres://me@host:1/name") == "postgresql+psycopg://me@host:1/name"
    assert alchemy_url("postgresql://me@host/name?sslmode=require").endswith("/name?sslmode=require")


@pytest.mark.parametrize("dsn", ["host=here dbname=x", "sqlite:///file", "mysql://host/x", ""])
def test_another_address_is_refused(dsn: str) -> None:
    with pytest.raises(DurableError, match="an address like postgres://user@host/database"):
        alchemy_url(dsn)


def test_the_journal_is_json() -> None:
    writes = serializer()
    assert writes.serialize({"seq": 1}) == '{"value": {"seq": 1}}'
    assert writes.deserialize(writes.serialize([1, None, "x"])) == [1, None, "x"]
    again = writes.deserialize(writes.serialize(KeyError("who")))
    assert isinstance(again, DurableError)
    assert str(again) == "KeyError: 'who'"


def test_without_dbos_the_extra_is_named() -> None:
    code = """
import sys
sys.modules["dbos"] = None
from turnchart.machine.durable import DurableAgent, DurableError
try:
    DurableAgent("postgres://me@host/x", "s")
except DurableError as error:
    print(error)
"""
    assert "pip install 'turnchart[durable]'" in run(code)


def test_nothing_is_loaded_before_it_is_used() -> None:
    code = "import sys, turnchart.machine.durable; print('dbos' in sys.modules, 'psycopg' in sys.modules)"
    assert run(code) == "False False\n"

"""What DBOS is told: names of queue and workflow, how a turn is asked for, and JSON instead of pickles."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from turnchart.machine.errors import TurnchartError
from turnchart.machine.postgres_database import EXTRA

if TYPE_CHECKING:
    from types import ModuleType

    from dbos import EnqueueOptions

WORKFLOW: Final = "turnchart.turn"
VERSION: Final = "1"
"""The application version of workers that name none: that of what a turn writes to log and journal."""


class DurableError(TurnchartError):
    """Durable turns cannot be asked for or run as they were set up."""


def dbos() -> ModuleType:
    """Return DBOS, which is loaded with the first use.

    Raises:
        DurableError: If it is not installed.
    """
    try:
        import dbos
    except ImportError as error:
        raise DurableError(f"durable turns need DBOS, which cannot be loaded ({error}): {EXTRA}") from error
    return dbos


def app_of(flow: str) -> str:
    """Return what DBOS knows the workers of a flow as, and their queue: in letters that it takes.

    Which version takes new turns is decided for each application, so each flow is one of its own.
    """
    shown = re.sub(r"[^a-z0-9]+", "-", flow.lower())[:40].strip("-")
    return f"turnchart-{shown}-{sha256(flow.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def version_of(flow: str, version: str) -> str:
    """Return what DBOS knows a version of a flow as: the names of all applications are in one table."""
    return f"{app_of(flow)}:{version}"


def asked_for(flow: str, session: str, ticket: int) -> EnqueueOptions:
    """Return how one turn of a session is put into the queue: the turns of one session run one at a time."""
    return {
        "workflow_name": WORKFLOW, "queue_name": app_of(flow), "workflow_id": f"{session}:{ticket}",
        "queue_partition_key": session, "application_name": app_of(flow),
    }  # fmt: skip


def alchemy_url(dsn: str) -> str:
    """Return the address of a database as SQLAlchemy writes it.

    Raises:
        DurableError: If it is no URL.
    """
    scheme, found, rest = dsn.partition("://")
    if not found or scheme not in ("postgres", "postgresql"):
        raise DurableError(
            "durable turns need an address like postgres://user@host/database or sqlite:PATH, not"
            f" {dsn!r:.80}"
        )
    return f"postgresql+psycopg://{rest}"


def serializer() -> Any:
    """Return what writes inputs and results of workflows as JSON, which can be read without running code."""
    from dbos import Serializer

    class Json(Serializer):
        def serialize(self, data: Any) -> str:
            if isinstance(data, BaseException):
                return json.dumps({"error": type(data).__name__, "message": str(data)})
            return json.dumps({"value": data})

        def deserialize(self, serialized_data: str) -> Any:
            raw = json.loads(serialized_data)
            return DurableError(f"{raw['error']}: {raw['message']}") if "error" in raw else raw["value"]

        def name(self) -> str:
            return "turnchart_json"

    return Json()

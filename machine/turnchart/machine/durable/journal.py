"""What DBOS is told: names of queue and workflow, how a turn is asked for, and JSON instead of pickles."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from turnchart.machine.errors import TurnchartError
from turnchart.machine.postgres_database import EXTRA

if TYPE_CHECKING:
    from types import ModuleType

    from dbos import EnqueueOptions

APP: Final = "turnchart"
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


def queue_of(flow: str) -> str:
    """Return the queue that the workers of a flow empty."""
    return f"turnchart/{flow}"


def asked_for(flow: str, session: str, ticket: int) -> EnqueueOptions:
    """Return how one turn of a session is put into the queue: the turns of one session run one at a time."""
    return {
        "workflow_name": WORKFLOW, "queue_name": queue_of(flow), "workflow_id": f"{session}:{ticket}",
        "queue_partition_key": session, "application_name": APP,
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

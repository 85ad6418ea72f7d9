"""What is asked of the queue of DBOS in one statement each, so that nothing comes between look and change."""

from __future__ import annotations

import time
from typing import Final

from turnchart.machine.postgres_database import Database

_PUT_BACK: Final = """
    UPDATE dbos.workflow_status SET status = 'ENQUEUED', owner_xid = NULL, started_at_epoch_ms = NULL,
        recovery_attempts = 0, application_version = coalesce(%s, application_version), updated_at = %s
    WHERE workflow_uuid = %s AND status = 'PENDING' AND executor_id = %s"""
_HAS: Final = """
    SELECT 1 FROM dbos.workflow_status WHERE workflow_uuid = %s AND status = 'PENDING' AND executor_id = %s"""
_UNPIN: Final = """
    UPDATE dbos.workflow_status SET application_version = NULL
    WHERE queue_name = %s AND queue_partition_key = %s AND status = 'ENQUEUED'
        AND application_version IS NOT NULL
        AND EXISTS (SELECT 1 FROM turnchart.sessions WHERE id = %s AND epoch = %s)"""
_UNFINISHED: Final = """
    SELECT workflow_uuid, application_version FROM dbos.workflow_status
    WHERE queue_name = %s AND queue_partition_key = %s AND status IN ('ENQUEUED', 'PENDING')"""


class BegunElsewhere(Exception):
    """A turn is open that workers of another version go on with.

    Attributes:
        version: Theirs, as DBOS knows it.
    """

    def __init__(self, version: str) -> None:
        super().__init__(f"a turn is open that was begun with {version}")
        self.version = version


def put_back(db: Database, workflow: str, executor: str, version: str | None = None) -> bool:
    """Put a turn back into its queue, unless it is another executor's now; return whether it was ours.

    Args:
        db: The database.
        workflow: The id of its workflow.
        executor: Who had it.
        version: Who is to have it; None: who may have it now.
    """
    now = int(time.time() * 1000)
    return db.execute(_PUT_BACK, (version, now, workflow, executor)).rowcount == 1


def has(db: Database, workflow: str, executor: str) -> bool:
    """Tell whether a turn is this executor's to run."""
    return db.execute(_HAS, (workflow, executor)).fetchone() is not None


def unpin(db: Database, queue: str, writer: tuple[str, int]) -> None:
    """Let workers of every version have what waits in a session in which no turn is open.

    Args:
        db: The database.
        queue: The queue of the flow.
        writer: The session, and the number of its writer, who alone knows that.
    """
    db.execute(_UNPIN, (queue, writer[0], *writer))


def begun_with(db: Database, queue: str, session: str, ticket: int) -> str | None:
    """Return the version that took the oldest turn of a session before this one that is not over.

    None where there is none, or nobody ever took it.
    """
    rows = db.execute(_UNFINISHED, (queue, session)).fetchall()
    before = [(int(workflow.rpartition(":")[2]), version) for workflow, version in rows]
    found: str | None = min((each for each in before if each[0] < ticket), default=(0, None))[1]
    return found

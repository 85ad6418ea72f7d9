"""Which database an address names: a Postgres server for many machines, or a SQLite file for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnchart.machine.durable.journal import alchemy_url
from turnchart.machine.durable.sqlite_database import SqliteDatabase, engine, path_of
from turnchart.machine.postgres_database import Database

if TYPE_CHECKING:
    from sqlalchemy import Engine


def opened(dsn: str) -> Database:
    """Return a connection of its own to a database.

    Raises:
        DurableError: If the address is none of those.
        SessionError: If psycopg is not installed.
    """
    path = path_of(dsn)
    if path is not None:
        return SqliteDatabase(path)
    alchemy_url(dsn)
    return Database(dsn)


def engine_of(dsn: str) -> Engine:
    """Return a pool of connections for DBOS, which pings before it trusts one."""
    import sqlalchemy

    path = path_of(dsn)
    if path is not None:
        return engine(path)
    return sqlalchemy.create_engine(alchemy_url(dsn), pool_size=4, pool_pre_ping=True)

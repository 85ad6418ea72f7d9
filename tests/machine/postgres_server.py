"""A Postgres server for tests: unprivileged, on loopback, with a port and a folder of its own."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from uuid import uuid4

import psycopg


def binaries() -> Path | None:
    """Return the folder with the newest server that is installed; None where there is none."""
    found = shutil.which("initdb")
    folders = sorted(glob("/usr/lib/postgresql/*/bin"), key=lambda name: float(name.split("/")[4]))
    return Path(found).resolve().parent if found else Path(folders[-1]) if folders else None


class Server:
    """A server that runs; ``dsn(name)`` makes a database in it."""

    def __init__(self, folder: Path, bin: Path) -> None:
        self._folder = folder
        self._bin = bin
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]

    def _run(self, *command: str | Path) -> None:
        account = pwd.getpwnam("postgres") if os.getuid() == 0 else None  # it refuses to run as root
        done = subprocess.run(
            [self._bin / command[0], *command[1:]], capture_output=True, text=True, check=False, cwd="/",
            user=account and account.pw_uid, group=account and account.pw_gid,
        )  # fmt: skip
        log = self._folder / "log"
        assert done.returncode == 0, f"{done.stderr}{log.read_text() if log.exists() else ''}"

    def make(self) -> None:
        """Make the files of the server."""
        if os.getuid() == 0:
            shutil.chown(self._folder, "postgres")
        data = self._folder / "data"
        self._run(
            "initdb", "-D", data, "-U", "turnchart", "-A", "trust", "-E", "UTF8", "--no-sync", "--no-locale"
        )
        settings = (
            "listen_addresses = '127.0.0.1'", f"port = {self.port}",
            f"unix_socket_directories = '{self._folder}'", "fsync = off", "max_connections = 200",
            "shared_buffers = 32MB",
        )  # fmt: skip
        with (data / "postgresql.conf").open("a") as file:
            file.write("\n".join(settings) + "\n")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._control("start", "-w", "-l", str(self._folder / "log"))

    def stop(self) -> None:
        """Stop it at once, as a crash would."""
        self._control("stop", "-m", "immediate")

    def _control(self, *what: str) -> None:
        self._run("pg_ctl", "-D", self._folder / "data", "-s", *what)

    def dsn(self) -> str:
        """Make a new database and return its address."""
        name = f"t{uuid4().hex[:12]}"
        address = f"postgresql://turnchart@127.0.0.1:{self.port}"
        with psycopg.connect(f"{address}/postgres", autocommit=True) as db:
            db.execute(f'CREATE DATABASE "{name}"'.encode())
        return f"{address}/{name}"


@contextmanager
def server() -> Generator[Server]:
    """Run a server meanwhile."""
    bin = binaries()
    assert bin is not None, "Postgres is not installed"
    folder = Path(tempfile.mkdtemp(prefix="turnchart-postgres-", dir="/tmp"))
    one = Server(folder, bin)
    try:
        one.make()
        one.start()
        try:
            yield one
        finally:
            one.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)

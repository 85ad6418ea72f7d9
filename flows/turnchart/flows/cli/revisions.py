"""A file as it was in an earlier revision of its git repository, with everything that it may name."""

import subprocess
import tarfile
from collections.abc import Generator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from turnchart.machine.errors import TurnchartError


class RevisionError(TurnchartError):
    """A file could not be read from a revision; the message says why."""


def is_revision(name: str, file: Path) -> bool:
    """Whether a name is a revision of the repository that holds a file."""
    if name.startswith("-"):
        return False
    found = _git(file.parent, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    return found is not None and found.returncode == 0


@contextmanager
def at_revision(file: Path, revision: str) -> Generator[Path]:
    """Give the file as it was in a revision, inside a copy of its repository as it was then.

    Raises:
        RevisionError: If the file was not there then.
    """
    file = file.resolve()
    top = Path(_said(file.parent, "rev-parse", "--show-toplevel").decode().rstrip("\n")).resolve()
    with TemporaryDirectory(prefix="turnchart-") as folder:
        archive = _said(top, "archive", "--format=tar", revision)
        with tarfile.open(fileobj=BytesIO(archive)) as tar:
            for member in tar:
                held = tar.extractfile(member) if member.isfile() else None  # links could lead out of it
                if held is not None:
                    copy = Path(folder, member.name)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    copy.write_bytes(held.read())
        old = Path(folder, file.relative_to(top))
        if not old.is_file():
            raise RevisionError(f"{file.relative_to(top)} is not in revision {revision}")
        yield old


def _said(folder: Path, *arguments: str) -> bytes:
    done = _git(folder, *arguments)
    if done is None or done.returncode:
        said = "git is not installed" if done is None else done.stderr.decode(errors="replace").strip()
        raise RevisionError(f"git {arguments[0]} failed: {said}")
    return done.stdout


def _git(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[bytes] | None":
    try:
        return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=False)
    except FileNotFoundError:
        return None

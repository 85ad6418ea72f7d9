"""What people agreed to: kept for them, outside of every project, so that no project can agree to itself.

The file is ``trust.json`` in ``$XDG_STATE_HOME/turnchart`` (``~/.local/state/turnchart``). It holds, per
file, the digests of what was agreed to. What cannot be read was not agreed to.
"""

import json
import os
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Final, cast

from turnchart.machine.errors import TurnchartError

_FILE: Final = "trust.json"


def agreements_file() -> Path | None:
    """Return where answers are kept; None where the user has no home."""
    given = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(given):
        return Path(given) / "turnchart" / _FILE
    try:
        return Path.home() / ".local" / "state" / "turnchart" / _FILE
    except RuntimeError:
        return None


def agreed(path: Path, root: Path) -> frozenset[str]:
    """Return the digests that somebody agreed to for a file of the project at ``root``.

    An answer that lies inside of the project counts for nothing: a tool could have written it.
    """
    file = _outside(root)
    return frozenset(_read(file).get(_key(path), ())) if file is not None else frozenset()


def agree(path: Path, root: Path, digests: Collection[str]) -> None:
    """Note that somebody agreed to these digests, and to no others, for a file of a project.

    Raises:
        TurnchartError: If the answer cannot be kept outside of the project.
    """
    file = _outside(root)
    if file is None:
        raise TurnchartError(
            f"the answer cannot be kept outside of {root}: set XDG_STATE_HOME to a folder elsewhere, or"
            " give --trust each time"
        )
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(file, _read(file) | {_key(path): sorted(digests)})
    except OSError as error:
        raise TurnchartError(f"the answer cannot be kept in {file}: {error.strerror}") from error


def _outside(root: Path) -> Path | None:
    file = agreements_file()
    return None if file is None or file.resolve().is_relative_to(root.resolve()) else file


def _key(path: Path) -> str:
    return str(path.resolve())


def _read(file: Path) -> dict[str, list[str]]:
    try:
        given = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(given, dict):
        return {}
    pairs = cast("dict[str, object]", given).items()
    return {
        path: [str(each) for each in cast("list[object]", of)] for path, of in pairs if isinstance(of, list)
    }


def _write(file: Path, content: dict[str, list[str]]) -> None:
    """Replace the file as a whole, so that a reader sees the old answers or the new ones."""
    number, name = tempfile.mkstemp(dir=file.parent, prefix=f".{_FILE}-")
    try:
        with os.fdopen(number, "w", encoding="utf-8") as out:
            json.dump(content, out, indent=1, sort_keys=True)
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise

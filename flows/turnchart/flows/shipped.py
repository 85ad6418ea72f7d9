"""The flows that come with Turnchart: found by name, from the wheel or from a checkout."""

from pathlib import Path
from typing import NamedTuple

from turnchart.flows.source import MapNode, Scalar, read_file


class Shipped(NamedTuple):
    """A flow that comes with Turnchart."""

    name: str
    description: str
    path: Path


def shipped_folder() -> Path:
    """Return where the shipped flows are: in the package, or in ``flows/`` of a checkout."""
    package = Path(__file__).parent
    carried = package / "shipped"
    return carried if carried.is_dir() else package.parents[1]


def find_shipped(name: str) -> Path | None:
    """Return the file of a shipped flow, None if there is none of this name."""
    return next((path for path in _files() if name in (_name(path), path.name)), None)


def shipped_flows() -> list[Shipped]:
    """Return the shipped flows in the order of their names."""
    return [Shipped(_name(path), _description(path), path) for path in _files()]


def _files() -> list[Path]:
    folder = shipped_folder()
    return sorted(path for path in folder.glob("*.yaml") if not path.name.endswith(".test.yaml"))


def _name(path: Path) -> str:
    return path.name.split(".")[0]


def _description(path: Path) -> str:
    root = read_file(path).root
    found = root.get("description") if isinstance(root, MapNode) else None
    return found.text.strip() if isinstance(found, Scalar) else ""

"""The environments of the peers: Turnchart and the floor run in the project's, each other in its own."""

import os
import platform
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENVS = ROOT / "build" / "bench" / "venvs"

PEERS: dict[str, str] = {"bare": "", "agno": "agno==3.1.10", "burr": "apache-burr==0.43.0", "turnchart": ""}
"""What each peer needs that the project's environment does not have."""


class Missing(Exception):
    """A peer cannot be installed; the message says why."""


def interpreter(peer: str) -> str:
    """Return the interpreter of a peer; on first use make its environment.

    Raises:
        Missing: If that fails.
    """
    requirement = PEERS[peer]
    if not requirement:
        return sys.executable
    folder = VENVS / f"{peer}-{platform.python_version()}"
    python, stamp = folder / "bin" / "python", folder / "installed"
    if not stamp.exists() or stamp.read_text("utf-8") != requirement:
        print(f"making an environment with {requirement} (once)", file=sys.stderr, flush=True)
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement])
        stamp.write_text(requirement, "utf-8")
    return str(python)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
        raise Missing(said[-1])


def variables() -> dict[str, str]:
    """Return the environment variables for a measured process: telemetry off, everything else as it is."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONHOME")
    }
    return kept | {"AGNO_TELEMETRY": "false", "DO_NOT_TRACK": "1", "PYTHONHASHSEED": "0"}


def with_turnchart() -> dict[str, str]:
    """Return the variables for a process that imports Turnchart: this checkout's, where none is installed."""
    if find_spec("turnchart") is not None:
        return variables()
    roots = [str(ROOT / name) for name in ("machine", "hooks", "flows", "diagrams")]
    return variables() | {"PYTHONPATH": os.pathsep.join(roots)}

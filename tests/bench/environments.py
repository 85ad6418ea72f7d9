"""The environments of the peers: Turnchart and the floor run in the project's, each other in its own."""

import os
import platform
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "bench"
VENVS = BUILT / "venvs"
PI_PACKAGES = BUILT / "pi"
"""The folder of pi's packages; `node_modules` is in it."""


class Peer(NamedTuple):
    """Somebody whose turns are measured.

    Attributes:
        title: What it is called in a table.
        program: What runs it, a module of ``peers`` or a file of that folder with its first argument.
        requires: What its environment needs that the project's does not have.
    """

    title: str
    program: tuple[str, ...]
    requires: tuple[str, ...] = ()

    @property
    def is_python(self) -> bool:
        """Whether it runs in Python; else it runs in node."""
        return not self.program[0].endswith(".mjs")


_PI = ("@earendil-works/pi-agent-core@0.83.0",)

PEERS: dict[str, Peer] = {
    "bare": Peer("floor", ("bare",)),
    "agno": Peer("agno", ("agno",), ("agno==3.1.10",)),
    "burr": Peer("burr", ("burr",), ("apache-burr==0.43.0",)),
    "openai-agents": Peer("openai-agents", ("openai_agents",), ("openai-agents==0.24.0",)),
    "langchain": Peer("langchain create_agent", ("langchain",), ("langchain==1.5.2", "langgraph==1.2.24")),
    "pydantic-ai": Peer("pydantic-ai", ("pydantic_ai",), ("pydantic-ai-slim==2.68.0",)),
    "pi": Peer("pi, its harness", ("pi.mjs", "harness"), _PI),
    "pi-agent": Peer("pi, no session", ("pi.mjs", "agent"), _PI),
    "turnchart": Peer("turnchart", ("turnchart",)),
}


class Missing(Exception):
    """A peer cannot be installed; the message says why."""


def command(name: str) -> list[str]:
    """Return the command that runs a peer, without the row; on first use make its environment.

    Raises:
        Missing: If that fails.
    """
    peer = PEERS[name]
    if not peer.is_python:
        return [_node(peer), "--expose-gc", f"peers/{peer.program[0]}", *peer.program[1:]]
    python = _python(name, peer.requires) if peer.requires else sys.executable
    return [python, "-m", f"peers.{peer.program[0]}"]


def _python(name: str, requires: tuple[str, ...]) -> str:
    folder = VENVS / f"{name}-{platform.python_version()}"
    python = str(folder / "bin" / "python")
    if _is_new(folder, requires):
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requires])
        _note(folder, requires)
    return python


def _node(peer: Peer) -> str:
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        raise Missing("it needs node and npm, which are not there")
    folder = PI_PACKAGES
    if _is_new(folder, peer.requires):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _run(
            ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *peer.requires]
        )
        _note(folder, peer.requires)
    return node


def _is_new(folder: Path, requires: tuple[str, ...]) -> bool:
    """Tell whether an environment is to be made, and say so if it is."""
    stamp = folder / "installed"
    if stamp.exists() and stamp.read_text("utf-8") == " ".join(requires):
        return False
    print(f"making an environment with {' '.join(requires)} (once)", file=sys.stderr, flush=True)
    return True


def _note(folder: Path, requires: tuple[str, ...]) -> None:
    (folder / "installed").write_text(" ".join(requires), "utf-8")


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
    return kept | {
        "AGNO_TELEMETRY": "false",
        "DO_NOT_TRACK": "1",
        "LANGSMITH_TRACING": "false",
        "PI_PACKAGES": str(PI_PACKAGES),
        "PYTHONHASHSEED": "0",
    }


def with_turnchart() -> dict[str, str]:
    """Return the variables for a process that imports Turnchart: this checkout's, where none is installed."""
    if find_spec("turnchart") is not None:
        return variables()
    roots = [str(ROOT / name) for name in ("machine", "hooks", "flows", "diagrams")]
    return variables() | {"PYTHONPATH": os.pathsep.join(roots)}

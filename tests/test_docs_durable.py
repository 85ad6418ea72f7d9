"""What docs/how-to/durable.md shows runs, with a server and a worker of its own."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from tests.machine.postgres_server import binaries, server

from turnchart.machine.tools import Replay

pytest.importorskip("dbos")

pytestmark = pytest.mark.checkout

PAGE = (Path(__file__).parents[1] / "docs" / "how-to" / "durable.md").read_text("utf-8")


def test_the_table_names_every_way_to_go_on() -> None:
    assert re.findall(r'^\| `"(\w+)"` \|', PAGE, re.MULTILINE) == list(get_args(Replay))


@pytest.mark.slow
@pytest.mark.skipif(binaries() is None, reason="Postgres is not installed")
def test_the_program_asks_the_worker(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (command,) = re.findall(r"```text\n(turnchart worker .*?)\n```", PAGE, re.DOTALL)
    tmp_path.joinpath("reviewer.yaml").write_text(
        "version: 1\nmodel: test\nprompt: You review code.\n", "utf-8"
    )
    path = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    with server() as running:
        dsn = running.dsn()
        words = command.replace("postgres://me@localhost/agents", dsn).split()
        start = "import sys; from turnchart.flows.cli import main; main(sys.argv[1:])"
        with subprocess.Popen(
            [sys.executable, "-c", start, *words[1:]],
            cwd=tmp_path,
            env=path,
            stderr=subprocess.PIPE,
            text=True,
        ) as worker:
            assert worker.stderr is not None
            try:
                assert worker.stderr.readline().startswith("working on turns of reviewer")
                asked = subprocess.run(
                    [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=240,
                    env=path | {"AGENTS": dsn},
                )  # fmt: skip
            finally:
                worker.send_signal(signal.SIGTERM)
            said = worker.stderr.read()
        assert (asked.returncode, asked.stdout) == (0, "ok\n"), asked.stderr
        assert "goes on in another worker" in said
        assert worker.returncode == 0

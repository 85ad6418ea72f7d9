"""What it takes to load a flow of 1,000 lines, once everything is imported.

    python -m tests.bench.loading

It has what a large flow has: prompts in blocks, tools with settings, permissions, and long chains of hooks.
"""

import gc
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time

from tests.bench.environments import ROOT, with_turnchart

TIMES = 30
LINES = 1_000
_HEAD = """\
version: 1
model:
  id: anthropic:claude-sonnet-4-5
  settings: {max_tokens: 8192, temperature: 0.2}
  fallback: [openai:gpt-5.2]
limits: {max_steps: 60, max_seconds: 1800}
queues: {steering: one-at-a-time}
"""
_HOOK = """\
    - use: deny_commands
      id: no-command-{number}
      tools: [shell, 'run_*']
      with:
        patterns: ['\\brm\\s+-\\w*r\\w* /srv/{number}', "sudo .* {number}"]
        message: Ask the people of service {number} first.
"""
_TOOL = """\
  - use: script
    as: run_{number}
    with:
      command: [make, -C, 'services/{number}', '{{target}}']
      description: Make a target of service {number}.
      args: {{target: {{type: string, description: What to make.}}}}
"""


def flow() -> str:
    """Return a flow of 1,000 lines, in which nothing is wrong."""
    lines = _HEAD.splitlines()
    lines += ["prompt:", "  - text: |", *(f"      Rule {n}: cite file and line." for n in range(100))]
    lines += ["tools:", "  - shell", *_repeated(_TOOL, 40)]
    lines += ["permissions:", "  allow:", *(f"    - 'shell(make -C services/{n} *)'" for n in range(140))]
    lines += ["hooks:", "  pre_tool:", *_repeated(_HOOK, 80)]
    lines += ["# the end"] * (LINES - len(lines))
    return "".join(f"{line}\n" for line in lines)


def _repeated(text: str, count: int) -> list[str]:
    return [line for n in range(count) for line in text.format(number=n).splitlines()]


def measure() -> dict[str, dict[str, float]]:
    """Return the seconds of processor time of a load, in a process of its own."""
    print(f"loading a flow of {LINES:,} lines, {TIMES} times", file=sys.stderr, flush=True)
    ran = subprocess.run(
        [sys.executable, "-m", "tests.bench.loading"],
        cwd=ROOT, env=with_turnchart(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    taken: list[float] = json.loads(ran.stdout)
    return {"load 1,000 lines": {"value": median(taken), "best": min(taken)}}


def loads() -> list[float]:
    """Return the seconds of processor time of each load after the first, which imports what a load needs."""
    from turnchart.flows import load_flow

    taken: list[float] = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "large.yaml"
        path.write_text(flow(), "utf-8")
        for _ in range(TIMES + 1):
            gc.collect()
            begun = process_time()
            load_flow(path)
            taken.append(process_time() - begun)
    return taken[1:]


if __name__ == "__main__":
    print(json.dumps(loads()))

"""How fast Turnchart is, beside its peers in one run.

    python tests/bench [--rounds 3] [--seconds 0.8] [--peers bare,agno,turnchart] [--rows a,b,c]
                       [--json FILE] [--read FILE] [--write]

With --write, docs/benchmarks.md is made of it; --read takes what --json wrote, and measures nothing.
The peers are those of environments.py, each in an environment of its own in build/bench, made on demand; one
that cannot be installed is left out, and that is said.

| row | work |
|---|---|
| a | one turn, one model request, a two-letter answer |
| b | one turn: the model calls one tool, then answers |
| c | one turn: ten tool calls that may run in parallel, then the answer |
| d | a streamed answer of 1,000 chunks, per chunk |
| e | row a on top of a conversation of 100 and of 10,000 messages |
| f | a new process that imports, makes an agent and takes a turn: the whole of it |
| g | memory of an idle agent, and with its finished one-turn conversation |
| h | 1,000 agents at once, each one turn, the model taking 50 ms |
| s | stores: appending an entry, and loading a log of 100,000, an entry |
| p | 2,000 prompts in one session; t: a turn on a branch of 100 and of 100,000 entries |
| draw | drawing and verifying a session of 10,000 entries, the whole command |
| start | what the command line takes to start |
| load | loading a flow of 1,000 lines, once everything is imported |
| first | from the first chunk of an answer to its first character on a terminal, in a chat |
| durable | turns a second in workers over Postgres, a step beside one of plain DBOS, chunks to a reader |
| wire | over HTTP: a chunk through the adapter; from the first byte at the server to the terminal |

Only ratios within one run count: to the floor, which is a loop written by hand (peers/bare.py). The goals
were set with Python 3.13, where the floor of row d takes twice as long as with 3.11. Files go where TMPDIR
says.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # as `python -m tests.bench` would have it
    from tests.bench.command import main

    main()

"""What lies between a provider and a person, over real HTTP from a server of its own process.

A chunk of an answer through the adapter, beside the bare loop of `pydantic_ai.direct` that it is made of; and
the time from the first byte of an answer, as the server sends it, to its first character on a terminal.
"""

import gc
import json
import subprocess
import sys
from statistics import median
from time import thread_time_ns
from typing import Any

import anyio
from tests.bench import terminal
from tests.bench.environments import ROOT, with_turnchart

CHUNKS = 1_000
TIMES = 5
FORMATS = ("chat", "responses", "anthropic", "google")
BARE = "wire bare {}"
OURS = "wire {}"


def measure() -> dict[str, dict[str, float]]:
    """Return the microseconds of a chunk in each format, and the milliseconds of the first character."""
    print(f"answers of {CHUNKS:,} chunks over HTTP, {TIMES} times", file=sys.stderr, flush=True)
    ran = subprocess.run(
        [sys.executable, "-m", "tests.bench.wire"],
        cwd=ROOT, env=with_turnchart(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    taken: dict[str, list[float]] = json.loads(ran.stdout)
    figures = {name: {"value": median(each), "best": min(each)} for name, each in taken.items()}
    return figures | _first()


# -- chunks ------------------------------------------------------------------------------------


async def _chunks() -> dict[str, list[float]]:
    """Return the processor time of a chunk, in microseconds; the two ways are taken in turn."""
    from tests.machine.providers.loopback import Loopback, Wire
    from tests.machine.providers.wire_formats import FORMATS as WIRES

    from turnchart.machine import Reply

    found: dict[str, list[float]] = {}
    for format in FORMATS:
        whole = b"".join(WIRES[format][2](Reply(chunks=[f"word{i} " for i in range(CHUNKS)])))
        pieces = [whole[at : at + 65536] for at in range(0, len(whole), 65536)]
        with Loopback(Wire(pieces), forever=True) as server:
            found |= await _format(format, server)
    return found


async def _format(format: str, server: Any) -> dict[str, list[float]]:
    from pydantic_ai.direct import model_request_stream
    from pydantic_ai.messages import ModelRequest as Asked
    from pydantic_ai.messages import UserPromptPart
    from tests.machine.providers.asking import KEY, model_of
    from tests.machine.providers.wire_formats import FORMATS as WIRES

    from turnchart.machine import UserMessage
    from turnchart.machine.abort import AbortSignal
    from turnchart.machine.clock import SYSTEM_CLOCK
    from turnchart.machine.models import ModelRequest, RequestConfig
    from turnchart.machine.providers.routes import Route, connected

    id, path, _ = WIRES[format]
    config = RequestConfig(id)

    async def bare() -> None:
        async with model_request_stream(held.model, [Asked(parts=[UserPromptPart("hi")])]) as stream:
            async for _ in stream:
                pass

    async def ours() -> None:
        call = await model.prepare(config, AbortSignal())
        request = ModelRequest(
            id, "", [UserMessage("hi")], (), config.settings, None, AbortSignal(), SYSTEM_CLOCK
        )
        async for _ in call.stream(request):
            pass

    model = model_of(format, server)
    taken: dict[str, list[float]] = {BARE.format(format): [], OURS.format(format): []}
    async with connected(id, Route(server.url + path, KEY)) as held:
        for number in range(TIMES + 1):
            for way, name in ((bare, BARE.format(format)), (ours, OURS.format(format))):
                gc.collect()
                begun = thread_time_ns()
                await way()
                if number:  # the first one connects
                    taken[name].append((thread_time_ns() - begun) / 1e3 / CHUNKS)
    await model.aclose()
    return taken


# -- the first character -----------------------------------------------------------------------


def _answer(number: int) -> list[Any]:
    """Return the body of an answer: it begins with its mark, and comes slowly."""
    from tests.machine.providers.wire_formats import chat

    from turnchart.machine import Reply

    body: list[Any] = [0.1]
    for piece in chat(Reply(chunks=[f"{terminal.mark(number)} begins", *[" and goes on"] * 20])):
        body += [piece, 0.005]
    return body


def _first() -> dict[str, dict[str, float]]:
    from tests.machine.providers.loopback import Loopback, Wire

    with Loopback(*[Wire(_answer(number)) for number in range(terminal.TURNS)]) as server:
        seen = terminal.asked("tests.bench.wire", server.url)
        begun = [heard.begun for heard in server.heard]
    return terminal.figures("first character from a server", begun, seen)


async def _chat(url: str) -> None:
    from turnchart.machine.providers import ProviderModel

    await terminal.chat(ProviderModel("openai:small", base_url=url + "/v1", api_key="none"))


if __name__ == "__main__":
    if sys.argv[1:]:
        anyio.run(_chat, sys.argv[1])
    else:
        print(json.dumps(anyio.run(_chunks)))

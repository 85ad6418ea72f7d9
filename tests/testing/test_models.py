"""``check_model`` finds what is wrong with a model, and says which rule it breaks."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from itertools import chain, repeat

import anyio
import anyio.lowlevel
import pytest

from turnchart.machine import Failure, Reply, ScriptedModel
from turnchart.machine.abort import AbortSignal
from turnchart.machine.models import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    ModelRequest,
    PreparedCall,
    RequestConfig,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageReport,
)
from turnchart.machine.scripted import Scripted
from turnchart.testing import check_model


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_scripted_model_keeps_the_contract(backend: str) -> None:
    check_model(ScriptedModel, backend=backend)


class Wrapped(ScriptedModel):
    """A right model, for the wrong ones below."""

    async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
        call = await super().prepare(config, abort)

        def opened(request: ModelRequest) -> AsyncIterator[Chunk]:
            return self.changed(call.open(request), request)

        return replace(call, open=opened)

    async def changed(self, chunks: AsyncIterator[Chunk], request: ModelRequest) -> AsyncIterator[Chunk]:
        async for chunk in chunks:
            for each in self.each(chunk):
                yield each

    def each(self, chunk: Chunk) -> Sequence[Chunk]:
        return (chunk,)


class Nameless(Wrapped):
    def __init__(self, replies: Sequence[Scripted]) -> None:
        super().__init__(replies, id="")


class Eager(Wrapped):
    async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
        self._replies.popleft()
        return await super().prepare(config, abort)


class Endless(Wrapped):
    def each(self, chunk: Chunk) -> Sequence[Chunk]:
        return () if isinstance(chunk, Finish) else (chunk,)


class Talkative(Wrapped):
    def each(self, chunk: Chunk) -> Sequence[Chunk]:
        return (chunk, TextDelta("more")) if isinstance(chunk, Finish) else (chunk,)


class Trimming(Wrapped):
    def each(self, chunk: Chunk) -> Sequence[Chunk]:
        return (chunk._replace(text=chunk.text.strip()),) if isinstance(chunk, TextDelta) else (chunk,)


class Plain(Wrapped):
    def each(self, chunk: Chunk) -> Sequence[Chunk]:
        if isinstance(chunk, BlockStart) and chunk.kind == "thinking":
            return (BlockStart("text", chunk.block),)
        return (TextDelta(chunk.text, chunk.block),) if isinstance(chunk, ThinkingDelta) else (chunk,)


class Mute(Wrapped):
    def each(self, chunk: Chunk) -> Sequence[Chunk]:
        return () if isinstance(chunk, ToolCallDelta) else (chunk,)


class Nodding(Wrapped):
    def each(self, chunk: Chunk) -> Sequence[Chunk]:
        cut = isinstance(chunk, Finish) and chunk.reason == "max_tokens"
        return (Finish("stop"),) if cut else (chunk,)


class Wasteful(Wrapped):
    def each(self, chunk: Chunk) -> Sequence[Chunk]:
        if not isinstance(chunk, UsageReport):
            return (chunk,)
        return (UsageReport({**chunk.usage, "input": sum(map(int, chunk.usage.values()))}),)


class Vague(Wrapped):
    def each(self, chunk: Chunk) -> Sequence[Chunk]:
        failed = isinstance(chunk, Finish) and chunk.failure is not None
        return (Finish("error", Failure("unknown")),) if failed else (chunk,)


class Hasty(Wrapped):
    def each(self, chunk: Chunk) -> Sequence[Chunk]:
        if isinstance(chunk, Finish) and chunk.failure is not None:
            return (Finish("error", replace(chunk.failure, retry_after=None)),)
        return (chunk,)


class Raising(Wrapped):
    def each(self, chunk: Chunk) -> Sequence[Chunk]:
        if isinstance(chunk, Finish) and chunk.failure is not None:
            raise ConnectionError(chunk.failure.kind)
        return (chunk,)


class Narrow(Wrapped):
    async def changed(self, chunks: AsyncIterator[Chunk], request: ModelRequest) -> AsyncIterator[Chunk]:
        if any(part["type"] == "image" for said in request.messages for part in said.content):
            raise ValueError("no images")
        async for chunk in chunks:
            yield chunk


class Buffering(Wrapped):
    async def changed(self, chunks: AsyncIterator[Chunk], request: ModelRequest) -> AsyncIterator[Chunk]:
        whole = [chunk async for chunk in chunks]
        text = "".join(chunk.text for chunk in whole if isinstance(chunk, TextDelta))
        rest = [chunk for chunk in whole if not isinstance(chunk, TextDelta | BlockStart | BlockEnd)]
        for chunk in (
            whole if any(isinstance(each, BlockStart) for each in whole) else [TextDelta(text), *rest]
        ):
            yield chunk


class Stubborn(Wrapped):
    async def changed(self, chunks: AsyncIterator[Chunk], request: ModelRequest) -> AsyncIterator[Chunk]:
        async for chunk in chunks:
            yield chunk
            if isinstance(chunk, TextDelta) and chunk.text == "partial":
                with anyio.CancelScope(shield=True):
                    await anyio.lowlevel.checkpoint()
                yield Finish("stop")
                return


class Single(Wrapped):
    busy = False

    async def changed(self, chunks: AsyncIterator[Chunk], request: ModelRequest) -> AsyncIterator[Chunk]:
        if self.busy:
            yield Finish("error", Failure("rate_limit"))
            return
        self.busy = True
        await anyio.lowlevel.checkpoint()
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            self.busy = False


class Spent(Wrapped):
    closed = False

    async def aclose(self) -> None:
        self.closed = True

    async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
        if self.closed:
            raise RuntimeError("it is closed")
        return await super().prepare(config, abort)


BROKEN: dict[type[ScriptedModel], str] = {
    Nameless: "a model has an `id`, a text",
    Eager: "`prepare` sends nothing",
    Endless: "ends with `finish`",
    Talkative: "`finish` is the last chunk",
    Trimming: "the pieces of a text come in order, none lost",
    Plain: "a thought",
    Mute: "calls come with id, name and arguments",
    Nodding: "ends with `max_tokens`",
    Wasteful: "those of a cache not as input again",
    Vague: "a request that fails with rate_limit is not a failure of kind unknown",
    Hasty: "`retry_after` is what the provider asked for",
    Raising: "raised ConnectionError",
    Narrow: "A model reads all that a conversation can hold",
    Buffering: "pieces are passed on as they come",
    Stubborn: "passes the cancellation on",
    Single: "streams several answers at the same time",
    Spent: "A model that was closed can be used again",
}


@pytest.mark.parametrize(("model", "rule"), BROKEN.items(), ids=[each.__name__ for each in BROKEN])
def test_a_wrong_model_is_told_which_rule_it_breaks(model: type[ScriptedModel], rule: str) -> None:
    with pytest.raises(AssertionError) as wrong:
        check_model(model)
    assert rule in str(wrong.value)


def test_a_model_that_hangs_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnchart.testing.models.PATIENCE", 0.01)
    with pytest.raises(AssertionError, match="It took longer than"):
        check_model(lambda replies: ScriptedModel(chain([Reply(delay=9)], repeat(Reply("x"), 9))))


def test_thoughts_may_be_out_of_reach() -> None:
    check_model(Plain, thinking=False)

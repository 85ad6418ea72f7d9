import pytest
from tests.machine.drive import scripted

from turnchart.hooks import HOOKS, ParamError, RequestError, Retry, run_chain
from turnchart.machine import Failure, ScriptedModel

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("payload", "decision"),
    [
        (RequestError(kind="quota", fallback="b:c"), Retry(0, "b:c")),
        (RequestError(kind="quota"), None),
        (RequestError(kind="timeout", fallback="b:c"), None),
    ],
)
async def test_the_next_model_is_asked_at_once(payload: RequestError, decision: Retry | None) -> None:
    spec = HOOKS.get("fallback_on")
    assert spec is not None
    hook = spec.bind("request_error", {"errors": ["quota", "overloaded"]})
    assert (await run_chain("request_error", payload, [hook])).decision == decision
    with pytest.raises(ParamError):
        spec.bind("request_error", {"errors": ["sadness"]})


async def test_retries_are_not_spent_first() -> None:
    spec = HOOKS.get("fallback_on")
    assert spec is not None
    hook = spec.bind("request_error", {"errors": ["overloaded"]})
    other = ScriptedModel(["from b"], id="b:c")
    async with scripted(
        [Failure("overloaded")], fallback=["b:c"], models={"b:c": other}, hooks={"request_error": [hook]}
    ) as agent:
        assert (await agent.prompt("x")).text == "from b"
    [retry] = [entry.data for entry in agent.session.entries if entry.type == "llm/retry"]
    assert (retry["by"], retry["model"], retry["after"]) == ("fallback_on", "b:c", 0)

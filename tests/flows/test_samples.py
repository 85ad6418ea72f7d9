import json
from typing import Any

import pytest

from turnchart.flows.samples import WrongPayload, payload_of, sample
from turnchart.machine.points import POINTS


def plain(value: object) -> Any:
    return json.loads(json.dumps(value, default=lambda each: {s: getattr(each, s) for s in each.__slots__}))


@pytest.mark.parametrize("point", POINTS)
def test_every_point_has_a_sample_that_reads_back_as_itself(point: str) -> None:
    first = sample(point)
    assert type(first) is POINTS[point].payload
    if point != "stream":  # its request is no JSON
        again = payload_of(point, plain(first.json() | {"protocol": 1, "point": point}))
        assert plain(again.json()) == plain(first.json())


def test_fields_can_be_given() -> None:
    payload = payload_of("pre_tool", {"tool": "read_file", "args": {"path": "a"}})
    assert payload.json()["tool"] == "read_file"
    assert dict(payload.json()["args"]) == {"path": "a"}
    message = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    assert payload_of("context", {"messages": [message]}).json()["messages"][0].text == "hi"


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("pre-tool", {}, 'did you mean "pre_tool"'),
    ("zzz", {}, "the points: session_start"),
    ("pre_tool", {"args": 5}, "'args' cannot be read"),
    ("pre_tool", {"arg": {}}, "no field 'arg'; the fields: agent, args"),
    ("pre_tool", {"log": []}, "no field 'log'"),
    ("context", {"messages": [{}]}, "'messages' cannot be read"),
    ("request", {"calls": [{"tool": "x"}]}, "'calls' cannot be read"),
]


@pytest.mark.parametrize(("point", "given", "why"), WRONG)
def test_what_is_no_payload_is_refused(point: str, given: dict[str, Any], why: str) -> None:
    with pytest.raises(WrongPayload, match=why):
        payload_of(point, given)

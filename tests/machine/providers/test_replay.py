from turnchart.machine.messages import Text, Thinking, ToolCall
from turnchart.machine.providers.replay import digest, parts_of, replay_of

CONTENT = (Thinking("hm", "sig"), Text("hi"), ToolCall("add", {"a": 1}, id="c1"))
PARTS = [{"signature": "sig", "provider_name": "p"}, {}, {"id": "fc"}]


def test_nothing_is_kept_where_the_blocks_say_all() -> None:
    assert replay_of(CONTENT[1:2], [{}], "p", None, "r1", "https://host/v1") is None


def test_what_was_kept_is_found_again() -> None:
    kept = replay_of(CONTENT, PARTS, "p", None, "r1", "https://host/v1")
    assert kept is not None
    assert (kept["provider"], kept["response"], kept["url"]) == ("p", "r1", "https://host/v1")
    assert parts_of(CONTENT, kept) == tuple(PARTS)


def test_content_that_was_changed_is_not_contradicted() -> None:
    kept = replay_of(CONTENT, PARTS, "p", None, None, None)
    assert parts_of((CONTENT[0], Text("ho"), CONTENT[2]), kept) is None
    assert parts_of(CONTENT[:2], kept) is None
    assert parts_of(CONTENT, None) is None
    assert parts_of(CONTENT, {"parts": "of another program"}) is None


def test_the_signature_is_no_content() -> None:
    assert digest([Thinking("hm", "sig")]) == digest([Thinking("hm")]) != digest([Thinking("ho")])


def test_a_part_without_a_block_is_kept_whole() -> None:
    sealed = {"part": {"content": "", "signature": "sealed", "part_kind": "thinking"}}
    kept = replay_of(CONTENT[1:2], [sealed, {}], "p", None, None, None)
    assert parts_of(CONTENT[1:2], kept) == (sealed, {})


def test_no_password_of_an_address_is_kept() -> None:
    kept = replay_of(CONTENT, PARTS, "p", None, None, "https://user:secret@host:1/v1?key=secret")
    assert kept is not None
    assert kept["url"] == "https://host:1/v1"

from typing import Any

import pytest
from mcp_types import CallToolResult

from turnchart.machine.mcp.results import outcome_of_result


def outcome(*content: dict[str, Any], **more: Any) -> Any:
    return outcome_of_result(CallToolResult.model_validate({"content": list(content), **more}))


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ({"type": "text", "text": "hi"}, {"type": "text", "text": "hi"}),
        (
            {"type": "image", "data": "aGk=", "mimeType": "image/gif"},
            {"type": "image", "data": "aGk=", "media_type": "image/gif"},
        ),
        (
            {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
            {"type": "text", "text": "[a sound (audio/wav) that cannot be shown]"},
        ),
        (
            {"type": "resource_link", "name": "a", "description": "the a", "uri": "file:///a"},
            {"type": "text", "text": "a\nthe a\nfile:///a"},
        ),
        ({"type": "resource", "resource": {"uri": "x:a", "text": "body"}}, {"type": "text", "text": "body"}),
        (
            {"type": "resource", "resource": {"uri": "x:a", "blob": "aGk=", "mimeType": "image/png"}},
            {"type": "image", "data": "aGk=", "media_type": "image/png"},
        ),
        (
            {"type": "resource", "resource": {"uri": "x:a", "blob": "aGk="}},
            {"type": "text", "text": "[a file x:a (of an unknown kind) that cannot be shown]"},
        ),
    ],
)
def test_content(content: dict[str, Any], shown: dict[str, Any]) -> None:
    found = outcome(content)
    assert [dict(each) for each in found.content] == [shown]
    assert (found.is_error, found.outcome, found.details) == (False, "ok", None)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ("@@@", "image/png"),  # the next request, and all that follow, would fail with it
        ("YWJ", "image/png"),
        ("\u00e4\u00f6", "image/png"),
        ("", "image/png"),
        ("aGk=", "image/svg+xml"),
        ("aGk=", "text/html"),
        ("aGk=", ""),
    ],
)
def test_what_no_model_can_look_at_is_no_image(data: str, kind: str) -> None:
    resource = {"uri": "x:a", "blob": data, "mimeType": kind}
    found = outcome(
        {"type": "image", "data": data, "mimeType": kind}, {"type": "resource", "resource": resource}
    )
    assert [dict(each) for each in found.content] == [
        {"type": "text", "text": f"[an image ({kind or 'of an unknown kind'}) that cannot be shown]"},
        {"type": "text", "text": f"[a file x:a ({kind or 'of an unknown kind'}) that cannot be shown]"},
    ]


@pytest.mark.parametrize(
    ("data", "kind"), [("aG\nk=\n", "image/jpeg"), ("aGk=", "IMAGE/JPEG; q=1"), ("aGk=", "image/jpg")]
)
def test_an_image_in_other_words(data: str, kind: str) -> None:
    [found] = outcome({"type": "image", "data": data, "mimeType": kind}).content
    assert dict(found) == {"type": "image", "data": "aGk=", "media_type": "image/jpeg"}


def test_structured_content_is_for_programs_and_shown_where_nothing_else_is() -> None:
    both = outcome({"type": "text", "text": "1"}, structuredContent={"n": 1})
    assert ([each.text for each in both.content], both.details) == (["1"], {"structured": {"n": 1}})
    assert [each.text for each in outcome(structuredContent={"n": 1}).content] == ['{"n": 1}']


def test_an_error_of_the_tool() -> None:
    found = outcome({"type": "text", "text": "no"}, isError=True)
    assert (found.is_error, found.outcome) == (True, "error")

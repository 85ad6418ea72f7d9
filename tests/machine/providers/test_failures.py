"""Each way in which a provider can fail has one kind."""

import httpx2
import pytest
from pydantic_ai import exceptions as theirs

from turnchart.machine.messages import FailureKind
from turnchart.machine.providers.failures import LONGEST, failure_of


def http(status: int, message: str = "no", code: str | None = None, **more: str) -> theirs.ModelHTTPError:
    return theirs.ModelHTTPError(
        status, "m", {"error": {"message": message}}, provider_error_code=code, headers=more
    )


def said_in_stream(code: str) -> theirs.ModelAPIError:
    return theirs.ModelAPIError("m", f"{code}: no", provider_error_code=code, in_stream=True)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (theirs.ModelRateLimitError("m", "slow down"), "rate_limit"),
        (theirs.ModelQuotaExceededError("m", "pay"), "quota"),
        (theirs.ModelOverloadedError("m", "busy"), "overloaded"),
        (theirs.ModelUnavailableError("m", "gone"), "overloaded"),
        (theirs.ModelServerError("m", "oops"), "server_error"),
        (theirs.ModelAuthenticationError("m", "who"), "auth"),
        (theirs.ModelNotFoundError("m", "where"), "no_model"),
        (theirs.ModelContextWindowExceededError("m", "long"), "context_window"),
        (theirs.ModelRequestRejectedError("m", "bad"), "invalid_request"),
        (theirs.ModelRequestRejectedError("m", "no", provider_error_code="content_filter"), "refused"),
        (theirs.ContentFilterError("blocked"), "refused"),
        (theirs.ModelTimeoutError("m", "late"), "timeout"),
        (theirs.ModelRequestTimeout("m", 3.0), "timeout"),
        (theirs.ModelConnectionError("m", "refused"), "connection"),
        (theirs.ModelAPIError("m", "an event of no known kind", in_stream=True), "server_error"),
        (theirs.UnexpectedModelBehavior("It ended without content or tool calls"), "empty_response"),
        (theirs.UnexpectedModelBehavior("nonsense"), "server_error"),
        (theirs.UserError("this model takes no images"), "invalid_request"),
        (httpx2.ReadTimeout("late"), "timeout"),
        (httpx2.ConnectError("refused"), "connection"),
        (httpx2.DecodingError("no gzip"), "connection"),
        (ConnectionResetError(), "connection"),
        (http(408), "timeout"),
        (http(409), "invalid_request"),
        (http(502), "server_error"),
        (http(413, "Request too large for the model"), "context_window"),
        (http(413, "Request exceeds the maximum allowed number of bytes."), "context_window"),
        (http(413, "Request too large on tokens per minute: Limit 6000, Requested 9000"), "context_window"),
        (said_in_stream("invalid_image_url"), "invalid_request"),
        (said_in_stream("image_parse_error"), "invalid_request"),
        (said_in_stream("invalid_prompt"), "refused"),
        (said_in_stream("image_content_policy_violation"), "refused"),
        (said_in_stream("vector_store_timeout"), "server_error"),
    ],
)  # fmt: skip
def test_each_error_has_one_kind(error: Exception, kind: FailureKind) -> None:
    failure = failure_of(error, opened=False)
    assert failure is not None
    assert failure.kind == kind


@pytest.mark.parametrize(
    "said",
    [
        "This model's maximum context length is 8192 tokens. However, you requested 9000",
        "prompt is too long: 213462 tokens > 200000 maximum",
        "The input token count (1196265) exceeds the maximum number of tokens allowed",
        "Input is too long for requested model.",
        "the request exceeds the available context size. try increasing the context size",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens",
        "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
        "Your request exceeded model token limit: 262144",
        "`inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens and 512",
        "Input validation error: `inputs` must have less than 1024 tokens. Given: 2000",
        "Prompt exceeds max length",
        "Range of input length should be [1, 129024]",
    ],
)  # fmt: skip
def test_an_overflow_is_told_by_its_words(said: str) -> None:
    failure = failure_of(theirs.ModelRequestRejectedError("m", said), opened=False)
    assert failure is not None
    assert failure.kind == "context_window"


def test_tokens_per_minute_are_no_overflow() -> None:
    said = "Request too large: limit 30000 tokens per minute"
    failure = failure_of(theirs.ModelRequestRejectedError("m", said), opened=False)
    assert failure is not None
    assert failure.kind == "invalid_request"


@pytest.mark.parametrize(
    "error",
    [
        theirs.ModelConnectionError("m", "reset", phase="read"),
        httpx2.RemoteProtocolError("peer closed"),
        theirs.ModelAPIError("m", "Failed to decode response as JSON"),
        theirs.UnexpectedModelBehavior("an event out of order"),
        ConnectionResetError(),
    ],
)
def test_what_breaks_a_stream_leaves_it_incomplete(error: Exception) -> None:
    failure = failure_of(error, opened=True)
    assert failure is not None
    assert failure.kind == "incomplete_stream"


def test_a_bug_is_no_failure_of_the_provider() -> None:
    assert failure_of(AttributeError("our bug"), opened=True) is None


def test_the_wait_that_was_asked_for_is_kept() -> None:
    waits = [
        failure_of(error, opened=False)
        for error in (
            http(429, **{"retry-after": "1.5"}),
            http(429, **{"retry-after": "7"}),
            http(429, **{"retry-after-ms": "250"}),
            http(429, **{"retry-after": "soon"}),
            http(429, **{"retry-after": "inf"}),
            theirs.ModelRateLimitError("m", "x", retry_after=3.0),
        )
    ]
    assert [wait.retry_after for wait in waits if wait] == [1.5, 7, 0.25, None, None, 3.0]


def test_the_message_is_that_of_the_provider() -> None:
    failure = failure_of(http(404, "no such model."), opened=False)
    assert failure is not None
    assert (failure.status, failure.message) == (404, "no such model.")
    guess = theirs.ModelHTTPError(404, "m", {"message": "no such model."}, suggested_model_id="openai:gpt-5")
    failure = failure_of(guess, opened=False)
    assert failure is not None
    assert failure.message == "no such model. Did you mean openai:gpt-5?"
    failure = failure_of(http(500, "x" * 9999), opened=False)
    assert failure is not None
    assert len(failure.message) == LONGEST


def test_no_secret_is_repeated() -> None:
    failure = failure_of(http(401, "the key abc-123 is wrong"), opened=False, secrets=["abc-123", ""])
    assert failure is not None
    assert failure.message == "the key *** is wrong"


def test_who_cannot_be_reached_is_named_without_who_logs_in() -> None:
    asked = httpx2.Request("POST", "http://ann:pass-word@host:81/v1/chat?key=abc")
    broken = httpx2.ConnectError("All connection attempts failed", request=asked)
    error = theirs.ModelConnectionError("m", "Connection error.")
    error.__cause__ = OSError("its client")
    error.__cause__.__cause__ = broken
    for each in (error, broken):
        failure = failure_of(each, opened=False)
        assert failure is not None
        assert failure.message == "http://host:81: All connection attempts failed"
    late = theirs.ModelTimeoutError("m", "Request timed out.")
    late.__cause__ = httpx2.ConnectTimeout("", request=asked)
    failure = failure_of(late, opened=False)
    assert failure is not None
    assert failure.message == "http://host:81: Request timed out."
    failure = failure_of(theirs.ModelConnectionError("m", "Connection error."), opened=False)
    assert failure is not None
    assert failure.message == "Connection error."

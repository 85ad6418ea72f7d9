"""What goes wrong at a provider, as one kind of the closed list."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import httpx2
from pydantic import ValidationError
from pydantic_ai import exceptions as theirs

from turnchart.machine.errors import named_text_of, text_of
from turnchart.machine.masking import without_secrets
from turnchart.machine.messages import Failure, FailureKind

LONGEST: Final = 2000
"""Characters of a message that are kept."""
_KINDS: Final[tuple[tuple[type[Exception], FailureKind], ...]] = (
    (theirs.ModelContextWindowExceededError, "context_window"),
    (theirs.ModelQuotaExceededError, "quota"),
    (theirs.ModelRateLimitError, "rate_limit"),
    (theirs.ModelUnavailableError, "overloaded"),
    (theirs.ModelServerError, "server_error"),
    (theirs.ModelAuthenticationError, "auth"),
    (theirs.ModelNotFoundError, "no_model"),
    (theirs.ModelRequestRejectedError, "invalid_request"),
    (theirs.ModelTimeoutError, "timeout"),
    (theirs.ModelRequestTimeout, "timeout"),
    (theirs.ContentFilterError, "refused"),
    (theirs.UserError, "invalid_request"),
    (httpx2.TimeoutException, "timeout"),
)
_OVERFLOW: Final = re.compile(
    r"context (?:window|length|size|limit)|too many (?:input )?tokens|prompt (?:is )?too long"
    r"|(?:prompt|input) (?:length|token count)\b.*exceed|input is too long|maximum prompt length"
    r"|exceeds? the (?:maximum|limit|available)\b.*\btokens?|request (?:is )?too large|token limit",
    re.IGNORECASE | re.DOTALL,
)
_THROTTLED: Final = re.compile(r"rate.?limit|per (?:minute|second|hour|day)|too many requests", re.IGNORECASE)
_BLOCKED: Final = re.compile(r"content.?(?:filter|policy)|safety|moderation", re.IGNORECASE)
_EMPTY: Final = re.compile(r"without (?:content|any)|empty", re.IGNORECASE)


def failure_of(error: Exception, *, opened: bool, secrets: Iterable[str] = ()) -> Failure | None:
    """Return what an error says about the request; None for one that comes from no provider.

    Args:
        error: What was raised.
        opened: The stream had begun, so that something of the answer was shown.
        secrets: Texts that must not be repeated.
    """
    kind = _kind(error, opened)
    if kind is None:
        return None
    status: int | None = getattr(error, "status_code", None)
    return Failure(kind, _retry_after(error), status, _message(error, secrets))


def _kind(error: Exception, opened: bool) -> FailureKind | None:
    for known, kind in _KINDS:
        if isinstance(error, known):
            return _narrowed(kind, error)
    if isinstance(error, theirs.ModelHTTPError):
        if error.status_code == 408:
            return "timeout"
        return _narrowed("invalid_request" if error.status_code < 500 else "server_error", error)
    if isinstance(error, theirs.ModelConnectionError | httpx2.RequestError | httpx2.StreamError | OSError):
        return "incomplete_stream" if opened else "connection"
    if isinstance(error, theirs.ModelAPIError):
        # An error event of no known kind, or an event that cannot be read.
        return "server_error" if error.in_stream or not opened else "incomplete_stream"
    if isinstance(error, theirs.UnexpectedModelBehavior):
        if _EMPTY.search(error.message):
            return "empty_response"
        return "incomplete_stream" if opened else "server_error"
    if isinstance(error, ValidationError | UnicodeDecodeError):
        return "incomplete_stream" if opened else "server_error"
    return None


def _narrowed(kind: FailureKind, error: Exception) -> FailureKind:
    """Return the kind of a request that was rejected, by what the provider says about it."""
    if kind != "invalid_request" or isinstance(error, theirs.UserError):
        return kind
    code = f"{getattr(error, 'provider_error_code', '')} {getattr(error, 'provider_error_type', '')}"
    if _BLOCKED.search(code):
        return "refused"
    said = _said(error)
    return "context_window" if _OVERFLOW.search(said) and not _THROTTLED.search(said) else kind


def _retry_after(error: Exception) -> float | None:
    """Return the seconds that the provider asked to wait; None where it did not say so."""
    asked: float | None = getattr(error, "retry_after", None)
    if asked is not None:
        return asked
    headers: Mapping[str, str] = getattr(error, "headers", None) or {}
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _said(error: Exception) -> str:
    """Return the words of the provider, where its answer has a message in a usual place."""
    body: Any = getattr(error, "body", None)
    if isinstance(body, Mapping):
        inner: Any = cast("Mapping[str, Any]", body).get("error", cast("Any", body))
        message: Any = inner.get("message") if isinstance(inner, Mapping) else inner  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]  # foreign
        if isinstance(message, str) and message:
            return message
    return body if isinstance(body, str) and body else text_of(error)


def _message(error: Exception, secrets: Iterable[str]) -> str:
    said = _said(error) or named_text_of(error)
    hint = getattr(error, "suggested_model_id", None)
    if hint:
        said = f"{said.rstrip('.')}. Did you mean {hint}?"
    return without_secrets(said, dict.fromkeys(secrets, "***"))[:LONGEST]

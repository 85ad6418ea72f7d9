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
    r"|exceeds? the (?:maximum|limit|available)\b.*\btokens?|request (?:is )?too large|token limit"
    r"|inputs`? (?:tokens \+|must have less than)|prompt exceeds max length|range of input length",
    re.IGNORECASE | re.DOTALL,
)
_THROTTLED: Final = re.compile(r"rate.?limit|per (?:minute|second|hour|day)|too many requests", re.IGNORECASE)
_BLOCKED: Final = re.compile(r"content.?(?:filter|policy)|safety|moderation|invalid_prompt", re.IGNORECASE)
_BAD_CODE: Final = re.compile(r"invalid_|image")
"""Codes of what no retry makes better, where they come within a stream and so without a status."""
_TOO_LARGE: Final = 413
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
    if isinstance(_broken(error), httpx2.UnsupportedProtocol):
        return "invalid_request"  # the address is none
    if isinstance(error, theirs.ModelHTTPError):
        if error.status_code == 408:
            return "timeout"
        return _narrowed("invalid_request" if error.status_code < 500 else "server_error", error)
    if isinstance(error, theirs.ModelConnectionError | httpx2.RequestError | httpx2.StreamError | OSError):
        return "incomplete_stream" if opened else "connection"
    if isinstance(error, theirs.ModelAPIError):
        if error.in_stream and _BAD_CODE.search(error.provider_error_code or ""):
            return _narrowed("invalid_request", error)
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
    if getattr(error, "status_code", None) == _TOO_LARGE:
        return "context_window"
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


def _broken(error: BaseException | None) -> httpx2.RequestError | None:
    """Return how the transport failed, if it did: clients hide it behind words of theirs."""
    if not isinstance(error, theirs.ModelConnectionError | httpx2.RequestError):
        return None
    while error is not None and not isinstance(error, httpx2.RequestError):
        error = error.__cause__
    return error


def _unreached(broken: httpx2.RequestError, said: str) -> str:
    """Return what failed at which address; its path, its query and who logs in are left out."""
    try:
        url = broken.request.url
    except RuntimeError:  # nobody said of which request it is
        return said
    asked = f"{url.scheme}://{url.host}{'' if url.port is None else f':{url.port}'}"
    return f"{asked}: {text_of(broken) or said}"


def _message(error: Exception, secrets: Iterable[str]) -> str:
    said = _said(error) or named_text_of(error)
    broken = _broken(error)
    if broken is not None:
        said = _unreached(broken, said)
    hint = getattr(error, "suggested_model_id", None)
    if hint:
        said = f"{said.rstrip('.')}. Did you mean {hint}?"
    return without_secrets(said, dict.fromkeys(secrets, "***"))[:LONGEST]

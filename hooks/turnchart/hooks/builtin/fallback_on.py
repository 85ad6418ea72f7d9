"""``fallback_on``: another model at once, where trying the same one again would not help."""

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from turnchart.hooks.registry import hook
from turnchart.machine.messages import FailureKind
from turnchart.machine.points import Retry

if TYPE_CHECKING:
    from turnchart.machine.points import RequestError


@hook("fallback_on", on="request_error")
def fallback_on(
    payload: "RequestError", *, errors: Annotated[list[FailureKind], Field(min_length=1)]
) -> Retry | None:
    """Ask the next model of `model.fallback` as soon as a request fails with one of the `errors`.

    Without it the retries of the model are spent first. When the list is through, the retry policy decides as
    ever.
    """
    return Retry(0, payload.fallback) if payload.fallback and payload.kind in errors else None

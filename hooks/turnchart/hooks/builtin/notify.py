"""``notify``: a word to the person in front of the screen."""

from turnchart.hooks.registry import hook
from turnchart.machine.points import OnSignal, Payload


@hook("notify", on=("session_start", "session_end", "turn_stopping", "on_signal"))
def notify(payload: Payload, *, text: str) -> None:
    """Show `text` to the user. The model does not see it."""
    if isinstance(payload, OnSignal) and payload.signal == "notice":
        return  # it would hear itself, for ever
    payload.notice(text)

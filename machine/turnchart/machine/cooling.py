"""Models that rest after they failed: for a while, the next of the fallback list is asked in their place."""

from collections.abc import Container, Sequence


class Cooling:
    """Which models of one agent rest, and until when."""

    __slots__ = ("_seconds", "_until")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: dict[str, float] = {}

    def rest(self, model: str, now: float) -> None:
        """Let a model rest from ``now`` on, in Unix seconds."""
        self._until[model] = now + self._seconds

    def rests(self, model: str, now: float) -> bool:
        """Return whether a model still rests."""
        until = self._until.get(model)
        return until is not None and now < until

    def instead_of(self, model: str, fallback: Sequence[str], now: float) -> str:
        """Return the model to begin a step with: this one, unless it rests and another does not."""
        if not self.rests(model, now):
            return model
        return next((each for each in fallback if not self.rests(each, now)), model)


def next_model(
    own: str, fallback: Sequence[str], asked: Container[str], cooling: Cooling | None, now: float
) -> str:
    """Return the model to go over to; empty where the step has asked them all.

    The fallback list comes in its order, models that rest last; then the agent's own, where it was passed
    over because it rests.
    """
    left = [model for model in fallback if model not in asked]
    if cooling is not None:
        left.sort(key=lambda model: cooling.rests(model, now))
        if own not in asked:
            left.append(own)
    return left[0] if left else ""

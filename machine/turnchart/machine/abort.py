"""The signal that tells hooks, tools and models of one turn that it was cut off."""

import anyio


class Aborted(Exception):
    """Raised by ``AbortSignal.check()`` after an abort; the driver takes it for the abort itself."""


class AbortSignal:
    """One per turn. It is set once; the first reason stays.

    Attributes:
        reason: Why the turn was aborted; empty while it was not.
    """

    __slots__ = ("_event", "aborted", "reason")

    def __init__(self) -> None:
        self.aborted = False
        self.reason = ""
        self._event: anyio.Event | None = None

    def set(self, reason: str) -> None:
        """Set the signal; a second call changes nothing."""
        if not self.aborted:
            self.aborted = True
            self.reason = reason
            if self._event is not None:
                self._event.set()

    async def wait(self) -> str:
        """Wait for the abort and return its reason."""
        if not self.aborted:
            if self._event is None:
                self._event = anyio.Event()
            await self._event.wait()
        return self.reason

    def check(self) -> None:
        """Return at once, or raise after an abort.

        Raises:
            Aborted: If the turn was aborted.
        """
        if self.aborted:
            raise Aborted(self.reason)

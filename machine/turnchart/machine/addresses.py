"""User and password, or a token alone, that stand in an address. Pure.

Clients log addresses, so they get them apart.
"""

from dataclasses import field
from urllib.parse import unquote, urlsplit

from turnchart.machine.records import record


@record
class Login:
    """Who logs in somewhere, by HTTP's basic authentication."""

    user: str = field(repr=False)
    password: str = field(repr=False)
    written: str = field(default="", repr=False, compare=False)
    """The secret as it stands in the address, where that is not how it is sent."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no message may show: the password; without one the user, which is then often a token."""
        return tuple(dict.fromkeys(each for each in (self.password or self.user, self.written) if each))


def login_of(url: str) -> Login | None:
    """Return who logs in at an address; None for nobody."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return None
    user, password = parts.username or "", parts.password or ""
    return Login(unquote(user), unquote(password), password or user)


def without_login(url: str) -> str:
    """Return an address without user and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

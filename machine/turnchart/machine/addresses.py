"""User and password, or a token alone, that stand in an address. Pure.

Clients log addresses, so they get them apart.
"""

from base64 import b64encode
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
        """What no message may show: the password, or the user that is then often a token, in each form."""
        secret = self.password or self.user
        if not secret:
            return ()
        sent = b64encode(f"{self.user}:{self.password}".encode("utf-8", "surrogatepass")).decode()
        return tuple(dict.fromkeys(each for each in (secret, self.written, sent) if each))


def readable(url: str) -> bool:
    """Tell whether an address can be read: a password that is not percent-encoded makes it another one."""
    try:
        _ = urlsplit(url).port
    except ValueError:
        return False
    return True


def login_of(url: str) -> Login | None:
    """Return who logs in at an address; None for nobody, and where it cannot be read."""
    if not readable(url):
        return None
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return None
    user, password = parts.username or "", parts.password or ""
    return Login(unquote(user), unquote(password), password or user)


def without_login(url: str) -> str:
    """Return an address without user and password; of one that cannot be read, the scheme alone."""
    if not readable(url):
        return f"{url.partition('//')[0]}//***"
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

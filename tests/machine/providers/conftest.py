"""What the tests of providers share: no client reads the certificates of this machine anew."""

import ssl
from collections.abc import Iterator

import httpx2
import pytest


@pytest.fixture(scope="module", autouse=True)
def one_ssl_context() -> Iterator[None]:
    """Give every client the same context: nobody here speaks TLS, and making one takes 20 ms."""
    context = ssl.create_default_context()
    made = httpx2.AsyncClient.__init__

    def quick(self: httpx2.AsyncClient, *args: object, **given: object) -> None:
        made(self, *args, **{"verify": context, **given})  # type: ignore[arg-type]  # passed on

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpx2.AsyncClient, "__init__", quick)
        yield

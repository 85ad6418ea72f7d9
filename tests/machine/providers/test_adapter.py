from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pytest

from turnchart.machine import Failure, Reply
from turnchart.machine.providers import ProviderModel
from turnchart.testing import check_model

from tests.machine.providers.loopback import Loopback
from tests.machine.providers.wire_formats import FORMATS, wires

# The clients of providers leave finished generators to the collector, which trio complains of.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("format", FORMATS)
def test_every_format_keeps_the_contract(format: str, backend: str) -> None:
    id, path, _ = FORMATS[format]
    with ExitStack() as servers:

        def make(replies: Sequence[Reply | Failure]) -> ProviderModel:
            server = servers.enter_context(Loopback(*wires(format, replies)))
            return ProviderModel(id, base_url=server.url + path, api_key="key-for-tests")

        check_model(make, backend=backend)

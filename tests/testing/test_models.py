"""``check_model`` finds what is wrong with a model, and says which rule it breaks."""

import pytest

from turnchart.machine import ScriptedModel
from turnchart.testing import check_model


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_scripted_model_keeps_the_contract(backend: str) -> None:
    check_model(ScriptedModel, backend=backend)

from collections import Counter
from typing import Any
from hypothesis import given, settings
from tests.conformance.histories import PLANS, History
from tests.conformance.asking import rebuilt
import atexit
C=Counter()
@given(PLANS)
@settings(max_examples=1500, deadline=None)
async def test_x(plan: dict[str, Any]) -> None:
    h = History(plan)
    await h.play()
    C["runs"]+=1
    for e in h.session.entries:
        C[e.type]+=1
        if e.replaces: C["replaces "+e.type]+=1
        if e.type=="turn/end": C["TE "+e.data["reason"]]+=1
        if e.type=="request/header": C["RH "+e.data["reason"]+str(e.data.get("starts_series",""))]+=1
        if e.type=="user/message": C["UM "+e.data["message"].get("source","")]+=1
    C["requests"]+=len(h.requests)
atexit.register(lambda: print(sorted(C.items())))

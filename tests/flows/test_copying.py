import os
from pathlib import Path

import pytest

from turnchart.flows import check_flow, shipped_flows
from turnchart.flows.copying import copy_flow
from turnchart.machine.errors import TurnchartError

FLOWS = {flow.name: flow.path for flow in shipped_flows()}


@pytest.mark.parametrize("name", FLOWS)
def test_a_copy_is_as_right_as_the_flow(name: str, tmp_path: Path) -> None:
    copies = copy_flow(FLOWS[name], "mine", tmp_path)
    assert copies[0] == tmp_path / "mine.yaml"
    assert [problem for problem in check_flow(copies[0]) if problem.level == "error"] == []
    assert f"flow: {name}.yaml" not in (tmp_path / "mine.test.yaml").read_text("utf-8")


def test_programs_stay_programs(tmp_path: Path) -> None:
    copies = copy_flow(FLOWS["claude-hooks"], "guarded", tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in copies] == [
        "guarded.yaml", "guarded.test.yaml", "scripts/claude_guard.py",
    ]  # fmt: skip
    assert os.access(copies[2], os.X_OK)


def test_nothing_is_written_where_something_is_there(tmp_path: Path) -> None:
    (tmp_path / "librarian.yaml").write_text("mine")
    with pytest.raises(TurnchartError, match=r"^librarian\.yaml is there already$"):
        copy_flow(FLOWS["researcher"], "mine", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["librarian.yaml"]

import os
from pathlib import Path

import pytest

from turnchart.flows.paths import Place
from turnchart.flows.programs import argv_of, folder_problem, looked_up, program_path
from turnchart.flows.source import AnyNode, MapNode, read_text


@pytest.fixture
def node(tmp_path: Path) -> AnyNode:
    """A node of a file in a folder of the project."""
    (tmp_path / "flows").mkdir()
    document = read_text("run: x", "flows/a.yaml", tmp_path / "flows" / "a.yaml")
    assert isinstance(document.root, MapNode)
    return document.root.fields["run"][1]


def test_a_program_is_looked_up(node: AnyNode, tmp_path: Path) -> None:
    place = Place(tmp_path, tmp_path)

    def found(program: str) -> list[tuple[str, str]]:
        return [(each.code, each.level) for each in looked_up(node, program, place)]

    (tmp_path / "flows" / "check.sh").write_text("")
    assert found("sh") == []
    assert found("no-such-program") == [("program", "warning")]
    assert found("./check.sh") == [("program", "warning")]
    os.chmod(tmp_path / "flows" / "check.sh", 0o755)
    assert found("./check.sh") == []
    assert found("../../check.sh") == [("path-outside", "error")]
    assert found("/bin/sh") == []


def test_a_name_with_a_slash_is_relative_to_its_file(node: AnyNode, tmp_path: Path) -> None:
    assert argv_of(node, ["sh", "./x"]) == ("sh", "./x")
    assert argv_of(node, ["./check.sh", "./x"]) == (str(tmp_path / "flows" / "check.sh"), "./x")
    assert program_path(node, "../check.sh")[1] == "check.sh"


def test_the_folder_that_it_starts_in_is_below_the_root(node: AnyNode, tmp_path: Path) -> None:
    place = Place(tmp_path, tmp_path)
    assert folder_problem(node, ".", place) is None
    assert folder_problem(node, "flows", place) is None
    missing, outside = folder_problem(node, "none", place), folder_problem(node, "..", place)
    assert missing is not None
    assert outside is not None
    assert (missing.code, missing.level, outside.code) == ("file-missing", "warning", "path-outside")

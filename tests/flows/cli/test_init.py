from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


@pytest.mark.parametrize(
    ("arguments", "name"), [((), "agent"), (("reviewer",), "reviewer"), (("my-1.yaml",), "my-1")]
)
def test_the_starter_is_right_and_stands_its_test(
    cli: Cli, tmp_path: Path, arguments: tuple[str, ...], name: str
) -> None:
    ended = cli("init", *arguments)
    assert (ended.code, ended.err) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{name}.test.yaml", f"{name}.yaml"]
    assert cli("check", "--strict", f"{name}.yaml") == (0, f"{name}.yaml: no problems\n", "")
    ended = cli("test", f"{name}.test.yaml")
    assert (ended.code, ended.out.splitlines()[-1]) == (0, "2 passed")


def test_the_starter_runs_offline(cli: Cli) -> None:
    cli("init")
    ended = cli("run", "agent.yaml", "Hello")
    assert (ended.code, ended.out) == (0, "ok\n")


def test_nothing_is_overwritten(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "agent.test.yaml").write_text("mine", "utf-8")
    ended = cli("init")
    assert (ended.code, ended.err) == (1, "turnchart: agent.test.yaml is there already\n")
    assert not (tmp_path / "agent.yaml").exists()
    assert (tmp_path / "agent.test.yaml").read_text("utf-8") == "mine"


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "a b"])
def test_a_name_is_no_path(cli: Cli, name: str) -> None:
    assert cli("init", name).code == 2


def test_a_flow_that_comes_along_is_copied_with_all_that_it_names(cli: Cli, tmp_path: Path) -> None:
    ended = cli("init", "mine", "--from", "reviewer")
    assert (ended.code, ended.out) == (
        0, "mine.yaml, mine.test.yaml, house-rules.yaml: written\nnext:  turnchart check mine.yaml\n"
    )  # fmt: skip
    assert "\nname: mine\n" in (tmp_path / "mine.yaml").read_text("utf-8")
    assert "#   turnchart run mine.yaml " in (tmp_path / "mine.yaml").read_text("utf-8")
    assert cli("test", "mine.test.yaml").out.endswith("3 passed\n")
    assert cli("init", "--from", "reviewer").err == "turnchart: house-rules.yaml is there already\n"
    assert not (tmp_path / "reviewer.yaml").exists()


def test_what_is_copied_must_be_there(cli: Cli) -> None:
    ended = cli("init", "--from", "nobody")
    assert (ended.code, "no flow 'nobody' comes along; there are: " in ended.err) == (2, True)

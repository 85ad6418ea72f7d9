from pathlib import Path

import pytest

from turnchart.flows import shipped
from turnchart.flows.shipped import find_shipped, shipped_flows, shipped_folder


@pytest.fixture
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    package = tmp_path / "turnchart" / "flows"
    (package / "shipped").mkdir(parents=True)
    for name, text in {
        "demo.yaml": "version: 1\ndescription: |\n  Shows it.\n",
        "bare.yaml": "version: 1\n",
        "demo.test.yaml": "version: 1\n",
        "broken.yaml": "a: [",
    }.items():
        (package / "shipped" / name).write_text(text)
    monkeypatch.setattr(shipped, "__file__", str(package / "shipped.py"))


@pytest.mark.usefixtures("_folder")
def test_flows_are_listed_by_name_with_their_description() -> None:
    assert [(each.name, each.description) for each in shipped_flows()] == [
        ("bare", ""), ("broken", ""), ("demo", "Shows it."),
    ]  # fmt: skip


@pytest.mark.usefixtures("_folder")
def test_a_flow_is_found_by_name_or_file_name() -> None:
    for name in ("demo", "demo.yaml"):
        found = find_shipped(name)
        assert found is not None
        assert found.name == "demo.yaml"
    assert find_shipped("none") is None
    assert find_shipped("../demo") is None


@pytest.mark.checkout
def test_in_a_checkout_they_stand_beside_the_package() -> None:
    assert (shipped_folder() / "turnchart" / "flows" / "shipped.py").is_file()

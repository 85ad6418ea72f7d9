"""The version is said in one place."""

from importlib.metadata import version

from turnchart.machine.version import VERSION


def test_it_is_that_of_the_package() -> None:
    assert version("turnchart") == VERSION

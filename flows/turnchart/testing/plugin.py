"""The pytest plugin, loaded by pytest wherever Turnchart is installed.

It is imported at the start of every pytest run of every project that has Turnchart in its environment, so
nothing of Turnchart is imported at the top of this file: a hook that needs some imports it when it is called.
"""

from importlib.metadata import version


def pytest_report_header() -> str:
    """Say which Turnchart is under test."""
    return f"turnchart: {version('turnchart')}"

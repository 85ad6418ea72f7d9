"""pytest inside of pytest: a small project with test files, run in this process."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

OFF = ("terminal", "cacheprovider", "faulthandler", "timeout", "capture", "logging", "unraisableexception")
"""What the run around it does; the last one collects garbage, of which that run has much."""


class Ran:
    """How a run of pytest ended.

    Attributes:
        outcomes: By node id: passed or failed; of a file that cannot be read, and of an end of a test, error.
        texts: What is shown of all that went wrong.
    """

    def __init__(self) -> None:
        self.code = -1
        self.outcomes: dict[str, str] = {}
        self.texts = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.outcomes[report.nodeid] = report.outcome
        elif report.failed:
            self.outcomes[report.nodeid] = "error"
        self.texts += report.longreprtext

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.outcomes[report.nodeid] = "error"
            self.texts += report.longreprtext


@pytest.fixture
def inner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Write files and run pytest over them."""

    def run(*arguments: str, **files: str) -> Ran:
        for name, text in files.items():
            path = tmp_path / name.replace("__", ".")
            path.write_text(textwrap.dedent(text).lstrip("\n"), "utf-8")
        (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
        monkeypatch.chdir(tmp_path)
        ran = Ran()
        off = [option for name in OFF for option in ("-p", f"no:{name}")]
        own = f"--basetemp={tmp_path / 'temporary'}"  # else it would remove the folders of earlier runs
        given = ["-c", "pytest.ini", "--import-mode=importlib", own, *off, *arguments]
        ran.code = pytest.main(given, plugins=[ran])
        return ran

    return run

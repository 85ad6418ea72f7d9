"""``pytest --lifecycle-coverage``: counts the agents of all tests, prints the measures, and is the gate."""

import pytest

from turnchart.testing.coverage import SHOWN, LifecycleCoverage, least_of


class CoveragePlugin:
    """Registered for one run of pytest, where the option is given."""

    def __init__(self, config: pytest.Config) -> None:
        """Begin to count.

        Raises:
            UsageError: If the gate is written wrong, or the tests run in several processes.
        """
        try:
            self._least = least_of(config.option.lifecycle_coverage_fail_under)
        except ValueError as error:
            raise pytest.UsageError(f"--lifecycle-coverage-fail-under: {error}") from None
        if getattr(config.option, "numprocesses", None) or hasattr(config, "workerinput"):
            raise pytest.UsageError("--lifecycle-coverage counts in one process; leave out -n")
        self._shown = None if getattr(config.option, "verbose", 0) > 0 else SHOWN
        self.coverage = LifecycleCoverage()
        self._stop = self.coverage.start()

    def pytest_runtest_logfinish(self) -> None:
        """Count the hooks of a test that is over."""
        self.coverage.settle()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a good run that walked too little."""
        self._stop()
        if session.exitstatus == pytest.ExitCode.OK and self.coverage.below(self._least):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the measures."""
        terminalreporter.section("lifecycle coverage")
        terminalreporter.write_line(self.coverage.report(self._shown))
        for text in self.coverage.below(self._least):
            terminalreporter.write_line(f"FAIL: {text}", red=True)

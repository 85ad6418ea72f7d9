"""Test files as pytest sees them: ``reviewer.test.yaml::destructive commands are denied``."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from turnchart.flows.load import Flow
from turnchart.flows.problems import FlowError
from turnchart.flows.testfiles.finding import load_suite
from turnchart.flows.testfiles.judging import differences, report
from turnchart.flows.testfiles.playing import play_case
from turnchart.flows.testfiles.suite import Case


class SuiteFile(pytest.File):
    """One test file. Whoever runs pytest runs the code of the project, so what it reaches is agreed to."""

    def collect(self) -> "Iterator[CaseItem]":
        """Read the file and its flow, and yield its tests.

        Raises:
            CollectError: If anything is wrong with one of the two; it holds every problem.
        """
        try:
            suite, flow = load_suite(os.path.relpath(self.path), trust=True)
        except FlowError as error:
            raise self.CollectError(str(error)) from None
        for case in suite.cases:
            made: CaseItem = CaseItem.from_parent(self, name=case.name, case=case, flow=flow)  # pyright: ignore[reportUnknownMemberType]  # pytest's keywords have no types
            yield made


class CaseDiffers(AssertionError):
    """A conversation came out otherwise than its test file says."""


class CaseItem(pytest.Item):
    """One test of a file."""

    def __init__(self, *, case: Case, flow: Flow, **given: Any) -> None:
        super().__init__(**given)  # pyright: ignore[reportUnknownMemberType]  # as above
        self._case = case
        self._flow = flow

    def runtest(self) -> None:
        """Play the conversation.

        Raises:
            CaseDiffers: If it comes out otherwise than expected.
        """
        played = play_case(self._flow, self._case)
        wrong = differences(self._case, played)
        if wrong:
            raise CaseDiffers(report(self._case, played, wrong))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show what is different; of other errors, where they come from."""
        if isinstance(excinfo.value, CaseDiffers):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return file, line (from 0) and name."""
        return self.path, self._case.line - 1, self.name

from collections.abc import Callable
from typing import Any

FLOW = "version: 1\nmodel: test\n"
TESTS = """
version: 1
flow: flow.yaml
tests:
  - {name: it answers, prompt: Hello., expect: {text: ok}}
  - {name: it walks, prompt: Hello., expect: {states: [idle, claiming, tooling, idle]}}
"""
Inner = Callable[..., Any]


def test_the_tests_of_a_file_are_items_of_pytest(inner: Inner) -> None:
    ran = inner(flow__yaml=FLOW, flow__test__yaml=TESTS, other__test__yaml="steps: [flow]\n")
    assert ran.code == 1
    assert ran.outcomes == {
        "flow.test.yaml::it answers": "passed", "flow.test.yaml::it walks": "failed",
    }  # fmt: skip
    assert ran.texts.splitlines()[:6] == [
        "flow.test.yaml:5: the walk is another one",
        "      expected  actual",
        "      idle      idle",
        "      claiming  claiming",
        "    > tooling   pre_step",
        "    >           requesting",
    ]


def test_one_test_is_chosen_by_its_name(inner: Inner) -> None:
    ran = inner("-k", "answers", flow__yaml=FLOW, flow__test__yaml=TESTS)
    assert (ran.code, ran.outcomes) == (0, {"flow.test.yaml::it answers": "passed"})


def test_a_file_that_is_wrong_is_an_error_with_its_place(inner: Inner) -> None:
    ran = inner(flow__yaml=FLOW, flow__test__yaml=TESTS, bad__test__yaml="version: 1\nflow: none.yaml\n")
    assert ran.outcomes == {"bad.test.yaml": "error"}
    assert 'bad.test.yaml:2:7: error: the flow "none.yaml" is not there [file-missing]' in ran.texts
    assert "Traceback" not in ran.texts


def test_a_bug_is_shown_with_where_it_comes_from(inner: Inner) -> None:
    ran = inner(
        conftest__py="""
            from turnchart.testing import collecting

            def broken(*given):
                raise RuntimeError("a bug")

            def pytest_runtest_setup(item):
                item.funcargs, item.play = {}, collecting.play_case
                collecting.play_case = broken

            def pytest_runtest_teardown(item):
                collecting.play_case = item.play
        """,
        flow__yaml=FLOW,
        flow__test__yaml=TESTS,
    )
    assert set(ran.outcomes.values()) == {"failed"}
    assert "RuntimeError: a bug" in ran.texts
    assert "conftest.py:4" in ran.texts

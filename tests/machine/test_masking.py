"""No value that was handed out as a secret is kept."""

import pytest

from turnchart.machine.masking import SHORTEST, without_secrets

MARK = "[x]"


def test_a_value_that_begins_another_does_not_leave_its_rest() -> None:
    marks = {"token-1": "[short]", "token-1-and-more": "[long]"}
    assert without_secrets("token-1-and-more, token-1", marks) == "[long], [short]"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_line_of_a_value_is_masked_by_itself(end: str) -> None:
    key = end.join(["BEGIN KEY", "  abcdefgh", "}", "END KEY", ""])
    assert without_secrets(f"<{key}>", {key: MARK}) == f"<{MARK}>"
    assert without_secrets("abcdefgh}\nBEGIN KEY\nEND KEY", {key: MARK}) == f"{MARK}}}\n{MARK}\n{MARK}"


def test_what_is_short_would_be_found_everywhere() -> None:
    short = "x" * (SHORTEST - 1)
    assert without_secrets(f"{short}, ", {short: MARK, "": MARK}) == f"{short}, "
    assert without_secrets(f"{short}x", {short: MARK, f"{short}x": MARK}) == MARK


def test_a_mark_is_not_masked_again() -> None:
    assert without_secrets("secret-1", {"secret-1": "[redacted A]", "redacted": MARK}) == "[redacted A]"
    assert without_secrets("as it is", {}) == "as it is"

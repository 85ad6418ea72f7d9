from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnchart.machine.characters import UNKNOWN, Halves, whole, whole_json

HIGH, LOW, SMILE = "\ud83d", "\ude00", "\N{GRINNING FACE}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("plain", "plain"), ("ünï " + SMILE, "ünï " + SMILE), (HIGH + LOW, SMILE), (HIGH, UNKNOWN),
        (LOW + HIGH, UNKNOWN * 2), (f"a{HIGH}b", f"a{UNKNOWN}b"), ("", ""),
    ],
)  # fmt: skip
def test_halves_are_joined_or_replaced(text: str, found: str) -> None:
    assert whole(text) == found


def test_json_is_made_whole_and_kept_where_it_is() -> None:
    kept: dict[str, Any] = {"a": [1, None, {"b": "ü"}], "c": "d"}
    assert whole_json(kept) is kept
    assert whole_json({"a" + HIGH: [LOW, {"b": HIGH + LOW}], "c": 1}) == {
        "a" + UNKNOWN: [UNKNOWN, {"b": SMILE}], "c": 1,
    }  # fmt: skip


@given(st.text(st.sampled_from(["a", "ü", SMILE, HIGH, LOW])), st.data())
def test_pieces_make_the_same_text_however_it_is_cut(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    halves = Halves()
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    found = "".join([*(halves.take(piece) for piece in pieces), halves.rest()])
    assert found == whole(text)
    assert found.encode().decode() == found

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnchart.diagrams.escape import dot, mermaid, mermaid_markdown, one_line, unescaped

NASTY = [
    'a "quoted" name', "semi;colon", "#35; hash", "<b>bold</b>", "%% comment", "%%{init: {}}%%",
    "two\nlines", "a\r\n\tb", "end", "end note", "END  NOTE", "naïve 漢字 Ω", "🙂", "a --> b",
    "A->>B: x", "`code`", "$$x^2$$", "{open", "[*]", "a|b", "back\\slash", "trailing\\",
    "&amp; &#59;", "wrap: x", "::icon", "\u202eturned", "\x00\x1b[31m", "\ud800", "", "   ", "'",
    "classDef style a:b;",
]  # fmt: skip
SAFE = re.compile(r"(?:[\w \-.,()/*'+=!?\N{NO-BREAK SPACE}]|#\d+;)+")


@pytest.mark.parametrize("text", NASTY)
def test_mermaid_text_holds_no_special_character(text: str) -> None:
    escaped = mermaid(text)
    assert SAFE.fullmatch(escaped), escaped
    assert "end note" not in escaped.lower()


@pytest.mark.parametrize("text", NASTY)
def test_entities_can_be_undone(text: str) -> None:
    shown = one_line(text) or "\N{NO-BREAK SPACE}"
    assert unescaped(mermaid(text)) == unescaped(mermaid_markdown(text)) == shown


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("read_file [*]", "read_file #91;#42;#93;"),
        ("shell(rm *)", "shell(rm #42;)"),
        ("__init__", "#95;#95;init#95;#95;"),
        ("_x a_b", "#95;x a_b"),
        ("9_000", "9_000"),
    ],
)
def test_nothing_becomes_bold_where_labels_are_markdown(text: str, escaped: str) -> None:
    assert mermaid_markdown(text) == escaped


@pytest.mark.parametrize("text", NASTY)
def test_dot_text_ends_no_string(text: str) -> None:
    assert re.fullmatch(r'(?:[^"\\]|\\["\\])*', dot(text))
    assert "\n" not in dot(text)


def test_what_is_escaped_how() -> None:
    assert mermaid("a;b#<c> {d}") == "a#59;b#35;#60;c#62; #123;d#125;"
    assert mermaid("the end note") == "the #101;nd note"
    assert mermaid("turn/end (error)") == "turn/end (error)"
    assert dot('a "b" \\ & c') == 'a \\"b\\" \\\\ &amp; c'


def test_one_line_keeps_what_can_be_seen() -> None:
    assert one_line(" a\n\n b\u2028c\u202e\x00d \ud800") == "a b c d \N{REPLACEMENT CHARACTER}"


@given(st.text())
def test_any_text_is_safe(text: str) -> None:
    mermaid(text).encode()
    assert not set('";<>{}\n') & set(re.sub(r"#\d+;", "", mermaid(text)))
    assert re.fullmatch(r'(?:[^"\\]|\\["\\])*', dot(text))

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnchart.flows.check import examine
from turnchart.flows.resolved import resolved
from turnchart.flows.source import MapNode, as_written, read_text

Write = Callable[..., Path]


def root_of(text: str) -> MapNode:
    root = read_text(text, "a.yaml").root
    assert isinstance(root, MapNode)
    return root


def test_every_line_says_where_it_comes_from(write: Write) -> None:
    write(
        """
        version: 1
        model: {id: 'a:b', settings: {max_tokens: 5}}
        hooks:
          pre_tool:
            - {use: redact_secrets}
        """,
        "base.yaml",
    )
    write(
        """
        version: 1
        extends: base.yaml
        x-anchors: [1]
        model: {settings: {temperature: 1}}
        hooks:
          pre_tool:
            - inherit
            - run: [sh]
        """
    )
    checked = examine("flow.yaml", env=None, unexpanded=True)
    assert checked.parts is not None
    lines = resolved(checked.parts.root).splitlines()
    told = [re.sub(r"\s+#", " #", line) for line in lines]
    assert told == [
        "version: 1 # flow.yaml:1",
        "model: # flow.yaml:4",
        "  id: 'a:b' # base.yaml:2",
        "  settings: # flow.yaml:4",
        "    max_tokens: 5 # base.yaml:2",
        "    temperature: 1 # flow.yaml:4",
        "hooks: # flow.yaml:5",
        "  pre_tool: # flow.yaml:6",
        "    - use: redact_secrets # base.yaml:5",
        "    - run: # flow.yaml:8",
        "        - sh # flow.yaml:8",
    ]


TEXTS = """
plain: on
empty:
single: 'it''s ${env:A} and "b"'
double: "a\\tb\\n${env:A} \\u001b"
block: |
  one
    two

  three
folded: >-
  a
  b
kept: |+
  a

stripped: |-
  a
indented: |2
    a
lists: [[], {}, [1, [2]], {a: {b: []}}]
"odd key": 1
'': 1
many: 'one

  two'
both: 'one

  ${env:A}'
wide: "\\U0001F600"
"""


def test_it_means_the_same() -> None:
    root = root_of(TEXTS)
    assert as_written(root_of(resolved(root))) | {"both": ""} == as_written(root) | {"both": ""}


def test_a_reference_that_is_none_stays_none() -> None:
    again = root_of(resolved(root_of("a: '${env:A}'\nb: 'x\n\n  ${env:A}'\nc: \"${env:A}\"\n")))
    assert [(again.fields[key][1].text, again.fields[key][1].style) for key in "abc"] == [  # type: ignore[union-attr]  # scalars
        ("${env:A}", "single"), ("x\n$${env:A}", "double"), ("${env:A}", "double"),
    ]  # fmt: skip


def test_secrets_are_masked() -> None:
    text = resolved(root_of("a: sk-abcdefghijklmnopqrstuvwx\nb: |\n  sk-abcdefghijklmnopqrstuvwx\n"))
    assert "abcdefg" not in text
    assert text.count("sk-*") == 2


TREES = st.recursive(
    st.text(max_size=12) | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=12,
)


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(tree=st.dictionaries(st.text("abc- :", min_size=1), TREES, min_size=1, max_size=4))
def test_whatever_can_be_written_means_the_same(tree: dict[str, object]) -> None:
    import yaml

    text: str = yaml.safe_dump(tree, allow_unicode=True)  # pyright: ignore[reportUnknownMemberType]  # the stubs leave it open
    document = read_text(text, "a.yaml")
    if (
        isinstance(document.root, MapNode)
        and not document.problems
        and not any(key.startswith("x-") for key in document.root.fields)
    ):
        assert as_written(root_of(resolved(document.root))) == as_written(document.root)


@pytest.mark.parametrize("text", ["a: {}\n", "a: []\n", "a: [{}]\n"])
def test_empty_collections(text: str) -> None:
    assert as_written(root_of(resolved(root_of(text)))) == as_written(root_of(text))

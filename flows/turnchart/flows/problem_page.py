"""The page of the documentation about problems, made from the catalogue of codes: an anchor a code."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from turnchart.flows.problems import CODES, OF_LINT, OF_THIS_MACHINE

_HEAD: Final = """\
# Problems

What `turnchart check` and every command that loads a flow may say. Each problem has a code, which stays the
same from version to version: search for it here, and test for it. An **error** is true on every machine. A
**warning** is true of this machine only, or likely a mistake; `--strict` lets warnings count, and `--here`
makes errors of those that are about this machine.

This page is made from the catalogue of codes and from the examples that the tests check.
"""


class Example(NamedTuple):
    """A file with a mistake, and what is said about it."""

    file: str
    said: str


def problem_page(examples: Mapping[str, Example]) -> str:
    """Return the page; ``examples`` are by code."""
    return "\n".join(
        [_HEAD, *_index(), *(line for code in CODES for line in _section(code, examples.get(code)))]
    )


def _index() -> Iterator[str]:
    yield "| code | what is wrong |"
    yield "|---|---|"
    for code, what in CODES.items():
        yield f"| [`{code}`](#{code}) | {what} |"
    yield ""


def _section(code: str, example: Example | None) -> Iterator[str]:
    yield f"## {code}"
    yield ""
    what = CODES[code]
    yield f"{what[0].upper()}{what[1:]}.{_where(code)}"
    yield ""
    if example is not None:
        yield from _block("yaml", example.file)
        yield from _block("text", example.said)


def _where(code: str) -> str:
    if code in OF_LINT:
        return " Said by `turnchart check --lint` only, as a warning."
    return " True of this machine only." if code in OF_THIS_MACHINE else ""


def _block(kind: str, text: str) -> Iterator[str]:
    fence = "```"
    while fence in text:
        fence += "`"
    yield f"{fence}{kind}"
    yield text.rstrip("\n")
    yield fence
    yield ""

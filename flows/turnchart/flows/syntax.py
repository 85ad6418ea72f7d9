"""What the YAML parser says, said for people: a code, the place where it went wrong, and the cure.

Both parsers, the one in C and the one in Python, word their errors differently; so the text at the mark is
looked at, and their words only where nothing else tells.
"""

import re
from collections.abc import Iterable
from typing import Any

import yaml

from turnchart.flows.problems import Problem, meant, quoted, sentence
from turnchart.flows.source import Mark, Source

_CORE = "tag:yaml.org,2002:"
_WORD = re.compile(r"[^\s,\]}#]+")


def tag_name(tag: str) -> str:
    """Return a tag as people write it: ``!!python/name:x``."""
    return f"!!{tag.removeprefix(_CORE)}" if tag.startswith(_CORE) else tag


def alias_unknown(name: str, known: Iterable[str], source: Source, mark: Mark) -> Problem:
    """Return the problem of ``*name`` without an anchor, which is mostly a glob that lacks its quotes."""
    word = _word(source, mark)
    help = sentence(
        f"if it is a pattern, put it in quotes: '{word}';", meant(name, known), "an anchor is written &name"
    )
    return source.problem("yaml-alias", f"alias *{name} has no anchor", mark, help=help)


def to_problem(error: yaml.MarkedYAMLError, source: Source) -> Problem:
    """Return the problem that a syntax error stands for."""
    end = Mark(len(source.lines), len(source.lines[-1]) + 1)
    at = _place(error.problem_mark) or _place(error.context_mark) or end
    since = _place(error.context_mark) or at
    words = f"{error.context or ''} {error.problem or ''}"
    for case in (_tab, _sign, _alias, _escape, _unclosed, _colon, _lone_key, _depth):
        found = case(source, at, since, words)
        if found is not None:
            return found
    message = f"not valid YAML: {error.problem or 'it cannot be read'}"
    return source.problem("yaml-syntax", message, _on_text(source, at), help=_misplaced(source, at))


def _tab(source: Source, at: Mark, _since: Mark, _words: str) -> Problem | None:
    text = _line(source, at)
    indent = text[: len(text) - len(text.lstrip())]
    if "\t" not in indent or at.column > len(indent) + 1:
        return None
    others = sum(1 for line in source.lines if line[:1] == "\t") - (text[:1] == "\t")
    more = f"; {others} other lines begin with a tab" if others > 1 else ""
    mark = Mark(at.line, indent.index("\t") + 1)
    help = f"YAML is indented with spaces only{more}"
    return source.problem("yaml-tab", "this line is indented with a tab", mark, help=help)


def _sign(source: Source, at: Mark, _since: Mark, words: str) -> Problem | None:
    sign = _line(source, at)[at.column - 1 : at.column]
    if "cannot start any token" not in words or not sign:
        return None
    if sign == "\t":
        return source.problem("yaml-tab", "a tab stands before a value", at, help="write a space instead")
    word = _rest(source, at).strip("`")
    help = f"put it in quotes: '{word}'" if "'" not in word else "put it in quotes"
    return source.problem("yaml-syntax", f"a value cannot begin with {sign}", at, help=help)


def _alias(source: Source, _at: Mark, since: Mark, words: str) -> Problem | None:
    kind = next((kind for kind in ("alias", "anchor") if f"scanning an {kind}" in words), None)
    if kind is None:
        return None
    word = _word(source, since)
    mark = Mark(since.line, since.column, len(word) or 1)
    message = f"{quoted(word)} is no {kind}: {'*' if kind == 'alias' else '&'} begins one outside of quotes"
    help = f"put it in quotes: '{word}'"
    return source.problem("yaml-alias" if kind == "alias" else "yaml-syntax", message, mark, help=help)


def _escape(source: Source, at: Mark, _since: Mark, words: str) -> Problem | None:
    if "escape" not in words:
        return None
    text = _line(source, at)
    start = text.rfind("\\", 0, at.column)
    mark = Mark(at.line, start + 1, 2) if start >= 0 else at
    escape = text[start : start + 2] if start >= 0 else "this"
    help = "use single quotes for patterns: there a backslash is a backslash"
    return source.problem("yaml-syntax", f"{escape} is no escape in double quotes", mark, help=help)


def _unclosed(source: Source, at: Mark, since: Mark, words: str) -> Problem | None:
    text = _line(source, since)
    sign = text[since.column - 1 : since.column]
    if "scanning a quoted scalar" in words and sign in ("'", '"'):
        help = "in single quotes an apostrophe is written twice" if sign == "'" else f"close it with {sign}"
        return source.problem("yaml-syntax", f"the quote {sign} is never closed", since, help=help)
    if "parsing a flow" in words and sign in ("[", "{") and _at_end(source, at):
        close = "]" if sign == "[" else "}"
        return source.problem("yaml-syntax", f"{sign} is never closed", since, help=f"close it with {close}")
    if "parsing a flow" in words and sign in ("[", "{"):
        if _line(source, at)[at.column - 2 : at.column] == "${":
            help = 'inside of brackets and braces, ${...} goes in double quotes: "${env:NAME}"'
            mark = Mark(at.line, at.column - 1, 2)
            return source.problem("yaml-syntax", "a value cannot begin with ${ here", mark, help=help)
        close = "]" if sign == "[" else "}"
        message = f"not valid YAML: a comma or {close} is missing before this"
        begins = f"the list or map begins with {sign} on line {since.line}"
        help = f"{begins}; text with , [ ] {{ }} or quotes goes in quotes"
        return source.problem("yaml-syntax", message, _on_text(source, at), help=help)
    return None


def _colon(source: Source, at: Mark, _since: Mark, words: str) -> Problem | None:
    if "mapping values are not allowed" not in words:
        return None
    before = _line(source, at)[: at.column - 1]
    inside = re.search(r":\s|^\s*-\s", before) is not None
    help = (
        'put the value in quotes, or use a block scalar ("key: |")'
        if inside
        else "the line before this one has a value already: indent this line like the key above"
    )
    message = "not valid YAML: mapping values are not allowed in this context"
    return source.problem("yaml-syntax", message, at, help=help)


def _lone_key(source: Source, _at: Mark, since: Mark, words: str) -> Problem | None:
    if "scanning a simple key" not in words:
        return None
    text = _line(source, since)[since.column - 1 :].rstrip()
    mark = Mark(since.line, since.column, len(text) or 1)
    return source.problem(
        "yaml-syntax", "not valid YAML: a key without a colon", mark, help="write key: value"
    )


def _depth(source: Source, at: Mark, _since: Mark, words: str) -> Problem | None:
    if "nesting depth" not in words:
        return None
    return source.problem("yaml-depth", "nested deeper than 100 levels", at)


def _misplaced(source: Source, at: Mark) -> str:
    """Return the cure for a line that does not fit what stands above it."""
    before = _line(source, at)[: at.column - 1].rstrip()
    if before.endswith("'"):
        return "nothing may follow a closing quote; inside of single quotes an apostrophe is written twice"
    if before.endswith('"'):
        return "nothing may follow a closing quote: put the whole value in quotes"
    glob = re.search(r"(?:^|\s)(\*\S+)$", before)
    if glob:
        return "a value cannot begin with * outside of quotes: put the whole value in quotes"
    return "look at the indentation: keys of one map, and dashes of one list, stand in one column"


def _place(mark: Any) -> Mark | None:
    return Mark(mark.line + 1, mark.column + 1) if mark is not None else None


def _line(source: Source, at: Mark) -> str:
    return source.lines[at.line - 1] if at.line <= len(source.lines) else ""


def _word(source: Source, at: Mark) -> str:
    found = _WORD.match(_line(source, at), at.column - 1)
    return found[0] if found else ""


def _rest(source: Source, at: Mark) -> str:
    """Return the value that was meant: the rest of the line, or one word inside of brackets."""
    line = _line(source, at)
    if any(sign in line[: at.column - 1] for sign in "[{"):
        return _word(source, at)
    return re.split(r"\s#", line[at.column - 1 :], maxsplit=1)[0].strip()


def _at_end(source: Source, at: Mark) -> bool:
    rest = (_line(source, at)[at.column - 1 :], *source.lines[at.line :])
    return all(not line.strip() for line in rest)


def _on_text(source: Source, at: Mark) -> Mark:
    """Return the mark, moved to the end of the last line with text where it stands behind all of them."""
    if not _at_end(source, at):
        return at
    last = max((i for i, line in enumerate(source.lines) if line.strip()), default=0)
    return Mark(last + 1, max(1, len(source.lines[last].rstrip())))

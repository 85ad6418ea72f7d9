"""What is wrong with a flow although every value is well formed: models, prompts, retries, literals.

Hooks are checked in ``hook_checks``, tools and permissions in ``tool_checks``.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final

from turnchart.flows.parts import Parts
from turnchart.flows.paths import Place, beside, outside
from turnchart.flows.problems import Problem, quoted
from turnchart.flows.secrets import SECRET
from turnchart.flows.source import AnyNode, ListNode, MapNode, Scalar, scalars

SCRIPT: Final = "script:"
_LARGEST_PROMPT: Final = 1024 * 1024


def check_settings(parts: Parts, place: Place, env: Mapping[str, str] | None) -> Iterator[Problem]:
    """Find what is wrong in the settings of a flow."""
    yield from _models(parts, place, env)
    yield from _prompt(parts, place)
    yield from _delays(parts)
    yield from _output(parts, place)
    yield from _secrets(parts.root)


# -- models ---------------------------------------------------------------------------------------


def _models(parts: Parts, place: Place, env: Mapping[str, str] | None) -> Iterator[Problem]:
    spec = parts.file.model
    if spec is None:
        return
    ids = [(spec.id, parts.at("model", "id"))]
    ids += [(id, parts.at("model", "fallback", i)) for i, id in enumerate(spec.fallback)]
    for id, node in ids:
        yield from script_problems(id, node, place)
    for id, node in ids[1:]:
        if id == spec.id:
            message = f"the fallback model {quoted(id)} is the model itself"
            yield node.problem("bad-value", message, help="name another one, or delete it")
    variable = spec.api_key_env
    if variable is not None and env is not None and variable not in env:
        node = parts.at("model", "api_key_env")
        yield node.problem(
            "key-variable", f"environment variable {variable} is not set here", level="warning"
        )


def script_problems(id: str, node: AnyNode, place: Place) -> Iterator[Problem]:
    """Find what is wrong with the file of ``script:FILE``; other models have none."""
    if not id.startswith(SCRIPT) or not isinstance(node, Scalar):
        return
    target, name = beside(node.source, id.removeprefix(SCRIPT))
    wrong = outside(node, id.removeprefix(SCRIPT), target, place.reach)
    if wrong is not None:
        yield wrong
    elif not os.path.isfile(target):
        help = "the path is relative to the file that wrote it"
        yield node.problem("file-missing", f"the script {quoted(name)} is not there", help=help)
    else:
        from turnchart.flows.script import read_script  # most flows have no script

        yield from read_script(target, name)[1]


# -- prompt ---------------------------------------------------------------------------------------


def prompt_file(node: AnyNode, text: str, place: Place) -> Path | Problem:
    """Return where a prompt file is, or why it cannot be used."""
    target, name = beside(node.source, text)
    wrong = outside(node, text, target, place.reach)
    if wrong is not None:
        return wrong
    if not os.path.isfile(target):
        help = "the path is relative to the file that wrote it"
        return node.problem("prompt-missing", f"the prompt file {quoted(name)} is not there", help=help)
    if target.stat().st_size > _LARGEST_PROMPT:
        return node.problem("file-size", f"the prompt file {quoted(name)} is larger than 1 MiB")
    try:
        target.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
        return node.problem("prompt-missing", f"the prompt file {quoted(name)} cannot be read: {why}")
    return target


def _prompt(parts: Parts, place: Place) -> Iterator[Problem]:
    node = parts.root.get("prompt")
    entries = node.items if isinstance(node, ListNode) else (node,) if node is not None else ()
    for i, (part, entry) in enumerate(zip(parts.file.prompt, entries, strict=False)):
        if (part.file is None) == (part.text is None):
            yield entry.problem("missing-key", f"prompt[{i}] needs exactly one of: file, text")
        elif part.file is not None:
            file = prompt_file(parts.at("prompt", i, "file"), part.file, place)
            if isinstance(file, Problem):
                yield file
    yield from _split_prompts(entries)


def _split_prompts(entries: Iterable[AnyNode]) -> Iterator[Problem]:
    """Find a comma in a list in brackets that was meant as part of the text."""
    items = [item for item in entries if isinstance(item, Scalar) and item.style == "plain"]
    for first, second in pairwise(items):
        if first.line == second.line and second.text[:1].islower():
            message = f"the comma before {quoted(second.text)} ends a part of the prompt"
            yield second.problem(
                "prompt-split", message, help="put the whole text in quotes", level="warning"
            )


# -- the rest -------------------------------------------------------------------------------------


def _delays(parts: Parts) -> Iterator[Problem]:
    rules = parts.file.retry
    if rules.max_delay < rules.base_delay:
        node = parts.at("retry", "max_delay" if "max_delay" in rules.model_fields_set else "base_delay")
        message = (
            f"retry.max_delay ({rules.max_delay:g}) is smaller than retry.base_delay ({rules.base_delay:g})"
        )
        yield node.problem("delay-order", message, help="the first wait would be longer than the longest")


def _output(parts: Parts, place: Place) -> Iterator[Problem]:
    if parts.file.output is not None:
        from turnchart.flows.output import check_output  # most flows answer as they like

        yield from check_output(parts, place)


def _secrets(root: MapNode) -> Iterator[Problem]:
    for node in scalars(root):
        if SECRET.search(node.text):
            help = "keys belong into the environment: name the variable, as in api_key_env: NAME"
            yield node.problem("secret-literal", "this looks like a secret", help=help, level="warning")

"""Reading a test file: text becomes a ``Suite``, and everything that is wrong with it becomes problems."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from turnchart.flows.checks import SCRIPT
from turnchart.flows.merge import version_problem
from turnchart.flows.paths import beside
from turnchart.flows.problems import Problem, in_order, quoted
from turnchart.flows.schema import Closed
from turnchart.flows.script import Script, ScriptInput, ScriptStep, inputs_of, read_script, steps_of
from turnchart.flows.shipped import find_shipped
from turnchart.flows.source import AnyNode, ListNode, MapNode, Scalar, read_file
from turnchart.flows.testfiles.suite import (
    ANY,
    EVERY_MODEL,
    CallRule,
    Case,
    CaseFields,
    CommandStub,
    Expect,
    ExpectFields,
    HookRule,
    RequestRule,
    Suite,
    ToolStub,
)
from turnchart.flows.validate import Loc, Reading, bad_value, dotted, unknown_key

KEYS: Final = ("version", "flow", "tests")
_WITH_ANY: Final = "calls"
"""The list of ``expect`` in which ``...`` may stand."""
SUFFIX: Final = ".test.yaml"
_MARK: Final = re.compile(rb"^flow[ \t]*:", re.MULTILINE)
_HELP: Final = "a test file is a map: version: 1, flow: FILE, tests: [...]"

M = TypeVar("M", bound=Closed)


def is_suite(path: Path) -> bool:
    """Tell whether a file is a test file of ours: it is named so, and names a flow at its top."""
    try:
        return path.name.endswith(SUFFIX) and _MARK.search(path.read_bytes()) is not None
    except OSError:
        return False


def read_suite(path: str | os.PathLike[str], name: str | None = None) -> tuple[Suite | None, list[Problem]]:
    """Read a test file; nothing that it names is started, and the flow is not looked at yet.

    Args:
        path: Where it is.
        name: How messages name it; the path as given where None.

    Returns:
        The file, None where nothing can be read, and everything that is wrong with it.
    """
    shown = name if name is not None else os.fspath(path)
    document = read_file(Path(path), shown, empty_help=_HELP)
    reading = Reading(env=None, problems=list(document.problems), references=False)
    root = document.root
    if root is None:
        return None, reading.problems
    if not isinstance(root, MapNode):
        return None, [*reading.problems, root.problem("bad-value", "the file is no map", help=_HELP)]
    wrong = version_problem(document.source, root)
    if wrong is not None:
        reading.problems.append(wrong)
    for key, (node, _) in root.fields.items():
        if key not in KEYS and not key.startswith("x-"):
            reading.problems.append(unknown_key(node, (), KEYS))
    flow = _flow(root, reading)
    cases = [
        _case(node, ("tests", i), reading) for i, node in enumerate(_items(root, "tests", reading, _HELP))
    ]
    found = [case for case in cases if case is not None]
    _same_names(found, reading)
    suite = Suite(document.source.path, shown, flow, tuple(found)) if flow else None
    return suite, in_order(reading.problems)


def _flow(root: MapNode, reading: Reading) -> str:
    """Return how the flow can be loaded; empty where it is not named."""
    node = root.get("flow")
    if node is None:
        help = "name the file of the flow, relative to this one"
        reading.problems.append(root.problem("missing-key", "flow is missing", help=help))
        return ""
    if not isinstance(node, Scalar) or not node.text:
        if not (isinstance(node, Scalar) and node.broken):
            reading.problems.append(bad_value(node, ("flow",), "string_type", "", {}))
        return ""
    path, shown = beside(node.source, node.text)
    if os.path.isfile(path) or find_shipped(node.text) is None:
        if not os.path.isfile(path):
            help = (
                "the path is relative to the file that wrote it; turnchart flows lists those that come along"
            )
            reading.problems.append(
                node.problem("file-missing", f"the flow {quoted(shown)} is not there", help=help)
            )
            return ""
        return shown
    return node.text


def _items(node: AnyNode, key: str, reading: Reading, help: str, loc: Loc = ()) -> Sequence[AnyNode]:
    """Return the items of a list below a map; nothing where the key is left out."""
    found = node.get(key) if isinstance(node, MapNode) else None
    if isinstance(found, ListNode):
        if not found.items and key == "tests":
            reading.problems.append(found.problem("bad-value", "tests must not be empty", help=help))
        return found.items
    if found is None:
        if key == "tests":
            reading.problems.append(node.problem("missing-key", "tests is missing", help=help))
    elif not (isinstance(found, Scalar) and found.broken):
        problem = bad_value(found, (*loc, key), "list_type", "", {})
        reading.problems.append(found.problem(problem.code, problem.message, help=help))
    return ()


def _same_names(cases: Sequence[Case], reading: Reading) -> None:
    first: dict[str, Case] = {}
    for case in cases:
        before = first.setdefault(case.name, case)
        if before is not case:
            help = f"the first is on line {before.line}"
            message = f"two tests have the name {quoted(case.name)}"
            reading.problems.append(case.at("name").problem("duplicate-id", message, help=help))


# -- one test -------------------------------------------------------------------------------------


def _case(node: AnyNode, loc: Loc, reading: Reading) -> Case | None:
    fields = reading.valid(CaseFields, node, loc, reading.plain(node))
    if fields is None or not isinstance(node, MapNode):
        return None
    scripts, said = _scripts(node.get("model"), (*loc, "model"), reading)
    inputs = (*said, *inputs_of(node.get("at"), (*loc, "at"), reading))
    approve = fields.approve
    return Case(
        fields.name, node, _prompts(fields, node, loc, reading),
        approve if isinstance(approve, str) else tuple(_rules(approve, node, loc, reading)),
        _files(fields.files, node, loc, reading), scripts, tuple(inputs),
        _stubs(ToolStub, node, "tools", loc, reading), _stubs(CommandStub, node, "commands", loc, reading),
        _expect(node.get("expect"), (*loc, "expect"), reading),
    )  # fmt: skip


def _prompts(fields: CaseFields, node: MapNode, loc: Loc, reading: Reading) -> tuple[str, ...]:
    if fields.prompt is not None and fields.prompts is not None:
        key = node.fields["prompts"][0]
        message = f"{dotted(loc)} has prompt and prompts"
        reading.problems.append(key.problem("key-not-here", message, help="prompts alone is a turn each"))
    if fields.prompt is not None:
        return (fields.prompt,)
    return tuple(fields.prompts or ())


def _rules(given: Any, node: MapNode, loc: Loc, reading: Reading) -> list[str]:
    rules: list[str] = []
    approve = node.get("approve")
    items = approve.items if isinstance(approve, ListNode) else ()
    for i, (item, rule) in enumerate(zip(items, given, strict=False)):
        if isinstance(rule, str) and rule:
            rules.append(rule)
        else:
            reading.problems.append(bad_value(item, (*loc, "approve", i), "string_type", "", {}))
    return rules


def _files(given: Mapping[str, str], node: MapNode, loc: Loc, reading: Reading) -> dict[str, str]:
    files: dict[str, str] = {}
    nodes = node.get("files")
    for path, content in given.items():
        whole = os.path.normpath(path)
        if os.path.isabs(path) or whole.split(os.sep)[0] == ".." or whole == "." or "\0" in path:
            at = nodes.fields[path][0] if isinstance(nodes, MapNode) else node
            help = "the files of a test lie in a folder of its own: write a path relative to it"
            reading.problems.append(
                at.problem("path-outside", f"{quoted(path)} leaves the folder", help=help)
            )
        else:
            files[whole] = content
    return files


def _scripts(
    node: AnyNode | None, loc: Loc, reading: Reading
) -> tuple[dict[str, tuple[ScriptStep, ...]], tuple[ScriptInput, ...]]:
    """Return what models answer, by id, and what the script of a file lets people do."""
    if node is None:
        return {}, ()
    if isinstance(node, MapNode):
        by_id = {id: tuple(steps_of(steps, (*loc, id), reading)) for id, (_, steps) in node.fields.items()}
        return by_id, ()
    if isinstance(node, Scalar) and node.text.startswith(SCRIPT):
        script = _script(node, reading)
        return {EVERY_MODEL: script.steps}, script.at
    return {EVERY_MODEL: tuple(steps_of(node, loc, reading))}, ()


def _script(node: Scalar, reading: Reading) -> Script:
    path, shown = beside(node.source, node.text.removeprefix(SCRIPT))
    if not os.path.isfile(path):
        help = "the path is relative to the file that wrote it"
        message = f"the script {quoted(shown)} is not there"
        reading.problems.append(node.problem("file-missing", message, help=help))
        return Script()
    script, problems = read_script(path, shown)
    reading.problems += problems
    return script


# -- stubs ----------------------------------------------------------------------------------------


def _stubs(model: type[M], node: MapNode, key: str, loc: Loc, reading: Reading) -> dict[str, tuple[M, ...]]:
    """Return the stubs by name: one, or a list of them, one a call."""
    given = node.get(key)
    stubs: dict[str, tuple[M, ...]] = {}
    for name, (at, value) in given.fields.items() if isinstance(given, MapNode) else ():
        several = value.items if isinstance(value, ListNode) else (value,)
        found = [_stub(model, each, (*loc, key, name), reading) for each in several]
        if not found:
            reading.problems.append(at.problem("bad-value", f"{dotted((*loc, key, name))} has no stub"))
        stubs[name] = tuple(stub for stub in found if stub is not None)
    return stubs


def _stub(model: type[M], node: AnyNode, loc: Loc, reading: Reading) -> M | None:
    stub = reading.valid(model, node, loc, reading.plain(node))
    if stub is None:
        return None
    given = stub.model_fields_set
    if isinstance(stub, ToolStub):
        says = given & {"returns", "fails", "real"}
        if len(says) != 1 and isinstance(node, MapNode) and node.fields.keys() <= {*says, "delay"}:
            message = f"{dotted(loc)} needs exactly one of: returns, fails, real"
            reading.problems.append(node.problem("missing-key", message))
    elif "real" in given and len(given) > 1:
        message = f"{dotted(loc)}: what is real has no other keys"
        reading.problems.append(node.problem("key-not-here", message))
    return stub


# -- expectations ---------------------------------------------------------------------------------


def _expect(node: AnyNode | None, loc: Loc, reading: Reading) -> Expect:
    if node is None:
        return Expect()
    fields = reading.valid(ExpectFields, node, loc, reading.plain(node))
    if fields is None:
        return Expect()
    calls = None if fields.calls is None else _entries(CallRule, node, "calls", loc, reading)
    hooks = None if fields.hooks is None else _entries(HookRule, node, "hooks", loc, reading)
    requests = None if fields.requests is None else _entries(RequestRule, node, "requests", loc, reading)
    return Expect(
        fields.reason or "completed", fields.text,
        None if fields.states is None else tuple(fields.states), calls,
        None if hooks is None else tuple(each for each in hooks if each is not None),
        None if requests is None else tuple(each for each in requests if each is not None),
    )  # fmt: skip


def _entries(model: type[M], node: AnyNode, key: str, loc: Loc, reading: Reading) -> tuple[M | None, ...]:
    """Read a list of rules; ``...`` is None."""
    found: list[M | None] = []
    for i, item in enumerate(_items(node, key, reading, "write a list of maps", loc)):
        if key == _WITH_ANY and isinstance(item, Scalar) and item.text == ANY:
            found.append(None)
            continue
        rule = reading.valid(model, item, (*loc, key, i), reading.plain(item))
        if rule is not None:
            found.append(rule)
    return tuple(found)

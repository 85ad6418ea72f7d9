"""The pages about the Python packages: every public name, with its signature and what its docstring says."""

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType, UnionType

from tests.docs.markdown import code, page, sentence, table
from tests.docs.source import (
    Def,
    Function,
    as_written,
    doc_of,
    fields_of,
    maker_of,
    marks_of,
    methods_of,
    node_of,
    sections_of,
)

HEAD = """\
# {package}

{told}

Every name below is imported from `{package}`. A name that is not here may change at any time.
"""


def python_names(package: str) -> str:
    """Return the page of a package."""
    module = import_module(package)
    names = sorted(_public(module), key=str.lower)
    first, *_ = (inspect.getdoc(module) or "").split("\n\n")
    things = {name: getattr(module, name) for name in names}
    rows = [(f"[{code(name)}](#{name.lower()})", _kind(each), _first(each)) for name, each in things.items()]
    return page(
        HEAD.format(package=package, told=" ".join(first.split())),
        table(("name", "", "what it is"), rows),
        *(part for name, each in things.items() for part in _name(name, each, names)),
    )


def _public(module: ModuleType) -> list[str]:
    """Return the names that a package gives: ``__all__``, or what it imports for others."""
    given: list[str] | None = getattr(module, "__all__", None)
    if given is not None:
        return given
    found = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    return [name for name, value in found.items() if not isinstance(value, ModuleType)]


def _kind(thing: object) -> str:
    node = node_of(thing)
    if isinstance(node, ast.ClassDef):
        return "exception" if inspect.isclass(thing) and _is_exception(thing) else "class"
    return "function" if node else "value"


def _is_exception(kind: type) -> bool:
    return issubclass(kind, BaseException)


def _first(thing: object) -> str:
    doc = doc_of(thing) or doc_of(type(thing))
    return " ".join(doc.split("\n\n")[0].split())


def _name(name: str, thing: object, public: list[str]) -> Iterator[str]:
    node = node_of(thing)
    yield f"## {name}"
    if node is None:
        kind = "UnionType" if isinstance(thing, UnionType) else type(thing).__name__  # "Union" on 3.14
        yield f"A value of the type {code(kind)}. {_first(thing)}"
    elif isinstance(node, ast.ClassDef) and inspect.isclass(thing):
        yield from _class(thing, node, public)
    else:
        yield from _function(node, "")


def _class(kind: type, node: ast.ClassDef, public: list[str]) -> Iterator[str]:
    bases = [ast.unparse(base) for base in node.bases]
    known = [base for base in bases if base in public]
    made, fields = maker_of(kind), fields_of(kind)
    if made is not None and "Protocol" not in bases:
        yield f"```text\n{_signature(made, kind.__name__)}\n```"
    elif fields and "Protocol" not in bases and not inspect.isabstract(kind):
        given = [f"{each.name}: {each.type}{f' = {each.default}' if each.default else ''}" for each in fields]
        yield f"```text\n{_wrapped(kind.__name__, given, '')}\n```"
    if _is_exception(kind):
        yield f"Is a {', '.join(map(code, bases))}."
    elif known:
        linked = ", ".join(f"[{code(base)}](#{base.lower()})" for base in known)
        yield f"Is a {linked}, with all that it can do."
    text, lists = sections_of(doc_of(kind))
    yield text
    told = lists.pop("Attributes", {})
    yield from _list("Attributes", {each.name: each.told for each in fields if each.told} | told)
    if made is not None:
        own, more = sections_of(ast.get_docstring(made) or "")
        yield own
        lists = {**more, **lists}
    for title, items in lists.items():
        yield from _list(title, items)
    if members := getattr(kind, "__members__", None):
        yield f"Members: {', '.join(map(code, members))}."
    for method in methods_of(kind, besides=public):
        yield from _function(method, kind.__name__)


def _function(node: Def, owner: str) -> Iterator[str]:
    assert not isinstance(node, ast.ClassDef)
    marks = marks_of(node)
    text, lists = sections_of(ast.get_docstring(node) or "")
    if owner:
        yield f"### {owner}.{node.name}"
    if marks & {"property", "cached_property"}:
        kind = f": {as_written(node.returns)}" if node.returns else ""
        yield f"```text\n{node.name}{kind}\n```"
    else:
        before = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
        yield f"```text\n{before}{_signature(node, node.name)}\n```"
    yield text
    for title, items in lists.items():
        yield from _list(title, items)


def _list(title: str, items: dict[str, str]) -> Iterator[str]:
    rows = [f"- {f'{code(name)}: ' if name else ''}{sentence(told)}" for name, told in items.items() if told]
    if rows:
        yield "\n".join((f"**{title}**", "", *rows))


def _signature(node: Function, name: str) -> str:
    args = node.args
    given: list[str] = []
    plain = [*args.posonlyargs, *args.args]
    defaults: list[ast.expr | None] = [*[None] * (len(plain) - len(args.defaults)), *args.defaults]
    for at, (each, default) in enumerate(zip(plain, defaults, strict=True), 1):
        given.append(_argument(each, default))
        if at == len(args.posonlyargs):
            given.append("/")
    if args.vararg:
        given.append(f"*{_argument(args.vararg, None)}")
    elif args.kwonlyargs:
        given.append("*")
    given += [
        _argument(each, default) for each, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)
    ]
    if args.kwarg:
        given.append(f"**{_argument(args.kwarg, None)}")
    if plain and plain[0].arg in ("self", "cls"):
        given = given[1:]
    if given[:1] == ["/"]:
        given = given[1:]
    returns = f" -> {as_written(node.returns)}" if node.returns and not node.name.startswith("__") else ""
    return _wrapped(name, given, returns)


def _argument(each: ast.arg, default: ast.expr | None) -> str:
    kind = f": {as_written(each.annotation)}" if each.annotation else ""
    if default is None:
        return f"{each.arg}{kind}"
    return f"{each.arg}{kind} = {ast.unparse(default)}" if kind else f"{each.arg}={ast.unparse(default)}"


def _wrapped(name: str, given: list[str], returns: str) -> str:
    line = f"{name}({', '.join(given)}){returns}"
    return (
        line
        if len(line) <= 90
        else "\n".join((f"{name}(", *(f"    {each}," for each in given), f"){returns}"))
    )

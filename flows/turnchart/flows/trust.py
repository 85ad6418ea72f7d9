"""What a flow starts or reaches: the list that a person agrees to before anything of it happens.

It is read from the nodes, references unexpanded: what is agreed to is what stands in the files, and no value
of a variable is shown or kept. Each thing has a digest over all that says what would happen, and over the
files of the project that it names; when one of these changes, it is a new thing, and somebody is asked again.
"""

import hashlib
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from turnchart.flows.agreements import agreed
from turnchart.flows.problems import Level, Problem
from turnchart.flows.source import AnyNode, ListNode, MapNode, Scalar, as_written, scalars
from turnchart.flows.validate import find
from turnchart.machine.paths import resolved
from turnchart.machine.records import record

if TYPE_CHECKING:
    from turnchart.flows.check import Checked
    from turnchart.flows.hook_checks import HookUse
    from turnchart.flows.plugins import ProjectPlugins
    from turnchart.hooks.registry import Spec

Kind = Literal["program", "address", "variable", "folder", "plug-in"]

_VERBS: Final[Mapping[Kind, str]] = {
    "program": "starts", "address": "reaches", "variable": "hands out a variable to",
    "folder": "opens", "plug-in": "imports",
}  # fmt: skip
_OF_PROGRAM: Final = ("run", "command", "args", "env", "env_from", "cwd")
_OF_ADDRESS: Final = ("url", "base_url", "bearer_env", "headers_env", "api_key_env")
_NAMING: Final = ("env_from", "bearer_env", "headers_env", "api_key_env")
"""Keys whose values are names of our variables."""
_REFERENCE: Final = re.compile(r"(?<!\$)\$\{env:([A-Za-z_][A-Za-z0-9_]*)")
_PARAM: Final = re.compile(r"(?<!\$)\$\{param:([A-Za-z][A-Za-z0-9_]*)")
_SECRET_NAME: Final = re.compile(r".*_(KEY|TOKEN|SECRET|PASSWORD)", re.IGNORECASE)


@record
class Reach:
    """One thing that a flow starts or reaches.

    Attributes:
        kind: A program, an address, a variable that is handed out, a folder outside of the root that is open
            to a tool, or a plug-in that is imported.
        what: The program with its arguments, the address, who gets the variable, the folder and the tool, or
            the plug-in.
        where: ``file:line``.
        variables: The environment variables that it is given.
        node: Where it stands.
        digest: SHA-256 over all of it, in hex; the line does not count.
    """

    kind: Kind
    what: str
    where: str
    variables: tuple[str, ...]
    node: AnyNode
    digest: str

    def __str__(self) -> str:
        told = f" with {', '.join(self.variables)}" if self.variables else ""
        return f"{_VERBS[self.kind]} {self.what}{told}"

    def problem(self, code: str = "not-trusted", level: Level = "error") -> Problem:
        """Return the problem that nobody agreed to it."""
        owner = "project" if self.kind == "plug-in" else "flow"
        help = "agree with trust=True, or --trust on the command line"
        return self.node.problem(code, f"this {owner} {self}", help=help, level=level)


def reaches_of(checked: "Checked") -> tuple[Reach, ...]:
    """Return what a flow starts or reaches: plug-ins of its project, then in the order of the file.

    Of disabled hooks nothing.
    """
    found = [*plugin_reaches(checked.plugins)] if checked.plugins is not None else []
    if checked.parts is not None:
        listed = _listing(checked)
        listed.model(checked.parts.root.get("model"))
        listed.servers(checked.parts.root.get("mcp"))
        listed.store(checked)
        for part in checked.parts.tools:
            listed.tool(part.name, find(part.node, ("with",)))
        for named in checked.tools:
            if named.flow is not None:
                listed.found += _of_flow(named.flow, named.part.at("with"))
        for use in checked.hooks:
            if not use.disabled:
                listed.hook(use)
        listed.texts(checked.parts.root)
        found += listed.found
    return tuple({reach.digest: reach for reach in found}.values())


def of_store(checked: "Checked") -> frozenset[str]:
    """Return the digests of what the registered store of a flow starts or reaches."""
    listed = _listing(checked)
    listed.store(checked)
    return frozenset(reach.digest for reach in listed.found)


def of_hook(checked: "Checked", use: "HookUse") -> frozenset[str]:
    """Return the digests of what a hook of a flow starts or reaches."""
    listed = _listing(checked)
    listed.hook(use)
    listed.texts(use.part.node)
    return frozenset(reach.digest for reach in listed.found)


def _listing(checked: "Checked") -> "_Listing":
    params = checked.parts.root.get("params") if checked.parts is not None else None
    return _Listing(checked.place.root, params)


def _of_flow(flow: "Checked", given: AnyNode) -> Iterator[Reach]:
    """Yield what a flow starts or reaches that is a tool, with the params that it is given."""
    params = given.get("params") if isinstance(given, MapNode) else None
    said = json.dumps(as_written(params), sort_keys=True) if params is not None else ""
    for reach in reaches_of(flow):
        if reach.kind != "plug-in":  # those of the project are listed once
            digest = hashlib.sha256(f"{reach.digest} {said}".encode("utf-8", "surrogatepass")).hexdigest()
            yield replace(reach, digest=digest if said else reach.digest)


def not_agreed(checked: "Checked") -> tuple[Reach, ...]:
    """Return what of a flow nobody agreed to yet."""
    reaches = reaches_of(checked)
    plugins = [reach for reach in reaches if reach.kind == "plug-in"]
    known = _known(checked.path, checked.place.root, [each for each in reaches if each.kind != "plug-in"])
    if checked.plugins is not None:
        known |= _known(checked.plugins.path, checked.plugins.root, plugins)
    return tuple(reach for reach in reaches if reach.digest not in known)


def _known(path: Path, root: Path, reaches: Sequence[Reach]) -> frozenset[str]:
    return agreed(path, root) if reaches else frozenset()


def plugins_agreed(plugins: "ProjectPlugins") -> bool:
    """Tell whether somebody agreed to import every plug-in of a project, as it is now."""
    reaches = plugin_reaches(plugins)
    return {reach.digest for reach in reaches} <= _known(plugins.path, plugins.root, reaches)


def plugin_reaches(plugins: "ProjectPlugins") -> list[Reach]:
    """Return the plug-ins of a project, each with the digest of its code."""
    return [
        _reach("plug-in", node.text, node, (), node.text, _digests(plugins.code(node.text), plugins.root))
        for node in plugins.names
    ]


class _Listing:
    """Collects what the parts of a flow start or reach."""

    def __init__(self, root: Path, params: AnyNode | None) -> None:
        self.found: list[Reach] = []
        self._root = root
        self._params = params
        self._told: set[int] = set()
        """Scalars that stand in what was listed."""

    def model(self, node: AnyNode | None) -> None:
        if not isinstance(node, MapNode):
            return
        if node.get("base_url") is not None:
            self._address(node, "base_url")
            return
        key, id = node.get("api_key_env"), node.get("id")
        if isinstance(key, Scalar) and isinstance(id, Scalar):
            provider = id.text.partition(":")[0]
            if not _usual(provider, key.text):
                self._add("variable", provider, key, {"id": id, "api_key_env": key}, (key.text,))

    def servers(self, node: AnyNode | None) -> None:
        for _, server in node.fields.values() if isinstance(node, MapNode) else ():
            self._any(server, "an mcp server")

    def store(self, checked: "Checked") -> None:
        """List a registered store: it gets all that is said, with what it starts."""
        node, use = checked.parts.root.get("session") if checked.parts is not None else None, checked.store
        if use is None or not isinstance(node, MapNode):
            return
        said = {key: node.fields[key][1] for key in ("store", "with") if key in node.fields}
        self._add(
            "address", f"the session store {use.spec.name}{_told(node.get('with'))}", said["store"], said, ()
        )
        self._commands(use.spec, node)

    def tool(self, name: str, given: Any) -> None:
        if given.exact:
            self._any(given.value, name)
            self._folders(find(given.value, ("outside",)), name)

    def _folders(self, given: Any, tool: str) -> None:
        """List folders outside of the root, each with where it really is: another one if a link changes."""
        for node in given.value.items if given.exact and isinstance(given.value, ListNode) else ():
            if not isinstance(node, Scalar):
                continue
            what, said = node.text, {"outside": node}
            if not (_referred(node) or _PARAM.search(node.text)):
                with suppress(ValueError):  # it can be no path, and that is reported
                    (real,) = resolved(self._root, [node.text])
                    what = str(real) if node.text == str(real) else f"{node.text} ({real})"
            self._add("folder", f"{what} to {tool}", node, said, ())

    def hook(self, use: "HookUse") -> None:
        node = use.part.node
        if not isinstance(node, MapNode):
            return
        if node.get("run") is not None:
            self._program(node, "run")
        if use.spec is not None:
            self._commands(use.spec, node)

    def _commands(self, spec: "Spec", node: MapNode) -> None:
        for parameter in spec.parameters:
            value = find(node, ("with", parameter.name))
            if parameter.meaning == "command" and value.exact:
                self._add("program", _line(value.value), value.value, {parameter.name: value.value}, ())

    def texts(self, root: AnyNode) -> None:
        """List variables with names of secrets that end up in any other text, which models may read."""
        for node in scalars(root):
            names = tuple(name for name in _referred(node) if _SECRET_NAME.fullmatch(name))
            if names and id(node) not in self._told:
                self._add("variable", "the text here", node, {"": node}, names)

    def _any(self, node: AnyNode, who: str) -> None:
        """List what a map of parameters starts or reaches, whatever it belongs to."""
        if not isinstance(node, MapNode):
            return
        before = len(self.found)
        for key in ("command", "run"):
            if node.get(key) is not None:
                self._program(node, key)
        for key in ("url", "base_url"):
            if node.get(key) is not None:
                self._address(node, key)
        given = {key: node.fields[key][1] for key in _NAMING if key in node.fields}
        if given and len(self.found) == before:
            first = next(iter(given.values()))
            self._add("variable", who, first, given, ())

    def _program(self, node: MapNode, key: str) -> None:
        said = {name: node.fields[name][1] for name in _OF_PROGRAM if name in node.fields}
        given: list[str] = []
        env = said.get("env")
        for name, (_, value) in env.fields.items() if isinstance(env, MapNode) else ():
            given.append(f"{name}={shlex.quote(str(as_written(value)))}")
        self._add("program", " ".join([*given, _line(said[key])]), said[key], said, ())

    def _address(self, node: MapNode, key: str) -> None:
        said = {name: node.fields[name][1] for name in _OF_ADDRESS if name in node.fields}
        self._add("address", _line(said[key]), said[key], said, ())

    def _add(
        self, kind: Kind, what: str, node: AnyNode, said: Mapping[str, AnyNode], names: Iterable[str]
    ) -> None:
        self._told |= {id(each) for value in said.values() for each in scalars(value)}
        named = [name for key in _NAMING if key in said for name in _names(said[key])]
        referred = [name for value in said.values() for each in scalars(value) for name in _referred(each)]
        variables = tuple(dict.fromkeys((*names, *named, *referred)))
        content: dict[str, Any] = {key: as_written(value) for key, value in said.items()}
        for name, default in self._defaults(said):
            content[f"param:{name}"] = default
            what += f", where {name} is {default}"
        files = _digests(self._files(said), self._root) if kind == "program" else []
        if kind == "folder":
            content["open"] = what
        self.found.append(_reach(kind, what, node, variables, content, files))

    def _defaults(self, said: Mapping[str, AnyNode]) -> Iterator[tuple[str, str]]:
        """Yield the params that are referred to, with the values that the file gives them."""
        texts = [node.text for value in said.values() for node in scalars(value) if node.style != "single"]
        for name in dict.fromkeys(name for text in texts for name in _PARAM.findall(text)):
            default = find(self._params, (name, "default")) if self._params is not None else None
            if default is not None and default.exact and isinstance(default.value, Scalar):
                yield name, default.value.text

    def _files(self, said: Mapping[str, AnyNode]) -> list[Path]:
        """Return the files of the project that the words of a command name."""
        cwd = said.get("cwd")
        folders = [self._root / cwd.text, self._root] if isinstance(cwd, Scalar) else [self._root]
        found: list[Path] = []
        for key, value in said.items():
            if key in ("env", "env_from", "cwd"):
                continue
            words = [node.text for node in scalars(value)]
            for i, word in enumerate(words):
                module = i > 0 and words[i - 1] == "-m"
                own = [value.source.path.parent] if i == 0 else []
                found += _named(word, [*own, *folders], module=module)
        if not found:
            return found
        root = self._root.resolve()
        return [path for path in found if path.resolve().is_relative_to(root)]


def _named(word: str, folders: Sequence[Path], *, module: bool) -> Iterator[Path]:
    """Yield the files that a word of a command may name."""
    names = [word, word.partition("=")[2]]
    if module:
        stem = word.replace(".", "/")
        names += [f"{stem}.py", f"{stem}/__init__.py", f"{stem}/__main__.py"]
    for name in filter(None, names):
        for folder in folders:
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                yield Path(path)


def _usual(provider: str, variable: str) -> bool:
    """Tell whether a variable holds the key of a provider by its name."""
    starts = {"google": ("GOOGLE_", "GEMINI_")}.get(provider, (f"{provider.upper().replace('-', '_')}_",))
    return variable.startswith(starts)


def _line(node: AnyNode) -> str:
    if isinstance(node, ListNode):
        return shlex.join(each.text for each in scalars(node))
    return node.text if isinstance(node, Scalar) else "a program"


def _told(given: AnyNode | None) -> str:
    """Return parameters in words, behind what they belong to."""
    fields = given.fields if isinstance(given, MapNode) else dict[str, tuple[Scalar, AnyNode]]()
    told = [
        f"{name} {json.dumps(as_written(value), ensure_ascii=False)}" for name, (_, value) in fields.items()
    ]
    return f" ({', '.join(told)})" if told else ""


def _names(node: AnyNode) -> list[str]:
    return [each.text for each in scalars(node) if each.text]


def _referred(node: Scalar) -> list[str]:
    return _REFERENCE.findall(node.text) if node.style != "single" else []


def _digests(files: Iterable[Path], root: Path) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for path in dict.fromkeys(files):
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:  # it may become readable, and then somebody is asked
            digest = f"unreadable: {error.strerror}"
        found.append((os.path.relpath(path, root), digest))
    return found


def _reach(
    kind: Kind,
    what: str,
    node: AnyNode,
    variables: tuple[str, ...],
    said: Any,
    files: Sequence[tuple[str, str]],
) -> Reach:
    whole = json.dumps([kind, node.source.path.name, said, variables, files], sort_keys=True)
    digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()
    return Reach(kind, what, f"{node.source.name}:{node.line}", variables, node, digest)

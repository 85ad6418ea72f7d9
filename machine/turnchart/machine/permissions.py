"""Permissions: which tool calls may run, which ask a person first, which never run.

Deny beats ask beats allow beats the default. A rule is the name of a tool, a glob of names, or
``name(pattern)`` with a glob over the tool's subject. See ``subjects`` for how patterns are compared.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, cast

from turnchart.machine.records import record
from turnchart.machine.subjects import NO_SUBJECT, Subject, subject_of_call

if TYPE_CHECKING:
    from turnchart.machine.decisions import Decision
    from turnchart.machine.tools import Tool

Verdict = Literal["allow", "ask", "deny"]
_STRICTNESS: dict[Verdict, int] = {"allow": 0, "ask": 1, "deny": 2}
_LISTS: tuple[Verdict, ...] = ("deny", "ask", "allow")
_RULE = re.compile(r"([^()\s]+(?:\.[^()\n]*[^()\s])?)(?:\((.+)\))?", re.DOTALL)
"""Behind the dot of a server a name may have spaces: servers name their tools as they like."""


class Described(Protocol):
    """What rules are checked against: a tool, or what is known of one that is not made yet."""

    @property
    def name(self) -> str:
        """What rules call it."""
        ...

    @property
    def subject(self) -> str | None:
        """The parameter that patterns are compared with; None where it declares none."""
        ...


class Rule(NamedTuple):
    """One rule of a list: ``name``, or ``name(pattern)``."""

    verdict: Verdict
    text: str
    name: str
    pattern: str | None

    def names(self, tool: str) -> bool:
        """The rule is about this tool."""
        return self.name == tool or fnmatchcase(tool, self.name)

    @property
    def exact(self) -> bool:
        """It names one tool, without a wildcard."""
        return not any(char in self.name for char in "*?[")


class Ruling(NamedTuple):
    """What permissions say of one call.

    Attributes:
        verdict: allow, ask or deny.
        rule: The rule that decided, as it is written; None where no rule did.
        reason: One sentence for people and the model.
    """

    verdict: Verdict
    rule: str | None
    reason: str


class RuleProblem(NamedTuple):
    """A rule that can never do what it says. ``code``: ``no-subject``, or ``dead-permission``."""

    code: Literal["no-subject", "dead-permission"]
    verdict: Verdict
    rule: str
    message: str


@record
class Permissions:
    """The rules of one agent.

    Attributes:
        default: What holds for a call that no rule is about.
        deny: Never run.
        ask: Run only if a person agrees.
        allow: Run.
        by_effects: Tools that only read are allowed before the default holds.
        also: Other permissions that judge every call too; the strictest verdict holds.
    """

    default: Verdict = "ask"
    deny: Sequence[str] = ()
    ask: Sequence[str] = ()
    allow: Sequence[str] = ()
    by_effects: bool = False
    also: tuple["Permissions", ...] = ()
    _rules: tuple[Rule, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.default not in _STRICTNESS:
            raise ValueError(f"permissions.default is {self.default!r}; it must be allow, ask or deny")
        for verdict in _LISTS:
            object.__setattr__(self, verdict, _texts(verdict, getattr(self, verdict)))
        rules = tuple(_rule(verdict, text) for verdict in _LISTS for text in getattr(self, verdict))
        object.__setattr__(self, "_rules", rules)

    @classmethod
    def all(cls) -> "Permissions":
        """Allow every call: what an agent made in Python has."""
        return cls(default="allow")

    @classmethod
    def reads(cls) -> "Permissions":
        """Allow tools that only read, and ask for the rest: what a flow without ``permissions`` has."""
        return cls(by_effects=True)

    def judge(self, tool: "Tool | str", args: Mapping[str, Any], root: Path | str = Path()) -> Ruling:
        """Return what holds for one call. ``root`` is the folder that paths are relative to."""
        ruling = self._judge(tool, args, root)
        for other in self.also:
            ruling = max(ruling, other.judge(tool, args, root), key=lambda each: _STRICTNESS[each.verdict])
        return ruling

    def offers(self, tool: str) -> bool:
        """Tell whether a tool that runs at the provider may be offered to the model.

        Its calls are never judged; only a default of deny keeps it away, unless a rule allows it by name.
        """
        if self.default == "deny" and self._judge(tool, {}, "").verdict != "allow":
            return False
        return all(other.offers(tool) for other in self.also)

    def check(self, tools: Iterable[Described | str]) -> list[RuleProblem]:
        """Return the rules that cannot work with these tools; a name alone is a tool without a subject."""
        known = {tool if isinstance(tool, str) else tool.name: tool for tool in tools}
        problems = [found for rule in self._rules if (found := _problem(rule, known)) is not None]
        return problems + [found for other in self.also for found in other.check(known.values())]

    def _judge(self, tool: "Tool | str", args: Mapping[str, Any], root: Path | str) -> Ruling:
        name = tool if isinstance(tool, str) else tool.name
        if not self._rules and not self.by_effects:
            return Ruling(self.default, None, f"no permission is about this call of `{name}`: {self.default}")
        rules = [rule for rule in self._rules if rule.names(name)]
        patterns = [rule for rule in rules if rule.pattern is not None]
        subject = NO_SUBJECT if not patterns or isinstance(tool, str) else subject_of_call(tool, args, root)
        for rule in rules:
            if rule.verdict != "allow" and _holds(rule, subject):
                word = "denies it" if rule.verdict == "deny" else "asks first"
                return Ruling(rule.verdict, rule.text, f"the permission `{rule.text}` {word}")
        ruling = self._loosest(tool, rules, subject)
        if ruling.verdict == "allow" and subject.doubt and any(rule.verdict != "allow" for rule in patterns):
            return Ruling("ask", None, f"{subject.doubt} hides what it does, so no rule can be excluded")
        return ruling

    def _loosest(self, tool: "Tool | str", rules: Sequence[Rule], subject: Subject) -> Ruling:
        """Return what holds where no rule denies or asks."""
        allowing = [rule for rule in rules if rule.verdict == "allow"]
        for rule in allowing:
            if rule.pattern is None:
                return Ruling("allow", rule.text, f"the permission `{rule.text}` allows it")
        used = subject.allowed_by({rule.pattern: rule.text for rule in allowing if rule.pattern is not None})
        if used:
            texts = ", ".join(used)
            return Ruling("allow", texts, f"the permission `{texts}` allows it")
        if self.by_effects and not isinstance(tool, str) and tool.effects == "read":
            return Ruling("allow", None, "it only reads")
        if allowing and subject.obstacle:
            verdict = _strictest("ask", self.default)
            return Ruling(verdict, None, f"no pattern can allow a command with {subject.obstacle}")
        name = tool if isinstance(tool, str) else tool.name
        return Ruling(self.default, None, f"no permission is about this call of `{name}`: {self.default}")


def merge_strictest(first: Permissions, second: Permissions) -> Permissions:
    """Return permissions under which a call may do only what both let it do."""
    return replace(first, also=(*first.also, second))


def stricter(verdict: Verdict, decision: "Decision | None") -> Verdict:
    """Return the stricter of a verdict and what the pre_tool chain decided."""
    match decision.word if decision is not None else "":
        case "deny":
            return "deny"
        case "ask":
            return _strictest(verdict, "ask")
        case _:
            return verdict


def _strictest(*verdicts: Verdict) -> Verdict:
    return max(verdicts, key=_STRICTNESS.__getitem__)


def _texts(verdict: Verdict, given: object) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"permissions.{verdict} is {given!r}; it must be a list of rules")
    return tuple(cast("Iterable[str]", given))


def _rule(verdict: Verdict, text: str) -> Rule:
    found = _RULE.fullmatch(text) if isinstance(text, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]  # from a file
    if found is None:
        shape = "`tool`, `server.tool`, a glob of these, or `tool(pattern)`"
        raise ValueError(f"permissions.{verdict}: {text!r} is no rule; write {shape}")
    return Rule(verdict, text, found[1], found[2])


def _holds(rule: Rule, subject: Subject) -> bool:
    """Whether a rule that denies or asks is about this call; without a subject an exact name is enough."""
    if rule.pattern is None:
        return True
    return rule.exact if subject is NO_SUBJECT else subject.held_by(rule.pattern)


def _problem(rule: Rule, tools: Mapping[str, Described | str]) -> RuleProblem | None:
    named = [tool for name, tool in tools.items() if rule.names(name)]
    if not named:
        wrong = f"no tool is named `{rule.name}`; the tools are: {', '.join(tools) or 'none'}"
        return RuleProblem("dead-permission", rule.verdict, rule.text, wrong)
    if rule.pattern is None or any(not isinstance(tool, str) and tool.subject is not None for tool in named):
        return None
    wrong = f"`{rule.name}` has no subject to compare; write it alone, or declare one with @tool(subject=)"
    return RuleProblem("no-subject", rule.verdict, rule.text, wrong)

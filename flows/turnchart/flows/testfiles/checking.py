"""What is wrong with a test file although every value is well formed: names that its flow does not have."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from turnchart.flows.problems import Problem, meant, quoted, sentence
from turnchart.flows.source import MapNode
from turnchart.flows.testfiles.suite import Case, Suite
from turnchart.machine.permissions import Permissions

if TYPE_CHECKING:
    from turnchart.flows.load import Flow


def check_suite(suite: Suite, flow: "Flow") -> list[Problem]:
    """Return what the tests name and the flow does not have, and tests in which nobody says anything."""
    from turnchart.flows.testfiles.playing import has_prompt

    found: list[Problem] = []
    for case in suite.cases:
        found += [*_tools(case, flow), *_rules(case, flow), *_ids(case, flow)]
        if not has_prompt(flow, case):
            help = "write prompt: TEXT"
            found.append(
                case.at("name").problem("missing-key", "in this test nobody says anything", help=help)
            )
    return found


def real_tools(suite: Suite, flow: "Flow") -> list[Problem]:
    """Return each tool that a test lets act for real: a script of the file says what it does then.

    Tools that only read are no concern: they work in a copy of the folder.
    """
    reading = {tool.name for tool in flow.tools if tool.effects == "read"}
    return [
        case.at("tools", name).problem(
            "not-trusted",
            f"the tool {quoted(name)} would act for real, with what the test's script asks for",
            help="read the test, then run it with --trust",
        )
        for case in suite.cases
        for name, stubs in case.tools.items()
        if name not in reading and any(stub.real for stub in stubs)
    ]


def _tools(case: Case, flow: "Flow") -> Iterator[Problem]:
    tools = flow.checked.tools
    names = [name for each in tools for name in each.shown]
    given = case.at("tools")
    for name, (key, _) in given.fields.items() if isinstance(given, MapNode) and case.tools else ():
        if not any(each.fits(name) for each in tools):
            help = sentence(meant(name, names), f"tools: {', '.join(names) or 'none'}")
            yield key.problem("unknown-tool", f"the flow has no tool {quoted(name)}", help=help)
        elif any(each.at_provider and each.name == name for each in tools):
            help = "delete it; the script says what the model answers after it"
            message = f"no stub of {name} is ever played: the tool runs at the provider"
            yield key.problem("provider-tool", message, help=help)


def _rules(case: Case, flow: "Flow") -> Iterator[Problem]:
    for i, text in enumerate(case.approve if isinstance(case.approve, tuple) else ()):
        node = case.at("approve", i)
        try:
            rule = Permissions(allow=(text,))
        except ValueError:
            help = "write tool, server.tool, a glob of these, or tool(pattern)"
            yield node.problem("permission-rule", f"{quoted(text)} is no permission rule", help=help)
            continue
        tools = flow.checked.tools
        if any(each.server is not None and each.fits(text.partition("(")[0]) for each in tools):
            continue
        for wrong in rule.check(tools):
            code = "dead-permission" if wrong.code == "dead-permission" else "permission-rule"
            yield node.problem(code, f"rule {quoted(text)}: {wrong.message}")


def _ids(case: Case, flow: "Flow") -> Iterator[Problem]:
    ids = [use.part.id for use in flow.checked.hooks]
    for i, rule in enumerate(case.expect.hooks or ()):
        if rule.id is not None and rule.id not in ids:
            help = sentence(meant(rule.id, ids), f"ids: {', '.join(ids) or 'none'}")
            node = case.at("expect", "hooks", i, "id")
            yield node.problem("unknown-id", f"no hook has the id {quoted(rule.id)}", help=help)

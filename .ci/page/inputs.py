"""Make what the check of the pages looks at, out of the real thing: pages, exports, and what they must show.

    PYTHONPATH=. python .ci/page/inputs.py make FOLDER            # *.html, dot/*.dot and expected.json
    PYTHONPATH=. python .ci/page/inputs.py write FILE ID TURNS    # a turn for each line on stdin

The same program makes the same input each time: seeds are fixed, and time is that of a fake clock.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import yaml
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tests.diagrams.conftest import NASTY

from turnchart.diagrams import html_page, sequence_diagram, session_overlay, state_diagram
from turnchart.diagrams.escape import one_line, unescaped
from turnchart.diagrams.fold import SAID
from turnchart.diagrams.overlay import Drawable, Overlay, overlay_of
from turnchart.diagrams.trail import Took, trail
from turnchart.flows.load import Flow, flow_to_show
from turnchart.flows.problems import FlowError
from turnchart.machine import LIFECYCLE, Agent, Reply, ScriptedModel, Session, ToolCall, tool
from turnchart.machine.entries import Entry
from turnchart.machine.jsonl import JsonlStore
from turnchart.machine.points import POINTS
from turnchart.machine.states import State
from turnchart.machine.toolbox import TOOLBOX
from turnchart.testing import FakeClock

ROOT = Path(__file__).resolve().parents[2]
ENTRIES, ROUNDS = 5_000, 330
FLOWS = 200
SEED = 7

# -- sessions --------------------------------------------------------------------------------------------


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word}: a word of {len(word)} letters. " * 3


def replies(rounds: int) -> Iterator[Reply]:
    """Yield the answers of a model that in each round looks two words up, thinks, then answers."""
    for number in range(1, rounds + 1):
        calls = [ToolCall("look_up", {"word": f"word{number}"}), ToolCall("look_up", {"word": "x" * 60})]
        yield Reply("Two words.", tool_calls=calls, usage={"input": 900, "output": 20}, delay=0.4)
        yield Reply(
            f"Answer {number}: both are words.", thinking="Hm, words.", usage={"input": 990, "output": 30}
        )


async def session_of(rounds: int) -> tuple[Entry, ...]:
    """Return the log of a real agent."""
    session = Session.memory("long")
    model = ScriptedModel(replies(rounds))
    async with Agent(model, tools=[look_up], session=session, clock=FakeClock(1_700_000_000.0)) as agent:
        for number in range(1, rounds + 1):
            if number % 10 == 0:
                agent.next_turn(f"before {number}, keep this in mind")
            await agent.prompt(f"question {number}")
    return tuple(session.entries)


async def write_on(file: str, id: str, turns: int) -> None:
    """Write a session that grows by one turn for each line on stdin; print how long it is then."""
    session = Session.sqlite(file, id)
    async with Agent(ScriptedModel(replies(turns)), tools=[look_up], session=session) as agent:
        for number in range(1, turns + 1):
            sys.stdin.readline()
            await agent.prompt(f"live question {number}")
            print(len(session.entries), flush=True)


def demo_session(folder: Path) -> tuple[Entry, ...]:
    """Return the log of the demo, as the command line records it."""
    file = folder / "demo.jsonl"
    program = Path(sys.executable).with_name("turnchart")
    command = [str(program), "run", "demo", "--store", str(file)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
    return tuple(JsonlStore(file).load())


# -- flows -------------------------------------------------------------------------------------------------

TEXTS = st.sampled_from([text for text in NASTY if text.strip()]) | st.text(min_size=1, max_size=12)
LABELS = TEXTS | st.sampled_from(["first", "second", "third", "a-very-long-name-" * 8])
MORE: dict[str, list[dict[str, Any]]] = {
    "pre_tool": [
        {"use": "deny_commands", "with": {"patterns": ["rm"]}},
        {"use": "deny_paths", "with": {"globs": ["*"]}},
    ],
    "context": [{"use": "redact_secrets"}],
    "assemble": [{"use": "add_text", "with": {"text": "a"}}],
    "turn_stopping": [{"use": "notify", "with": {"text": "a"}}],
    "pre_step": [{"use": "token_budget", "with": {"max_input_tokens": 9}}],
}


def hooks_at(point: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Return chains of a point; ids may be anything."""
    more: dict[str, st.SearchStrategy[Any]] = {"id": LABELS, "disabled": st.booleans()}
    if POINTS[point].tools:
        more["tools"] = st.lists(st.sampled_from(["shell", "read_*", "*"]), min_size=1, max_size=3)
    programs = [{"run": ["true"]}] if POINTS[point].run else []
    kinds = [*programs, {"use": "audit_log", "with": {"path": "log.jsonl"}}, *MORE.get(point, [])]
    one = st.builds(
        lambda kind, rest: {**kind, **rest}, st.sampled_from(kinds), st.fixed_dictionaries({}, optional=more)
    )
    return st.lists(one, max_size=5)


DRAWN_FLOWS = st.fixed_dictionaries(
    {"version": st.just(1)},
    optional={
        "name": TEXTS,
        "description": TEXTS,
        "model": st.sampled_from(["test", "a:b", "openai:gpt-x"])
        | st.fixed_dictionaries({"id": st.just("test"), "fallback": st.lists(st.just("a:b"), max_size=3)}),
        "tools": st.lists(st.sampled_from(sorted(set(TOOLBOX) - {"script"})), unique=True, max_size=5),
        "permissions": st.fixed_dictionaries(
            {"default": st.sampled_from(["allow", "ask", "deny"])},
            optional={
                "deny": st.lists(st.builds("shell({} *)".format, st.sampled_from(["sudo", "rm;", "#35;"]))),
                "allow": st.lists(st.just("read_file"), max_size=2),
            },
        ),
        "hooks": st.fixed_dictionaries({}, optional={point: hooks_at(point) for point in POINTS}),
        "queues": st.fixed_dictionaries({"steering": st.sampled_from(["all", "one-at-a-time"])}),
        "retry": st.fixed_dictionaries({"max_attempts": st.integers(1, 99)}),
        "compaction": st.fixed_dictionaries({"strategy": st.sampled_from(["none", "drop_oldest"])}),
        "limits": st.fixed_dictionaries({"max_steps": st.integers(1, 10**6)}),
    },
)


def one_id_each(flow: dict[str, Any]) -> dict[str, Any]:
    """Return a flow in which no two hooks have the same id."""
    taken: set[str] = set()
    for point, chain in flow.get("hooks", {}).items():
        for place, hook in enumerate(chain):
            if hook.get("id", hook.get("use")) in taken or "id" not in hook:
                hook["id"] = f"{point}-{place}"
            taken.add(hook["id"])
    return flow


def generated_flows(folder: Path) -> list[Flow]:
    """Return flows that the loader takes, each another."""
    made: dict[str, Flow] = {}
    (folder / ".git").mkdir(parents=True)
    tried = 0

    @seed(SEED)
    @settings(
        max_examples=FLOWS * 3,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(flow=DRAWN_FLOWS.map(one_id_each))
    def collect(flow: dict[str, Any]) -> None:
        nonlocal tried
        text = yaml.safe_dump(flow, sort_keys=False, allow_unicode=True)
        if len(made) >= FLOWS or text in made:
            return
        tried += 1
        file = folder / "flow.yaml"
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        with suppress(FlowError):
            made[text] = flow_to_show(file)

    collect()
    if len(made) < FLOWS:
        sys.exit(f"inputs: {len(made)} of {tried} generated flows are right, {FLOWS} are wanted")
    print(f"inputs: {len(made)} flows that the loader takes, of {tried} generated ones")
    return list(made.values())


# -- what is written -----------------------------------------------------------------------------------------


def drawables(folder: Path) -> Iterator[tuple[str, Drawable]]:
    """Yield everything of which the exports are tried; those of flows/ are tried in their pages."""
    yield "lifecycle", LIFECYCLE
    for number, flow in enumerate(generated_flows(folder / "flows")):
        yield f"flow {number}", flow
    for first in range(0, len(NASTY), len(State)):
        some = dict(zip(State, NASTY[first:], strict=False))
        notes = {state: (text, text) for state, text in some.items()}
        hooks = {point: (some.get(POINTS[point].states[0], ""),) for point in POINTS if POINTS[point].states}
        yield f"names from {first} on", Overlay(NASTY[first], notes, hooks)
    chains = {**dict.fromkeys(POINTS, NASTY), 'own "point"': NASTY}
    yield "names", Overlay(" ".join(NASTY), dict.fromkeys(State, NASTY), chains)
    for file in sorted((ROOT / "tests/diagrams/golden").glob("*.jsonl")):
        lines = file.read_text(encoding="utf-8").splitlines()
        yield file.stem, session_overlay(map(Entry.of, map(json.loads, lines)), f"session {file.stem}")


def shipped() -> list[Path]:
    """Return the flows in flows/."""
    return sorted(file for file in (ROOT / "flows").glob("*.yaml") if not file.name.endswith(".test.yaml"))


def exports(folder: Path) -> list[dict[str, Any]]:
    """Return the Mermaid exports, each with what its picture must say, and write the DOT ones."""
    (folder / "dot").mkdir()
    made: list[dict[str, Any]] = []
    for name, drawn in drawables(folder):
        overlay = overlay_of(drawn)
        held = {state: [*overlay.notes_at(state), *overlay.hooks_at(state)] for state in State}
        for detail in (False, True) if name in ("lifecycle", "names") else (False,):
            shown = f"{name}, detail" if detail else name
            for view, draw in (("state", state_diagram), ("sequence", sequence_diagram)):
                picture = draw(drawn, detail=detail)
                if view == "sequence" and not detail:
                    held[State.MAINTENANCE] = []  # it is drawn with detail only
                cut = SAID in unescaped(picture) or overlay.record is not None
                says = [] if cut else [one_line(line) for lines in held.values() for line in lines]
                made.append({"name": f"{shown}: {view}", "text": picture, "says": says})
            file = folder / "dot" / f"{shown.replace(' ', '_')}.dot"
            file.write_text(state_diagram(drawn, "dot", detail), encoding="utf-8")
    return made


def shown_of(log: Sequence[Entry]) -> list[list[Any]]:
    """Return seq, type and state of the entries: the state as the walk of the chart says, not the page."""
    states = {item.seq: item.state for item in trail(log, LIFECYCLE).items if isinstance(item, Took)}
    made: list[list[Any]] = []
    state = State.IDLE
    for entry in log:
        state = states.get(entry.seq, state)
        made.append([entry.seq, entry.type, state.value])
    return made


def searched(log: Sequence[Entry], word: str) -> list[int]:
    """Return the numbers of the entries that hold a word."""
    told = [{key: value for key, value in entry.data.items() if key != "stream"} for entry in log]
    return [at for at, data in enumerate(told) if word in json.dumps(data, default=plain).lower()]


def plain(value: Any) -> Any:
    """Return what stands in an entry as JSON takes it."""
    return dict(value) if isinstance(value, Mapping) else list(value)


def moments_of_demo(log: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return what must stand in the boxes beside the pictures, at entries of the demo where it changes."""
    places = {entry.type: at for at, entry in reversed(list(enumerate(log)))}
    steered = [at for at, entry in enumerate(log) if entry.data.get("target") == "next-step"]
    denied = places["hook/result"]
    return [
        {"at": steered[0], "inbox": "Show me its first line, too."},
        {"at": steered[1], "inbox": "nothing waits"},
        {"at": denied - 1, "hooks": "no hook decided anything"},
        {"at": denied, "hooks": "pre_tool no-destructive deny"},
        {"at": places["user/message"] - 1, "messages": "system: You are a careful assistant."},
        {"at": len(log) - 1, "messages": "assistant: The haiku has 14 words"},
    ]


def arrows_of(overlay: Overlay) -> list[list[str]]:
    """Return the arrows of the sequence export of a session: from, to, label."""
    found = re.findall(r"^  (\w+)--?>>(\w+): (.*)$", sequence_diagram(overlay), re.MULTILINE)
    return [[source, target, unescaped(label)] for source, target, label in found]


def make(folder: Path) -> None:
    """Write everything."""
    pages: list[dict[str, Any]] = []

    def page(name: str, drawn: Drawable, **more: Any) -> None:
        file = folder / f"{name}.html"
        file.write_text(html_page(drawn, **more.pop("how", {})), encoding="utf-8")
        pages.append({"name": name, "file": str(file), **more})

    page("lifecycle", LIFECYCLE)
    page("lifecycle-detail", LIFECYCLE, how={"view": "sequence", "detail": True})
    for flow in shipped():
        page(f"flow-{flow.stem}", flow_to_show(flow))
    demo = demo_session(folder)
    overlay = session_overlay(demo, "session demo")
    search = {word: searched(demo, word) for word in ("haiku", "rate_limit", "nothing of this kind")}
    shown = {"entries": shown_of(demo), "moments": moments_of_demo(demo)}
    page("session-demo", overlay, **shown, arrows=arrows_of(overlay), search=search)
    log = anyio.run(session_of, ROUNDS)
    if len(log) < ENTRIES:
        sys.exit(f"inputs: {ROUNDS} rounds are {len(log)} entries, {ENTRIES} are wanted")
    long = log[:ENTRIES]
    search = {word: searched(long, word) for word in ("question 33", "keep this in mind")}
    page("session-long", session_overlay(long, "session long"), entries=shown_of(long), search=search)
    nasty = Overlay("</script><b>x</b> ${x}", dict.fromkeys(State, NASTY), dict.fromkeys(POINTS, NASTY))
    page("names", nasty)
    page("session-empty", session_overlay((), "session empty"), entries=[])
    expected = {"pages": pages, "exports": exports(folder)}
    (folder / "expected.json").write_text(json.dumps(expected), encoding="utf-8")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["make", folder]:
            make(Path(folder).resolve())
        case ["write", file, id, turns]:
            anyio.run(write_on, file, id, int(turns))
        case _:
            sys.exit(__doc__)

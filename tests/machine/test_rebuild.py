"""Requests from hand-made logs; that every real one comes back is proved in tests/conformance."""

from collections.abc import Iterable

from tests.machine.hand_made import Log

from turnchart.machine.context import SystemMessage
from turnchart.machine.entries import Entry, Frozen, decode
from turnchart.machine.messages import CustomMessage, UserMessage
from turnchart.machine.rebuild import Rebuilt, rebuild
from turnchart.machine.verify import verify


def requests(log: Log) -> list[Rebuilt]:
    """Return the requests of a log, after a way through a file."""
    entries = [Entry.of(decode(entry.line())) for entry in log.entries]
    made = list(rebuild(log.entries))
    assert [each._replace(messages=list(each.messages)) for each in rebuild(iter(entries))] == [
        each._replace(messages=list(each.messages)) for each in made
    ]
    return made


def texts(request: Rebuilt) -> list[str]:
    return [message.text for message in request.messages]


def first_step(*, header: bool = True) -> Log:
    log = Log().open().enter().system().user("x")
    return log.header() if header else log


def test_a_request_is_what_stands_before_its_answer() -> None:
    log = first_step().answer().leave().close()
    (request,) = requests(log)
    assert request[:5] == (1, 1, 1, "m", "be brief")
    assert texts(request) == ["x"]
    assert request[6:] == ((), {}, "off")


def test_a_failed_attempt_is_a_request_too_and_shows_the_next_one_nothing() -> None:
    log = first_step().fails().here("llm/retry", retry=1, after=0, kind="timeout", by="policy")
    log.here("llm/retry-started", retry=1).answer().leave().enter().answer().leave().close()
    made = requests(log)
    assert [request[:3] for request in made] == [(1, 1, 1), (1, 1, 2), (1, 2, 1)]
    assert [texts(request) for request in made] == [["x"], ["x"], ["x", "hi"]]


def test_the_last_header_counts() -> None:
    log = first_step().fails().header("change", model="other").answer().leave().close()
    assert [request.model for request in requests(log)] == ["m", "other"]


def test_without_a_header_there_is_no_request() -> None:
    assert requests(first_step(header=False).answer().leave().close()) == []
    imported = Log().add("assistant/message", message=UserMessage("hi"), turn=1, step=1, foreign_id="f")
    assert requests(imported) == []
    assert requests(Log()) == []


def test_an_imported_answer_is_no_request_of_ours() -> None:
    log = first_step().answer().leave().close()
    log.add("assistant/message", message=UserMessage("hi"), turn=1, step=1, foreign_id="f")
    assert len(requests(log)) == 1


def rewritten(log: Log, keep: int, *messages: UserMessage | CustomMessage | SystemMessage) -> Log:
    return log.here("request/rewritten", keep=keep, messages=messages)


def test_what_was_rewritten_is_shown_once_and_the_next_one_builds_on_it() -> None:
    log = rewritten(first_step(), 0, UserMessage("a"), UserMessage("b")).fails().fails()
    rewritten(log, 1, SystemMessage("c")).answer().leave()
    rewritten(log.enter(), 9, CustomMessage("note", "d")).answer().leave().close()
    made = requests(log)
    assert [texts(request) for request in made] == [["a", "b"], ["x"], ["a", "c"], ["a", "c", "d"]]
    assert [message.role for message in made[3].messages] == ["user", "system", "custom"]


def test_a_rewritten_request_that_was_not_sent_is_not_the_next_one() -> None:
    log = rewritten(first_step(), 0, UserMessage("a")).leave().close("error", error=Frozen())
    log.open().enter().user("y").answer().leave().close()
    (request,) = requests(log)
    assert texts(request) == ["x", "y"]


def test_a_later_prompt_stands_in_the_history_and_an_emptied_one_nowhere() -> None:
    log = first_step().answer().leave().enter()
    log.system("be kind").answer().leave().enter()
    later = next(entry.seq for entry in reversed(log.entries) if entry.type == "system/message")
    log.here("system/message", message=SystemMessage(""), replaces=(later, later)).answer().leave().close()
    assert [(request.system, texts(request)) for request in requests(log)] == [
        ("be brief", ["x"]), ("be brief", ["x", "hi", "be kind"]), ("be brief", ["x", "hi", "hi"]),
    ]  # fmt: skip


def moved(entries: Iterable[Entry], target: int | None) -> Log:
    """Go on from an earlier place of a log."""
    log = Log()
    log.entries = list(entries)
    log.add("leaf", target=target)
    return log


def follow(log: Log, parent: int | None) -> Log:
    """Let the last entry follow another one."""
    log.entries[-1] = log.entries[-1]._replace(parent=parent)
    return log


def test_a_request_sees_its_own_branch_only() -> None:
    first = first_step().answer().leave().close()
    back = moved(first.entries, 3)
    back.turn = 1
    follow(back.open(), 3).enter().user("y").answer().leave().close()
    made = requests(back)
    assert [texts(request) for request in made] == [["x"], ["x", "y"]]
    assert verify(back.entries).turns == 2

    root = moved(first.entries, None)
    root.turn = 1
    follow(root.open(), None).enter().user("y").answer().leave().close()
    assert [(request.system, texts(request)) for request in requests(root)] == [
        ("be brief", ["x"]), ("", ["y"]),
    ]  # fmt: skip

from turnchart.flows.cli.sessions_tree import leaf_of, tree
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.session import Session


def drawn(session: Session) -> list[str]:
    return list(tree(session.entries))


def noted(*texts: str) -> Session:
    session = Session.memory()
    for text in texts:
        session.append_custom(text, None)
    return session


def test_one_branch_is_a_list_with_the_place_where_it_goes_on() -> None:
    assert drawn(noted("a", "b")) == ["    0  custom     a: null", "    1  custom     b: null  <- here"]
    assert drawn(Session.memory()) == []


def test_branches_stand_beside_each_other() -> None:
    session = noted("a", "b", "c")
    session.navigate(0)
    session.append_custom("d", None)
    session.navigate(3 + 1)
    session.append_custom("e", None)
    session.navigate(0)
    session.append_custom("f", None)
    session.navigate(1)
    assert [line.replace("custom     ", "").replace(": null", "") for line in drawn(session)] == [
        "    0  a",
        "    1  ├─ b  <- here",
        "    2  │  c",
        "    4  ├─ d",
        "    6  │  e",
        "    8  └─ f",
    ]


def test_a_branch_of_a_branch_is_drawn_inside_it() -> None:
    session = noted("a", "b", "c")
    session.navigate(1)
    session.append_custom("d", None)
    session.navigate(0)
    session.append_custom("e", None)
    assert [line[7:].replace("custom     ", "").replace(": null", "") for line in drawn(session)] == [
        "a",
        "├─ b",
        "│  ├─ c",
        "│  └─ d",
        "└─ e  <- here",
    ]


def test_several_roots_and_a_place_before_them_all() -> None:
    session = noted("a")
    session.navigate(None)
    session.append_custom("b", None)
    session.navigate(None)
    assert drawn(session) == [
        "       (before the first entry)  <- here",
        "    0  ├─ custom     a: null",
        "    2  └─ custom     b: null",
    ]


def test_labels_stand_at_their_entries_the_last_one_counts() -> None:
    session = noted("a", "b")
    session.append_label(0, "old")
    session.append_label(0, "start \x1b[31m")
    session.append_label(1, "gone")
    session.append_label(1, None)
    first, second, *_ = drawn(session)
    assert first.endswith("a: null [start ␛[31m]"), "no label colours the terminal"
    assert "[" not in second


def test_what_stands_at_an_entry_without_a_line_is_shown_before_it() -> None:
    entries = [
        Entry(0, None, "turn/start", 0.0, Frozen(turn=1)),
        Entry(1, 0, "step/start", 0.0, Frozen(turn=1, step=1)),
        Entry(2, 1, "step/end", 0.0, Frozen(turn=1, step=1)),
        Entry(3, 2, "leaf", 0.0, Frozen(target=2)),
    ]
    assert list(tree(entries)) == ["    0  turn       1", "    1    step       1  <- here"]


def test_a_long_log_is_no_deep_recursion() -> None:
    session = Session.memory()
    for _ in range(1500):
        session.append_custom("a", None)
        session.append_custom("b", None)
        session.navigate(session.entries[-1].parent)
    assert len(drawn(session)) == 3000


def test_the_leaf_of_a_log() -> None:
    session = noted("a", "b")
    assert leaf_of(session.entries) == session.leaf == 1
    session.navigate(0)
    assert leaf_of(session.entries) == session.leaf == 0
    assert leaf_of([]) is None

"""What one claim takes, what goes back, and the splices that do it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.machine.histories import ORIGINS, item

from turnchart.machine.entries import Frozen, decode, encode
from turnchart.machine.inbox import MODES, Inbox, Item, Mode, Origin, Queued, Target, home
from turnchart.machine.messages import UserMessage


def inbox(*waiting: tuple[str, Origin]) -> Inbox:
    made = Inbox()
    for id, origin in waiting:
        made.apply(made.insert(home(item(id, origin)), item(id, origin)))
    return made


def ids(items: Any) -> list[str]:
    return [each["id"] for each in items]


def waits(made: Inbox) -> tuple[list[str], list[str], list[str]]:
    return ids(made.next_step), ids(made.next_turn), ids(made.riders)


def claim(
    made: Inbox, *, opens: bool = True, steering: Mode = "all", follow_up: Mode = "one-at-a-time"
) -> list[str]:
    """Claim, apply, and return the ids in the order in which the model reads them."""
    taken = made.claim(opens=opens, steering=steering, follow_up=follow_up)
    read = [id for splice in taken for id in ids(splice.removed)]
    for splice in taken:
        made.apply(splice.data)
    return read


# -- claiming ----------------------------------------------------------------------------------


def test_steering_all_takes_everything_for_the_next_step() -> None:
    made = inbox(("s1", "steer"), ("n1", "inject"), ("s2", "steer"))
    assert claim(made, opens=False) == ["s1", "n1", "s2"]
    assert waits(made) == ([], [], [])


def test_one_at_a_time_holds_back_only_what_a_person_steered() -> None:
    made = inbox(
        ("n1", "inject"), ("s1", "steer"), ("h1", "hook"), ("s2", "steer"), ("t1", "tool"), ("s3", "steer"),
        ("p1", "hook"),
    )  # fmt: skip
    assert claim(made, opens=False, steering="one-at-a-time") == ["n1", "s1", "h1", "t1", "p1"]
    assert waits(made)[0] == ["s2", "s3"]
    assert claim(made, opens=False, steering="one-at-a-time") == ["s2"]
    assert claim(made, opens=False, steering="one-at-a-time") == ["s3"]
    assert claim(made, opens=False, steering="one-at-a-time") == []


def test_injects_are_taken_where_nobody_steered() -> None:
    made = inbox(("n1", "inject"), ("n2", "inject"))
    assert claim(made, opens=False, steering="one-at-a-time") == ["n1", "n2"]


def test_follow_up_takes_one_prompt_a_turn_or_all() -> None:
    made = inbox(("p1", "prompt"), ("f1", "follow_up"), ("f2", "follow_up"))
    assert claim(made) == ["p1"]
    assert claim(made, follow_up="all") == ["f1", "f2"]


def test_prompts_wait_for_a_turn_to_open() -> None:
    made = inbox(("p1", "prompt"), ("r1", "next_turn"), ("s1", "steer"))
    assert claim(made, opens=False) == ["s1"]
    assert waits(made) == ([], ["p1"], ["r1"])


def test_the_model_reads_steps_then_riders_then_prompts() -> None:
    made = inbox(("p1", "prompt"), ("r1", "next_turn"), ("s1", "steer"), ("r2", "next_turn"))
    assert claim(made) == ["s1", "r1", "r2", "p1"]


def test_riders_open_no_turn() -> None:
    made = inbox(("r1", "next_turn"))
    assert claim(made) == []
    assert waits(made) == ([], [], ["r1"])


def test_riders_go_along_with_whatever_opens_the_turn() -> None:
    made = inbox(("r1", "next_turn"), ("s1", "steer"))
    assert claim(made) == ["s1", "r1"]


def test_an_empty_list_is_not_spliced() -> None:
    assert Inbox().claim(opens=True, steering="all", follow_up="all") == []
    [only] = inbox(("p1", "prompt")).claim(opens=True, steering="all", follow_up="all")
    assert only.data == {"target": "next-turn", "start": 0, "removed_count": 1}


def numbered(origins: list[Origin]) -> list[tuple[str, Origin]]:
    return [(f"{i}", origin) for i, origin in enumerate(origins)]


WAITING = st.lists(st.sampled_from(ORIGINS), max_size=12)


@given(WAITING, st.booleans(), st.sampled_from(MODES), st.sampled_from(MODES))
def test_a_claim_takes_what_the_rules_say_and_goes_back_to_the_front_in_order(
    origins: list[Origin], opens: bool, steering: Mode, follow_up: Mode
) -> None:
    made = inbox(*numbered(origins))
    before = made.queued()
    read = claim(made, opens=opens, steering=steering, follow_up=follow_up)
    steered = [each.id for each in before.next_step if each.origin == "steer"]
    held = set(steered[1:]) if steering == "one-at-a-time" else set[str]()
    expected = [each.id for each in before.next_step if each.id not in held]
    prompts = ids(before.next_turn[: None if follow_up == "all" else 1]) if opens else []
    riders = ids(before.riders) if opens and (expected or prompts) else []
    assert read == expected + riders + prompts
    assert ids(made.claimed) == read
    after = made.queued()
    left = {each.id for each in (*after.next_step, *after.next_turn, *after.riders)}
    assert left == {f"{i}" for i in range(len(origins))} - set(read)
    assert [each for each in before.next_step if each.id in left] == list(after.next_step)
    claimed = list(made.claimed)
    for data in made.put_back(claimed):
        made.apply(data)
    assert made.claimed == []
    for was, now in zip(before, made.queued(), strict=True):
        front = [each for each in claimed if each in was]
        assert list(now) == front + [each for each in was if each not in front]


# -- going back, discarding --------------------------------------------------------------------


def test_put_back_says_that_it_returns() -> None:
    made = inbox(("s1", "steer"), ("p1", "prompt"), ("r1", "next_turn"), ("p2", "prompt"))
    claim(made)
    splices = made.put_back(made.claimed)
    assert [(data["target"], data["start"], ids(data["inserted"]), data["outcome"]) for data in splices] == [
        ("next-step", 0, ["s1"], "returned"),
        ("rider", 0, ["r1"], "returned"),
        ("next-turn", 0, ["p1"], "returned"),
    ]
    for data in splices:
        made.apply(data)
    assert waits(made) == (["s1"], ["p1", "p2"], ["r1"])


@pytest.mark.parametrize(
    ("origin", "target"),
    [
        ("prompt", "next-turn"), ("follow_up", "next-turn"), ("next_turn", "rider"),
        ("steer", "next-step"), ("inject", "next-step"), ("hook", "next-step"), ("tool", "next-step"),
    ],
)  # fmt: skip
def test_every_origin_has_a_home(origin: Origin, target: Target) -> None:
    assert home(item("x", origin)) == target


def test_remove_discards_one_that_waits() -> None:
    made = inbox(("s1", "steer"), ("s2", "steer"))
    splice = made.remove("s2")
    assert splice is not None
    assert splice.data == {"target": "next-step", "start": 1, "removed_count": 1, "outcome": "discarded"}
    assert ids(splice.removed) == ["s2"]
    made.apply(splice.data)
    assert waits(made)[0] == ["s1"]
    assert made.claimed == []
    assert made.remove("s2") is None


def test_what_waits_is_found_by_its_id_or_by_that_of_a_message_of_it() -> None:
    made = inbox(("p1", "prompt"), ("s1", "steer"), ("s2", "steer"))
    made.apply(made.insert("rider", item("s2.0", "next_turn", "a")))  # an item named as a message is
    assert made.find("s1.0") == made.find("s1") == ("next-step", 0)
    assert made.find("s2.0") == ("rider", 0)
    assert made.item("p1.0") == item("p1", "prompt")
    assert made.item("unknown") is None


def test_replace_gives_an_item_other_messages_in_its_place() -> None:
    made = inbox(("s1", "steer"), ("s2", "inject"), ("s3", "steer"))
    splice = made.replace(item("s2", "inject"), item("new", "inject", "a", "b").messages)
    assert (splice.data["start"], splice.data["removed_count"], splice.data["outcome"]) == (1, 1, "replaced")
    assert ids(splice.removed) == ["s2"]
    made.check(splice.data)
    made.apply(splice.data)
    assert made.next_step[1] == Item("s2", "inject", item("new", "inject", "a", "b").messages)
    assert made.claimed == []
    assert (made.find("s2.0"), made.find("new.1")) == (None, ("next-step", 1))


def test_a_message_is_known_from_its_insertion_until_it_is_given_up() -> None:
    made = inbox(("s1", "steer"), ("s2", "steer"))
    assert made.knows("s1.0")
    claim(made)
    assert made.knows("s1.0")
    made.admitted("s1.0")
    made.give_up()
    made.give_up()  # does nothing
    assert (made.knows("s1.0"), made.knows("s2.0"), made.claimed) == (True, False, [])


def test_clear_discards_all_but_the_riders() -> None:
    made = inbox(("p1", "prompt"), ("s1", "steer"), ("r1", "next_turn"), ("s2", "steer"))
    splices = made.clear()
    assert [ids(splice.removed) for splice in splices] == [["s1", "s2"], ["p1"]]
    for splice in splices:
        made.apply(splice.data)
    assert waits(made) == ([], [], ["r1"])
    assert made.clear() == []


# -- admitting ---------------------------------------------------------------------------------


def test_what_is_admitted_is_claimed_no_more_message_by_message() -> None:
    made = Inbox()
    made.apply(made.insert("next-turn", item("p1", "prompt", "a", "b")))
    claim(made)
    made.admitted("")
    made.admitted("unknown")
    assert [each.messages for each in made.claimed] == [item("p1", "prompt", "a", "b").messages]
    made.admitted("p1.0")
    [left] = made.claimed
    assert (left.id, left.origin, [said.text for said in left.messages]) == ("p1", "prompt", ["b"])
    made.admitted("p1.1")
    assert made.claimed == []


# -- the fold ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (Frozen(target="someday", start=0), "there is no inbox list 'someday'"),
        (Frozen(target="next-step", start=3), r"the splice \[3:3\] is outside the 2 items waiting"),
        (Frozen(target="next-step", start=-1), r"the splice \[-1:-1\] is outside the 2 items"),
        (Frozen(target="next-step", start=1, removed_count=2), r"\[1:3\] is outside the 2 items"),
        (Frozen(target="next-step", start=1, removed_count=-1), r"\[1:0\] is outside the 2 items"),
        (Frozen(target="next-turn", start=0, inserted=(item("s1"),)), "the item 's1' waits already"),
        (Frozen(target="rider", start=0, inserted=(item("x"), item("x"))), "the item 'x' waits already"),
        (
            Frozen(target="rider", start=0, inserted=(Item("x", "steer", item("s1").messages),)),
            "the message 's1.0' waits already",
        ),
        (
            Frozen(target="rider", start=0, inserted=(Item("x", "steer", item("y").messages * 2),)),
            "the message 'y.0' waits already",
        ),
        (Frozen(target="next-step", start="0"), "not supported between"),
        (Frozen(target="next-step"), "start"),
        (Frozen(start=0), "target"),
        (Frozen(target="next-step", start=0, inserted=(Frozen(id="x", origin="steer"),)), "messages"),
    ],
)  # fmt: skip
def test_an_impossible_splice_is_refused_and_changes_nothing(data: Frozen, what: str) -> None:
    made = inbox(("s1", "steer"), ("s2", "steer"))
    with pytest.raises((ValueError, TypeError, KeyError), match=what):
        made.check(data)
    assert waits(made) == (["s1", "s2"], [], [])
    assert made.claimed == []


def test_items_come_back_from_the_log_with_their_types() -> None:
    made = inbox(("s1", "steer"))
    raw = decode(encode(Frozen(target="rider", start=0, inserted=(item("r1", "next_turn", "a"),))))
    made.apply(raw)
    [rider] = made.riders
    assert (type(rider), rider) == (Item, item("r1", "next_turn", "a"))
    assert isinstance(rider.messages[0], UserMessage)
    assert Item.of(rider) is rider
    assert made.find("r1") == ("rider", 0)
    assert made.find("unknown") is None


def test_what_waits_is_a_snapshot() -> None:
    made = inbox(("s1", "steer"))
    before = made.queued()
    claim(made)
    assert before == Queued((item("s1"),), (), ())
    assert before
    assert not made.queued()

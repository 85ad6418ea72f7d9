from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.queue_book import Queue


def entry(type: str, **data: object) -> Entry:
    return Entry(0, None, type, 0.0, Frozen(data))


def spliced(target: str = "next-step", start: int = 0, **data: object) -> Entry:
    return entry("agent/inbox/spliced", target=target, start=start, **data)


def item(id: str, *messages: str) -> Frozen:
    return Frozen(id=id, origin="steer", messages=tuple(Frozen(role="user", id=each) for each in messages))


def said(id: str) -> Entry:
    return entry("user/message", message=Frozen(role="user", id=id))


def test_messages_of_one_item_are_admitted_one_by_one() -> None:
    book = Queue()
    assert book.take(spliced(inserted=(item("i", "a", "b"),))) is None
    assert book.take(spliced(removed_count=1)) is None
    assert book.take(said("a")) is None
    wrong = book.take(entry("assistant/message"))
    assert wrong is not None
    assert wrong.text == "claimed and not admitted: b"
    assert book.take(said("b")) is None
    assert book.take(entry("assistant/message")) is None


def test_what_was_admitted_does_not_go_back() -> None:
    book = Queue()
    for each in (spliced(inserted=(item("i", "a", "b"),)), spliced(removed_count=1), said("a")):
        assert book.take(each) is None
    assert book.take(spliced(inserted=(item("i", "a", "b"),), outcome="returned")) is not None
    assert book.take(spliced(inserted=(item("i", "b"),), outcome="returned")) is None


def test_a_splice_in_the_middle_keeps_the_order() -> None:
    book = Queue()
    assert book.take(spliced(inserted=(item("i", "a"), item("k", "c")))) is None
    assert book.take(spliced(start=1, inserted=(item("j", "b"),))) is None
    assert book.take(spliced(start=1, removed_count=1)) is None
    assert book.take(said("a")) is not None
    assert book.take(said("b")) is None


def test_a_message_that_is_known_already_cannot_be_inserted() -> None:
    book = Queue()
    assert book.take(said("a")) is None
    assert book.take(spliced(inserted=(item("i", "a"),))) is not None


def test_what_was_discarded_or_given_up_can_be_inserted_again() -> None:
    book = Queue()
    for each in (
        spliced(inserted=(item("i", "a"),)),
        spliced(removed_count=1, outcome="discarded"),
        spliced(inserted=(item("j", "a"),)),
        spliced(removed_count=1),
        entry("turn/end", reason="error"),
        spliced(inserted=(item("k", "a"),)),
    ):
        assert book.take(each) is None
    assert book.take(spliced(inserted=(item("l", "a"),))) is not None


def test_a_replaced_item_keeps_its_id_and_gets_other_messages() -> None:
    book = Queue()
    assert book.take(spliced(inserted=(item("i", "a"),))) is None
    changed = spliced(removed_count=1, inserted=(item("i", "b"),), outcome="replaced")
    assert book.take(changed) is None
    assert book.take(spliced(removed_count=1)) is None
    assert book.take(said("b")) is None
    assert book.take(spliced(inserted=(item("i", "c"),))) is not None


def test_a_message_without_id_or_in_the_place_of_another_is_not_counted() -> None:
    book = Queue()
    for each in (said(""), said(""), said("a"), said("a")._replace(replaces=(1, 1))):
        assert book.take(each) is None

"""A record is what `@dataclass(frozen=True, slots=True)` makes, which every test here makes beside it."""

import pickle
from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import FrozenInstanceError, asdict, astuple, dataclass, field, fields, is_dataclass, replace
from inspect import signature
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from turnchart.machine.records import make, record

T = TypeVar("T")
Decorate = Callable[[type[Any]], type[Any]]


def both(define: Callable[[Decorate], T]) -> list[T]:
    """Return what a function defines with `record`, and with `dataclass`."""
    return [define(record), define(dataclass(frozen=True, slots=True))]


def point(decorate: Decorate) -> type[Any]:
    @decorate
    class Point:
        """A place."""

        x: int
        y: int = 2
        tags: list[str] = field(default_factory=list[str], compare=False)
        hidden: str = field(default="", repr=False)
        counted: int = field(default=0, hash=False)
        made: int = field(init=False, default=7)
        KIND: ClassVar[str] = "point"

    return Point


def checked(decorate: Decorate) -> type[Any]:
    @decorate
    class Checked:
        least: int
        most: int = 9

        def __post_init__(self) -> None:
            if self.least > self.most:
                raise ValueError(f"{self.least} > {self.most}")

    return Checked


@pytest.mark.parametrize("given", [(1,), (1, 3), (1, 3, ["a"], "h", 5)])
def test_it_is_made_shown_and_compared_alike(given: tuple[Any, ...]) -> None:
    ours, theirs = both(point)
    one, other = ours(*given), theirs(*given)
    assert repr(one) == repr(other)
    assert (astuple(one), asdict(one)) == (astuple(other), asdict(other))
    assert hash(one) == hash(other)
    assert one == ours(*given)
    assert one != ours(9)
    assert one != other, "they are of two classes"
    assert one == replace(one, tags=["not compared"])
    assert hash(one) == hash(replace(one, counted=8))
    assert one != replace(one, counted=8)


def test_each_of_its_methods_may_be_the_first_one_called() -> None:
    def equal(made: Any) -> bool:
        return bool(made == copy(made))

    def replaced(made: Any) -> Any:
        return replace(made, x=2)

    calls: tuple[Callable[[Any], Any], ...] = (repr, hash, copy, equal, replaced)
    for call in calls:
        ours, _ = both(point)
        call(ours(1))
        assert signature(ours(1).__init__).parameters.keys() == signature(ours).parameters.keys()


def test_it_says_what_it_takes_before_it_is_made() -> None:
    ours, theirs = both(point)
    assert str(signature(ours)) == str(signature(theirs))
    assert str(signature(ours)) == str(signature(theirs)), "and says so again"


def test_one_that_can_be_called_says_what_for() -> None:
    def define(decorate: Decorate) -> type[Any]:
        @decorate
        class Adding:
            to: int

            def __call__(self, other: int) -> int:
                return self.to + other

        return Adding

    for kind in both(define):
        assert (kind(1)(2), str(signature(kind(1)))) == (3, "(other: int) -> int")


def test_wrong_arguments_are_refused_alike() -> None:
    ours, theirs = both(point)
    wrong: list[tuple[tuple[Any, ...], dict[str, int]]] = [
        ((), {}), ((1, 2, [], "", 0, 7), {}), ((1,), {"made": 7}), ((1,), {"z": 1}),
    ]  # fmt: skip
    for given, named in wrong:
        said: list[str] = []
        for kind in (ours, theirs):
            with pytest.raises(TypeError) as caught:
                kind(*given, **named)
            said.append(str(caught.value))
        assert said[0] == said[1]


def test_nothing_can_be_assigned_or_deleted() -> None:
    for kind in both(point):
        made = kind(1)
        for name in ("x", "made"):
            with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
                setattr(made, name, 5)
            with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{name}'"):
                delattr(made, name)
        assert not hasattr(made, "__dict__")


def test_nothing_can_be_added() -> None:
    made = point(record)(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'unknown'"):
        made.unknown = 5
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'unknown'"):
        del made.unknown


def test_it_is_a_dataclass_to_all_who_ask() -> None:
    ours, theirs = both(point)
    assert all(map(is_dataclass, (ours, theirs)))
    assert [each.name for each in fields(ours)] == [each.name for each in fields(theirs)]
    assert ours.__match_args__ == theirs.__match_args__
    assert ours.__slots__ == theirs.__slots__
    assert (ours.__doc__, ours.KIND) == ("A place.", "point")


def test_what_it_was_made_with_is_looked_at() -> None:
    for kind in both(checked):
        assert kind(1).most == 9
        with pytest.raises(ValueError, match="10 > 9"):
            kind(10)
        with pytest.raises(ValueError, match="3 > 2"):
            replace(kind(1), least=3, most=2)


def test_methods_of_its_own_stay() -> None:
    def define(decorate: Decorate) -> type[Any]:
        @decorate
        class Own:
            x: int
            y: int = 0

            def __eq__(self, other: object) -> bool:
                return isinstance(other, int) and other == self.x

            def __repr__(self) -> str:
                return f"<{self.x}>"

        return Own

    for kind in both(define):
        assert (kind(4) == 4, repr(kind(4)), hash(kind(4))) == (True, "<4>", hash((4, 0)))


def test_an_init_of_its_own_stays() -> None:
    @record
    class Own:
        x: int

        def __init__(self) -> None:
            object.__setattr__(self, "x", 5)

    assert (Own().x, repr(Own()), str(signature(Own))) == (5, f"{Own.__qualname__}(x=5)", "() -> None")


def test_records_inherit_from_records() -> None:
    def define(decorate: Decorate) -> tuple[type[Any], type[Any]]:
        base = point(decorate)

        @decorate
        class Place(base):  # type: ignore[misc, valid-type]
            name: str = "here"

        return base, Place

    (base, ours), (_, theirs) = both(define)
    one, other = ours(1, name="there"), theirs(1, name="there")
    assert repr(one) == repr(other)
    assert isinstance(one, base)
    assert one != base(1)
    assert base(1) != one
    assert str(signature(ours)) == str(signature(theirs))
    with pytest.raises(FrozenInstanceError):
        one.name = "gone"


def test_a_dataclass_may_inherit_from_one_and_has_to_be_frozen() -> None:
    for base in both(point):
        named: Any = dataclass(frozen=True)(
            type("Named", (base,), {"__annotations__": {"name": str}, "name": ""})
        )
        assert named(1, name="n").name == "n"
        with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
            dataclass(type("Open", (base,), {}))


def test_one_that_cannot_be_defined_changes_nothing() -> None:
    base = point(record)
    wrong: Any = record(type("Wrong", (base,), {"__annotations__": {"wrong": int}}))
    with pytest.raises(TypeError, match="non-default argument 'wrong' follows"):
        wrong()
    with pytest.raises(ValueError, match="mutable default"):
        record(type("Wrong", (base,), {"__annotations__": {"wrong": "list[int]"}, "wrong": []}))
    assert base.__dataclass_params__.frozen

    @dataclass
    class Open:
        x: int

    with pytest.raises(TypeError, match="cannot inherit frozen dataclass from a non-frozen one"):
        record(type("Wrong", (Open,), {}))


def test_a_class_that_inherits_may_have_attributes_of_its_own() -> None:
    base: Any = point(record)

    class Open(base):  # type: ignore[misc]
        def __init__(self) -> None:
            base.__init__(self, 1)
            self.note = "mine"

    made = Open()
    made.note = "changed"
    del made.note
    assert made.x == 1
    with pytest.raises(FrozenInstanceError):
        made.x = 2
    assert str(signature(Open)) == "() -> None"


def test_a_generic_one() -> None:
    @record
    class Box(Generic[T]):
        inside: T

    assert Box[int](3) == Box(3)
    assert Box[int](3).inside == 3


@record
class Kept:
    """Stands in the module, as what is pickled has to."""

    name: str
    parts: tuple[str, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict[str, int])


def test_it_can_be_copied_and_kept() -> None:
    kept = Kept("k", ("a", "b"), {"a": 1})
    for again in (copy(kept), deepcopy(kept), pickle.loads(pickle.dumps(kept))):
        assert again == kept
        assert again is not kept
    assert deepcopy(kept).sizes is not kept.sizes


def test_one_that_holds_itself_can_be_shown() -> None:
    kept = Kept("k")
    kept.sizes["self"] = kept  # type: ignore[assignment]
    assert repr(kept) == "Kept(name='k', parts=(), sizes={'self': ...})"


def test_it_can_be_matched() -> None:
    match Kept("k", ("a",)):
        case Kept(name, (only,)):
            assert (name, only) == ("k", "a")
        case _:
            pytest.fail("it matches")


def test_all_fields_may_have_to_be_named() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Theirs:
        x: int
        y: int = 2

    ours: Any = make(type("Theirs", (), {"__annotations__": {"x": int, "y": int}, "y": 2}), kw_only=True)
    assert str(signature(ours)) == str(signature(Theirs)).replace("'", "")
    assert ours(x=1).y == 2
    with pytest.raises(TypeError, match="positional"):
        ours(1)

"""Values with named fields that never change."""

import copy
import pickle

import pytest

from triten.runtime.record import Record


class Point(Record):
    uncompared = frozenset({"label"})

    x: int
    y: int = 0
    label: str | None = None

    def _check(self) -> None:
        if self.x < 0:
            raise ValueError("x is negative")


class Other(Record):
    x: int


def test_fields_are_those_given_or_their_defaults():
    point = Point(1, label="a")
    assert (point.x, point.y, point.label) == (1, 0, "a") and repr(point) == "Point(x=1, y=0, label='a')"
    assert point.replaced(y=2) == Point(1, 2) and point.y == 0


def test_equality_is_that_of_class_and_compared_fields():
    assert Point(1, label="a") == Point(1, label="b") != Point(2)
    assert hash(Point(1, label="a")) == hash(Point(1))
    assert Other(1) != Point(1) and Other(1) != (1,)


@pytest.mark.parametrize(
    ("args", "named"),
    [((), {}), ((1, 2, "a", 4), {}), ((1,), {"x": 1}), ((1,), {"z": 1}), ((), {"y": 1})],
    ids=["none", "too many", "twice", "unknown", "one missing"],
)
def test_other_arguments_are_refused(args, named):
    with pytest.raises(TypeError, match=r"Point: expected x, y, label, got"):
        Point(*args, **named)


def test_fields_do_not_change():
    point = Point(1)
    with pytest.raises(AttributeError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(AttributeError, match="cannot delete field 'x'"):
        del point.x
    with pytest.raises(ValueError, match="negative"):
        Point(-1)


def test_copies_and_pickles_are_equal():
    point = Point(1, 2, "a")
    assert copy.deepcopy(point) == point == pickle.loads(pickle.dumps(point))
    assert pickle.loads(pickle.dumps(point)).label == "a"

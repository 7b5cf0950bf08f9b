"""Overrides above the dispatcher: arguments of any type, tensor subclasses, function modes."""

from typing import Any

import pytest

import triten as tt


class Diagonal:
    """No tensor at all: a matrix by its diagonal."""

    def __init__(self, values: list[float]) -> None:
        self.values = values

    @classmethod
    def __tensor_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is tt.add:
            a, b = args
            return Diagonal([x + y for x, y in zip(a.values, b.values, strict=True)])
        return NotImplemented


def test_foreign_objects_take_over() -> None:
    assert tt.add(Diagonal([1.0]), Diagonal([2.0])).values == [3.0]
    with pytest.raises(TypeError, match=r"Multiple dispatch failed for 'triten\.mul'"):
        tt.mul(Diagonal([1.0]), Diagonal([2.0]))


class Metres(tt.Tensor):
    @classmethod
    def __tensor_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__tensor_function__(func, types, args, kwargs or {})


def test_subclasses_stay_subclasses() -> None:
    x = tt.ones(2).as_subclass(Metres)
    assert type(x + 1) is Metres
    assert type(tt.cat([x, tt.ones(1)])) is Metres
    assert type(tt.ones(2) + 1) is tt.Tensor


class Log(tt.overrides.TensorFunctionMode):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __tensor_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


def test_modes_see_public_calls_as_they_are_written() -> None:
    with Log() as log:
        x = tt.ones(2, 2)
        tt.nn.functional.linear(x, x)
        x.relu()
    assert log.seen[:2] == [tt.ones, tt.nn.functional.linear]
    assert tt.Tensor.relu in log.seen
    count = len(log.seen)
    tt.ones(2)
    assert len(log.seen) == count

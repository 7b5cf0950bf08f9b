"""`tt.Tensor(...)`, PyTorch's legacy constructor, also for a subclass; identities of tensors."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

import triten as tt


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [
        ((2, 3), (2, 3)),
        ((), (0,)),
        ((5,), (5,)),
        ((tt.Size([2, 3]),), (2, 3)),
        ((np.int64(2), tt.tensor(3)), (2, 3)),
        (((2, 3),), (2,)),
        (([],), (0,)),
        (([[1, 2], [3, 4], [5, 6]],), (3, 2)),
        ((range(3),), (3,)),
        ((np.ones((2, 2)),), (2, 2)),
        (([True, False],), (2,)),
    ],
)
def test_a_tensor_of_sizes_or_elements(arguments: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    for cls in (tt.Tensor, Length):
        made = cls(*arguments)
        assert type(made) is cls
        assert made.shape == shape
        assert made.dtype is tt.float32
        assert made.device.type == "cpu"


class Length(tt.Tensor):
    pass


def test_elements_and_names_of_arguments() -> None:
    assert tt.Tensor([[1, 2], [3, 4]]).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert tt.Tensor(data=[1.0, 2.0]).tolist() == [1.0, 2.0]
    assert tt.Tensor(size=(2, 3), device="cpu").shape == (2, 3)
    assert tt.Tensor(tt.ones(2).untyped_storage()).tolist() == [1.0, 1.0]
    tt.set_default_dtype(tt.float64)
    try:
        assert tt.Tensor([1]).dtype is tt.float64
    finally:
        tt.set_default_dtype(tt.float32)


@pytest.mark.parametrize("dtype", [tt.int64, tt.float64, tt.bool])
def test_a_tensor_of_a_tensor_is_a_view_of_it(dtype: tt.dtype) -> None:
    source = tt.ones(2, dtype=dtype)
    for made in (tt.Tensor(source), tt.Tensor(other=source), Length(source)):
        assert made is not source
        assert made.dtype is dtype
        assert made.data_ptr() == source.data_ptr()
    leaf = tt.ones(2, requires_grad=True)
    (tt.Tensor(leaf) * 2).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        ((5.0,), {}, TypeError, r"data must be a sequence \(got float\)"),
        ((None,), {}, TypeError, r"data must be a sequence \(got NoneType\)"),
        ((True,), {}, TypeError, r"data must be a sequence \(got bool\)"),
        (({1},), {}, TypeError, r"data must be a sequence \(got set\)"),
        (("a",), {}, TypeError, "invalid data type 'str'"),
        (
            (2, 3.0),
            {},
            TypeError,
            "argument 'size' must be tuple of ints, but found element of type float at pos 2",
        ),
        ((-1,), {}, RuntimeError, "negative dimension -1"),
        (([1],), {"dtype": tt.int32}, TypeError, "invalid combination of arguments"),
        ((2,), {"device": "meta"}, RuntimeError, "legacy constructor expects device type: cpu"),
    ],
)
def test_what_is_neither(
    arguments: tuple[Any, ...], options: dict[str, Any], error: type[Exception], words: str
) -> None:
    for cls in (tt.Tensor, Length):
        with pytest.raises(error, match=words):
            cls(*arguments, **options)


def test_a_subclass_with_a_constructor_of_its_own() -> None:
    class Named(tt.Tensor):
        def __new__(cls, data: Any, label: str) -> Any:
            return super().__new__(cls, data)

        def __init__(self, data: Any, label: str) -> None:
            super().__init__()
            self.label = label

    made = Named([1.0, 2.0], "metres")
    assert type(made) is Named
    assert made.label == "metres"
    assert made.tolist() == [1.0, 2.0]
    assert type(made + 1) is Named

    class Counted(tt.Tensor):
        def __init__(self, *data: Any) -> None:
            self.count = len(data)

    assert Counted(2, 3).count == 2
    assert Counted(2, 3).shape == (2, 3)

    class Plain(tt.Tensor):
        __tensor_function__ = tt._C._disabled_tensor_function_impl

    assert type(Plain([1.0])) is Plain
    assert type(Plain([1.0]) + 1) is tt.Tensor


def test_tensors_are_told_apart_by_identity() -> None:
    a, b = tt.ones(2), tt.ones(2)
    assert hash(a) == id(a)
    assert len({a, b, a}) == 2
    assert b not in {a: 1}
    assert {a: 1}[a] == 1
    assert weakref.ref(a)() is a
    c = a.as_subclass(Length)
    assert hash(c) == id(c)

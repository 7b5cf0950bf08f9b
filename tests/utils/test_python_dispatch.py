"""The aliasing of wrapper subclasses, by `torch.utils._python_dispatch`."""

from __future__ import annotations

from typing import Any

import pytest

import triten as tt
from triten.utils._python_dispatch import return_and_correct_aliasing

aten = tt.ops.aten


class Wrapper(tt.Tensor):
    """A tensor that holds another one, whose handler leaves aliasing to `return_and_correct_aliasing`."""

    __tensor_function__ = tt._C._disabled_tensor_function_impl
    held: tt.Tensor

    @staticmethod
    def __new__(cls, held: tt.Tensor) -> Any:
        made = tt.Tensor._make_wrapper_subclass(cls, held.shape, held.stride(), dtype=held.dtype)
        made.held = held
        return made

    def __init__(self, held: tt.Tensor) -> None:
        """Hold the tensor, as `__new__` has done."""

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["held"], None

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, tt.Tensor], *_: Any) -> Any:
        return Wrapper(inner["held"])

    @classmethod
    def __tensor_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def held(value: Any) -> Any:
            return value.held if isinstance(value, Wrapper) else value

        def wrapped(value: Any) -> Any:
            if isinstance(value, list | tuple):
                return [wrapped(each) for each in value]
            return Wrapper(value) if isinstance(value, tt.Tensor) else value

        kwargs = kwargs or {}
        result = func(*map(held, args), **{name: held(value) for name, value in kwargs.items()})
        return return_and_correct_aliasing(func, args, kwargs, wrapped(result))


def share_storage(a: Any, b: Any) -> bool:
    return a.untyped_storage() is b.untyped_storage()


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.view(2, 2),
        lambda x: x.detach(),
        lambda x: x[1:],
        lambda x: x.split(2)[1],
        lambda x: x.view(tt.complex64),
    ],
)
def test_views_share_the_storage_of_their_argument(view: Any) -> None:
    x = Wrapper(tt.arange(4.0))
    made = view(x)
    assert type(made) is Wrapper and share_storage(made, x) and share_storage(made.held, x.held)
    assert made.dtype is made.held.dtype and made.shape == made.held.shape
    assert not share_storage(x + 1, x)


def test_operators_that_write_return_their_arguments() -> None:
    x = Wrapper(tt.arange(4.0))
    assert x.add_(1) is x and tt.add(x, 1, out=x) is x
    assert x.held.tolist() == [2, 3, 4, 5]
    p, q = tt.zeros(2), tt.ones(2)
    assert return_and_correct_aliasing(aten.add.out, (p, q), {"out": p}, q) is p
    values, places = tt.ones(2), tt.ones(2)
    found = return_and_correct_aliasing(aten.sort.values, (p,), {"values": values, "indices": places}, (q, q))
    assert found[0] is values and found[1] is places


def test_inplace_views_change_sizes_and_strides() -> None:
    x = Wrapper(tt.ones(2, 3))
    assert x.transpose_(0, 1) is x and x.shape == x.held.shape == (3, 2) and x.stride() == (1, 3)
    assert x.unsqueeze_(0).shape == x.held.shape == (1, 3, 2) and x.squeeze_().shape == (3, 2)


def test_plain_results_get_the_storage_too() -> None:
    p, q = tt.zeros(4), tt.ones(4)
    assert return_and_correct_aliasing(aten.view.default, (p, [4]), {}, q) is q
    q[0] = 7
    assert p.tolist() == [7, 0, 0, 0]


@pytest.mark.parametrize(
    ("func", "args", "out", "text"),
    [
        (tt.add, (1,), 1, "func must be an OpOverload"),
        (aten.view.default, [1], 1, "args must be a tuple"),
        (aten.view.default, (Wrapper(tt.ones(2)), [2]), tt.ones(2), "expected types to match"),
        (aten.view.default, (tt.ones(2), [2]), 3, "expected types to match"),
    ],
)
def test_what_is_no_view_is_refused(func: Any, args: Any, out: Any, text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        return_and_correct_aliasing(func, args, {}, out)


def test_a_parameter_of_the_class_is_not_made_again() -> None:
    parameter = tt.nn.Parameter(Wrapper(tt.ones(2)), requires_grad=False)
    assert type(parameter) is Wrapper and isinstance(parameter, tt.nn.Parameter)
    assert parameter.held.tolist() == [1, 1] and not parameter.requires_grad

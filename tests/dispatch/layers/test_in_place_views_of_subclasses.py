"""In-place views of wrapper subclasses: the handler sees them, and the wrapper keeps its class and its inner tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

import triten as tt
from triten.autograd.forward_ad import dual_level, make_dual, unpack_dual
from triten.utils._python_dispatch import _DisableTensorDispatch
from triten.utils._pytree import tree_map


class Wrapper(tt.Tensor):
    """A tensor without storage around another tensor, which follows the metadata of the other tensor."""

    seen: ClassVar[list[str]] = []
    inner: tt.Tensor

    @staticmethod
    def __new__(cls, inner: tt.Tensor) -> Wrapper:
        made = tt.Tensor._make_wrapper_subclass(cls, inner.shape, inner.stride(), dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __tensor_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append(str(func))
        result = func(*[unwrapped(x) for x in args], **tree_map(unwrapped, kwargs or {}))
        if "inplace_view" in func.tags:
            with _DisableTensorDispatch():
                func(*args, **(kwargs or {}))
            return args[0]
        return tree_map(lambda x: Wrapper(x) if isinstance(x, tt.Tensor) else x, result)


def unwrapped(x: Any) -> Any:
    return x.inner if isinstance(x, Wrapper) else x


CALLS: dict[str, Callable[[tt.Tensor], tt.Tensor]] = {
    "squeeze_.default": lambda x: x.squeeze_(),
    "squeeze_.dim": lambda x: x.squeeze_(0),
    "squeeze_.dims": lambda x: x.squeeze_((0, 1)),
    "t_.default": lambda x: x.t_(),
    "transpose_.default": lambda x: x.swapaxes_(0, 1),
    "unsqueeze_.default": lambda x: x.unsqueeze_(1),
}
VALUES = tt.tensor([[0.5, -1.0, 2.0]])


@pytest.mark.parametrize("name", CALLS)
def test_a_wrapper_stays_a_wrapper(name: str) -> None:
    expected = CALLS[name](VALUES.clone()) + 1
    x: Any = Wrapper(VALUES.clone())
    Wrapper.seen.clear()
    assert CALLS[name](x) is x
    assert Wrapper.seen == [f"aten.{name}"]
    assert x.shape == x.inner.shape == expected.shape
    assert x.stride() == x.inner.stride()
    after: Any = x + 1
    assert isinstance(after, Wrapper)
    assert tt.equal(after.inner, expected)


@pytest.mark.parametrize("name", CALLS)
def test_a_recorded_wrapper_changes_with_its_inner_tensor(name: str) -> None:
    plain = VALUES.clone().requires_grad_()
    expected = CALLS[name](plain * 2)
    weights = tt.arange(1.0, 4.0).reshape(expected.shape)
    (expected * weights).sum().backward()
    leaf: Any = Wrapper(VALUES.clone()).requires_grad_()
    x: Any = leaf * 2
    Wrapper.seen.clear()
    assert CALLS[name](x) is x
    assert Wrapper.seen == [f"aten.{name}"]
    assert x.shape == x.inner.shape == expected.shape
    (x * weights).sum().backward()
    assert plain.grad is not None
    assert tt.equal(leaf.grad.inner, plain.grad)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("wrapped_tangent", [False, True])
def test_a_dual_wrapper_changes_with_its_inner_tensor(name: str, wrapped_tangent: bool) -> None:
    expected = CALLS[name](VALUES.clone())
    tangent = VALUES * 3
    with dual_level():
        x: Any = make_dual(Wrapper(VALUES.clone()), Wrapper(tangent) if wrapped_tangent else tangent)
        x = x * 1
        Wrapper.seen.clear()
        assert CALLS[name](x) is x
        assert f"aten.{name}" in Wrapper.seen
        assert x.shape == x.inner.shape == expected.shape
        found: Any = unpack_dual(x * 2).tangent
    assert tt.equal(unwrapped(found), expected * 6)

"""What autograd refuses: stale saved arguments, hooks and grads that cannot be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt


@pytest.mark.parametrize(
    "write",
    [
        lambda v: v.mul_(v),
        lambda v: v.div_(v),
        lambda v: v.pow_(v),
        lambda v: v.addcmul_(v, v),
        lambda v: v.addcdiv_(v, v),
        lambda v: v.atan2_(v),
        lambda v: v[:1].mul_(v[:1]),
    ],
)
def test_a_saved_argument_that_is_written_by_its_own_operator_is_stale(write: Callable[[Any], Any]) -> None:
    x = tt.tensor([1.5, 2.5], requires_grad=True)
    v = x * 1.0
    write(v)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        v.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize(
    ("hook", "error", "words"),
    [
        (lambda g: 1, TypeError, "hook returned 'int'"),
        (lambda g: g[:2], RuntimeError, "changed the size"),
        (lambda g: g.double(), RuntimeError, "changed the type"),
    ],
)
def test_a_hook_returns_a_gradient_of_the_same_kind(hook: Any, error: type[Exception], words: str) -> None:
    x = tt.ones(3, requires_grad=True)
    x.register_hook(hook)
    with pytest.raises(error, match=words):
        x.sum().backward()


def test_grad_is_another_tensor_or_none() -> None:
    x = tt.ones(3, requires_grad=True)
    with pytest.raises(TypeError, match="expected to be a Tensor or None"):
        x.grad = 1
    with pytest.raises(RuntimeError, match="its own grad"):
        x.grad = x
    assert x.grad is None


def test_requires_grad_takes_a_bool() -> None:
    x = tt.ones(2)
    with pytest.raises(RuntimeError, match="must be a bool"):
        x.requires_grad = 1
    assert not x.requires_grad

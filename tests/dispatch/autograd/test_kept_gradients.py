"""A leaf keeps a gradient that has no other owner, and copies a gradient that has one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt


def gradient_of_linear(hook=None):
    rng = np.random.default_rng(3)
    x = tt.from_numpy(rng.standard_normal((5, 4)).astype(np.float32))
    weight = tt.from_numpy(rng.standard_normal((3, 4)).astype(np.float32)).requires_grad_()
    out = tt.nn.functional.linear(x, weight)
    if hook is not None:
        hook(weight, out)
    out.sum().backward()
    expected = np.broadcast_to(x.numpy().astype(np.float64).sum(0), (3, 4))
    np.testing.assert_allclose(weight.grad.numpy(), expected, rtol=1e-5, atol=1e-5)
    return weight.grad


def test_the_gradient_of_a_transposed_weight_is_no_view():
    grad = gradient_of_linear()
    assert grad.stride() == (4, 1)
    assert not grad._is_view()
    assert grad._version == 0


def test_a_gradient_that_a_hook_saw_is_not_the_leaf_s():
    seen = []
    grad = gradient_of_linear(lambda weight, out: weight.register_hook(seen.append))
    seen[0].zero_()
    assert grad.abs().sum().item() > 0


def test_a_gradient_that_a_node_s_hook_saw_is_not_the_leaf_s():
    seen = []

    def watch(weight, out):
        transpose = out.grad_fn.next_functions[-1][0]
        transpose.register_hook(lambda inputs, outputs: seen.extend((*inputs, *outputs)))
        transpose.register_prehook(lambda outputs: seen.extend(outputs))

    grad = gradient_of_linear(watch)
    assert len(seen) == 3
    for each in seen:
        each.zero_()
    assert grad.abs().sum().item() > 0


def test_a_gradient_that_the_caller_gave_stays_the_caller_s():
    weight = tt.zeros(2, 3, requires_grad=True)
    given = tt.ones(3, 2)
    weight.t().backward(given)
    given.add_(1)
    assert weight.grad.tolist() == [[1.0] * 3] * 2
    weight.grad.add_(5)
    assert given.tolist() == [[2.0] * 2] * 3


def test_gradients_of_two_transposes_of_one_sum_are_apart():
    a, b = tt.zeros(2, 3, requires_grad=True), tt.zeros(2, 3, requires_grad=True)
    (a.t() + b.t()).sum().backward()
    a.grad.add_(1)
    assert b.grad.tolist() == [[1.0] * 3] * 2


def test_a_recorded_transpose_has_a_gradient_of_its_gradient():
    weight = tt.ones(2, 3, requires_grad=True)
    out = (weight.t() ** 3).sum()
    (first,) = tt.autograd.grad(out, weight, create_graph=True)
    (second,) = tt.autograd.grad(first.sum(), weight)
    assert second.tolist() == [[6.0] * 3] * 2


def test_a_gradient_that_was_taken_stays_when_the_next_one_has_a_graph():
    x = tt.ones(2, requires_grad=True)
    y = x + 2
    y.backward(tt.ones(2), retain_graph=True)
    taken = x.grad
    y.backward(tt.ones(2), create_graph=True)
    assert taken.tolist() == [1, 1] and x.grad.tolist() == [2, 2]


def test_a_sparse_gradient_has_indices_of_its_own():
    layer = tt.nn.Embedding(10, 3, sparse=True)
    indices = tt.tensor([7, 1, 3])
    layer(indices).sum().backward()
    indices[0] = 8
    assert layer.weight.grad._indices().tolist() == [[7, 1, 3]]


def test_vjp_under_no_grad_keeps_the_history_of_its_inputs():
    x = tt.ones(2, requires_grad=True)
    with tt.no_grad():
        value, pull_back = tt.func.vjp(lambda x: x * x, x)
        assert not value.requires_grad and not pull_back(tt.ones(2))[0].requires_grad
    (found,) = pull_back(tt.ones(2))
    assert found.requires_grad and tt.autograd.grad(found.sum(), x)[0].tolist() == [2, 2]


_held: list[Any] = []


def _held_tuple(grad: Any) -> Any:
    _held.append((grad * 2, grad * 3))
    return _held[-1]


@pytest.mark.parametrize(
    ("backward", "taken"),
    [
        (lambda ctx, grad: (grad * 2, grad * 3), [True, True]),
        (lambda ctx, grad: (_held.append(grad * 2) or _held[-1], grad * 3), [False, True]),
        (lambda ctx, grad: _held_tuple(grad), [False, False]),
        (lambda ctx, grad: ctx.saved_tensors, [False, False]),
        (lambda ctx, grad: (grad, grad), [False, False]),
    ],
)
def test_a_leaf_takes_a_gradient_that_the_function_does_not_hold(
    backward: Callable[..., Any], taken: list[bool]
) -> None:
    addresses: list[int] = []

    class Sum(tt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a, b)
            return a + b

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            results = backward(ctx, grad)
            addresses.extend(each.data_ptr() for each in results)
            return results

    leaves = [tt.ones(3, requires_grad=True) for _ in range(2)]
    Sum.apply(*leaves).sum().backward()
    assert [each.grad.data_ptr() in addresses for each in leaves] == taken
    assert not any(each.grad.requires_grad for each in leaves)
    _held.clear()

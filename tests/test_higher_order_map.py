"""`map` of `_higher_order_ops`: values, trees, gradients, recordings, and what it refuses."""

from __future__ import annotations

import pytest

import triten as tt
from triten import _higher_order_ops as higher_order
from triten.fx.experimental.proxy_tensor import make_fx


def test_results_of_slices_are_stacked(device: str) -> None:
    xs = tt.arange(6.0, device=device).reshape(3, 2)
    y = tt.tensor([1.0, 2.0], device=device)
    tt.testing.assert_close(higher_order.map(lambda x, y: x + y, xs, y), xs + y)
    result = higher_order.map(
        lambda x, scale: {"sum": x["a"].sum() * scale, "b": (x["b"],)}, {"a": xs, "b": xs[:, 0]}, 3
    )
    assert sorted(result) == ["b", "sum"]
    tt.testing.assert_close(result["sum"], xs.sum(1) * 3)
    tt.testing.assert_close(result["b"][0], xs[:, 0])


def test_gradients_pass_to_slices_and_to_arguments() -> None:
    xs = tt.arange(6.0).reshape(3, 2).requires_grad_()
    y = tt.tensor([1.0, 2.0], requires_grad=True)
    higher_order.map(lambda x, y: x * y, xs, y).sum().backward()
    assert xs.grad.tolist() == [[1, 2]] * 3
    assert y.grad.tolist() == [6, 9]


def test_a_recording_holds_the_steps_of_each_slice() -> None:
    module = make_fx(lambda xs: higher_order.map(lambda x: x.sin(), xs))(tt.ones(2, 3))
    assert len(module.graph.find_nodes(op="call_function", target=tt.ops.aten.sin.default)) == 2
    x = tt.arange(6.0).reshape(2, 3)
    tt.testing.assert_close(module(x), x.sin())


@pytest.mark.parametrize(
    ("xs", "message"),
    [
        ([], "can only consist of tensors"),
        ([tt.ones(2), 1], "can only consist of tensors"),
        (tt.ones(0, 2), "cannot be 0"),
        (tt.tensor(1.0), "must be consistent"),
        ((tt.ones(2), tt.ones(3)), "must be consistent"),
    ],
)
def test_operands_that_cannot_be_mapped_are_refused(xs: object, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        higher_order.map(lambda x: x, xs)


def test_results_of_different_structures_are_refused() -> None:
    with pytest.raises(RuntimeError, match="for each slice"):
        higher_order.map(lambda x: x if x.item() else (x,), tt.tensor([0.0, 1.0]))

"""Arguments that functions of neural networks refuse with PyTorch's exceptions, and odd ones that they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt

F = tt.nn.functional
ones, tensor = tt.ones, tt.tensor
Call = Callable[[], Any]


def attention(
    weight: tt.Tensor, bias: tt.Tensor | None = None, *, one: bool = False, batched: bool = False
) -> Any:
    """Attention of one head over vectors of two elements, which are one tensor or three."""
    sizes = (1, 1, 2) if batched else (1, 2)
    x = ones(sizes)
    inputs = (x, x, x) if one else (x, ones(sizes), ones(sizes))
    given = (weight, bias, None, None, False, 0.0, ones(2, 2), ones(2))
    return F.multi_head_attention_forward(*inputs, 2, 1, *given)


REFUSED: list[tuple[Call, type[Exception], str]] = [
    # Windows: dimensions 1 and 2 are asked for before their number is.
    (lambda: F.unfold(ones(()), 2), IndexError, "Dimension specified as 1"),
    (lambda: F.unfold(ones(3, 3), 2), IndexError, "got 2"),
    (lambda: F.unfold(ones(0, 0), 2), RuntimeError, "Expected 3D or 4D"),
    (lambda: F.unfold(ones(()), -2), RuntimeError, "kernel size should be greater"),
    (lambda: F.unfold(ones(1, 1, 3, 3), 2, 1, tensor([1])), RuntimeError, "padding equals to 2"),
    (lambda: F.unfold(ones(1, 1, 3, 3), 2, 1, 0, tensor(1)), TypeError, "0-d tensor"),
    (lambda: F.unfold(ones(1, 1, 3, 3), 2.0), TypeError, "must be tuple of ints"),
    (lambda: F.max_unpool2d(ones(1, 1, 1, 1), tensor([[[[0]]]]), 3, padding=tensor([1])), IndexError, "2 elements"),
    (lambda: F.max_unpool2d(ones(1, 1, 1, 1), tensor([[[[0]]]]), (3, 3, 3)), IndexError, "3 elements"),
    (lambda: F.max_unpool2d(ones(1, 1, 1, 1), tensor([[[[0]]]]), (3,)), RuntimeError, "exactly two elements"),
    (lambda: F.adaptive_max_pool2d(ones(2, 2, 2), 2, ones(2)), RuntimeError, "ambiguous"),
    (lambda: F.max_unpool2d(ones(1, 1, 1, 1), tensor([[[[0]]]]), tensor([3, 3])), TypeError, "not Tensor"),
    (lambda: F.max_unpool1d(ones(()), tensor([[[0]]]), 3), IndexError, "no dimensions"),
    (lambda: F.max_unpool1d(np.ones(2), tensor([[0]]), 3), TypeError, "must be Tensor, not numpy.ndarray"),
    (lambda: F.avg_pool2d(ones(2, 2), 2), IndexError, "got -3"),
    (lambda: F.avg_pool2d(ones(()), 2, padding=-1), IndexError, "no dimensions"),
    # Sizes and factors
    (lambda: F.interpolate(ones(1, 1, 1), (3,), mode={}), NotImplementedError, "Only 3D, 4D and 5D"),
    (lambda: F.interpolate(ones(1, 1, 1), (tensor([3.0]),)), TypeError, "expected size to be one of"),
    (lambda: F.upsample_nearest(ones(1, 1, 1), scale_factor=tensor([1])), TypeError, "not Tensor"),
    (lambda: F.interpolate(ones(1, 1, 1), scale_factor=tt.inf, mode="area"), OverflowError, "infinity"),
    # Losses: names first, then shapes; dtypes of targets before their sizes
    (lambda: F.margin_ranking_loss(ones(()), "a", ones(()), reduction=3), ValueError, "3 is not a valid"),
    (lambda: F.nll_loss(ones(1), ones(2)), RuntimeError, "expected target dtype"),
    (lambda: F.smooth_l1_loss(ones(1), ones(1), beta=tensor([1.0])), TypeError, "must be float, not Tensor"),
    (lambda: F.smooth_l1_loss(ones(1), ones(1), beta="a"), TypeError, "must be float, not str"),
    (lambda: F.huber_loss(ones(1), ones(1), delta=tensor(0.0)), RuntimeError, "non-positive"),
    (lambda: F.multi_margin_loss(ones(1, 2), tensor([0]), margin=1j), RuntimeError, "without overflow"),
    (lambda: F.normalize(ones(2, 2), p="a"), RuntimeError, "matrix_norm"),
    # Noise
    (lambda: F.rrelu(ones(2), 0.1, tt.inf), RuntimeError, "upper bound must be finite"),
    (lambda: F.softshrink(ones(2), tt.inf), RuntimeError, "lambda must be finite"),
    (lambda: F.softshrink(ones(2), -1), RuntimeError, "at least 0, but found -1"),
    (lambda: F.embedding(tensor([0]), ones(0, 5)), RuntimeError, "at least one row"),
    (lambda: F.rrelu(ones(2), 1j, 2), RuntimeError, "without overflow"),
    (lambda: F.dropout2d(ones(3), 0.5), RuntimeError, "at least 2 dimensions"),
    # Softmax: one dtype
    (lambda: tt._softmax_backward_data(tensor([1]), ones(1), 0, tt.float32), NotImplementedError, "'Long'"),
    (lambda: tt._softmax_backward_data(ones(2).double(), ones(2), 0, tt.float32), RuntimeError, "Double but found"),
    (lambda: tt._log_softmax_backward_data(ones(2).bfloat16(), ones(2), 0, tt.float32), RuntimeError, "BFloat16"),
    # Attention: weights are taken apart before they are multiplied.
    (lambda: attention(ones(1, 1)), ValueError, "expected 3, got 1"),
    (lambda: attention(ones(4, 2), one=True), ValueError, "expected 3, got 2"),
    (lambda: attention(ones(())), RuntimeError, "chunk expects at least a 1-dimensional"),
    (lambda: attention(ones(6, 2), ones(())), RuntimeError, "chunk expects at least a 1-dimensional"),
    (lambda: attention(ones(9, 2)), RuntimeError, "split"),
    (lambda: attention(ones(9, 2), one=True, batched=True), RuntimeError, "unflatten"),
]  # fmt: skip


@pytest.mark.parametrize("call, kind, match", REFUSED)
def test_refused(call: Call, kind: type[Exception], match: str) -> None:
    with pytest.raises(kind, match=match):
        call()


@pytest.mark.parametrize("weight", [[[2]], [[True]]])
@pytest.mark.parametrize("look_up", [F.embedding, F.embedding_bag])
def test_a_table_without_norms_is_left_alone(look_up: Callable[..., Any], weight: list[Any]) -> None:
    table = tensor(weight)
    with pytest.raises(RuntimeError, match="input dtype should be either floating point or complex"):
        look_up(tensor([[0]]), table, max_norm=1.0)
    assert table.tolist() == weight


@pytest.mark.parametrize(
    "call, same",
    [
        (lambda x: F.unfold(x, tensor([2, 2])), lambda x: F.unfold(x, 2)),
        (lambda x: F.unfold(x, np.array([2, 1])), lambda x: F.unfold(x, (2, 1))),
        (
            lambda x: F.max_unpool2d(x, x.long(), 2, (3, 3, 1)),
            lambda x: F.max_unpool2d(x, x.long(), 2, 3),
        ),
        (lambda x: F.interpolate(x, (2, tensor(3))), lambda x: F.interpolate(x, (2, 3))),
        (lambda x: F.interpolate(x, (np.int64(2), 3)), lambda x: F.interpolate(x, (2, 3))),
        (
            lambda x: F.interpolate(x, None, tensor(2.0), "area"),
            lambda x: F.interpolate(x, None, 2.0, "area"),
        ),
        (lambda x: F.huber_loss(x, x + 2, delta=tensor(0.5)), lambda x: F.huber_loss(x, x + 2, delta=0.5)),
        (lambda x: F.huber_loss(x, x + 2, delta=np.int64(2)), lambda x: F.huber_loss(x, x + 2, delta=2)),
        (lambda x: F.smooth_l1_loss(x, x + 2, beta=tensor([0.0])), lambda x: F.l1_loss(x, x + 2)),
        (lambda x: F.rrelu(-x, 0.25 + 0j, 0.75), lambda x: F.rrelu(-x, 0.25, 0.75)),
        (lambda x: F.normalize(x, "fro"), F.normalize),
        (lambda x: F.normalize(x, None), F.normalize),
        (lambda x: F.dropout2d(x[0, 0, 0], 1.0), lambda x: tt.zeros(3)),
        (lambda x: F.feature_alpha_dropout(x.sum(), 1.0, True), lambda x: tt.zeros(())),
    ],
)
def test_odd_arguments_that_are_taken(call: Callable[..., Any], same: Callable[..., Any]) -> None:
    x = tt.arange(9.0).view(1, 1, 3, 3)
    assert tt.equal(call(x), same(x))


def test_a_bias_of_one_element_is_that_of_every_row() -> None:
    out, _ = attention(ones(6, 2), ones(1), one=True, batched=True)
    whole, _ = attention(ones(6, 2), ones(6), one=True, batched=True)
    assert tt.equal(out, whole)

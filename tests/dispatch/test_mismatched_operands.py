"""Operands of layouts, ranks and dtypes that an operator does not take: its own error, and never an inner one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt

aten = tt.ops.aten


def quantized(*sizes: int) -> tt.Tensor:
    return tt.quantize_per_tensor(tt.ones(sizes), 0.5, 1, tt.quint8)


def coo(*sizes: int) -> tt.Tensor:
    return tt.ones(sizes).to_sparse()


def csr(*sizes: int) -> tt.Tensor:
    return tt.ones(sizes).to_sparse_csr()


LAYOUTS: list[tuple[Callable[[], Any], str]] = [
    (lambda: tt.index_fill(coo(2, 3), 0, tt.tensor([0]), 1.0), "index_fill: expected a strided tensor"),
    (lambda: csr(2, 3).index_fill(0, tt.tensor([0]), 1.0), "index_fill: expected a strided tensor"),
    (lambda: tt.atan(tt.ones(2, 3), out=csr(2, 3)), "the result of strided tensors is strided"),
    (lambda: tt.abs(tt.ones(2, 3), out=coo(2, 3)), "the result of strided tensors is strided"),
    (lambda: tt.sum(tt.ones(2, 3), 0, out=coo(3)), "the result of strided tensors is strided"),
    (lambda: tt.index_select(tt.ones(3, 2), 0, tt.tensor([0, 1]).to_sparse()), "expected a strided index"),
    (lambda: tt.sspaddmm(coo(3, 3), coo(1, 3, 3), tt.ones(3)), "expected 'mat1' to be a matrix"),
    (lambda: tt.sspaddmm(coo(3, 3), coo(3, 3), tt.ones(3)), "expected 'mat2' to be a matrix"),
    (lambda: tt.masked_fill(tt.ones(3), quantized(3), 0.0), "masked_fill expected a quantized tensor"),
    (lambda: tt.min(tt.ones(3), out=quantized()), "min expected a quantized tensor"),
    (lambda: tt.ones(3)[quantized(3)], "tensors used as indices must be|expected a quantized tensor"),
]

RANKS: list[tuple[Callable[[], Any], str]] = [
    (lambda: aten.rnn_tanh(*data_of_rnn(tt.tensor([[2, 1]]))), "batch_sizes tensor should be 1D"),
    (lambda: tt.lstm(tt.ones(3, 2), [tt.ones(0), tt.ones(4)], [], False, 1, 0.0, False, False, True), "lstm"),
    (lambda: aten.glu_backward(tt.ones(()), tt.ones(()), 0), "glu does not support 0-dimensional tensors"),
    (lambda: tt.fft.fftshift(tt.ones(()), 0), "tensor has no dimensions"),
    (lambda: tt.fft.ifftshift(tt.ones(()), [0]), "tensor has no dimensions"),
    (lambda: aten._pad_enum(tt.ones(1, 1, 3), [1, 1], 5, None), "Unrecognised padding mode 5"),
    (lambda: aten._pad_enum(tt.ones(1, 1, 3), [1, 1], -1, None), "Unrecognised padding mode -1"),
    (
        lambda: tt.embedding_bag(
            tt.ones(()), tt.tensor([0]), tt.tensor([0]), False, 0, False, None, False, 0
        ),
        "weight to have 2",
    ),
    (
        lambda: aten.batch_norm_gather_stats(
            tt.ones(2, 3), tt.ones(()), tt.ones(()), None, None, 0.1, 0.0, 2
        ),
        "mean to have 2 dimensions",
    ),
    (
        lambda: aten.upsample_nearest2d(tt.ones(2, 3, 4), [5], None),
        "expected output_size equals to 2, but got",
    ),
    (
        lambda: aten.upsample_bilinear2d(tt.ones(2, 3), None, False, []),
        "expected output_size equals to 2, but",
    ),
    (lambda: aten._adaptive_avg_pool2d(quantized(1, 3, 3), [2]), "output_size"),
    (
        lambda: aten.mse_loss_backward(tt.ones(3), tt.ones(1), tt.ones(1), 2),
        r"\[3\] does not broadcast to \[1\]",
    ),
    (lambda: tt.linalg.matrix_exp(tt.eye(3).to(tt.float8_e4m3fn)), "not implemented for 'Float8_e4m3fn'"),
    (
        lambda: aten._amp_foreach_non_finite_check_and_unscale.out(
            [], tt.ones(1), tt.ones(()), out=[tt.ones(2)]
        ),
        "expected 0 outputs, got 1",
    ),
]


def data_of_rnn(batch_sizes: tt.Tensor) -> list[Any]:
    """Return arguments of a packed layer."""
    weights = [tt.ones(2, 2), tt.ones(2, 2)]
    return [tt.ones(3, 2), batch_sizes, tt.ones(1, 2, 2), weights, False, 1, 0.0, False, False]


@pytest.mark.parametrize("case", range(len(LAYOUTS) + len(RANKS)))
def test_operands_that_do_not_fit_are_refused(case: int) -> None:
    call, message = [*LAYOUTS, *RANKS][case]
    with pytest.raises((RuntimeError, IndexError, NotImplementedError), match=message) as caught:
        call()
    assert type(caught.value) is not RecursionError


def test_operands_that_fit_have_their_values() -> None:
    assert tt.sin(coo(3), out=tt.ones(3)).tolist() == tt.sin(tt.ones(3)).tolist()
    assert tt.fft.fftshift(tt.arange(3.0), 0).tolist() == [2.0, 0.0, 1.0]
    gradient = aten.mse_loss_backward(tt.tensor([2.0]), tt.ones(2), tt.zeros(2), 2)
    assert gradient.tolist() == [4.0, 4.0]
    assert aten._pad_enum(tt.arange(3.0), [1, 0], 3, 7.0).tolist() == [7.0, 0.0, 1.0, 2.0]
    filled = tt.masked_fill(quantized(2), tt.tensor([True, False]), 0.0)
    assert filled.dequantize().tolist() == [0.0, 1.0]
    assert aten.rnn_tanh(*data_of_rnn(tt.tensor([2, 1])))[0].shape == (3, 2)

"""Operators of `tt.ops.aten` that no public function calls with such arguments refuse them by errors of the package."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt

aten: Any = tt.ops.aten
MATRIX, CUBE = tt.ones(3, 3), tt.ones(2, 3, 3)
PIVOTS = tt.tensor([1, 2, 3], dtype=tt.int32)
INT = tt.zeros(3, dtype=tt.int64)
SPARSE = MATRIX.to_sparse_csr()

CALLS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: aten._arange(INT, math.nan, 1), RuntimeError, "cannot be converted to type int64_t without overflow"),
    (lambda: aten._arange(INT, 0, math.inf), RuntimeError, "cannot be converted to type int64_t without overflow"),
    (lambda: aten._arange(INT, 2j, 1), RuntimeError, "without overflow"),
    (lambda: aten._arange(tt.zeros(3), 2j, 1), RuntimeError, "without overflow"),
    (lambda: aten._arange(tt.zeros(3), 0, 1j), RuntimeError, "without overflow"),
    (lambda: tt.as_strided_scatter(MATRIX, tt.ones(2, 3), [2, 3], [1, -1], 2), RuntimeError, "Negative strides"),
    (lambda: aten._to_sparse(MATRIX.to_sparse(), layout=tt.strided), RuntimeError, "not supported"),
    (lambda: aten._basic_index(SPARSE, [1, 2]), RuntimeError, "four numbers for each part of the index, but got 2"),
    (lambda: aten._grid_sampler_taps(tt.ones(3), [2, 2], 0, 0, False), RuntimeError, "grid"),
    (lambda: aten._grid_sampler_taps(tt.ones(1, 2, 2, 1), [2, 2], 0, 0, False), RuntimeError, "grid"),
    (lambda: aten._grid_sampler_taps(tt.ones(1, 2, 2, 2).long(), [2, 2], 0, 0, False), RuntimeError, "floating"),
    (lambda: aten._least_squares(MATRIX, MATRIX, 0.1, "nuc"), RuntimeError, "should be one of .* got 'nuc'"),
    (lambda: aten._least_squares(tt.ones(3), MATRIX, 0.1, "gels"), RuntimeError, "at least 2 dimensions"),
    (lambda: aten._least_squares(MATRIX, tt.ones(3), 0.1, "gels"), RuntimeError, "at least 2 dimensions"),
    (lambda: aten._least_squares(CUBE, MATRIX, 0.1, "gels"), RuntimeError, "B"),
    (lambda: aten._least_squares(MATRIX.long(), MATRIX, 0.1, "gels"), RuntimeError, "floating point or complex"),
    (lambda: aten._lu_solve(MATRIX, PIVOTS, tt.ones(()), False), RuntimeError, "at least 2 dimensions"),
    (lambda: aten._lu_solve(MATRIX, PIVOTS[:2], MATRIX, False), RuntimeError, "pivots"),
    (lambda: aten._lu_solve(MATRIX, INT, MATRIX, False), RuntimeError, "pivots"),
    (lambda: aten._lu_solve(CUBE, PIVOTS.expand(2, 3), MATRIX, False), RuntimeError, "batch of LU"),
    (lambda: aten._lu_solve(MATRIX, PIVOTS, tt.ones(2, 3), False), RuntimeError, "LU"),
    (lambda: aten._quantize_affine(3, 1.0, 0, tt.qint8), RuntimeError, "value of type 'Tensor' for argument 'self'"),
    (lambda: aten._scaled_dot_product_attention_math(tt.ones(()), MATRIX, MATRIX), RuntimeError, "query"),
    (lambda: aten._scaled_dot_product_attention_math(MATRIX, MATRIX, tt.ones(3)), RuntimeError, "value"),
    (lambda: aten._select_first(MATRIX, 0.5), TypeError, "must be int, not float"),
    (lambda: aten._select_first(MATRIX, 2j), TypeError, "must be int, not complex"),
    (lambda: aten._sparse_semi_structured_linear(tt.ones(()), MATRIX, INT), RuntimeError, "input with columns"),
    (lambda: aten._thnn_differentiable_lstm_cell_backward(MATRIX, None, MATRIX, MATRIX, None, None, MATRIX, MATRIX),
     RuntimeError, "4 equal parts, but got 3 columns"),
    (lambda: aten._thnn_differentiable_gru_cell_backward(MATRIX, tt.ones(2, 4), tt.ones(2, 4), MATRIX, None, None),
     RuntimeError, "3 equal parts, but got 4 columns"),
    (lambda: aten._unsafe_masked_index(tt.ones(3), tt.ones(2).bool(), [INT[:2], INT[:2]], 0), IndexError, "too many"),
    (lambda: aten._upsample_bicubic2d_aa(tt.ones(1, 1, 4, 4), None, True, [math.inf, 1.0]), RuntimeError, "than 0"),
    (lambda: aten._vector_norm(MATRIX, "gelsd", [0], False), RuntimeError, "expected an order"),
    (lambda: aten._vector_norm(INT, "2", [0], False), RuntimeError, "floating dtype"),
    (lambda: tt.arctan(MATRIX, out=tt.zeros(2, 2).to_sparse()), RuntimeError, "a sparse tensor is resized by"),
    (lambda: aten.copy_sparse_to_sparse_(tt.zeros(3, 3).to_sparse(), MATRIX), RuntimeError, "between dense and sparse"),
    (lambda: tt.nn.functional.cross_entropy(tt.ones(()), tt.tensor([0]), label_smoothing=0.1), IndexError, "no dimen"),
    (lambda: aten.elu_backward(MATRIX, 2j, 1.0, 1.0, True, MATRIX), RuntimeError, "without overflow"),
    (lambda: aten.leaky_relu_backward(MATRIX, MATRIX, 2j, True), RuntimeError, "without overflow"),
    (lambda: aten.hinge_embedding_loss(INT, INT, math.inf, 2), RuntimeError, "type int64_t without overflow"),
    (lambda: aten.hinge_embedding_loss(INT, INT, math.nan, 2), RuntimeError, "type int64_t without overflow"),
    (lambda: tt.logspace(2j, 1, 2, dtype=tt.int64), RuntimeError, ""),
    (lambda: tt.logspace(0, math.nan, 2, out=INT.clone()), RuntimeError, "type int64_t without overflow"),
    (lambda: aten.logspace(tt.tensor(1.0), math.inf, 3, 2.0, out=INT.clone()), RuntimeError, "type int64_t without"),
    (lambda: aten.rrelu_(MATRIX.clone(), 1j, 2j, False), RuntimeError, "without overflow"),
    (lambda: tt.quantize_per_tensor(MATRIX, tt.tensor(1j), tt.tensor(0), tt.qint8), RuntimeError, "without overflow"),
    (lambda: tt.quantize_per_tensor([MATRIX], tt.ones(0), tt.zeros(0), tt.qint8), RuntimeError, "scales for 1 tensors"),
    (lambda: tt.sparse_csr_tensor(INT[:2], tt.tensor([math.inf]), tt.ones(1)), RuntimeError, "without overflow"),
    (lambda: tt.as_strided_scatter(tt.ones(0), tt.ones(0), [], []), RuntimeError, "beyond its storage"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_arguments_that_are_refused(number: int) -> None:
    call, kind, words = CALLS[number]
    with pytest.raises(kind, match=words):
        call()


def test_attention_whose_dropout_keeps_nothing() -> None:
    out, _ = aten._scaled_dot_product_attention_math(
        MATRIX, MATRIX, MATRIX, None, 1.0, False, tt.ones(3, 3, dtype=tt.bool)
    )
    assert out.isinf().all()


def test_gradient_over_complex_spacing() -> None:
    (found,) = tt.gradient(tt.tensor([1, 2, 4]), spacing=1 + 1j)
    assert found.tolist() == [0.5 - 0.5j, 0.75 - 0.75j, 1 - 1j]


def test_no_rows_are_renormalized() -> None:
    found = aten.embedding_renorm(tt.ones(2, 0), INT[:0], 0.0, -math.inf)
    assert found.shape == (2, 0)


def test_cov_of_more_elements_than_memory() -> None:
    with pytest.raises((MemoryError, RuntimeError)):
        tt.cov(tt.ones(1).expand(1 << 59))

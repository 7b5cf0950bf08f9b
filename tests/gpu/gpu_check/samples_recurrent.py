"""Recurrent layers, their cells and fused steps, and packed sequences."""

from __future__ import annotations

from typing import Any

from .arguments import T
from .samples import Sample, rows

STEP, STATE = T("n 264"), T("n 66")
KEPT, GRU_KEPT = T("n 264", low=0.1, high=0.9, grad=False), T("n 330", low=0.1, high=0.9, grad=False)
X, H = T("5 n 6"), T("2 n 4")


def _weights(gates: int) -> list[Any]:
    """Return the parameters of both directions of one layer of four units."""
    rows = f"{4 * gates}"
    return [T(f"{rows} 6"), T(f"{rows} 4"), T(rows), T(rows)] * 2


def _cell(gates: int) -> list[Any]:
    return _weights(gates)[:4]


OPTIONS = (True, 1, 0.0, False, True, False)

SAMPLES: list[Sample] = [
    *rows("_thnn_fused_lstm_cell", STEP, STEP, STATE, T("264"), T("264"), dtypes="f", roundings=8),
    *rows("_thnn_fused_lstm_cell_backward_impl _thnn_fused_lstm_cell_backward", STATE, STATE, STATE, STATE, KEPT, True,
          terms="n", dtypes="f", roundings=8, backward=False),
    *rows("_thnn_fused_gru_cell", T("n 198"), T("n 198"), STATE, T("198"), T("198"), dtypes="f", roundings=8),
    *rows("_thnn_fused_gru_cell_backward", STATE, GRU_KEPT, True, terms="n", dtypes="f", roundings=8, backward=False),
    *rows("_thnn_differentiable_lstm_cell_backward", STATE, STATE, STEP, STEP, T("264"), T("264"), STATE, STATE,
          terms="n", dtypes="f", roundings=12, backward=False),
    *rows("_thnn_differentiable_gru_cell_backward", STATE, T("n 198"), T("n 198"), STATE, T("198"), T("198"),
          terms="n", dtypes="f", roundings=12, backward=False),
    *rows("lstm_cell", T("n 6"), [T("n 4"), T("n 4")], *_cell(4), terms="6", dtypes="f", roundings=12),
    *rows("gru_cell", T("n 6"), T("n 4"), *_cell(3), terms="6", dtypes="f", roundings=12),
    *rows("rnn_tanh_cell rnn_relu_cell", T("n 6"), T("n 4"), *_cell(1), terms="6", dtypes="f", roundings=12),
    *rows("lstm.input", X, [H, H], _weights(4), *OPTIONS, terms="6 5", dtypes="f", roundings=60),
    *rows("gru.input", X, H, _weights(3), *OPTIONS, terms="6 5", dtypes="f", roundings=60),
    *rows("rnn_tanh.input", X, H, _weights(1), *OPTIONS, terms="6 5", dtypes="f", roundings=60),
    *rows("pad_sequence", [T("a b"), T("c b")], True, 0.5, "left", dtypes="fib"),
    *rows("rnn_relu.input", T("2 n 6"), H, _weights(1), *OPTIONS, terms="6 2", dtypes="f", roundings=60),
]  # fmt: skip

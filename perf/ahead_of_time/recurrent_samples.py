"""Fused steps of recurrent cells: whole rows, odd ones, and gates without biases."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from .sample import FLOATING, Sample, empty, gradients, tt

LSTM, GRU = ("lstm_step", "lstm_step_backward"), ("gru_step", "gru_step_backward")


def recurrent_cells(capability: int) -> Iterator[Sample]:
    """Yield all samples, the main configurations first."""
    for dtype in FLOATING:
        for rows, hidden in ((64, 1024), (3, 33)):
            wide = hidden % 16 == 0
            label = f"{dtype}, {rows} rows of {hidden}"
            gates, state, bias = (
                empty(*s, dtype=dtype) for s in ((rows, 4 * hidden), (rows, hidden), (4 * hidden,))
            )
            yield Sample(
                f"lstm step {label}", partial(gradients, _lstm, gates, gates, state), LSTM if wide else ()
            )
            yield Sample(
                f"lstm step {label} with biases", partial(gradients, _lstm, gates, gates, state, bias, bias)
            )
            yield Sample(f"lstm state {label}", partial(gradients, _lstm_state, gates, gates, state))
            gates, bias = empty(rows, 3 * hidden, dtype=dtype), empty(3 * hidden, dtype=dtype)
            yield Sample(
                f"gru step {label}", partial(gradients, _gru, gates, gates, state), GRU if wide else ()
            )
            yield Sample(
                f"gru step {label} with biases", partial(gradients, _gru, gates, gates, state, bias, bias)
            )


def _lstm(*operands: Any) -> Any:
    return tt.ops.aten._thnn_fused_lstm_cell(*operands)[0]


def _lstm_state(*operands: Any) -> Any:
    return tt.ops.aten._thnn_fused_lstm_cell(*operands)[1]


def _gru(*operands: Any) -> Any:
    return tt.ops.aten._thnn_fused_gru_cell(*operands)[0]

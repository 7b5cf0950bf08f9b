"""Steps of recurrent layers as compiled loops (`recurrent_loop.py`): LSTM and GRU, forward and backward.

A step is one matmul and one loop over the elements of the hidden state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...dispatch.structured.meta.recurrent import GRU, LSTM, TANH
from ...runtime import blas_threads
from ...runtime.cpu.loop_requests import Loop, Sharing, loop_now, shared_loop
from ..plain_numpy import np

Array = np.ndarray[Any, Any]

COMPILE_THRESHOLD = 1 << 15
"""Compile a layer's loop if all steps together have at least this many gates."""
INSTRUCTIONS = {LSTM: 256, GRU: 160, TANH: 64}
"""Instructions for an element of the hidden state, about."""
SHARED_FROM, WAKING_FROM = 1 << 22, 1 << 24
"""Twice the instructions from which awake threads share a step, and from which sleeping ones are woken."""
PARTS = 8
"""Parts of a step at most."""
SMALL_PRODUCT = 1 << 22
"""Multiplications up to which a step's matmul has one thread: it is as quick, and no other thread spins after it."""
FORWARD = {LSTM: "lstm", GRU: "gru", TANH: "tanh"}
BACKWARD = {LSTM: "lstm_backward", GRU: "gru_backward"}


def is_worth(mode: int, dtype: np.dtype[Any], steps: int, gates: int) -> bool:
    """Return True if a layer of this many gates in a step has loops."""
    return dtype == np.float32 and mode in FORWARD and steps * gates >= COMPILE_THRESHOLD


def cell_loop(name: str, mode: int, rows: int, width: int, layout: Sequence[tuple[int, int]]) -> Loop | None:
    """Return the loop of a step as a function of its arrays, or None without a compiler.

    Args:
        name: Name in `recurrent_loop.CELLS`.
        mode: Kind of the layer.
        rows: Number of sequences.
        width: Elements of a hidden state.
        layout: For each array, the offset of its first element, and the elements from a row to the next one.
    """
    from .recurrent_loop import recurrent_loop

    loop = loop_now(recurrent_loop, name)
    if loop is None:
        return None
    sharing = Sharing.of(2 * rows * width * INSTRUCTIONS[mode], SHARED_FROM, WAKING_FROM)
    step = -(-rows // PARTS) if sharing else rows
    parts = []
    for first in range(0, rows, step):
        part = [min(step, rows - first), width]
        for offset, row in layout:
            part += [4 * (offset + first * row), 4 * row, 4]
        parts.append(np.array(part))
    return shared_loop(loop, parts, sharing, None)


class OneBlasThread:
    """Context in which NumPy's BLAS has one thread, if a step's matmul is small."""

    __slots__ = ("is_small", "threads")

    def __init__(self, multiplications: int) -> None:
        self.is_small, self.threads = multiplications <= SMALL_PRODUCT, 1

    def __enter__(self) -> None:
        self.threads = blas_threads.numpy_threads() if self.is_small else 1
        blas_threads.hold(self.threads)

    def __exit__(self, *_: object) -> None:
        blas_threads.restore(self.threads)


def gates_of(count: int, width: int, row: int) -> list[tuple[int, int]]:
    """Return the layout of gates that lie side by side in rows."""
    return [(i * width, row) for i in range(count)]


def lstm_forward(rows: int, width: int, share_row: int) -> Loop | None:
    """Return the loop of an LSTM's step: ``loop(gates, cell, bounded, hidden, products, share, c)``."""
    n = width
    layout = [
        *gates_of(4, n, 4 * n),
        (0, n),
        (0, n),
        (0, n),
        *gates_of(4, n, 4 * n),
        *gates_of(4, n, share_row),
    ]
    run = cell_loop("lstm", LSTM, rows, n, [*layout, (0, n)])
    if run is None:
        return None

    def step(
        gates: Array, cell: Array, bounded: Array, hidden: Array, made: Array, share: Array, c: Array
    ) -> None:
        run(
            gates,
            gates,
            gates,
            gates,
            cell,
            bounded,
            hidden,
            made,
            made,
            made,
            made,
            share,
            share,
            share,
            share,
            c,
        )

    return step


def lstm_backward(rows: int, width: int, output_row: int | None) -> Loop | None:
    """Return the loop of an LSTM's gradient: ``loop(to, to_c, gates, bounded, c, grad_c, *grads)``."""
    n = width
    layout = [*gates_of(4, n, 4 * n), (0, n), *gates_of(4, n, 4 * n), (0, n), (0, n), (0, n), (0, n)]
    name = BACKWARD[LSTM] if output_row is None else f"{BACKWARD[LSTM]}_of_outputs"
    run = cell_loop(name, LSTM, rows, n, layout if output_row is None else [*layout, (0, output_row)])
    if run is None:
        return None

    def step(
        out: Array, to_c: Array, gates: Array, bounded: Array, c: Array, grad_c: Array, *grads: Array
    ) -> None:
        run(out, out, out, out, to_c, gates, gates, gates, gates, bounded, c, grad_c, *grads)

    return step


def gru_forward(rows: int, width: int, share_row: int, has_bias: bool) -> Loop | None:
    """Return the loop of a GRU's step: ``loop(gates, of_hidden, hidden, products, share, h, bias)``."""
    n = width
    layout = [
        *gates_of(3, n, 3 * n),
        (0, n),
        (0, n),
        *gates_of(3, n, 3 * n),
        *gates_of(3, n, share_row),
        (0, n),
    ]
    layout += gates_of(3, n, 0) if has_bias else []
    run = cell_loop("gru_with_bias" if has_bias else "gru", GRU, rows, n, layout)
    if run is None:
        return None

    def step(
        gates: Array, of_hidden: Array, hidden: Array, made: Array, share: Array, h: Array, bias: Array | None
    ) -> None:
        biases = (bias, bias, bias) if has_bias else ()
        run(gates, gates, gates, of_hidden, hidden, made, made, made, share, share, share, h, *biases)

    return step


def gru_backward(rows: int, width: int, output_row: int | None) -> Loop | None:
    """Return the loop of a GRU's gradient: ``loop(to, hidden, to_h, gates, of_hidden, h, *grads)``."""
    n = width
    layout = [
        *gates_of(3, n, 3 * n),
        *gates_of(3, n, 3 * n),
        (0, n),
        *gates_of(3, n, 3 * n),
        (0, n),
        (0, n),
        (0, n),
    ]
    name = BACKWARD[GRU] if output_row is None else f"{BACKWARD[GRU]}_of_outputs"
    run = cell_loop(name, GRU, rows, n, layout if output_row is None else [*layout, (0, output_row)])
    if run is None:
        return None

    def step(
        out: Array, hidden: Array, to_h: Array, gates: Array, of_hidden: Array, h: Array, *grads: Array
    ) -> None:
        run(out, out, out, hidden, hidden, hidden, to_h, gates, gates, gates, of_hidden, h, *grads)

    return step


def tanh_forward(rows: int, width: int, share_row: int) -> Loop | None:
    """Return the loop of a layer with tanh alone: ``loop(hidden, products, share)``."""
    return cell_loop(FORWARD[TANH], TANH, rows, width, [(0, width), (0, width), (0, share_row)])

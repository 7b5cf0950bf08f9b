"""Steps of recurrent layers as compiled loops (`recurrent_loop.py`), forward and backward.

A step is one matmul and one loop over the elements of the hidden state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from ...dispatch.structured.meta.recurrent import GRU, LSTM, RELU, TANH
from ...runtime.blas_threads import on_one_thread
from ...runtime.cpu.loop_requests import Loop, Sharing, loop_now, shared_loop
from ..plain_numpy import np

Array = np.ndarray[Any, Any]
R = TypeVar("R")

COMPILE_THRESHOLD = 1 << 15
"""Compile a layer's loop if all steps together have at least this many gates."""
INSTRUCTIONS = {LSTM: 256, GRU: 160, TANH: 64, RELU: 4}
"""Instructions for an element of the hidden state, about."""
SHARED_FROM, WAKING_FROM = 1 << 22, 1 << 24
"""Twice the instructions from which awake threads share a step, and from which sleeping ones are woken."""
PARTS = 8
"""Parts of a step at most."""
SMALL_PRODUCT = 1 << 22
"""Multiplications up to which a step's matmul has one thread: it is as quick, and no other thread spins after it."""
FORWARD = {LSTM: "lstm", GRU: "gru", TANH: "tanh", RELU: "relu"}
BACKWARD = {mode: f"{name}_backward" for mode, name in FORWARD.items()}


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


def one_thread_for_small(steps: Callable[..., R], multiplications: int) -> Callable[..., R]:
    """Return a function of steps during whose calls NumPy's BLAS has one thread, if the matmul of a step is small."""
    return on_one_thread(steps) if multiplications <= SMALL_PRODUCT else steps


def gates_of(count: int, width: int, row: int) -> list[tuple[int, int]]:
    """Return the layout of gates that lie side by side in rows."""
    return [(i * width, row) for i in range(count)]


class Cell(NamedTuple):
    """Arrays of a cell's loop, whose steps are contiguous in time.

    Attributes:
        name: Name in `recurrent_loop.CELLS`.
        layout: Offset of the first element, and elements from a row to the next, of each array of the loop.
        order: Index of each array of the loop among the arrays of the step.
    """

    name: str
    layout: tuple[tuple[int, int], ...]
    order: tuple[int, ...]


def _cell(name: str, arrays: Sequence[tuple[int, int, int]]) -> Cell:
    """Return a cell of arrays that hold some gates side by side; each has a count, a width and a row's elements."""
    layout, order = [], []
    for index, (count, width, row) in enumerate(arrays):
        layout += gates_of(count, width, row)
        order += [index] * count
    return Cell(name, tuple(layout), tuple(order))


def lstm_cell(n: int, share_row: int) -> Cell:
    """Return the cell ``gates, cell, bounded, hidden, products, share, c`` of an LSTM."""
    one = (1, n, n)
    return _cell(FORWARD[LSTM], [(4, n, 4 * n), one, one, one, (4, n, 4 * n), (4, n, share_row), one])


def lstm_gradient_cell(n: int, output_row: int | None) -> Cell:
    """Return the cell ``to, to_c, gates, bounded, c, grad_c, *grads`` of an LSTM's gradient."""
    one = (1, n, n)
    arrays = [(4, n, 4 * n), one, (4, n, 4 * n), one, one, one, one]
    if output_row is None:
        return _cell(BACKWARD[LSTM], arrays)
    return _cell(f"{BACKWARD[LSTM]}_of_outputs", [*arrays, (1, n, output_row)])


def gru_cell(n: int, share_row: int, has_bias: bool) -> Cell:
    """Return the cell ``gates, of_hidden, hidden, products, share, h, bias`` of a GRU."""
    one = (1, n, n)
    arrays = [(3, n, 3 * n), one, one, (3, n, 3 * n), (3, n, share_row), one]
    return _cell("gru_with_bias", [*arrays, (3, n, 0)]) if has_bias else _cell(FORWARD[GRU], arrays)


def gru_gradient_cell(n: int, grad_rows: Sequence[int]) -> Cell:
    """Return the cell ``to, hidden, to_h, gates, of_hidden, h, *grads``: a GRU's gradient from up to three summands."""
    one = (1, n, n)
    arrays = [(3, n, 3 * n), (3, n, 3 * n), one, (3, n, 3 * n), one, one]
    name = BACKWARD[GRU] + ("", "_of_outputs", "_of_two_states")[len(grad_rows) - 1]
    return _cell(name, [*arrays, *((1, n, row) for row in grad_rows)])


def simple_cell(mode: int, n: int, share_row: int) -> Cell:
    """Return the cell ``hidden, products, share`` of a layer with tanh or relu alone."""
    return _cell(FORWARD[mode], [(1, n, n), (1, n, n), (1, n, share_row)])


def simple_gradient_cell(mode: int, n: int, output_row: int | None) -> Cell:
    """Return the cell ``to, hidden, *grads`` of the gradient of a layer with tanh or relu alone."""
    arrays = [(1, n, n)] * 3
    if output_row is None:
        return _cell(BACKWARD[mode], arrays)
    return _cell(f"{BACKWARD[mode]}_of_outputs", [*arrays, (1, n, output_row)])


def step_loop(cell: Cell, mode: int, rows: int, width: int) -> Loop | None:
    """Return the loop of one step as a function of its arrays, or None without a compiler."""
    run, order = cell_loop(cell.name, mode, rows, width, cell.layout), cell.order
    if run is None:
        return None
    return lambda *arrays: run(*[arrays[i] for i in order])

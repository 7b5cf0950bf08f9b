"""Steps of LSTM and GRU on the CPU: cache-sized blocks of rows, on several threads.

16-bit floats compute in float32; bias gradients are summed in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ...runtime.parallel import parallel_for
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.pointwise_math import negative, sigmoid_in
from ..normalization.moments import column_sums
from ..plain_numpy import np
from ..widen import compute_np

Array = np.ndarray[Any, Any]

BLOCK = 1 << 16
"""Gates of a block: with the arrays made of it, it stays in a core's second-level cache."""
GRAIN = 1 << 15
"""Gates that a thread takes at least: their exponentials are some ten passes over memory in the cache."""


class _Rows:
    """The rows of a step in blocks, and their dtype."""

    def __init__(self, spec: TensorSpec, width: int) -> None:
        self.dtype = compute_np(spec.dtype)
        self.same = spec.np_dtype == self.dtype
        rows = spec.sizes[0] if width else 0
        step = max(1, BLOCK // max(width, 1))
        self.parts = [slice(start, min(start + step, rows)) for start in range(0, rows, step)]
        largest = width * (self.parts[0].stop if self.parts else 1)
        self.grain = max(1, GRAIN // max(largest, 1))

    def each(self, run: Callable[[slice], None]) -> None:
        if len(self.parts) == 1:
            run(self.parts[0])
            return

        def some(first: int, last: int) -> None:
            for part in self.parts[first:last]:
                run(part)

        parallel_for(0, len(self.parts), self.grain, some)

    def wide(self, array: Any) -> Any:
        return array if self.same or array is None else array.astype(self.dtype)

    def target(self, array: Array) -> Array:
        """Return the array to compute in: the result itself, or a buffer of the wider dtype."""
        return array if self.same else np.empty(array.shape, self.dtype)

    def store(self, array: Array, made: Array) -> None:
        if array is not made:
            np.copyto(array, made, casting="unsafe")


def _bias(gates: Array, bias: Any) -> None:
    if bias is not None:
        np.copyto(bias, column_sums(np.ascontiguousarray(gates)), casting="unsafe")


def lstm_cell(call: StructuredCall) -> PlannedKernel:
    """Compute c' = f c + i g, h' = o tanh(c'), and the activated gates i, f, g, o."""
    n = call.args["cx"].sizes[1]
    rows = _Rows(call.args["cx"], 4 * n)
    # One gate of one unit is a column of four.
    sigmoid = sigmoid_in(rows.dtype, negative) if n == 1 else sigmoid_in(rows.dtype)

    def into(hy: Any, cy: Any, kept: Any, x: Any, h: Any, cx: Any, x_bias: Any, h_bias: Any) -> None:
        bias = None if x_bias is None else np.add(rows.wide(x_bias), rows.wide(h_bias))

        def step(part: slice) -> None:
            gates = rows.target(kept[part])
            np.add(rows.wide(x[part]), rows.wide(h[part]), gates)
            if bias is not None:
                np.add(gates, bias, gates)
            candidate = gates[:, 2 * n : 3 * n]
            for gate in (gates[:, : 2 * n], gates[:, 3 * n :]):
                sigmoid(gate, gate)
            np.tanh(candidate, candidate)
            cell, hidden = rows.target(cy[part]), rows.target(hy[part])
            np.multiply(gates[:, n : 2 * n], rows.wide(cx[part]), cell)
            np.add(cell, gates[:, :n] * candidate, cell)
            np.tanh(cell, hidden)
            np.multiply(hidden, gates[:, 3 * n :], hidden)
            if not rows.same:
                for array, made in ((kept, gates), (cy, cell), (hy, hidden)):
                    rows.store(array[part], made)

        rows.each(step)

    return PlannedKernel(quietly(into))


def lstm_cell_backward(call: StructuredCall) -> PlannedKernel:
    """Compute the gradients of the gates before activation, of the cell state, and of a bias."""
    n = call.args["cx"].sizes[1]
    rows = _Rows(call.args["cx"], 4 * n)

    def into(
        grad_input: Any, to_cx: Any, to_bias: Any, grad_hy: Any, grad_cy: Any, cx: Any, cy: Any, kept: Any
    ) -> None:
        wide_to = rows.target(grad_input)

        def step(part: slice) -> None:
            gates = rows.wide(kept[part])
            i, f, g, o = (gates[:, k * n : (k + 1) * n] for k in range(4))
            made = wide_to[part]
            through = np.zeros(i.shape, rows.dtype) if grad_cy is None else rows.wide(grad_cy[part])
            if grad_hy is None:
                made[:, 3 * n :] = 0
            else:
                grad = rows.wide(grad_hy[part])
                out = np.tanh(rows.wide(cy[part]))
                np.multiply(grad * out, o * (1 - o), made[:, 3 * n :])
                through = through + grad * o * (1 - out * out)
            np.multiply(through * g, i * (1 - i), made[:, :n])
            np.multiply(through * rows.wide(cx[part]), f * (1 - f), made[:, n : 2 * n])
            np.multiply(through * i, 1 - g * g, made[:, 2 * n : 3 * n])
            rows.store(to_cx[part], through * f)
            if not rows.same:
                rows.store(grad_input[part], made)

        rows.each(step)
        _bias(wide_to, to_bias)

    return PlannedKernel(quietly(into))


def gru_cell(call: StructuredCall) -> PlannedKernel:
    """Compute h' = n + i (h - n) with n = tanh(x_n + r h_n); r, i, n, h and h_n for backward."""
    n = call.args["hx"].sizes[1]
    rows = _Rows(call.args["hx"], 5 * n)
    sigmoid = sigmoid_in(rows.dtype)

    def into(hy: Any, kept: Any, x: Any, h: Any, hx: Any, x_bias: Any, h_bias: Any) -> None:
        x_bias, h_bias = rows.wide(x_bias), rows.wide(h_bias)

        def step(part: slice) -> None:
            inputs, hiddens, state = (rows.wide(array[part]) for array in (x, h, hx))
            if x_bias is not None:
                inputs, hiddens = inputs + x_bias, hiddens + h_bias
            saved = rows.target(kept[part])
            both, new = saved[:, : 2 * n], saved[:, 2 * n : 3 * n]
            np.add(inputs[:, : 2 * n], hiddens[:, : 2 * n], both)
            sigmoid(both, both)
            saved[:, 3 * n : 4 * n] = state
            saved[:, 4 * n :] = hiddens[:, 2 * n :]
            np.multiply(saved[:, :n], saved[:, 4 * n :], new)
            np.add(new, inputs[:, 2 * n :], new)
            np.tanh(new, new)
            made = np.subtract(state, new)
            np.multiply(made, saved[:, n : 2 * n], made)
            rows.store(hy[part], np.add(made, new, made))
            if not rows.same:
                rows.store(kept[part], saved)

        rows.each(step)

    return PlannedKernel(quietly(into))


def gru_cell_backward(call: StructuredCall) -> PlannedKernel:
    """Compute the gradients of the gates before activation, of the hidden state, and of the biases."""
    n = call.args["grad_hy"].sizes[1]
    rows = _Rows(call.args["grad_hy"], 5 * n)

    def into(
        to_x: Any, to_h: Any, to_hx: Any, to_x_bias: Any, to_h_bias: Any, grad_hy: Any, kept: Any
    ) -> None:
        wide_x, wide_h = rows.target(to_x), rows.target(to_h)

        def step(part: slice) -> None:
            saved, grad = rows.wide(kept[part]), rows.wide(grad_hy[part])
            r, i, new, hx, h_new = (saved[:, k * n : (k + 1) * n] for k in range(5))
            x, h = wide_x[part], wide_h[part]
            of_new = x[:, 2 * n :]
            np.multiply(grad * (1 - i), 1 - new * new, of_new)
            np.multiply(grad * (hx - new), i * (1 - i), x[:, n : 2 * n])
            np.multiply(of_new * h_new, r * (1 - r), x[:, :n])
            h[:, : 2 * n] = x[:, : 2 * n]
            np.multiply(of_new, r, h[:, 2 * n :])
            rows.store(to_hx[part], grad * i)
            if not rows.same:
                rows.store(to_x[part], x)
                rows.store(to_h[part], h)

        rows.each(step)
        _bias(wide_x, to_x_bias)
        _bias(wide_h, to_h_bias)

    return PlannedKernel(quietly(into))


for _name, _kernel in {
    "thnn_fused_lstm_cell_stub": lstm_cell,
    "thnn_fused_lstm_cell_backward_impl_stub": lstm_cell_backward,
    "thnn_fused_gru_cell_stub": gru_cell,
    "thnn_fused_gru_cell_backward_stub": gru_cell_backward,
}.items():
    register_stub(_name, "cpu", _kernel)

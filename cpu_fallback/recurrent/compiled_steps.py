"""All steps of a recurrent layer, by compiled loops.

A loop of many steps (`many_steps.py`) computes all but the first step, and all but the first and last one backward. The
others, and layers with large or few steps, take a matmul and a loop of one step each (`compiled.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..plain_numpy import np
from .many_steps import ManySteps, StepArray, steps_from

if TYPE_CHECKING:
    from ...runtime.cpu.loop_requests import Loop
    from .layers import Layer

Array = np.ndarray[Any, Any]


class Forward:
    """Loops of a layer's steps.

    Args:
        layer: The layer.
        step: Loop of one step.
        many: Loop of many steps, or None.
    """

    def __init__(self, layer: Layer, step: Loop, many: ManySteps | None) -> None:
        self.layer, self.step, self.many = layer, step, many

    def weights(self, weight: Array) -> tuple[Array, Array | None]:
        """Return the transposed weight for one step, and its panels for many."""
        if self.many is None:
            return np.ascontiguousarray(weight.T), None
        return weight.T, self.many.packed(weight.T)

    def lstm(
        self, share: Array, output: Array, cy: Array, kept: Array, h: Array, c: Array, weight: Array
    ) -> None:
        """Compute what `layers._lstm` does."""
        layer = self.layer
        rows, n = layer.rows, layer.width
        product = np.empty((rows, 4 * n), layer.dtype)
        every = layer.kept(kept, 0, 4).reshape(-1, rows, 4 * n)
        cells, squashed = layer.kept(kept, 4, 5), layer.kept(kept, 5, 6)
        is_kept = len(every) > 1
        if not is_kept:  # A loop writes no array that it reads.
            cells = np.stack([cells[0], np.empty_like(cells[0])])
        c = np.ascontiguousarray(c)
        w, panels = self.weights(weight)
        for t in range(layer.steps if panels is None else 1):
            at = t if is_kept else 0
            cell, hidden = cells[t if is_kept else t % 2], output[t]
            np.dot(h, w, product)
            self.step(every[at], cell, squashed[at], hidden, product, share[t], c)
            h, c = hidden, cell
        if self.many is not None and panels is not None:
            if is_kept:
                arrays = [steps_from(every, 1), steps_from(cells, 1), steps_from(squashed, 1)]
                previous = steps_from(cells, 0)
            else:
                stride = cells.strides[0]
                arrays = [
                    StepArray(every[0], 0),
                    StepArray(cells[1], -stride, True),
                    StepArray(squashed[0], 0),
                ]
                previous = StepArray(cells[0], stride, True)
            arrays += [steps_from(output, 1), StepArray(product, 0), steps_from(share, 1), previous]
            self.many.run(layer.steps - 1, panels, steps_from(output, 0), product, arrays)
            c = cells[-1] if is_kept else cells[(layer.steps - 1) % 2]
        np.copyto(cy, c.reshape(rows, n))

    def gru(
        self, share: Array, output: Array, bias: Array | None, kept: Array, h: Array, weight: Array
    ) -> None:
        """Compute what `layers._gru` does."""
        layer = self.layer
        rows, n = layer.rows, layer.width
        product = np.empty((rows, 3 * n), layer.dtype)
        every = layer.kept(kept, 0, 3).reshape(-1, rows, 3 * n)
        shares = layer.kept(kept, 3, 4)
        is_kept = len(every) > 1
        biases = [] if bias is None else [np.ascontiguousarray(bias)]
        w, panels = self.weights(weight)
        for t in range(layer.steps if panels is None else 1):
            at, hidden = t if is_kept else 0, output[t]
            np.dot(h, w, product)
            self.step(every[at], shares[at], hidden, product, share[t], h, *biases)
            h = hidden
        if self.many is not None and panels is not None:
            at = 1 if is_kept else 0
            arrays = [
                *(StepArray(each[at], each.strides[0] if is_kept else 0) for each in (every, shares)),
                steps_from(output, 1),
                StepArray(product, 0),
                steps_from(share, 1),
                steps_from(output, 0),
                *(StepArray(each, 0) for each in biases),
            ]
            self.many.run(layer.steps - 1, panels, steps_from(output, 0), product, arrays)

    def simple(self, share: Array, output: Array, h: Array, weight: Array) -> None:
        """Compute what `layers._simple` does."""
        layer = self.layer
        product = np.empty((layer.rows, layer.width), layer.dtype)
        w, panels = self.weights(weight)
        for t in range(layer.steps if panels is None else 1):
            np.dot(h, w, product)
            self.step(output[t], product, share[t])
            h = output[t]
        if self.many is not None and panels is not None:
            arrays = [steps_from(output, 1), StepArray(product, 0), steps_from(share, 1)]
            self.many.run(layer.steps - 1, panels, steps_from(output, 0), product, arrays)


class LstmGradient:
    """The gradients of an LSTM's gates, with a compiled loop for each step."""

    def __init__(self, layer: Layer, loop: Any, kept: Array, cx: Array, grad_cy: Any, to: Array) -> None:
        self.loop, self.cx, self.to = loop, np.ascontiguousarray(cx), to
        self.every, self.cells, self.squashed = (layer.kept(kept, *k) for k in ((0, 4), (4, 5), (5, 6)))
        self.changes = np.zeros((2, *cx.shape), layer.dtype)
        """Gradients of the cell state: those of the last step, and those that the next one writes."""
        self.at = 0
        if grad_cy is not None:
            np.copyto(self.changes[0], grad_cy)

    @property
    def change(self) -> Array:
        """Gradient of the cell state before the steps so far."""
        made: Array = self.changes[self.at]
        return made

    def step(self, t: int, grad: Array, *args: Array) -> None:
        """Compute a step's gate gradients from the summands of its hidden state's gradient."""
        before = self.cells[t - 1] if t else self.cx
        other = self.changes[1 - self.at]
        self.loop(self.to[t], other, self.every[t], self.squashed[t], before, self.change, grad, *args)
        self.at = 1 - self.at

    def many(self, many: ManySteps, panels: Array, product: Array, *output_grads: Array) -> None:
        """Compute all steps but the last, which is done, and the first; `product` is the gradient of a state."""
        last = len(self.to) - 1
        stride = self.changes.strides[0] * (1 - 2 * self.at)
        arrays = [
            steps_from(self.to, last - 1, -1),
            StepArray(self.changes[1 - self.at], -stride, True),
            steps_from(self.every, last - 1, -1),
            steps_from(self.squashed, last - 1, -1),
            steps_from(self.cells, last - 2, -1),
            StepArray(self.change, stride, True),
            StepArray(product, 0),
            *(steps_from(each, last - 1, -1) for each in output_grads),
        ]
        many.run(last - 1, panels, steps_from(self.to, last, -1), product, arrays)
        self.at = (self.at + last - 1) % 2


class GruGradient:
    """The gradients of a GRU's gates, with a compiled loop for each step."""

    def __init__(
        self, layer: Layer, loop: Any, kept: Array, hx: Array, output: Array, to: Array, hidden: Array
    ) -> None:
        self.loop, self.hx, self.output, self.to, self.hidden = loop, hx, output, to, hidden
        self.every, self.shares = layer.kept(kept, 0, 3), layer.kept(kept, 3, 4)
        self.directs = np.empty((2, *hx.shape), layer.dtype)
        """Gradients of a state through the update gate: those of the last step, and a buffer for the next one's."""
        self.at = 0

    @property
    def direct(self) -> Array:
        """Gradient of the state before the steps so far, through the update gate."""
        made: Array = self.directs[self.at]
        return made

    def step(self, t: int, grad: Array, *args: Array) -> None:
        """Compute a step's gate gradients, and the gradient of the previous state through the update gate."""
        before = self.output[t - 1] if t else self.hx
        self.loop(self.to[t], self.hidden[t], self.direct, self.every[t], self.shares[t], before, grad, *args)

    def many(self, many: ManySteps, panels: Array, product: Array, *output_grads: Array) -> None:
        """Compute all steps but the last, which is done, and the first; `product` is the gradient of a state."""
        last = len(self.to) - 1
        stride = self.directs.strides[0] * (1 - 2 * self.at)
        arrays = [
            steps_from(self.to, last - 1, -1),
            steps_from(self.hidden, last - 1, -1),
            StepArray(self.directs[1 - self.at], -stride, True),
            steps_from(self.every, last - 1, -1),
            steps_from(self.shares, last - 1, -1),
            steps_from(self.output, last - 2, -1),
            StepArray(product, 0),
            StepArray(self.direct, stride, True),
            *(steps_from(each, last - 1, -1) for each in output_grads),
        ]
        many.run(last - 1, panels, steps_from(self.hidden, last, -1), product, arrays)
        self.at = (self.at + last - 1) % 2


class SimpleGradient:
    """The gradients of gates whose only activation is tanh or relu, with a compiled loop for each step."""

    def __init__(self, loop: Any, output: Array, to: Array) -> None:
        self.loop, self.output, self.to = loop, output, to

    def step(self, t: int, grad: Array, *args: Array) -> None:
        """Compute a step's gate gradients from the summands of its hidden state's gradient."""
        self.loop(self.to[t], self.output[t], grad, *args)

    def many(self, many: ManySteps, panels: Array, product: Array, *output_grads: Array) -> None:
        """Compute all steps but the last, which is done, and the first; `product` is the gradient of a state."""
        last = len(self.to) - 1
        arrays = [
            steps_from(self.to, last - 1, -1),
            steps_from(self.output, last - 1, -1),
            StepArray(product, 0),
            *(steps_from(each, last - 1, -1) for each in output_grads),
        ]
        many.run(last - 1, panels, steps_from(self.to, last, -1), product, arrays)

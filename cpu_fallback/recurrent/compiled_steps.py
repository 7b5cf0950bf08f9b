"""All steps of a recurrent layer, each by a matmul and a compiled loop (`compiled.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..plain_numpy import np

if TYPE_CHECKING:
    from ...runtime.cpu.loop_requests import Loop
    from .layers import Layer

Array = np.ndarray[Any, Any]


def run_lstm(
    layer: Layer,
    step: Loop,
    share: Array,
    output: Array,
    cy: Array,
    kept: Array,
    h: Array,
    c: Array,
    w: Array,
) -> None:
    """Compute what `layers._lstm` does, with a compiled loop for each step."""
    rows, n = layer.rows, layer.width
    product = np.empty((rows, 4 * n), layer.dtype)
    every = layer.kept(kept, 0, 4).reshape(-1, rows, 4 * n)
    cells, squashed = layer.kept(kept, 4, 5), layer.kept(kept, 5, 6)
    if len(every) == 1:  # A loop writes no array that it reads.
        cells = np.stack([cells[0], np.empty_like(cells[0])])
    c = np.ascontiguousarray(c)
    for t in range(layer.steps):
        at = t if len(every) > 1 else 0
        cell, hidden = cells[t if len(every) > 1 else t % 2], output[t]
        np.dot(h, w, product)
        step(every[at], cell, squashed[at], hidden, product, share[t], c)
        h, c = hidden, cell
    np.copyto(cy, c.reshape(rows, n))


def run_gru(
    layer: Layer, step: Loop, share: Array, output: Array, bias: Array | None, kept: Array, h: Array, w: Array
) -> None:
    """Compute what `layers._gru` does, with a compiled loop for each step."""
    rows, n = layer.rows, layer.width
    product = np.empty((rows, 3 * n), layer.dtype)
    every = layer.kept(kept, 0, 3).reshape(-1, rows, 3 * n)
    shares = layer.kept(kept, 3, 4)
    bias = None if bias is None else np.ascontiguousarray(bias)
    for t in range(layer.steps):
        at, hidden = t if len(every) > 1 else 0, output[t]
        np.dot(h, w, product)
        step(every[at], shares[at], hidden, product, share[t], h, bias)
        h = hidden


def run_tanh(layer: Layer, step: Loop, share: Array, output: Array, h: Array, w: Array) -> None:
    """Compute what `layers._simple` does, with a compiled loop for each step."""
    product = np.empty((layer.rows, layer.width), layer.dtype)
    for t in range(layer.steps):
        np.dot(h, w, product)
        step(output[t], product, share[t])
        h = output[t]


class LstmGradient:
    """The gradients of an LSTM's gates, with a compiled loop for each step."""

    def __init__(self, layer: Layer, loop: Any, kept: Array, cx: Array, grad_cy: Any, to: Array) -> None:
        self.loop, self.cx, self.to = loop, np.ascontiguousarray(cx), to
        self.every, self.cells, self.squashed = (layer.kept(kept, *k) for k in ((0, 4), (4, 5), (5, 6)))
        self.change = np.zeros(cx.shape, layer.dtype) if grad_cy is None else np.array(grad_cy, order="C")
        self.other = np.empty(cx.shape, layer.dtype)

    def step(self, t: int, grad: Array, *args: Array) -> None:
        """Compute a step's gate gradients from the summands of its hidden state's gradient."""
        before = self.cells[t - 1] if t else self.cx
        self.loop(self.to[t], self.other, self.every[t], self.squashed[t], before, self.change, grad, *args)
        self.change, self.other = self.other, self.change


class GruGradient:
    """The gradients of a GRU's gates, with a compiled loop for each step."""

    def __init__(
        self, layer: Layer, loop: Any, kept: Array, hx: Array, output: Array, to: Array, hidden: Array
    ) -> None:
        self.loop, self.hx, self.output, self.to, self.hidden = loop, hx, output, to, hidden
        self.every, self.shares = layer.kept(kept, 0, 3), layer.kept(kept, 3, 4)
        self.direct = np.empty(hx.shape, layer.dtype)

    def step(self, t: int, grad: Array, *args: Array) -> None:
        """Compute a step's gate gradients, and the gradient of the previous state through the update gate."""
        before = self.output[t - 1] if t else self.hx
        self.loop(self.to[t], self.hidden[t], self.direct, self.every[t], self.shares[t], before, grad, *args)

"""All steps of a recurrent layer on the CPU, forward and backward, in float32 or float64.

A step is one matmul and passes over memory in the cache. Weight gradients are one matmul over all steps. The
activation derivatives that backward needs are computed for several steps at a time, so that a step has few
calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.meta.recurrent import GATES, GRU, LSTM, RELU
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cpu.loop_requests import Loop
from ...runtime.float_errors import quietly
from ..elementwise.pointwise_math import sigmoid_in
from ..normalization.moments import column_sums
from ..plain_numpy import np
from ..widen import FULL_FLOATS
from . import compiled
from .compiled_steps import Forward, GruGradient, LstmGradient, SimpleGradient
from .many_steps import ManySteps, many_steps

Array = np.ndarray[Any, Any]

TOGETHER = 1 << 15
"""Elements of gates whose derivatives are computed together: they stay in a core's second-level cache."""

TURNED_FROM = 4
"""Steps from which a transposed copy of the weights pays: BLAS takes few rows by them in half the time."""


class Layer:
    """The sizes of a layer, and its arrays in the order of its steps."""

    def __init__(self, call: StructuredCall, steps: int) -> None:
        spec = call.args["hx"]
        if spec.dtype not in FULL_FLOATS:
            raise NotImplementedError(f"\"{call.name}\" not implemented for '{spec.dtype.scalar_name}'")
        self.mode: int = call.extra["mode"]
        self.is_reverse: bool = call.extra["reverse"]
        self.steps, (self.rows, self.width) = steps, spec.sizes
        self.kept_steps: int = call.extra["steps"]
        self.gates = GATES[self.mode]
        self.dtype = spec.np_dtype
        self.step_work = self.rows * self.gates * self.width**2
        """Multiplications of a step's matmul."""
        self.dot: Callable[[Array, Array], Array] = compiled.one_thread_for_small(np.dot, self.step_work)

    def in_order(self, array: Array) -> Array:
        """Return an array of all steps in processing order."""
        return array[::-1] if self.is_reverse else array

    def kept(self, workspace: Array, begin: int, end: int) -> Array:
        """Return a range of the kept values (steps, rows, end - begin, width), of all steps or of one."""
        size = self.rows * self.width
        part = workspace[:, begin * size : end * size]
        return self.in_order(part.reshape(self.kept_steps, self.rows, end - begin, self.width))

    def products(self, gates: Array, output: Array, hx: Array) -> Array:
        """Compute gates^T @ previous hidden states, summed over all steps."""
        later, before = (gates[:-1], output[1:]) if self.is_reverse else (gates[1:], output[:-1])
        first = gates[-1] if self.is_reverse else gates[0]
        made = self.dot(first.T, hx)
        if len(later):
            width = gates.shape[-1]
            made += np.dot(later.reshape(-1, width).T, before.reshape(-1, self.width))
        return made


def _lstm(
    layer: Layer, share: Array, output: Array, cy: Array, kept: Array, h: Array, c: Array, w: Array
) -> None:
    """Compute c' = f c + i g, h' = o tanh(c'); keep the activated gates i, f, g, o, and c' and tanh(c')."""
    rows, n = layer.rows, layer.width
    sigmoid = sigmoid_in(layer.dtype)
    buffers, product = np.empty((2, rows, n), layer.dtype), np.empty((rows, 4 * n), layer.dtype)
    candidate, added = buffers
    every = layer.kept(kept, 0, 4).reshape(-1, rows, 4 * n)
    cells = layer.kept(kept, 4, 5)[:, :, 0]
    squashed = layer.kept(kept, 5, 6)[:, :, 0]
    for t in range(layer.steps):
        at = t if len(every) > 1 else 0
        gates, cell, bounded, hidden = every[at], cells[at], squashed[at], output[t]
        np.dot(h, w, product)
        np.add(product, share[t], gates)
        own = gates[:, 2 * n : 3 * n]
        np.tanh(own, candidate)
        sigmoid(gates, gates)
        np.copyto(own, candidate)
        np.multiply(gates[:, n : 2 * n], c, cell)
        np.multiply(gates[:, :n], candidate, added)
        np.add(cell, added, cell)
        np.tanh(cell, bounded)
        np.multiply(gates[:, 3 * n :], bounded, hidden)
        h, c = hidden, cell
    np.copyto(cy, c)


def _gru(layer: Layer, share: Array, output: Array, bias: Any, kept: Array, h: Array, w: Array) -> None:
    """Compute h' = n + z (h - n) with n = tanh(x_n + r h_n); keep r, z, n and h_n."""
    rows, n = layer.rows, layer.width
    sigmoid = sigmoid_in(layer.dtype)
    product = np.empty((rows, 3 * n), layer.dtype)
    both = product[:, : 2 * n]
    every = layer.kept(kept, 0, 3).reshape(-1, rows, 3 * n)
    shares = layer.kept(kept, 3, 4)[:, :, 0]
    for t in range(layer.steps):
        at = t if len(every) > 1 else 0
        gates, of_hidden, inputs, hidden = every[at], shares[at], share[t], output[t]
        np.dot(h, w, product)
        if bias is not None:
            np.add(product, bias, product)
        np.copyto(of_hidden, product[:, 2 * n :])
        first, new = gates[:, : 2 * n], gates[:, 2 * n :]
        np.add(both, inputs[:, : 2 * n], first)
        sigmoid(first, first)
        np.multiply(gates[:, :n], of_hidden, new)
        np.add(new, inputs[:, 2 * n :], new)
        np.tanh(new, new)
        np.subtract(h, new, hidden)
        np.multiply(hidden, gates[:, n : 2 * n], hidden)
        np.add(hidden, new, hidden)
        h = hidden


def _simple(layer: Layer, share: Array, output: Array, h: Array, w: Array) -> None:
    """Compute h' = tanh or relu of the gates."""
    zero = np.zeros((), layer.dtype)
    for t in range(layer.steps):
        hidden = output[t]
        np.dot(h, w, hidden)
        np.add(hidden, share[t], hidden)
        if layer.mode == RELU:
            np.maximum(hidden, zero, out=hidden)
        else:
            np.tanh(hidden, hidden)
        h = hidden


def _forward_loops(layer: Layer, call: StructuredCall) -> Forward | None:
    """Return the loops of steps; None if NumPy computes them."""
    spec, mode, rows, n = call.args["input_gates"], layer.mode, layer.rows, layer.width
    if spec.strides[-1] != 1 or not compiled.is_worth(mode, layer.dtype, layer.steps, rows * spec.sizes[-1]):
        return None
    row = spec.strides[1]
    if mode == LSTM:
        cell = compiled.lstm_cell(n, row)
    elif mode == GRU:
        cell = compiled.gru_cell(n, row, call.args["bias_hh"] is not None)
    else:
        cell = compiled.simple_cell(mode, n, row)
    step = compiled.step_loop(cell, mode, rows, n)
    if step is None:
        return None
    return Forward(layer, step, many_steps(cell, layer.steps, rows, n, n, layer.gates * n, n))


def rnn_layer(call: StructuredCall) -> PlannedKernel:
    """Compute the hidden states of all steps, the last states, and the tensors that backward needs."""
    layer = Layer(call, call.args["input_gates"].sizes[0])
    loops = _forward_loops(layer, call)

    def by_loop(
        output: Any, hy: Any, cy: Any, kept: Any, gates: Any, hx: Any, cx: Any, weight: Any, bias: Any
    ) -> None:
        assert loops is not None
        share, made = layer.in_order(gates), layer.in_order(output)
        hx = np.ascontiguousarray(hx)
        if layer.mode == LSTM:
            loops.lstm(share, made, cy, kept, hx, cx, weight)
        elif layer.mode == GRU:
            loops.gru(share, made, bias, kept, hx, weight)
        else:
            loops.simple(share, made, hx, weight)
        np.copyto(hy, made[-1])

    def by_numpy(
        output: Any, hy: Any, cy: Any, kept: Any, gates: Any, hx: Any, cx: Any, weight: Any, bias: Any
    ) -> None:
        share, made = layer.in_order(gates), layer.in_order(output)
        hx = np.ascontiguousarray(hx)
        w = np.ascontiguousarray(weight.T) if layer.steps >= TURNED_FROM else weight.T
        if layer.mode == LSTM:
            _lstm(layer, share, made, cy, kept, hx, cx, w)
        elif layer.mode == GRU:
            _gru(layer, share, made, bias, kept, hx, w)
        else:
            _simple(layer, share, made, hx, w)
        np.copyto(hy, made[-1])

    compute = by_numpy if loops is None else by_loop
    return PlannedKernel(quietly(compiled.one_thread_for_small(compute, layer.step_work)))


def _times_state_before(target: Array, states: Array, first: Array, begin: int, end: int) -> None:
    """Multiply each of the steps from `begin` to `end` by the state before it."""
    if begin == 0:
        target[0] *= first
        target[1:] *= states[: end - 1]
    else:
        target *= states[begin - 1 : end - 1]


class _Lstm:
    """The gradients of an LSTM's gates: each is a derivative times the gradient of h' (o) or of c' (i, f, g)."""

    def __init__(self, layer: Layer, kept: Array, cx: Array, grad_cy: Any, to: Array) -> None:
        self.layer, self.cx, self.to = layer, cx, to
        self.every = layer.kept(kept, 0, 4)
        self.cells, self.squashed = layer.kept(kept, 4, 5)[:, :, 0], layer.kept(kept, 5, 6)[:, :, 0]
        self.change = np.zeros(cx.shape, layer.dtype) if grad_cy is None else np.array(grad_cy)
        self.scratch = np.empty(cx.shape, layer.dtype)

    def prepare(self, begin: int, end: int) -> None:
        """Compute the activation derivatives of some steps."""
        kept, made = self.every[begin:end], self.to[begin:end]
        i, g, o = (kept[:, :, k] for k in (0, 2, 3))
        np.subtract(1, kept, made)
        np.multiply(made, kept, made)
        made[:, :, 0] *= g
        _times_state_before(made[:, :, 1], self.cells, self.cx, begin, end)
        bounded = self.squashed[begin:end]
        made[:, :, 3] *= bounded
        of_g = made[:, :, 2]
        np.multiply(g, g, of_g)
        np.subtract(1, of_g, of_g)
        of_g *= i
        self.slopes = np.multiply(bounded, bounded)
        np.subtract(1, self.slopes, self.slopes)
        self.slopes *= o
        self.begin = begin

    def step(self, t: int, grad: Array) -> None:
        """Compute a step's gate gradients from its hidden state's gradient, then the gradient of the previous
        cell state.
        """
        made, change, scratch = self.to[t], self.change, self.scratch
        np.multiply(made[:, 3], grad, made[:, 3])
        np.multiply(self.slopes[t - self.begin], grad, scratch)
        np.add(change, scratch, change)
        np.multiply(made[:, :3], change[:, None], made[:, :3])
        np.multiply(change, self.every[t, :, 1], change)


class _Gru:
    """The gradients of a GRU's gates; `hidden` holds those of the hidden state's share."""

    def __init__(self, layer: Layer, kept: Array, hx: Array, output: Array, to: Array, hidden: Array) -> None:
        self.hx, self.output, self.to, self.hidden = hx, output, to, hidden
        self.every, self.shares = layer.kept(kept, 0, 3), layer.kept(kept, 3, 4)[:, :, 0]

    def prepare(self, begin: int, end: int) -> None:
        """Compute the activation derivatives of some steps."""
        kept, made = self.every[begin:end], self.to[begin:end]
        r, z, n = (kept[:, :, k] for k in range(3))
        of_r, of_z, of_n = (made[:, :, k] for k in range(3))
        np.subtract(1, r, of_r)
        of_r *= r
        of_r *= self.shares[begin:end]
        if begin == 0:
            np.subtract(self.hx, n[0], of_z[0])
            np.subtract(self.output[: end - 1], n[1:], of_z[1:])
        else:
            np.subtract(self.output[begin - 1 : end - 1], n, of_z)
        left = np.subtract(1, z)
        of_z *= z
        of_z *= left
        np.multiply(n, n, of_n)
        np.subtract(1, of_n, of_n)
        of_n *= left

    def step(self, t: int, grad: Array) -> None:
        """Compute a step's gate gradients, and turn the hidden state's gradient into that of the previous state."""
        made, hidden, kept = self.to[t], self.hidden[t], self.every[t]
        np.multiply(made[:, 1:], grad[:, None], made[:, 1:])
        np.multiply(made[:, 0], made[:, 2], made[:, 0])
        np.copyto(hidden[:, :2], made[:, :2])
        np.multiply(made[:, 2], kept[:, 0], hidden[:, 2])
        np.multiply(grad, kept[:, 1], grad)


class _Simple:
    """The gradients of gates whose only activation is tanh or relu."""

    def __init__(self, layer: Layer, output: Array, to: Array) -> None:
        self.output, self.to, self.is_relu = output, to, layer.mode == RELU

    def prepare(self, begin: int, end: int) -> None:
        """Compute the activation derivatives of some steps."""
        made, states = self.to[begin:end, :, 0], self.output[begin:end]
        if self.is_relu:
            np.greater(states, 0, made, casting="unsafe")
        else:
            np.multiply(states, states, made)
            np.subtract(1, made, made)

    def step(self, t: int, grad: Array) -> None:
        """Compute a step's gate gradients from the gradient of its hidden state."""
        made = self.to[t, :, 0]
        np.multiply(made, grad, made)


def _backward_loops(layer: Layer, call: StructuredCall) -> tuple[Loop, ManySteps | None] | None:
    """Return the loops of one step's gradients, and of many steps; None if NumPy computes them."""
    rows, n = layer.rows, layer.width
    is_worth = compiled.is_worth(layer.mode, layer.dtype, layer.steps, rows * layer.gates * n)
    if not is_worth or not call.args["output"].is_contiguous:
        return None
    grad_rows = [] if call.args["grad_output"] is None else [n]
    if layer.mode == LSTM:
        one = many = compiled.lstm_gradient_cell(n, *grad_rows or [None])
    elif layer.mode != GRU:
        one = many = compiled.simple_gradient_cell(layer.mode, n, *grad_rows or [None])
    else:
        one, many = (compiled.gru_gradient_cell(n, [*states, *grad_rows]) for states in ([n], [n, n]))
    step = compiled.step_loop(one, layer.mode, rows, n)
    if step is None:
        return None
    terms = layer.gates * n
    return step, many_steps(many, layer.steps, rows, n, terms, n, terms)


def rnn_layer_backward(call: StructuredCall) -> PlannedKernel:
    """Compute the gradients of input gates, initial states, weights, and a GRU's bias."""
    layer = Layer(call, call.args["output"].sizes[0])
    steps, rows, n, count = layer.steps, layer.rows, layer.width, layer.gates
    together = max(1, TOGETHER // (count * rows * n))
    parts = [(max(end - together, 0), end) for end in range(steps, 0, -together)]
    loops = _backward_loops(layer, call)

    def by_loop(
        out: Any,
        hidden: Any,
        grad_output: Any,
        grad: Any,
        grad_cy: Any,
        hx: Any,
        cx: Any,
        weight: Any,
        output: Any,
        kept: Any,
    ) -> tuple[Any, Any]:
        """Compute the gradients of all gates; return those of the first states."""
        assert loops is not None
        loop, many = loops
        made, of_hidden = layer.in_order(out), layer.in_order(hidden)
        states = layer.in_order(output)
        output_grads = () if grad_output is None else (layer.in_order(np.ascontiguousarray(grad_output)),)
        before = np.empty((rows, n), layer.dtype)
        gradient: LstmGradient | GruGradient | SimpleGradient
        if layer.mode == LSTM:
            gradient = LstmGradient(layer, loop, kept, cx, grad_cy, made)
        elif layer.mode != GRU:
            gradient = SimpleGradient(loop, states, made)
        else:
            gradient = GruGradient(layer, loop, kept, hx, states, made, of_hidden)

        def of_state_before(t: int, grad: Array) -> Array:
            """Return the gradient of the state before a step; it may reuse the memory of the step's own."""
            nonlocal before
            np.dot(of_hidden[t], weight, before)
            if isinstance(gradient, GruGradient):
                return np.add(before, gradient.direct, grad)
            made, before = before, grad
            return made

        alone = range(steps - 1, -1, -1) if many is None else (steps - 1, 0)
        for t in alone:
            gradient.step(t, grad, *[each[t] for each in output_grads])
            if many is not None and t:
                gradient.many(many, many.packed(weight), before, *output_grads)
            grad = of_state_before(t if many is None else min(t, 1), grad)
        return grad, gradient.change if isinstance(gradient, LstmGradient) else None

    def by_numpy(
        out: Any,
        hidden: Any,
        grad_output: Any,
        grad: Any,
        grad_cy: Any,
        hx: Any,
        cx: Any,
        weight: Any,
        output: Any,
        kept: Any,
    ) -> tuple[Any, Any]:
        """Compute the gradients of all gates; return those of the first states."""
        made = layer.in_order(out.reshape(steps, rows, count, n))
        states = layer.in_order(output)
        of_hidden = layer.in_order(hidden)
        cell: _Lstm | _Gru | _Simple
        if layer.mode == LSTM:
            cell = _Lstm(layer, kept, cx, grad_cy, made)
        elif layer.mode == GRU:
            cell = _Gru(layer, kept, hx, states, made, of_hidden.reshape(steps, rows, count, n))
        else:
            cell = _Simple(layer, states, made)
        output_grads = None if grad_output is None else layer.in_order(grad_output)
        before = np.empty((rows, n), layer.dtype)
        for begin, end in parts:
            cell.prepare(begin, end)
            for t in range(end - 1, begin - 1, -1):
                if output_grads is not None:
                    np.add(grad, output_grads[t], grad)
                cell.step(t, grad)
                np.dot(of_hidden[t], weight, before)
                if layer.mode == GRU:
                    np.add(grad, before, grad)
                else:
                    grad, before = before, grad
        return grad, cell.change if isinstance(cell, _Lstm) else None

    compute = compiled.one_thread_for_small(by_numpy if loops is None else by_loop, layer.step_work)

    def into(
        out: Any,
        to_hx: Any,
        to_cx: Any,
        to_weight: Any,
        to_bias: Any,
        grad_output: Any,
        grad_hy: Any,
        grad_cy: Any,
        hx: Any,
        cx: Any,
        weight: Any,
        output: Any,
        kept: Any,
    ) -> None:
        hx = np.ascontiguousarray(hx)
        hidden = np.empty(out.shape, layer.dtype) if layer.mode == GRU else out
        grad = np.zeros((rows, n), layer.dtype) if grad_hy is None else np.array(grad_hy, order="C")
        grad, change = compute(out, hidden, grad_output, grad, grad_cy, hx, cx, weight, output, kept)
        np.copyto(to_hx, grad)
        if to_cx is not None:
            np.copyto(to_cx, change)
        np.copyto(to_weight, layer.products(hidden, output, hx))
        if to_bias is not None:
            np.copyto(to_bias, column_sums(hidden.reshape(steps * rows, -1)), casting="unsafe")

    return PlannedKernel(quietly(into))


register_stub("fused_rnn_layer_stub", "cpu", rnn_layer)
register_stub("fused_rnn_layer_backward_stub", "cpu", rnn_layer_backward)

"""Loops of one step of a recurrent layer: all elements of the hidden state, in float32, forward or backward.

Arrays have a row for each sequence. Outputs come first, then inputs, each in the order of `CELLS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...runtime.cpu.element_loop import Loop
from ...runtime.cpu.element_program import ElementProgram, Value
from ...runtime.cpu.elementary_functions import F32, number
from ...runtime.cpu.hyperbolic_tangent import sigmoid, tanh
from ...runtime.cpu.llvm_source import write_loop
from ...runtime.cpu.object_code import loop_function, target


class _Cell:
    """Arithmetic of float32 values."""

    def __init__(self) -> None:
        self.p = ElementProgram(True, True)
        self.zero, self.one = number(self.p, 0), number(self.p, 1)

    def add(self, a: Value, b: Value) -> Value:
        return self.p.arithmetic("add", a, b)

    def sub(self, a: Value, b: Value) -> Value:
        return self.p.arithmetic("sub", a, b)

    def mul(self, a: Value, b: Value, *more: Value) -> Value:
        made = self.p.arithmetic("mul", a, b)
        return self.mul(made, *more) if more else made

    def tanh(self, a: Value) -> Value:
        return tanh(self.p, a)

    def sigmoid(self, a: Value) -> Value:
        return sigmoid(self.p, a)

    def slope(self, a: Value) -> Value:
        """Return the derivative of sigmoid, given its value."""
        return self.mul(self.sub(self.one, a), a)

    def tanh_slope(self, a: Value) -> Value:
        """Return the derivative of tanh, given its value."""
        return self.sub(self.one, self.mul(a, a))


def lstm(k: _Cell, values: Sequence[Value]) -> list[Value]:
    """Return the activated gates i, f, g, o, c' = f c + i g, tanh(c') and h' = o tanh(c').

    Inputs: the products of the hidden state, the shares of the input, and c.
    """
    *sums, c = values
    gates = [k.add(a, b) for a, b in zip(sums[:4], sums[4:], strict=True)]
    i, f, o = (k.sigmoid(gates[j]) for j in (0, 1, 3))
    g = k.tanh(gates[2])
    cell = k.add(k.mul(f, c), k.mul(i, g))
    bounded = k.tanh(cell)
    return [i, f, g, o, cell, bounded, k.mul(o, bounded)]


def lstm_backward(k: _Cell, values: Sequence[Value]) -> list[Value]:
    """Return the gradients of the gates i, f, g, o, and of c.

    Inputs: i, f, g, o, tanh(c'), c, the gradient of c', and one or two summands of the gradient of h'.
    """
    i, f, g, o, bounded, c, grad_cell, grad, *more = values
    for each in more:
        grad = k.add(grad, each)
    through = k.add(grad_cell, k.mul(k.tanh_slope(bounded), o, grad))
    return [
        k.mul(k.slope(i), g, through),
        k.mul(k.slope(f), c, through),
        k.mul(k.tanh_slope(g), i, through),
        k.mul(k.slope(o), bounded, grad),
        k.mul(through, f),
    ]


def gru(k: _Cell, values: Sequence[Value]) -> list[Value]:
    """Return r, z, n, the operand h_n of the reset gate, and h' = n + z (h - n) with n = tanh(x_n + r h_n).

    Inputs: the products of the hidden state, the shares of the input, h, and the bias of the products, if any.
    """
    products, shares, h, bias = list(values[:3]), values[3:6], values[6], values[7:]
    if bias:
        products = [k.add(a, b) for a, b in zip(products, bias, strict=True)]
    r, z = (k.sigmoid(k.add(products[j], shares[j])) for j in range(2))
    n = k.tanh(k.add(k.mul(r, products[2]), shares[2]))
    return [r, z, n, products[2], k.add(k.mul(k.sub(h, n), z), n)]


def gru_backward(k: _Cell, values: Sequence[Value]) -> list[Value]:
    """Return the gradients of the gates r, z, n, those of the hidden state's share, and the gradient of h through z.

    Inputs: r, z, n, h_n, h, and one to three summands of the gradient of h'.
    """
    r, z, n, of_hidden, h, grad, *more = values
    for each in more:
        grad = k.add(grad, each)
    of_z = k.mul(k.sub(h, n), k.slope(z), grad)
    of_n = k.mul(k.tanh_slope(n), k.sub(k.one, z), grad)
    of_r = k.mul(k.slope(r), of_hidden, of_n)
    return [of_r, of_z, of_n, of_r, of_z, k.mul(of_n, r), k.mul(grad, z)]


def simple_tanh(k: _Cell, values: Sequence[Value]) -> list[Value]:
    """Return h' = tanh of the sum of the hidden state's product and the input's share."""
    return [k.tanh(k.add(*values))]


def simple_relu(k: _Cell, values: Sequence[Value]) -> list[Value]:
    """Return h' = relu of the same sum."""
    return [k.p.maximum(k.add(*values), k.zero)]


def tanh_backward(k: _Cell, values: Sequence[Value]) -> list[Value]:
    """Return the gradient of the gate; inputs: h', and one or two summands of its gradient."""
    hidden, grad, *more = values
    for each in more:
        grad = k.add(grad, each)
    return [k.mul(k.tanh_slope(hidden), grad)]


def relu_backward(k: _Cell, values: Sequence[Value]) -> list[Value]:
    """Return the gradient of the gate; inputs: h', and one or two summands of its gradient."""
    hidden, grad, *more = values
    for each in more:
        grad = k.add(grad, each)
    return [k.mul(k.p.select(k.p.compare("gt", hidden, k.zero), k.one, k.zero), grad)]


CELLS: dict[str, tuple[int, Callable[[_Cell, Sequence[Value]], list[Value]]]] = {
    "lstm": (9, lstm),
    "lstm_backward": (8, lstm_backward),
    "lstm_backward_of_outputs": (9, lstm_backward),
    "gru": (7, gru),
    "gru_with_bias": (10, gru),
    "gru_backward": (6, gru_backward),
    "gru_backward_of_outputs": (7, gru_backward),
    "gru_backward_of_two_states": (8, gru_backward),
    "tanh": (2, simple_tanh),
    "tanh_backward": (2, tanh_backward),
    "tanh_backward_of_outputs": (3, tanh_backward),
    "relu": (2, simple_relu),
    "relu_backward": (2, relu_backward),
    "relu_backward_of_outputs": (3, relu_backward),
}
"""Number of inputs, and the values of an element."""


def recurrent_loop(name: str) -> Callable[..., None] | None:
    """Return the loop ``loop((rows, width, *layout), *outputs, *inputs)``.

    Return None if the processor has no fused multiply-add.

    The layout has three numbers for each array: its offset, and its steps between rows and between elements, in bytes.
    """
    found = target()
    if found is None or not found.fuses:
        return None
    count, function = CELLS[name]
    k = _Cell()
    reads = tuple([k.p.value("input", F32, detail=i) for i in range(count)])
    writes = tuple([(value, f"o{i}") for i, value in enumerate(function(k, reads))])
    return loop_function(write_loop(Loop(reads, writes), ["unit"] * (len(writes) + count), 2))

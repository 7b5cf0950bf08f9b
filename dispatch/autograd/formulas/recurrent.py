"""Derivative formulas of the fused LSTM and GRU steps.

Backward uses the saved workspace, unless it is to be differentiated itself. Tangents use ordinary operators: a step
is linear in the tangents of its gates, whether they come from the input or the hidden state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...generated import functions as ops
from ..tangents import is_differentiated

if TYPE_CHECKING:
    from ...tensor import Tensor


def lstm_cell_backward(
    grads: Sequence[Any],
    input_gates: Tensor,
    hidden_gates: Tensor,
    cx: Tensor,
    input_bias: Tensor | None,
    hidden_bias: Tensor | None,
    cy: Tensor,
    workspace: Tensor,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of the input and hidden gates, of the cell state, and of both biases."""
    grad_hy, grad_cy = grads[:2]
    if is_differentiated(grad_hy, grad_cy, input_gates, hidden_gates, input_bias, hidden_bias, cx):
        return ops._thnn_differentiable_lstm_cell_backward(
            grad_hy, grad_cy, input_gates, hidden_gates, input_bias, hidden_bias, cx, cy
        )
    return ops._thnn_fused_lstm_cell_backward(grad_hy, grad_cy, cx, cy, workspace, input_bias is not None)


def gru_cell_backward(
    grad: Tensor,
    input_gates: Tensor,
    hidden_gates: Tensor,
    hx: Tensor,
    input_bias: Tensor | None,
    hidden_bias: Tensor | None,
    workspace: Tensor,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of the input and hidden gates, of the hidden state, and of both biases."""
    if is_differentiated(grad, input_gates, hidden_gates, hx, input_bias, hidden_bias):
        return ops._thnn_differentiable_gru_cell_backward(
            grad, input_gates, hidden_gates, hx, input_bias, hidden_bias
        )
    return ops._thnn_fused_gru_cell_backward(grad, workspace, input_bias is not None)


LSTM, GRU, RELU = 2, 3, 0
"""Layer modes, numbered as in cuDNN."""


def rnn_layer_backward(
    grads: Sequence[Any],
    input_gates: Tensor,
    hx: Tensor,
    cx: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    output: Tensor,
    workspace: Tensor,
    mode: int,
    reverse: bool,
    train: bool,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of the input gates, the initial states, the weights and a GRU's bias.

    Raises RuntimeError if the layer was not run with `train`.
    """
    if not train:
        raise RuntimeError("_fused_rnn_layer: expected train=True where gradients are wanted")
    grad_output, grad_hy, grad_cy = grads[:3]
    if not is_differentiated(grad_output, grad_hy, grad_cy, input_gates, hx, cx, weight, bias):
        made: tuple[Tensor | None, ...] = ops._fused_rnn_layer_backward(
            grad_output, grad_hy, grad_cy, hx, cx, weight, output, workspace, mode, reverse, bias is not None
        )
        return made
    return _differentiable_layer_backward(
        grad_output, grad_hy, grad_cy, input_gates, hx, cx, weight, bias, mode, reverse
    )


def _added(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a + b


def _differentiable_layer_backward(
    grad_output: Tensor | None,
    grad_hy: Tensor | None,
    grad_cy: Tensor | None,
    input_gates: Tensor,
    hx: Tensor,
    cx: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    mode: int,
    reverse: bool,
) -> tuple[Tensor | None, ...]:
    """Compute `rnn_layer_backward` with ordinary operators, for second derivatives; recompute the states step by
    step.
    """
    order = range(input_gates.shape[0])
    shares = input_gates.unbind(0)
    saved_steps: list[Any] = []
    h: Any = hx
    c: Any = cx
    for t in reversed(order) if reverse else order:
        gates = ops.mm(h, weight.t()) if bias is None else ops.addmm(bias, h, weight.t())
        if mode == LSTM:
            new, cell, _ = ops._thnn_fused_lstm_cell(shares[t], gates, c)
        elif mode == GRU:
            new, cell = ops._thnn_fused_gru_cell(shares[t], gates, h)[0], None
        else:
            made = gates + shares[t]
            new, cell = made.relu() if mode == RELU else made.tanh(), None
        saved_steps.append((t, gates, h, c, new, cell))
        h, c = new, cell
    of_h, of_c = grad_hy, grad_cy
    of_shares: list[Any] = [None] * len(order)
    of_weight = of_bias = None
    for t, gates, before, c, new, cell in reversed(saved_steps):
        of_h = _added(of_h, None if grad_output is None else grad_output[t])
        if of_h is None:
            of_h = ops.zeros_like(hx)
        if mode == LSTM:
            of_gates, _, of_c, _, _ = ops._thnn_differentiable_lstm_cell_backward(
                of_h, of_c, shares[t], gates, None, None, c, cell
            )
            of_shares[t], of_h = of_gates, None
        elif mode == GRU:
            of_shares[t], of_gates, of_h, _, _ = ops._thnn_differentiable_gru_cell_backward(
                of_h, shares[t], gates, before, None, None
            )
        else:
            of_gates = ops.threshold_backward(of_h, new, 0) if mode == RELU else ops.tanh_backward(of_h, new)
            of_shares[t], of_h = of_gates, None
        of_weight = _added(of_weight, ops.mm(of_gates.t(), before))
        of_bias = _added(of_bias, None if bias is None else of_gates.sum(0))
        of_h = _added(of_h, ops.mm(of_gates, weight))
    return ops.stack(of_shares, 0), of_h, of_c, of_weight, of_bias


def _lstm_gates(
    input_gates: Tensor, hidden_gates: Tensor, input_bias: Any, hidden_bias: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    gates = input_gates + hidden_gates
    if input_bias is not None:
        gates = gates + input_bias + hidden_bias
    i, f, g, o = gates.chunk(4, 1)
    return i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()


def lstm_cell_gates_cy_jvp(
    t: Tensor, x: Tensor, h: Tensor, x_bias: Tensor | None, h_bias: Tensor | None, cx: Tensor
) -> Tensor:
    """Return the tangent of the cell state from the tangent t of the gates or of a bias."""
    i, f, g, _ = _lstm_gates(x, h, x_bias, h_bias)
    ti, tf, tg, _ = t.chunk(4, -1)
    return ti * (i * (1 - i) * g) + tf * (f * (1 - f) * cx) + tg * (i * (1 - g * g))


def lstm_cell_state_cy_jvp(
    t: Tensor, x: Tensor, h: Tensor, x_bias: Tensor | None, h_bias: Tensor | None
) -> Tensor:
    """Return the tangent of the cell state from the tangent t of the previous cell state."""
    return t * _lstm_gates(x, h, x_bias, h_bias)[1]


def lstm_cell_gates_hy_jvp(
    t: Tensor, x: Tensor, h: Tensor, x_bias: Tensor | None, h_bias: Tensor | None, cx: Tensor, cy: Tensor
) -> Tensor:
    """Return the tangent of the hidden state from the tangent t of the gates or of a bias."""
    o, out = _lstm_gates(x, h, x_bias, h_bias)[3], cy.tanh()
    through = lstm_cell_gates_cy_jvp(t, x, h, x_bias, h_bias, cx)
    return through * (o * (1 - out * out)) + t.chunk(4, -1)[3] * (o * (1 - o) * out)


def lstm_cell_state_hy_jvp(
    t: Tensor, x: Tensor, h: Tensor, x_bias: Tensor | None, h_bias: Tensor | None, cy: Tensor
) -> Tensor:
    """Return the tangent of the hidden state from the tangent t of the previous cell state."""
    _, f, _, o = _lstm_gates(x, h, x_bias, h_bias)
    out = cy.tanh()
    return t * (f * o * (1 - out * out))


def _gru_gates(x: Tensor, h: Tensor, x_bias: Any, h_bias: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if x_bias is not None:
        x, h = x + x_bias, h + h_bias
    (xr, xi, xn), (hr, hi, hn) = x.chunk(3, 1), h.chunk(3, 1)
    r = (xr + hr).sigmoid()
    return r, (xi + hi).sigmoid(), (xn + r * hn).tanh(), hn


def gru_cell_gates_jvp(
    t: Tensor, x: Tensor, h: Tensor, x_bias: Tensor | None, h_bias: Tensor | None, hx: Tensor, of_hidden: bool
) -> Tensor:
    """Return the tangent of the hidden state from the tangent t of the input or hidden gates."""
    r, i, n, hn = _gru_gates(x, h, x_bias, h_bias)
    tr, ti, tn = t.chunk(3, -1)
    new = (tn * r if of_hidden else tn) + tr * (r * (1 - r) * hn)
    return new * ((1 - n * n) * (1 - i)) + ti * (i * (1 - i) * (hx - n))


def gru_cell_state_jvp(
    t: Tensor, x: Tensor, h: Tensor, x_bias: Tensor | None, h_bias: Tensor | None
) -> Tensor:
    """Return the tangent of the hidden state from the tangent t of the previous hidden state."""
    return t * _gru_gates(x, h, x_bias, h_bias)[1]

"""Kernels of fused steps: a tile is [rows, columns of a gate], and gates are a hidden size apart.

The numerics are those of the separate operators of a step, in float32 for 16-bit floats and rounded once,
with quotients and exponentials as in `pointwise_functions`. The workspace holds the forward values that
backward reads.

Sources: S. Hochreiter, J. Schmidhuber, "Long short-term memory", 1997, with the forget gate of F. Gers and
others, 2000; K. Cho and others, "Learning phrase representations using RNN encoder-decoder", 2014, with the
reset gate after the matmul, as in PyTorch.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import STREAMING, Configuration, declare
from ..conversion import convert
from ..elementwise.pointwise_functions import sigmoid, sigmoid_backward, tanh, tanh_backward
from ..normalization.vectors import loaded


@triton.jit
def tile_of(rows, hidden, INDEX: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr):
    """Return the rows and columns of a program's tile."""
    across = tl.cdiv(hidden, BLOCK_COLS)
    block = tl.program_id(0)
    row = (block // across * BLOCK_ROWS).to(INDEX) + tl.arange(0, BLOCK_ROWS)
    column = (block % across * BLOCK_COLS).to(INDEX) + tl.arange(0, BLOCK_COLS)
    return row, column


@triton.jit
def share(x, bias, at, gate, column, hidden, mask, TYPE: tl.constexpr):
    """Load one contribution to a gate, by the gate's number, plus a bias that may be None."""
    value = loaded(x + gate * hidden + at, mask, TYPE)
    if bias is not None:
        value += loaded(bias + gate * hidden + column, column < hidden, TYPE)[None, :]
    return value


@triton.jit
def gate_of(x, h, x_bias, h_bias, at_x, at_h, gate, column, hidden, mask, TYPE: tl.constexpr):
    """Both shares of a gate before activation."""
    return share(x, x_bias, at_x, gate, column, hidden, mask, TYPE) + share(
        h, h_bias, at_h, gate, column, hidden, mask, TYPE
    )


@triton.jit
def lstm_step(
    x,
    h,
    cx,
    x_bias,
    h_bias,
    hy,
    cy,
    kept,
    rows,
    hidden,
    x_row,
    h_row,
    c_row,
    TYPE: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):
    """Compute c' = f c + i g and h' = o tanh(c'), and keep the activated gates i, f, g, o."""
    row, column = tile_of(rows, hidden, INDEX, BLOCK_ROWS, BLOCK_COLS)
    mask = (row < rows)[:, None] & (column < hidden)[None, :]
    at_x, at_h = (row * x_row)[:, None] + column[None, :], (row * h_row)[:, None] + column[None, :]
    i = sigmoid(gate_of(x, h, x_bias, h_bias, at_x, at_h, 0, column, hidden, mask, TYPE))
    f = sigmoid(gate_of(x, h, x_bias, h_bias, at_x, at_h, 1, column, hidden, mask, TYPE))
    g = tanh(gate_of(x, h, x_bias, h_bias, at_x, at_h, 2, column, hidden, mask, TYPE))
    o = sigmoid(gate_of(x, h, x_bias, h_bias, at_x, at_h, 3, column, hidden, mask, TYPE))
    state = loaded(cx + (row * c_row)[:, None] + column[None, :], mask, TYPE)
    state = f * state + i * g
    at = (row * hidden)[:, None] + column[None, :]
    tl.store(cy + at, convert(state, cy.dtype.element_ty), mask=mask)
    tl.store(hy + at, convert(o * tanh(state), hy.dtype.element_ty), mask=mask)
    at = (row * (4 * hidden))[:, None] + column[None, :]
    tl.store(kept + at, convert(i, kept.dtype.element_ty), mask=mask)
    tl.store(kept + hidden + at, convert(f, kept.dtype.element_ty), mask=mask)
    tl.store(kept + 2 * hidden + at, convert(g, kept.dtype.element_ty), mask=mask)
    tl.store(kept + 3 * hidden + at, convert(o, kept.dtype.element_ty), mask=mask)


@triton.jit
def lstm_step_backward(
    grad_hy,
    grad_cy,
    cx,
    cy,
    kept,
    grad_gates,
    grad_cx,
    rows,
    hidden,
    gh_row,
    gc_row,
    c_row,
    cy_row,
    k_row,
    TYPE: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):
    """Compute the gradients of the gates before activation and of the cell state; a gradient of None is zero."""
    row, column = tile_of(rows, hidden, INDEX, BLOCK_ROWS, BLOCK_COLS)
    mask = (row < rows)[:, None] & (column < hidden)[None, :]
    at = (row * k_row)[:, None] + column[None, :]
    i, f = loaded(kept + at, mask, TYPE), loaded(kept + hidden + at, mask, TYPE)
    g, o = loaded(kept + 2 * hidden + at, mask, TYPE), loaded(kept + 3 * hidden + at, mask, TYPE)
    through = tl.zeros((BLOCK_ROWS, BLOCK_COLS), TYPE)
    if grad_cy is not None:
        through = loaded(grad_cy + (row * gc_row)[:, None] + column[None, :], mask, TYPE)
    of_out = tl.zeros((BLOCK_ROWS, BLOCK_COLS), TYPE)
    if grad_hy is not None:
        grad = loaded(grad_hy + (row * gh_row)[:, None] + column[None, :], mask, TYPE)
        out = tanh(loaded(cy + (row * cy_row)[:, None] + column[None, :], mask, TYPE))
        of_out = sigmoid_backward(grad * out, o)
        through += tanh_backward(grad * o, out)
    state = loaded(cx + (row * c_row)[:, None] + column[None, :], mask, TYPE)
    at = (row * hidden)[:, None] + column[None, :]
    tl.store(grad_cx + at, convert(through * f, grad_cx.dtype.element_ty), mask=mask)
    at = (row * (4 * hidden))[:, None] + column[None, :]
    element: tl.constexpr = grad_gates.dtype.element_ty
    tl.store(grad_gates + at, convert(sigmoid_backward(through * g, i), element), mask=mask)
    tl.store(grad_gates + hidden + at, convert(sigmoid_backward(through * state, f), element), mask=mask)
    tl.store(grad_gates + 2 * hidden + at, convert(tanh_backward(through * i, g), element), mask=mask)
    tl.store(grad_gates + 3 * hidden + at, convert(of_out, element), mask=mask)


@triton.jit
def gru_step(
    x,
    h,
    hx,
    x_bias,
    h_bias,
    hy,
    kept,
    rows,
    hidden,
    x_row,
    h_row,
    s_row,
    TYPE: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):
    """Compute h' = n + i (h - n) with n = tanh(x_n + r h_n), and keep r, i, n, h and h_n."""
    row, column = tile_of(rows, hidden, INDEX, BLOCK_ROWS, BLOCK_COLS)
    mask = (row < rows)[:, None] & (column < hidden)[None, :]
    at_x, at_h = (row * x_row)[:, None] + column[None, :], (row * h_row)[:, None] + column[None, :]
    r = sigmoid(gate_of(x, h, x_bias, h_bias, at_x, at_h, 0, column, hidden, mask, TYPE))
    i = sigmoid(gate_of(x, h, x_bias, h_bias, at_x, at_h, 1, column, hidden, mask, TYPE))
    new = share(x, x_bias, at_x, 2, column, hidden, mask, TYPE)
    of_hidden = share(h, h_bias, at_h, 2, column, hidden, mask, TYPE)
    new = tanh(new + r * of_hidden)
    state = loaded(hx + (row * s_row)[:, None] + column[None, :], mask, TYPE)
    at = (row * hidden)[:, None] + column[None, :]
    tl.store(hy + at, convert(new + i * (state - new), hy.dtype.element_ty), mask=mask)
    at = (row * (5 * hidden))[:, None] + column[None, :]
    element: tl.constexpr = kept.dtype.element_ty
    tl.store(kept + at, convert(r, element), mask=mask)
    tl.store(kept + hidden + at, convert(i, element), mask=mask)
    tl.store(kept + 2 * hidden + at, convert(new, element), mask=mask)
    tl.store(kept + 3 * hidden + at, convert(state, element), mask=mask)
    tl.store(kept + 4 * hidden + at, convert(of_hidden, element), mask=mask)


@triton.jit
def gru_step_backward(
    grad_hy,
    kept,
    to_x,
    to_h,
    to_hx,
    rows,
    hidden,
    g_row,
    k_row,
    TYPE: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):
    """Compute the gradients of both kinds of gates before activation, and of the hidden state."""
    row, column = tile_of(rows, hidden, INDEX, BLOCK_ROWS, BLOCK_COLS)
    mask = (row < rows)[:, None] & (column < hidden)[None, :]
    at = (row * k_row)[:, None] + column[None, :]
    r, i = loaded(kept + at, mask, TYPE), loaded(kept + hidden + at, mask, TYPE)
    new, state = loaded(kept + 2 * hidden + at, mask, TYPE), loaded(kept + 3 * hidden + at, mask, TYPE)
    of_hidden = loaded(kept + 4 * hidden + at, mask, TYPE)
    grad = loaded(grad_hy + (row * g_row)[:, None] + column[None, :], mask, TYPE)
    of_new = tanh_backward(grad * (1.0 - i), new)
    of_i = sigmoid_backward(grad * (state - new), i)
    of_r = sigmoid_backward(of_new * of_hidden, r)
    at = (row * hidden)[:, None] + column[None, :]
    tl.store(to_hx + at, convert(grad * i, to_hx.dtype.element_ty), mask=mask)
    at = (row * (3 * hidden))[:, None] + column[None, :]
    element: tl.constexpr = to_x.dtype.element_ty
    tl.store(to_x + at, convert(of_r, element), mask=mask)
    tl.store(to_x + hidden + at, convert(of_i, element), mask=mask)
    tl.store(to_x + 2 * hidden + at, convert(of_new, element), mask=mask)
    tl.store(to_h + at, convert(of_r, element), mask=mask)
    tl.store(to_h + hidden + at, convert(of_i, element), mask=mask)
    tl.store(to_h + 2 * hidden + at, convert(of_new * r, element), mask=mask)


TILE = ("BLOCK_ROWS", "BLOCK_COLS")
CONFIGURATIONS = {
    ("fp32",): (Configuration((4, 128)),),
    ("fp16", "bf16"): (Configuration((4, 256), blocks=7),),
    ("fp64",): (Configuration((4, 64)),),
}
"""Configurations with one access of 128 bits for each lane, of each gate. Eight elements for a lane take 72
registers, which leave 28 warps: with nine operands of 16 bytes a lane in flight.
"""

for _kernel, _operand, _loads, _stores, _operations, _traffic in (
    (lstm_step, "hy", ("x", "h", "cx"), ("hy", "cy", "kept"), "25 n hidden", "15 n hidden itemsize"),
    (
        lstm_step_backward,
        "grad_gates",
        ("grad_hy", "grad_cy", "cx", "cy", "kept"),
        ("grad_gates", "grad_cx"),
        "26 n hidden",
        "13 n hidden itemsize",
    ),
    (gru_step, "hy", ("x", "h", "hx"), ("hy", "kept"), "20 n hidden", "13 n hidden itemsize"),
    (
        gru_step_backward,
        "to_x",
        ("grad_hy", "kept"),
        ("to_x", "to_h", "to_hx"),
        "17 n hidden",
        "13 n hidden itemsize",
    ),
):
    declare(
        _kernel,
        why=STREAMING,
        operand=_operand,
        tile=TILE,
        dtypes=CONFIGURATIONS,
        operations=_operations,
        traffic=_traffic,
        smaller=True,
        loads=_loads,
        stores=_stores,
    )

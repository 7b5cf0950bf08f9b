"""Recurrent layers and their cells, as ATen composes them without a library (ATen/native/RNN.cpp).

One matmul computes the input's part of the gates for the whole sequence, including both biases if they are only added.
A step is then a matmul of the hidden state and a fused kernel. On the CPU, the operator `_fused_rnn_layer` computes a
whole layer, or each run of packed steps with equally many rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...runtime.device import CPU
from ...runtime.dispatch_key import Functionality, functionality_bit
from ...runtime.grad_mode import is_grad_enabled
from ...runtime.local_dispatch_key_set import modes
from ...runtime.scalar_type import float32, float64
from ..autograd.tangents import tangents_of
from ..core.mode_stack import sees_whole, stack
from ..generated import functions as ops
from ..structured.operand_checks import check_ranks

if TYPE_CHECKING:
    from ..tensor import Tensor

_FUNCTIONALIZE_BIT = functionality_bit(Functionality.Functionalize)
_PYTHON_BIT = functionality_bit(Functionality.Python)

State = tuple["Tensor", ...]
"""State of a cell after a step: the hidden state, and an LSTM's cell state."""


class Weights(NamedTuple):
    """Parameters of a layer in one direction; biases and the projection may be None."""

    w_ih: Any
    w_hh: Any
    b_ih: Any = None
    b_hh: Any = None
    w_hr: Any = None


class Cell(NamedTuple):
    """A cell: its input's share of the gates, including added biases, and a step from that share.

    `step` gets the share of one step, the state, the transposed weights of the hidden state, the bias that is not
    in the share, and the transposed projection. `whole_step` takes PyTorch's steps, for a mode that sees them: it gets
    the share, with the input's bias only, the state and the weights.
    """

    share: Callable[[Any, Weights], Any]
    step: Callable[[Any, State, Any, Any, Any], State]
    bias: Callable[[Weights], Any]
    mode: int
    gates: int
    whole_step: Callable[[Any, State, Weights], State]


def _share_with_both(input: Tensor, weights: Weights) -> Tensor:
    bias = weights.b_ih
    if weights.b_hh is not None:
        bias = weights.b_hh if bias is None else bias + weights.b_hh
    return ops.linear(input, weights.w_ih, bias)


def _share_with_one(input: Tensor, weights: Weights) -> Tensor:
    return ops.linear(input, weights.w_ih, weights.b_ih)


def _no_bias(weights: Weights) -> Any:
    return None


def _times(hidden: Tensor, w_hh: Tensor, bias: Tensor | None) -> Tensor:
    return ops.mm(hidden, w_hh) if bias is None else ops.addmm(bias, hidden, w_hh)


def _is_fused(gates: Tensor, state: Tensor) -> bool:
    """Return True if the fused step supports the operands: floats of one dtype, which autocast ensures on CUDA."""
    dtype = gates._spec.dtype
    return dtype.is_floating_point and (dtype is state._spec.dtype or gates._spec.device.type == "cuda")


def _lstm_step(share: Tensor, state: State, w_hh: Tensor, bias: Any, w_hr: Tensor | None) -> State:
    hx, cx = state
    gates = _times(hx, w_hh, bias)
    if _is_fused(share, cx):
        hy, cy, _ = ops._thnn_fused_lstm_cell(share, gates, cx)
    else:
        i, f, g, o = (gates + share).chunk(4, 1)
        cy = f.sigmoid() * cx + i.sigmoid() * g.tanh()
        hy = o.sigmoid() * cy.tanh()
    return (hy if w_hr is None else ops.mm(hy, w_hr)), cy


def _gru_step(share: Tensor, state: State, w_hh: Tensor, bias: Tensor | None, w_hr: Any) -> State:
    (hx,) = state
    gates = _times(hx, w_hh, bias)
    if _is_fused(share, hx):
        return (ops._thnn_fused_gru_cell(share, gates, hx)[0],)
    (r, i, n), (hr, hi, hn) = share.chunk(3, 1), gates.chunk(3, 1)
    new = (n + (r + hr).sigmoid() * hn).tanh()
    return ((hx - new) * (i + hi).sigmoid() + new,)


def _simple_step(activation: Callable[[Any], Any]) -> Callable[[Any, State, Any, Any, Any], State]:
    def step(share: Tensor, state: State, w_hh: Tensor, bias: Any, w_hr: Any) -> State:
        return (activation(_times(state[0], w_hh, bias) + share),)

    return step


def _whole_lstm_step(share: Tensor, state: State, weights: Weights) -> State:
    hx, cx = state
    gates = ops.linear(hx, weights.w_hh, weights.b_hh).add_(share)
    i, f, g, o = gates.unsafe_chunk(4, 1)
    i, f, g, o = i.sigmoid_(), f.sigmoid_(), g.tanh_(), o.sigmoid_()
    cy = (f * cx).add_(i * g)
    hy = o * cy.tanh()
    return (hy if weights.w_hr is None else ops.matmul(hy, weights.w_hr.t())), cy


def _whole_gru_step(share: Tensor, state: State, weights: Weights) -> State:
    (hx,) = state
    xr, xi, xn = share.unsafe_chunk(3, 1)
    hr, hi, hn = ops.linear(hx, weights.w_hh, weights.b_hh).unsafe_chunk(3, 1)
    r = hr.add_(xr).sigmoid_()
    i = hi.add_(xi).sigmoid_()
    n = xn.add(hn.mul_(r)).tanh_()
    return ((hx - n).mul_(i).add_(n),)


def _whole_simple_step(activation: Callable[[Any], Any]) -> Callable[[Any, State, Weights], State]:
    def step(share: Tensor, state: State, weights: Weights) -> State:
        return (activation(ops.linear(state[0], weights.w_hh, weights.b_hh).add_(share)),)

    return step


def _tanh(x: Tensor) -> Tensor:
    return x.tanh()


def _relu(x: Tensor) -> Tensor:
    return x.relu()


LSTM = Cell(_share_with_both, _lstm_step, _no_bias, 2, 4, _whole_lstm_step)
GRU = Cell(_share_with_one, _gru_step, lambda weights: weights.b_hh, 3, 3, _whole_gru_step)
TANH = Cell(_share_with_both, _simple_step(_tanh), _no_bias, 1, 1, _whole_simple_step(_tanh))
RELU = Cell(_share_with_both, _simple_step(_relu), _no_bias, 0, 1, _whole_simple_step(_relu))


def _takes_whole_steps(input: Tensor) -> bool:
    """Return True if a mode sees PyTorch's steps of a cell, which PyTorch's CPU backend composes of operators."""
    return sees_whole() and input._spec.device is CPU


def _transposed(weights: Weights) -> tuple[Tensor, Tensor | None]:
    return weights.w_hh.t(), None if weights.w_hr is None else weights.w_hr.t()


class Steps(NamedTuple):
    """Layer input or output: (T, N, ...), or packed rows with `sizes[t]` rows at step t."""

    data: Any
    sizes: tuple[int, ...] | None = None

    def steps(self) -> list[Tensor]:
        """Return the rows of each step."""
        if self.sizes is None:
            return list(self.data.unbind(0))
        return list(self.data.split_with_sizes(list(self.sizes), 0))

    def made_of(self, steps: Sequence[Tensor]) -> Steps:
        """Return the collection of such steps."""
        return Steps(ops.stack(steps, 0) if self.sizes is None else ops.cat(steps, 0), self.sizes)


def _slice(state: State, begin: int, end: int) -> State:
    return tuple(part.narrow(0, begin, end - begin) for part in state)


def _joined(states: Sequence[State]) -> State:
    return states[0] if len(states) == 1 else tuple(ops.cat(parts, 0) for parts in zip(*states, strict=True))


def _direction(cell: Cell, input: Steps, state: State, weights: Weights, reverse: bool) -> tuple[Any, State]:
    """Return the output of all steps and the last state; for packed sequences, the state after each one's last step."""
    if modes and _takes_whole_steps(input.data):
        return _whole_direction(cell, input, state, weights, reverse)
    share = input._replace(data=cell.share(input.data, weights))
    if input.sizes is not None:
        runs = _equal_runs(share.data, input.sizes)
        if runs and _is_one_operator(cell, runs[0], _slice(state, 0, runs[0]._spec.sizes[1]), weights):
            outputs, end = _over_packed(
                runs,
                [run._spec.sizes[1] for run in runs],
                state,
                reverse,
                lambda run, state: _one_operator(cell, run, state, weights, reverse),
            )
            return ops.cat([output.flatten(0, 1) for output in outputs], 0), end
    elif _is_one_operator(cell, share.data, state, weights):
        return _one_operator(cell, share.data, state, weights, reverse)
    made, end = _by_steps(cell, share, state, weights, reverse)
    return input.made_of(made).data, end


def _equal_runs(packed: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """Return packed steps as (T, N, ...) for each run of T steps with N rows; empty if the sizes are invalid."""
    if packed._spec.ndim != 2 or sum(sizes) != packed._spec.sizes[0] or 0 in sizes:
        return []
    runs = [(size, len(list(steps))) for size, steps in itertools.groupby(sizes)]
    parts = packed.split_with_sizes([size * count for size, count in runs], 0)
    return [part.view(count, size, -1) for part, (size, count) in zip(parts, runs, strict=True)]


def _one_operator(
    cell: Cell, share: Tensor, state: State, weights: Weights, reverse: bool
) -> tuple[Any, State]:
    """Compute all steps by one operator; see `_is_one_operator`."""
    cx = state[1] if len(state) == 2 else None
    output, hy, cy, _ = ops._fused_rnn_layer(
        share, state[0], cx, weights.w_hh, cell.bias(weights), cell.mode, reverse, is_grad_enabled()
    )
    return output, (hy,) if cx is None else (hy, cy)


def _whole_direction(
    cell: Cell, input: Steps, state: State, weights: Weights, reverse: bool
) -> tuple[Any, State]:
    """Compute `_direction` by PyTorch's steps."""
    share = input._replace(data=_share_with_one(input.data, weights))
    whole = cell._replace(step=lambda share, state, *_: cell.whole_step(share, state, weights))
    made, end = _by_steps(whole, share, state, weights, reverse)
    return input.made_of(made).data, end


def _is_one_operator(cell: Cell, share: Tensor, state: State, weights: Weights) -> bool:
    """Return True if `_fused_rnn_layer` supports the call: float32 or float64 CPU tensors without tangents, which are
    plain, functional, or seen by a mode that takes the parts of operators.
    """
    bias = cell.bias(weights)
    supported_keys = _FUNCTIONALIZE_BIT | (_PYTHON_BIT if modes and stack.modes else 0)
    operands = [share, *state, weights.w_hh] + ([] if bias is None else [bias])
    dtype = share._spec.dtype
    if weights.w_hr is not None or dtype not in (float32, float64):
        return False
    for x in operands:
        spec = x._spec
        if spec.dtype is not dtype or spec.device is not CPU or spec.keys & ~supported_keys or tangents_of(x):
            return False
    sizes, hidden = share._spec.sizes, state[0]._spec.sizes
    if len(sizes) != 3 or len(hidden) != 2 or 0 in sizes:
        return False
    rows, width = hidden
    return (
        sizes[1:] == (rows, cell.gates * width)
        and all(x._spec.sizes == hidden for x in state)
        and weights.w_hh._spec.sizes == (cell.gates * width, width)
        and (bias is None or bias._spec.sizes == (cell.gates * width,))
    )


def _by_steps(
    cell: Cell, input: Steps, state: State, weights: Weights, reverse: bool
) -> tuple[list[Any], State]:
    """Return the outputs of all steps, from the input's part of the gates, and the last state; each step is one
    operator.
    """
    steps = input.steps()
    if not steps:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    w_hh, w_hr, bias = None, None, None
    if not modes or not _takes_whole_steps(input.data):
        (w_hh, w_hr), bias = _transposed(weights), cell.bias(weights)

    def advance(share: Tensor, state: State) -> tuple[Any, State]:
        state = cell.step(share, state, w_hh, bias, w_hr)
        return state[0], state

    if input.sizes is not None:
        return _over_packed(steps, input.sizes, state, reverse, advance)
    outputs: list[Any] = []
    for share in reversed(steps) if reverse else steps:
        output, state = advance(share, state)
        outputs.append(output)
    return outputs[::-1] if reverse else outputs, state


def _over_packed(
    parts: Sequence[Tensor],
    sizes: Sequence[int],
    state: State,
    reverse: bool,
    advance: Callable[[Tensor, State], tuple[Any, State]],
) -> tuple[list[Any], State]:
    """Return the outputs of packed sequences, and the state after each sequence's last step.

    Args:
        parts: Steps, or runs of steps with equally many rows, in their order.
        sizes: The number of rows of each part.
        state: The initial state of all rows.
        reverse: If True, begin with the last part.
        advance: Function from a part and the state of its rows to the part's output and the next state.
    """
    outputs: list[Any] = []
    if reverse:
        # In reverse, a sequence enters at its own last step.
        first, count = state, sizes[-1]
        state = _slice(first, 0, count)
        for part, size in zip(reversed(parts), reversed(sizes), strict=True):
            if size > count:
                state, count = _joined((state, _slice(first, count, size))), size
            output, state = advance(part, state)
            outputs.append(output)
        return outputs[::-1], state
    count, ended = sizes[0], []
    for part, size in zip(parts, sizes, strict=True):
        if size < count:
            ended.append(_slice(state, size, count))
            state, count = _slice(state, 0, size), size
        output, state = advance(part, state)
        outputs.append(output)
    return outputs, _joined([state, *reversed(ended)])


def _layers(
    cell: Cell,
    input: Steps,
    states: Sequence[State],
    params: Sequence[Weights],
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Any, State]:
    """Return the output of the last layer, and all states, each (layers * directions, N, H)."""
    directions = 2 if bidirectional else 1
    if bidirectional and (len(states) % 2 or len(params) % 2):
        raise RuntimeError("Odd number of params or hiddens given to a bidirectional RNN")
    if num_layers * directions != len(states):
        raise RuntimeError("Expected more hidden states in stacked_rnn")
    if num_layers * directions != len(params):
        raise RuntimeError("Expected more weights in stacked_rnn")
    ends: list[State] = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            index = layer * directions + direction
            made, end = _direction(cell, input, states[index], params[index], direction == 1)
            outputs.append(made)
            ends.append(end)
        data = outputs[0] if directions == 1 else ops.cat(outputs, outputs[0]._spec.ndim - 1)
        if dropout != 0 and train and layer < num_layers - 1:
            data = ops.dropout(data, dropout, True)
        input = input._replace(data=data)
    return input.data, tuple(ops.stack(parts, 0) for parts in zip(*ends, strict=True))


def _check_devices(input: Tensor, hidden: Sequence[Tensor], params: Sequence[Tensor]) -> None:
    device = input._spec.device
    for name, tensors in (("hidden", hidden), ("parameter", params)):
        for tensor in tensors:
            if tensor._spec.device is not device:
                raise RuntimeError(
                    f"Input and {name} tensors are not at the same device, found input tensor at {device} and {name} "
                    f"tensor at {tensor._spec.device}"
                )


def _gathered(params: Sequence[Tensor], has_biases: bool, projected: bool = False) -> list[Weights]:
    """Return the parameters of each layer and direction."""
    each = (4 if has_biases else 2) + projected
    if len(params) % each:
        raise RuntimeError("got an incorrect number of RNN parameters")

    def layers() -> Iterator[Weights]:
        for start in range(0, len(params), each):
            own = list(params[start : start + each])
            w_hr = own.pop() if projected else None
            yield Weights(*own)._replace(w_hr=w_hr)

    return list(layers())


def _sizes(batch_sizes: Tensor) -> tuple[int, ...]:
    """Return the number of sequences that reach each step, from a tensor in host memory."""
    if batch_sizes._spec.ndim != 1:
        raise RuntimeError(f"batch_sizes tensor should be 1D, but got shape {list(batch_sizes._spec.sizes)}")
    sizes = tuple(int(n) for n in batch_sizes.tolist())
    if not sizes:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    return sizes


def _one_state(
    cell: Cell,
    input: Steps,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Tensor, Tensor]:
    _check_devices(input.data, [hx], params)
    states = [(state,) for state in hx.unbind(0)]
    weights = _gathered(params, has_biases)
    output, (hidden,) = _layers(cell, input, states, weights, num_layers, dropout, train, bidirectional)
    return output, hidden


def _turned_back(output: Tensor) -> Tensor:
    """Return an output with the batch first, by PyTorch's operator for a mode that sees it."""
    return output.transpose_(0, 1) if modes and _takes_whole_steps(output) else output.transpose(0, 1)


def _of_input(cell: Cell) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return the overload of whole sequences of a layer with one state."""

    def layer(input: Tensor, hx: Tensor, params: Sequence[Tensor], *options: Any) -> tuple[Tensor, Tensor]:
        *rest, batch_first = options
        turned = Steps(input.transpose(0, 1) if batch_first else input)
        output, hidden = _one_state(cell, turned, hx, params, *rest)
        return _turned_back(output) if batch_first else output, hidden

    return layer


def _of_data(cell: Cell) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return the overload of packed sequences of a layer with one state."""

    def layer(
        data: Tensor, batch_sizes: Tensor, hx: Tensor, params: Sequence[Tensor], *options: Any
    ) -> tuple[Tensor, Tensor]:
        return _one_state(cell, Steps(data, _sizes(batch_sizes)), hx, params, *options)

    return layer


gru_input, gru_data = _of_input(GRU), _of_data(GRU)
rnn_tanh_input, rnn_tanh_data = _of_input(TANH), _of_data(TANH)
rnn_relu_input, rnn_relu_data = _of_input(RELU), _of_data(RELU)


def _lstm(
    input: Steps,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    if len(hx) != 2:
        raise RuntimeError("lstm expects two hidden states")
    _check_devices(input.data, hx, params)
    for name, state in zip(("hx[0]", "hx[1]"), hx, strict=True):
        check_ranks("lstm", name, state._spec, 3)
    # Different state widths mean that the hidden state is projected.
    projected = hx[0]._spec.sizes[2] != hx[1]._spec.sizes[2]
    states = list(zip(hx[0].unbind(0), hx[1].unbind(0), strict=False))
    weights = _gathered(params, has_biases, projected)
    output, (hy, cy) = _layers(LSTM, input, states, weights, num_layers, dropout, train, bidirectional)
    return output, hy, cy


def lstm_input(
    input: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute `torch.lstm` of whole sequences: (T, N, I), or (N, T, I) if `batch_first`."""
    turned = Steps(input.transpose(0, 1) if batch_first else input)
    output, hy, cy = _lstm(turned, hx, params, has_biases, num_layers, dropout, train, bidirectional)
    return output.transpose(0, 1) if batch_first else output, hy, cy


def lstm_data(
    data: Tensor, batch_sizes: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], *options: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute `torch.lstm` of packed sequences."""
    return _lstm(Steps(data, _sizes(batch_sizes)), hx, params, *options)


def _check_cell(input: Tensor, w_ih: Tensor, w_hh: Tensor, *states: Tensor) -> None:
    def fits(condition: bool, message: str) -> None:
        if not condition:
            raise RuntimeError(message)

    input_size, expected_size = input.size(1), w_ih.size(1)
    fits(
        input_size == expected_size,
        f"input has inconsistent input_size: got {input_size} expected {expected_size}",
    )
    hidden = w_hh.size(1)
    for label, hx in enumerate(states):
        rows, of_state = input.size(0), hx.size(0)
        fits(rows == of_state, f"Input batch size {rows} doesn't match hidden{label} batch size {of_state}")
        width = hx.size(1)
        fits(width == hidden, f"hidden{label} has inconsistent hidden_size: got {width}, expected {hidden}")


def lstm_cell(
    input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Compute `torch.lstm_cell`."""
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    _check_cell(input, w_ih, w_hh, *hx)
    hy, cy = _one_step(LSTM, input, tuple(hx), Weights(w_ih, w_hh, b_ih, b_hh))
    return hy, cy


def _one_step(cell: Cell, input: Tensor, state: State, weights: Weights) -> State:
    if modes and _takes_whole_steps(input):
        return cell.whole_step(_share_with_one(input, weights), state, weights)
    return cell.step(cell.share(input, weights), state, weights.w_hh.t(), cell.bias(weights), None)


def _cell(cell: Cell) -> Callable[..., Any]:
    def one(
        input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None
    ) -> Any:
        _check_cell(input, w_ih, w_hh, hx)
        return _one_step(cell, input, (hx,), Weights(w_ih, w_hh, b_ih, b_hh))[0]

    return one


gru_cell, rnn_tanh_cell, rnn_relu_cell = _cell(GRU), _cell(TANH), _cell(RELU)


def _thnn_fused_lstm_cell_backward(
    grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Compute the gradients of the input and hidden gates, of the cell state, and of both biases."""
    gates, state, bias = ops._thnn_fused_lstm_cell_backward_impl(
        grad_hy, grad_cy, cx, cy, workspace, has_bias
    )
    return gates, gates, state, bias, bias


def _check_gates(name: str, gates: Tensor, count: int) -> None:
    """Refuse gates that are not `count` parts of one width."""
    width = gates._spec.sizes[-1]
    if not width or width % count:
        raise RuntimeError(f"{name}: expected gates of {count} equal parts, but got {width} columns")


def _thnn_differentiable_lstm_cell_backward(
    grad_hy: Tensor | None,
    grad_cy: Any,
    input_gates: Tensor,
    hidden_gates: Tensor,
    input_bias: Tensor | None,
    hidden_bias: Tensor | None,
    cx: Tensor,
    cy: Tensor,
) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None, Tensor | None]:
    """Compute the gradients of an LSTM step with differentiable operators, for second derivatives."""
    if grad_hy is None and grad_cy is None:
        return (None,) * 5
    check_ranks("_thnn_differentiable_lstm_cell_backward", "input_gates", input_gates._spec, 2)
    check_ranks("_thnn_differentiable_lstm_cell_backward", "hidden_gates", hidden_gates._spec, 2)
    for name, bias in (("input_bias", input_bias), ("hidden_bias", hidden_bias)):
        check_ranks("_thnn_differentiable_lstm_cell_backward", name, None if bias is None else bias._spec, 1)
    gates = input_gates + hidden_gates
    for bias in (input_bias, hidden_bias):
        gates = gates if bias is None else gates + bias
    _check_gates("_thnn_differentiable_lstm_cell_backward", gates, 4)
    before = gates.chunk(4, 1)
    i, f, g, o = (x.tanh() if k == 2 else x.sigmoid() for k, x in enumerate(before))
    if grad_hy is None:
        through, of_out = grad_cy, ops.zeros_like(cx)
    else:
        out = cy.tanh()
        of_out = ops.sigmoid_backward(grad_hy * out, o)
        through = ops.tanh_backward(grad_hy * o, out)
        through = through if grad_cy is None else through + grad_cy
    parts = [
        ops.sigmoid_backward(through * g, i),
        ops.sigmoid_backward(through * cx, f),
        ops.tanh_backward(through * i, g),
        of_out,
    ]
    made = ops.cat(parts, 1)
    bias = None if input_bias is None else made.sum(0)
    return made, made, through * f, bias, bias


def _thnn_differentiable_gru_cell_backward(
    grad_hy: Tensor,
    input_gates: Tensor,
    hidden_gates: Tensor,
    hx: Tensor,
    input_bias: Tensor | None,
    hidden_bias: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    """Compute the gradients of a GRU step with differentiable operators, for second derivatives."""
    name = "_thnn_differentiable_gru_cell_backward"
    check_ranks(name, "input_gates", input_gates._spec, 2)
    check_ranks(name, "hidden_gates", hidden_gates._spec, 2)
    if (input_bias is None) is not (hidden_bias is None):
        raise RuntimeError(f"{name}: expected input_bias and hidden_bias both or neither, but got one")
    if input_bias is not None:
        input_gates, hidden_gates = input_gates + input_bias, hidden_gates + hidden_bias
    _check_gates(name, input_gates, 3)
    _check_gates(name, hidden_gates, 3)
    (xr, xi, xn), (hr, hi, hn) = input_gates.chunk(3, 1), hidden_gates.chunk(3, 1)
    r, i = (xr + hr).sigmoid(), (xi + hi).sigmoid()
    n = (xn + r * hn).tanh()
    of_i = ops.sigmoid_backward(grad_hy * (hx - n), i)
    of_n = ops.tanh_backward(grad_hy * (1 - i), n)
    of_r = ops.sigmoid_backward(of_n * hn, r)
    of_input, of_hidden = ops.cat([of_r, of_i, of_n], 1), ops.cat([of_r, of_i, of_n * r], 1)
    biases = (None, None) if input_bias is None else (of_input.sum(0), of_hidden.sum(0))
    return of_input, of_hidden, grad_hy * i, *biases

"""Meta functions and planners of the fused steps of recurrent cells (ATen/native/cuda/RNN.cu).

An LSTM's gates are (N, 4 H), in the order in, forget, cell, out; a GRU's (N, 3 H), in the order reset, in, new. A step
saves a workspace for backward. An LSTM saves its activated gates. A GRU saves its activated gates, the previous hidden
state and the operand of the reset gate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....runtime.tensor_spec import TensorSpec
from ...core.kernel_function import Plan
from ...core.operator_entry import OperatorEntry
from ..meta_base import MetaBase
from ..operand_checks import check_ranks
from ..supported_dtypes import kernel_name
from .linalg import check_same_device
from .normalization import _plan_masked, _spec

LSTM_GATES, GRU_GATES, GRU_KEPT = 4, 3, 5

RELU, TANH, LSTM, GRU = range(4)
"""The kinds of recurrent layers, with cuDNN's numbers."""
GATES = {RELU: 1, TANH: 1, LSTM: LSTM_GATES, GRU: GRU_GATES}
KEPT = {RELU: 0, TANH: 0, LSTM: 6, GRU: 4}
"""Number of values that backward needs per element and step, in addition to the hidden states."""


def _check_dtypes(name: str, first: TensorSpec, *rest: TensorSpec | None) -> None:
    """Check that all tensors have one floating dtype."""
    if not first.dtype.is_floating_point:
        raise NotImplementedError(
            f"\"{kernel_name(name, first.device.type)}\" not implemented for '{first.dtype.scalar_name}'"
        )
    for spec in rest:
        if spec is not None and spec.dtype is not first.dtype:
            raise RuntimeError(
                f"expected scalar type {first.dtype.scalar_name} but found {spec.dtype.scalar_name}"
            )


def _check_rank(context: str, which: str, spec: TensorSpec, rank: int) -> None:
    if spec.ndim != rank:
        raise RuntimeError(
            f"Expected {rank}-dimensional tensor, but got {spec.ndim}-dimensional tensor for argument {which} {context}"
        )


def _check_same_size(context: str, which: str, spec: TensorSpec, other: str, as_spec: TensorSpec) -> None:
    if spec.sizes != as_spec.sizes:
        raise RuntimeError(
            f"Expected tensor for argument {which} to have same size as tensor for argument {other}; but "
            f"{list(spec.sizes)} does not equal {list(as_spec.sizes)} {context}"
        )


def _check_numel(context: str, which: str, spec: TensorSpec, numel: int) -> None:
    if spec.numel != numel:
        raise RuntimeError(
            f"Expected tensor for argument {which} to have {numel} elements; but it actually has {spec.numel} "
            f"elements {context}"
        )


def _check_step(
    name: str,
    state_name: str,
    gates: int,
    input_gates: TensorSpec,
    hidden_gates: TensorSpec,
    state: TensorSpec,
    input_bias: TensorSpec | None,
    hidden_bias: TensorSpec | None,
) -> None:
    """Raise an error for invalid sizes, as PyTorch's ``checkSizes``, and for a state that is not (N, H)."""
    context = f"(while checking arguments for {name})"
    _check_rank(context, "#1 'input_gates'", input_gates, 2)
    _check_same_size(context, "#1 'input_gates'", input_gates, "#2 'hidden_gates'", hidden_gates)
    rows, width = input_gates.sizes
    if (input_bias is None) != (hidden_bias is None):
        raise RuntimeError(
            f"{name}: expected input_bias and hidden_bias to be given both or neither, but got one of them"
        )
    if input_bias is not None and hidden_bias is not None:
        _check_rank(context, "#3 'input_bias'", input_bias, 1)
        _check_numel(context, "#3 'input_bias'", input_bias, width)
        _check_same_size(context, "#3 'input_bias'", input_bias, "#4 'hidden_bias'", hidden_bias)
    _check_rank(context, f"#5 '{state_name}'", state, 2)
    _check_numel(context, f"#5 '{state_name}'", state, rows * width // gates)
    if width % gates or state.sizes[0] != rows:
        raise RuntimeError(
            f"{name}: expected {state_name} of shape (N, H) with gates of (N, {gates} H), but got "
            f"{list(state.sizes)} with {list(input_gates.sizes)}"
        )
    check_same_device(name, input_gates, hidden_gates, state, input_bias, hidden_bias)
    _check_dtypes(name, input_gates, hidden_gates, state, input_bias, hidden_bias)


def _thnn_fused_lstm_cell(
    meta: MetaBase,
    input_gates: TensorSpec,
    hidden_gates: TensorSpec,
    cx: TensorSpec,
    input_bias: TensorSpec | None,
    hidden_bias: TensorSpec | None,
) -> None:
    """Infer the hidden and cell states after the step, (N, H), and the activated gates."""
    _check_step(
        "_thnn_fused_lstm_cell", "cx", LSTM_GATES, input_gates, hidden_gates, cx, input_bias, hidden_bias
    )
    meta.set_output_contiguous(0, cx.sizes, dtype=cx.dtype)
    meta.set_output_contiguous(1, cx.sizes, dtype=cx.dtype)
    meta.set_output_contiguous(2, input_gates.sizes, dtype=cx.dtype)


def _thnn_fused_gru_cell(
    meta: MetaBase,
    input_gates: TensorSpec,
    hidden_gates: TensorSpec,
    hx: TensorSpec,
    input_bias: TensorSpec | None,
    hidden_bias: TensorSpec | None,
) -> None:
    """Infer the hidden state after the step, (N, H), and the workspace for backward, (N, 5 H)."""
    _check_step(
        "_thnn_fused_gru_cell", "hx", GRU_GATES, input_gates, hidden_gates, hx, input_bias, hidden_bias
    )
    meta.set_output_contiguous(0, hx.sizes, dtype=hx.dtype)
    meta.set_output_contiguous(1, (hx.sizes[0], GRU_KEPT * hx.sizes[1]), dtype=hx.dtype)


def _gates_of(like: TensorSpec, width: int) -> TensorSpec:
    return TensorSpec.contiguous((like.sizes[0], width), like.dtype, like.device)


def _bias_of(gates: TensorSpec, has_bias: bool) -> TensorSpec | None:
    return TensorSpec.contiguous(gates.sizes[1:], gates.dtype, gates.device) if has_bias else None


def _thnn_fused_lstm_cell_backward_impl(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan the gradients of the gates, of the previous cell state, and of a bias if there is one."""
    grad_hy, grad_cy, cx, cy, workspace, has_bias = args
    grad_hy, grad_cy, cx, cy, workspace = map(_spec, (grad_hy, grad_cy, cx, cy, workspace))
    if grad_hy is None and grad_cy is None:
        return op.rebind(lambda gh, gc, cx, cy, kept, has_bias: (None, None, None), args)
    name = "_thnn_fused_lstm_cell_backward"
    context = f"(while checking arguments for {name})"
    defined = [spec for spec in (grad_hy, grad_cy) if spec is not None]
    for spec in defined:
        _check_rank(context, "#1 'grad_hy'" if spec is grad_hy else "#2 'grad_cy'", spec, 2)
    rows, hidden = defined[0].sizes
    if len(defined) == 2:
        _check_same_size(context, "#2 'grad_cy'", grad_cy, "#1 'grad_hy'", grad_hy)
    for which, spec in (("#3 'cx'", cx), ("#4 'cy'", cy)):
        _check_same_size(context, which, spec, "#1 'grad_hy'", defined[0])
    _check_rank(context, "#5 'workspace'", workspace, 2)
    _check_numel(context, "#5 'workspace'", workspace, LSTM_GATES * rows * hidden)
    check_same_device(name, cx, *defined, cy, workspace)
    _check_dtypes(name, cx, *defined, cy, workspace)
    gates = _gates_of(cx, LSTM_GATES * hidden)
    made = (gates, TensorSpec.contiguous(cx.sizes, cx.dtype, cx.device), _bias_of(gates, has_bias))
    inputs = {"grad_hy": grad_hy, "grad_cy": grad_cy, "cx": cx, "cy": cy, "workspace": workspace}
    run = _plan_masked(name, "thnn_fused_lstm_cell_backward_impl_stub", made, inputs, {})
    return op.rebind(lambda gh, gc, cx, cy, kept, has_bias: run(gh, gc, cx, cy, kept), args)


def _thnn_fused_gru_cell_backward(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan the gradients of both kinds of gates, of the previous hidden state, and of both biases if there are any."""
    grad_hy, workspace, has_bias = args
    grad_hy, workspace = map(_spec, (grad_hy, workspace))
    name = "_thnn_fused_gru_cell_backward"
    context = f"(while checking arguments for {name})"
    _check_rank(context, "#1 'grad_hy'", grad_hy, 2)
    rows, hidden = grad_hy.sizes
    if workspace.sizes != (rows, GRU_KEPT * hidden):
        raise RuntimeError(
            f"{name}: expected workspace of shape {[rows, GRU_KEPT * hidden]}, but got {list(workspace.sizes)}"
        )
    check_same_device(name, grad_hy, workspace)
    _check_dtypes(name, grad_hy, workspace)
    gates = _gates_of(grad_hy, GRU_GATES * hidden)
    bias = _bias_of(gates, has_bias)
    state = TensorSpec.contiguous(grad_hy.sizes, grad_hy.dtype, grad_hy.device)
    inputs = {"grad_hy": grad_hy, "workspace": workspace}
    run = _plan_masked(
        name, "thnn_fused_gru_cell_backward_stub", (gates, gates, state, bias, bias), inputs, {}
    )
    return op.rebind(lambda g, kept, has_bias: run(g, kept), args)


def _check_layer(
    name: str,
    gates: TensorSpec,
    hx: TensorSpec,
    cx: TensorSpec | None,
    weight: TensorSpec,
    bias: TensorSpec | None,
    mode: int,
) -> None:
    if mode not in GATES:
        raise RuntimeError(f"{name}: expected mode to be one of {list(GATES)}, but got {mode}")
    if gates.ndim != 3 or hx.ndim != 2 or 0 in gates.sizes:
        raise RuntimeError(
            f"{name}: expected input_gates of shape (T, N, G) and hx of shape (N, H), none of them 0, but got "
            f"{list(gates.sizes)} and {list(hx.sizes)}"
        )
    rows, width = hx.sizes
    count = GATES[mode]
    expected: list[tuple[str, TensorSpec | None, tuple[int, ...]]] = [
        ("input_gates", gates, (gates.sizes[0], rows, count * width)),
        ("weight_hh", weight, (count * width, width)),
    ]
    if (cx is not None) != (mode == LSTM):
        raise RuntimeError(f"{name}: expected cx with mode {LSTM} alone, but got mode {mode}")
    if bias is not None and mode != GRU:
        raise RuntimeError(f"{name}: expected bias_hh with mode {GRU} alone, but got mode {mode}")
    expected += [("cx", cx, (rows, width)), ("bias_hh", bias, (count * width,))]
    for argument, spec, sizes in expected:
        if spec is not None and spec.sizes != sizes:
            raise RuntimeError(
                f"{name}: expected {argument} of shape {list(sizes)} with hx of {list(hx.sizes)} and mode {mode}, but "
                f"got {list(spec.sizes)}"
            )
    check_same_device(name, gates, hx, cx, weight, bias)
    _check_dtypes(name, gates, hx, cx, weight, bias)


def _empty_like(spec: TensorSpec, sizes: tuple[int, ...]) -> TensorSpec:
    return TensorSpec.contiguous(sizes, spec.dtype, spec.device)


def _fused_rnn_layer(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan the hidden states of all steps (T, N, H), the last state, an LSTM's last cell state, and the backward
    workspace.

    The cell state of other layers has no elements. Without `train`, the workspace has room for one step.
    """
    gates, hx, cx, weight, bias = map(_spec, args[:5])
    mode, reverse, train = args[5:]
    name = "_fused_rnn_layer"
    _check_layer(name, gates, hx, cx, weight, bias, mode)
    rows, width = hx.sizes
    made = (
        _empty_like(hx, (gates.sizes[0], rows, width)),
        _empty_like(hx, (rows, width)),
        _empty_like(hx, (rows, width) if mode == LSTM else (0,)),
        _empty_like(hx, (gates.sizes[0] if train else 1, KEPT[mode] * rows * width)),
    )
    inputs = {"input_gates": gates, "hx": hx, "cx": cx, "weight_hh": weight, "bias_hh": bias}
    extra = {"mode": mode, "reverse": reverse, "steps": gates.sizes[0] if train else 1}
    run = _plan_masked(name, "fused_rnn_layer_stub", made, inputs, extra)
    return op.rebind(lambda gates, hx, cx, weight, bias, *_: run(gates, hx, cx, weight, bias), args)


def _fused_rnn_layer_backward(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan the gradients of the input's gates, of the initial states, of the weights and of a GRU's bias."""
    grad_output, grad_hy, grad_cy, hx, cx, weight, output, workspace = map(_spec, args[:8])
    mode, reverse, has_bias = args[8:]
    name = "_fused_rnn_layer_backward"
    if mode not in GATES:
        raise RuntimeError(f"{name}: expected mode to be one of {list(GATES)}, but got {mode}")
    check_ranks(name, "output", output, 3)
    steps, rows, width = output.sizes
    gates = _empty_like(hx, (steps, rows, GATES[mode] * width))
    bias = _empty_like(hx, (GATES[mode] * width,)) if has_bias else None
    _check_layer(name, gates, hx, cx, weight, bias, mode)
    states = (rows, width)
    workspace_sizes = (steps, KEPT[mode] * rows * width)
    for argument, spec, sizes in (
        ("grad_output", grad_output, output.sizes),
        ("grad_hy", grad_hy, states),
        ("grad_cy", grad_cy, states),
        ("workspace", workspace, workspace_sizes),
    ):
        if spec is not None and spec.sizes != sizes:
            raise RuntimeError(
                f"{name}: expected {argument} of shape {list(sizes)}, but got {list(spec.sizes)}"
            )
    check_same_device(name, hx, grad_output, grad_hy, grad_cy, output, workspace)
    _check_dtypes(name, hx, grad_output, grad_hy, grad_cy, output, workspace)
    state = _empty_like(hx, states)
    made = (gates, state, state if mode == LSTM else None, _empty_like(hx, weight.sizes), bias)
    inputs = {
        "grad_output": grad_output,
        "grad_hy": grad_hy,
        "grad_cy": grad_cy,
        "hx": hx,
        "cx": cx,
        "weight_hh": weight,
        "output": output,
        "workspace": workspace,
    }
    extra = {"mode": mode, "reverse": reverse, "steps": steps}
    run = _plan_masked(name, "fused_rnn_layer_backward_stub", made, inputs, extra)
    return op.rebind(
        lambda go, gh, gc, h, c, w, o, kept, mode, reverse, b: run(go, gh, gc, h, c, w, o, kept), args
    )

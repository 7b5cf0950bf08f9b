"""Meta functions and planners of the fused steps of recurrent cells (ATen/native/cuda/RNN.cu).

An LSTM's gates are (N, 4 H), in the order in, forget, cell, out; a GRU's (N, 3 H), in the order reset, in, new. What a
step keeps for backward is its workspace: an LSTM's activated gates, a GRU's too and beside them the hidden state
before and what the reset gate multiplies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....runtime.tensor_spec import TensorSpec
from ...core.kernel_function import Plan
from ...core.operator_entry import OperatorEntry
from ..meta_base import MetaBase
from ..supported_dtypes import kernel_name
from .linalg import check_same_device
from .normalization import _plan_masked, _spec

LSTM_GATES, GRU_GATES, GRU_KEPT = 4, 3, 5


def _check_dtypes(name: str, first: TensorSpec, *others: TensorSpec | None) -> None:
    """All of one floating dtype."""
    if not first.dtype.is_floating_point:
        raise NotImplementedError(
            f"\"{kernel_name(name, first.device.type)}\" not implemented for '{first.dtype.scalar_name}'"
        )
    for spec in others:
        if spec is not None and spec.dtype is not first.dtype:
            raise RuntimeError(
                f"expected scalar type {first.dtype.scalar_name} but found {spec.dtype.scalar_name}"
            )


def _check_rank(place: str, which: str, spec: TensorSpec, rank: int) -> None:
    if spec.ndim != rank:
        raise RuntimeError(
            f"Expected {rank}-dimensional tensor, but got {spec.ndim}-dimensional tensor for argument {which} {place}"
        )


def _check_same_size(place: str, which: str, spec: TensorSpec, other: str, as_spec: TensorSpec) -> None:
    if spec.sizes != as_spec.sizes:
        raise RuntimeError(
            f"Expected tensor for argument {which} to have same size as tensor for argument {other}; but "
            f"{list(spec.sizes)} does not equal {list(as_spec.sizes)} {place}"
        )


def _check_numel(place: str, which: str, spec: TensorSpec, numel: int) -> None:
    if spec.numel != numel:
        raise RuntimeError(
            f"Expected tensor for argument {which} to have {numel} elements; but it actually has {spec.numel} "
            f"elements {place}"
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
    """PyTorch's ``checkSizes``, and that a state is (N, H), which its kernels trust."""
    place = f"(while checking arguments for {name})"
    _check_rank(place, "#1 'input_gates'", input_gates, 2)
    _check_same_size(place, "#1 'input_gates'", input_gates, "#2 'hidden_gates'", hidden_gates)
    rows, width = input_gates.sizes
    if (input_bias is None) != (hidden_bias is None):
        raise RuntimeError(
            f"{name}: expected input_bias and hidden_bias to be given both or neither, but got one of them"
        )
    if input_bias is not None and hidden_bias is not None:
        _check_rank(place, "#3 'input_bias'", input_bias, 1)
        _check_numel(place, "#3 'input_bias'", input_bias, width)
        _check_same_size(place, "#3 'input_bias'", input_bias, "#4 'hidden_bias'", hidden_bias)
    _check_rank(place, f"#5 '{state_name}'", state, 2)
    _check_numel(place, f"#5 '{state_name}'", state, rows * width // gates)
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
    """The hidden state and the cell's after the step, (N, H); the activated gates."""
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
    """The hidden state after the step, (N, H); what backward needs, (N, 5 H)."""
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
    """The gradients of the gates, of the cell's state before, and of a bias, where there are any."""
    grad_hy, grad_cy, cx, cy, workspace, has_bias = args
    grad_hy, grad_cy, cx, cy, workspace = map(_spec, (grad_hy, grad_cy, cx, cy, workspace))
    if grad_hy is None and grad_cy is None:
        return op.rebind(lambda gh, gc, cx, cy, kept, has_bias: (None, None, None), args)
    name = "_thnn_fused_lstm_cell_backward"
    place = f"(while checking arguments for {name})"
    defined = [spec for spec in (grad_hy, grad_cy) if spec is not None]
    for spec in defined:
        _check_rank(place, "#1 'grad_hy'" if spec is grad_hy else "#2 'grad_cy'", spec, 2)
    rows, hidden = defined[0].sizes
    if len(defined) == 2:
        _check_same_size(place, "#2 'grad_cy'", grad_cy, "#1 'grad_hy'", grad_hy)
    for which, spec in (("#3 'cx'", cx), ("#4 'cy'", cy)):
        _check_same_size(place, which, spec, "#1 'grad_hy'", defined[0])
    _check_rank(place, "#5 'workspace'", workspace, 2)
    _check_numel(place, "#5 'workspace'", workspace, LSTM_GATES * rows * hidden)
    check_same_device(name, cx, *defined, cy, workspace)
    _check_dtypes(name, cx, *defined, cy, workspace)
    gates = _gates_of(cx, LSTM_GATES * hidden)
    made = (gates, TensorSpec.contiguous(cx.sizes, cx.dtype, cx.device), _bias_of(gates, has_bias))
    given = {"grad_hy": grad_hy, "grad_cy": grad_cy, "cx": cx, "cy": cy, "workspace": workspace}
    run = _plan_masked(name, "thnn_fused_lstm_cell_backward_impl_stub", made, given, {})
    return op.rebind(lambda gh, gc, cx, cy, kept, has_bias: run(gh, gc, cx, cy, kept), args)


def _thnn_fused_gru_cell_backward(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """The gradients of both kinds of gates, of the hidden state before, and of both biases, where there are any."""
    grad_hy, workspace, has_bias = args
    grad_hy, workspace = map(_spec, (grad_hy, workspace))
    name = "_thnn_fused_gru_cell_backward"
    place = f"(while checking arguments for {name})"
    _check_rank(place, "#1 'grad_hy'", grad_hy, 2)
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
    given = {"grad_hy": grad_hy, "workspace": workspace}
    run = _plan_masked(
        name, "thnn_fused_gru_cell_backward_stub", (gates, gates, state, bias, bias), given, {}
    )
    return op.rebind(lambda g, kept, has_bias: run(g, kept), args)

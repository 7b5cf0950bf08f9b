"""Batching rules of recurrent cells: examples become rows; per-example biases are added beforehand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

from ...generated import functions as ops
from .layout import Batch, Dims, Rule, apart, folded, front, sizes_of, whole

if TYPE_CHECKING:
    from ...tensor import Tensor


@overload
def _rows(x: Tensor, dim: int | None, size: int) -> Tensor: ...
@overload
def _rows(x: Tensor | None, dim: int | None, size: int) -> Tensor | None: ...
def _rows(x: Tensor | None, dim: int | None, size: int) -> Tensor | None:
    """Reshape (n, ...) of each example to (batch * n, ...); None stays None."""
    if x is None:
        return None
    return folded(whole(x, dim, size))


def _with_bias(gates: Tensor, dim: int | None, bias: Tensor, bias_dim: int | None, size: int) -> Tensor:
    """Return gates (batch, n, width) plus a bias of each example."""
    gates = whole(gates, dim, size)
    return gates + (bias if bias_dim is None else front(bias, bias_dim).unsqueeze(1))


def _step(cell: Callable[..., tuple[Any, ...]]) -> Rule:
    """Return the rule of a fused step: rows are independent."""

    def rule(batch: Batch, dims: Dims, *args: Any) -> tuple[Any, Any]:
        x, h, state, x_bias, h_bias = args
        size = batch.size
        if x_bias is not None and (dims[3] is not None or dims[4] is not None):
            x = _with_bias(x, dims[0], x_bias, dims[3], size)
            h = _with_bias(h, dims[1], h_bias, dims[4], size)
            dims, x_bias, h_bias = (0, 0, dims[2]), None, None
        rows = [_rows(t, d, size) for t, d in zip((x, h, state), dims, strict=False)]
        count = sizes_of(x, dims[0])[0]
        made = [apart(t, size, count) for t in cell(*rows, x_bias, h_bias)]
        return tuple(made), (0,) * len(made)

    return rule


def _bias_of(gates: Tensor, has_bias: bool) -> Tensor | None:
    """Return a bias gradient for each example."""
    return gates.sum(1) if has_bias else None


def _placed(results: Sequence[Any]) -> tuple[Any, Any]:
    return tuple(results), tuple([None if result is None else 0 for result in results])


def lstm_cell_backward(
    batch: Batch,
    dims: Dims,
    grad_hy: Tensor | None,
    grad_cy: Tensor | None,
    cx: Tensor,
    cy: Tensor,
    workspace: Tensor,
    has_bias: bool,
) -> tuple[Any, Any]:
    """Run `_thnn_fused_lstm_cell_backward_impl`."""
    tensors: tuple[Any, ...] = (grad_hy, grad_cy, cx, cy, workspace)
    if grad_hy is None and grad_cy is None:
        return (None,) * 3, (None,) * 3
    rows = [_rows(t, d, batch.size) for t, d in zip(tensors, dims, strict=False)]
    gates, state, _ = ops._thnn_fused_lstm_cell_backward_impl(
        rows[0], rows[1], rows[2], rows[3], rows[4], False
    )
    count = sizes_of(cx, dims[2])[0]
    gates, state = apart(gates, batch.size, count), apart(state, batch.size, count)
    return _placed((gates, state, _bias_of(gates, has_bias)))


def gru_cell_backward(
    batch: Batch, dims: Dims, grad_hy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Any, Any]:
    """Run `_thnn_fused_gru_cell_backward`."""
    grad, saved = (_rows(t, d, batch.size) for t, d in zip((grad_hy, workspace), dims, strict=False))
    inputs, hidden, state, _, _ = ops._thnn_fused_gru_cell_backward(grad, saved, False)
    count = sizes_of(grad_hy, dims[0])[0]
    inputs, hidden, state = (apart(t, batch.size, count) for t in (inputs, hidden, state))
    return _placed((inputs, hidden, state, _bias_of(inputs, has_bias), _bias_of(hidden, has_bias)))


RULES: dict[str, Rule] = {
    "_thnn_fused_lstm_cell": _step(ops._thnn_fused_lstm_cell),
    "_thnn_fused_lstm_cell_backward_impl": lstm_cell_backward,
    "_thnn_fused_gru_cell": _step(ops._thnn_fused_gru_cell),
    "_thnn_fused_gru_cell_backward": gru_cell_backward,
}

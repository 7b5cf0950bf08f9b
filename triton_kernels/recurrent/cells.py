"""Fused steps of LSTM and GRU: a launch forward, one backward, and sums of rows for biases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.tensor_spec import TensorSpec
from ..budget import DECLARATIONS, name_of
from ..conversion import compute_type
from ..elementwise.elementwise import check_dtypes
from ..launch import cdiv, interpreted, launch_nothing, next_power_of_2
from ..normalization.operands import as_row, as_rows, prepare, sum_parts
from .cell_kernels import gru_step, gru_step_backward, lstm_step, lstm_step_backward

INTERPRETED_ELEMENTS = 1 << 14

Specs = Mapping[str, TensorSpec | None]


def _tile(kernel: Any, spec: TensorSpec, rows: int, hidden: int) -> tuple[int, int]:
    """Return [rows, columns] of a tile, with whole gates if they are short."""
    meant = DECLARATIONS[name_of(kernel)].configurations[str(spec.dtype.triton_name)][0]
    max_elements, widest = (
        (INTERPRETED_ELEMENTS, 1 << 10) if interpreted() else (meant.elements, meant.tile[1])
    )
    columns = min(next_power_of_2(hidden), widest)
    return min(next_power_of_2(rows), max_elements // columns), columns


def step(
    call: StructuredCall,
    kernel: Any,
    shape: tuple[int, int],
    operands: Specs,
    strides: Mapping[str, str],
    parameters: Specs,
    outputs: Mapping[str, TensorSpec],
) -> Callable[..., None]:
    """Return a launch over (rows, hidden), called with outputs, operands and parameters.

    Args:
        operands: tensors as rows, by the kernel's name for them, with that of their stride in `strides`.
        parameters: those of one row.
    """
    check_dtypes(call, [spec for spec in (*operands.values(), *parameters.values()) if spec is not None])
    rows, hidden = shape
    if rows * hidden == 0:
        return launch_nothing
    laid = {name: as_rows(spec, 1) for name, spec in operands.items() if spec is not None}
    flat = {name: as_row(spec) for name, spec in parameters.items()}
    first = next(iter(outputs.values()))
    tile = _tile(kernel, first, rows, hidden)
    row_strides = {strides[name]: 0 if name not in laid else laid[name].stride for name in operands}
    sizes = {"rows": rows, "hidden": hidden, **row_strides}
    widest = max(abs(stride) for stride in (*row_strides.values(), 5 * hidden))
    launch, numbers = prepare(
        call,
        kernel,
        {**operands, **parameters, **outputs},
        sizes,
        {"TYPE": compute_type(first.dtype), "BLOCK_ROWS": tile[0], "BLOCK_COLS": tile[1]},
        4,
        (rows + tile[0]) * widest + 5 * (hidden + tile[1]),
    )
    grid = (cdiv(rows, tile[0]) * cdiv(hidden, tile[1]), 1, 1)
    prepared = [laid[name].data if name in laid else None for name in operands] + list(flat.values())
    count = len(outputs)

    def run(*data: Any) -> None:
        tensors = [
            None if value is None or prepare_operand is None else prepare_operand(value)
            for prepare_operand, value in zip(prepared, data[count:], strict=True)
        ]
        launch(grid, *[each.address for each in (*tensors, *data[:count]) if each is not None], *numbers)

    return run


def lstm_cell(call: StructuredCall) -> PlannedKernel:
    """Compute the hidden state and the cell state after a step, and the activated gates."""
    args, (hy, cy, workspace) = call.args, call.outputs
    run = step(
        call,
        lstm_step,
        (cy.sizes[0], cy.sizes[1]),
        {"x": args["input_gates"], "h": args["hidden_gates"], "cx": args["cx"]},
        {"x": "x_row", "h": "h_row", "cx": "c_row"},
        {"x_bias": args["input_bias"], "h_bias": args["hidden_bias"]},
        {"hy": hy, "cy": cy, "kept": workspace},
    )
    return PlannedKernel(run)


def gru_cell(call: StructuredCall) -> PlannedKernel:
    """Compute the hidden state after a step, and the values that backward needs."""
    args, (hy, workspace) = call.args, call.outputs
    run = step(
        call,
        gru_step,
        (hy.sizes[0], hy.sizes[1]),
        {"x": args["input_gates"], "h": args["hidden_gates"], "hx": args["hx"]},
        {"x": "x_row", "h": "h_row", "hx": "s_row"},
        {"x_bias": args["input_bias"], "h_bias": args["hidden_bias"]},
        {"hy": hy, "kept": workspace},
    )
    return PlannedKernel(run)


def _sums(call: StructuredCall, gates: TensorSpec, bias: TensorSpec | None) -> Callable[[Any, Any], Any]:
    """Return the reduction of a bias gradient from that of its gates, or nothing without a bias."""
    return launch_nothing if bias is None else sum_parts(call, gates, bias, (0,))


def lstm_cell_backward(call: StructuredCall) -> PlannedKernel:
    """Compute the gradients of the gates, of the cell state, and of a bias."""
    args, (gates, state, bias) = call.args, call.extra["outputs"]
    run = step(
        call,
        lstm_step_backward,
        (state.sizes[0], state.sizes[1]),
        {name: args[name] for name in ("grad_hy", "grad_cy", "cx", "cy")} | {"kept": args["workspace"]},
        {"grad_hy": "gh_row", "grad_cy": "gc_row", "cx": "c_row", "cy": "cy_row", "kept": "k_row"},
        {},
        {"grad_gates": gates, "grad_cx": state},
    )
    add_up = _sums(call, gates, bias)

    def into(out: Any, to_cx: Any, to_bias: Any, *inputs: Any) -> None:
        run(out, to_cx, *inputs)
        add_up(to_bias, out)

    return PlannedKernel(into)


def gru_cell_backward(call: StructuredCall) -> PlannedKernel:
    """Compute the gradients of both kinds of gates, of the hidden state, and of both biases."""
    args, (gates, _, state, bias, _) = call.args, call.extra["outputs"]
    run = step(
        call,
        gru_step_backward,
        (state.sizes[0], state.sizes[1]),
        {"grad_hy": args["grad_hy"], "kept": args["workspace"]},
        {"grad_hy": "g_row", "kept": "k_row"},
        {},
        {"to_x": gates, "to_h": gates, "to_hx": state},
    )
    add_up = _sums(call, gates, bias)

    def into(to_x: Any, to_h: Any, to_hx: Any, x_bias: Any, h_bias: Any, *inputs: Any) -> None:
        run(to_x, to_h, to_hx, *inputs)
        add_up(x_bias, to_x)
        add_up(h_bias, to_h)

    return PlannedKernel(into)


register_stub("thnn_fused_lstm_cell_stub", "cuda", lstm_cell)
register_stub("thnn_fused_lstm_cell_backward_impl_stub", "cuda", lstm_cell_backward)
register_stub("thnn_fused_gru_cell_stub", "cuda", gru_cell)
register_stub("thnn_fused_gru_cell_backward_stub", "cuda", gru_cell_backward)

"""Products of 8-bit and 4-bit floats with scales: in float32, rounded once."""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.meta.block_scales import block_scaling
from ...dispatch.structured.meta.scaled_mm import BLOCK, scaled_by_blocks
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ..plain_numpy import np
from .block_scales import block_scaled_product

LARGEST = {"float8_e4m3fn": np.float32(448), "float8_e5m2": np.float32(57344)}
"""The largest finite number of each 8-bit format, at which results saturate."""


def scaled_mm(call: StructuredCall) -> PlannedKernel:
    """Compute scale_a * scale_b * (self @ mat2) + bias; an 8-bit output times its scale."""
    largest = LARGEST.get(call.outputs[0].dtype.name)
    names = call.runtime
    specs = [call.args[name] for name in ("self", "mat2", "scale_a", "scale_b")]
    blocks, scaling = scaled_by_blocks(*specs), block_scaling(*specs)

    @quietly
    def into(out: Any, *inputs: Any) -> None:
        arguments = dict(zip(names, inputs, strict=True))
        left, right, by_row, by_column = (arguments[name] for name in ("self", "mat2", "scale_a", "scale_b"))
        if scaling is None:
            left, right = left.astype(np.float32), right.astype(np.float32)
        if scaling is not None:
            made = block_scaled_product(left, right, by_row, by_column, scaling)
        elif blocks is not None:
            by_row = by_row.repeat(blocks[0], 0)[: len(left)]
            by_column = by_column.repeat(blocks[1], 1)[:, : right.shape[1]]
            made = np.zeros((len(left), right.shape[1]), np.float32)
            for i in range(by_row.shape[1]):
                part = slice(i * BLOCK, (i + 1) * BLOCK)
                made += np.dot(left[:, part], right[part]) * by_row[:, i : i + 1] * by_column[i]
        elif by_row.size == 1 and by_column.size == 1:
            made = np.dot(left, right)
            made *= by_row.reshape(()) * by_column.reshape(())
        else:
            made = np.dot(left, right)
            made *= by_row
            made *= by_column
        if arguments.get("bias") is not None:
            made += arguments["bias"].reshape(-1).astype(np.float32)
        if largest is not None:
            if arguments.get("scale_result") is not None:
                made *= arguments["scale_result"].reshape(())
            np.clip(made, -largest, largest, made)
        np.copyto(out, made, casting="unsafe")

    return PlannedKernel(into)


register_stub("_scaled_mm_stub", "cpu", scaled_mm)

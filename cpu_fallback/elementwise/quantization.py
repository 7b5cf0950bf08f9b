"""Fake quantization: values and mask in one pass, in blocks that stay in the cache."""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ..blocks import Blocks
from ..plain_numpy import np
from ..widen import compute_np

EXACT = 1 << 24
"""Integers up to this magnitude are exact in float32."""


class FakeQuantization:
    """Fake quantization of arrays for one plan.

    Args:
        call: the plan; the range is among its arguments.
    """

    def __init__(self, call: StructuredCall) -> None:
        out, mask = call.outputs
        self.blocks = Blocks(out, (mask, call.args["self"])) if out.ndim else None
        self.wide = compute_np(out.dtype)
        self.low, self.high = call.args["quant_min"], call.args["quant_max"]
        self.clamped = np.float64 if max(-self.low, self.high) > EXACT else self.wide.type

    def __call__(self, out: Any, mask: Any, x: Any, scale: float, zero_point: int) -> None:
        """Write the quantized values of `x` and the mask of those that were not clamped."""
        step = np.float32(scale)
        per_step = self.wide.type(np.float32(1) / step)
        zero, low, high = (self.wide.type(number) for number in (zero_point, self.low, self.high))
        clamped = self.clamped

        def quantize(out: Any, mask: Any, x: Any) -> None:
            steps = np.rint(x.astype(self.wide, copy=False) * per_step) + zero
            np.copyto(mask, (steps >= low) & (steps <= high))
            steps = np.fmin(np.fmax(clamped(steps), clamped(self.low)), clamped(self.high))
            np.copyto(out, (steps - clamped(zero_point)).astype(np.float32) * step, casting="unsafe")

        if self.blocks is None:
            quantize(out, mask, x)
        else:
            self.blocks.run(quantize, out, mask, x)


def fake_quantize(call: StructuredCall) -> PlannedKernel:
    """Quantize by scalar parameters."""
    quantize, zero_point = FakeQuantization(call), call.args["zero_point"]

    @quietly
    def into(out: Any, mask: Any, x: Any, scale: float) -> None:
        quantize(out, mask, x, scale, zero_point)

    return PlannedKernel(into)


def fake_quantize_by_tensors(call: StructuredCall) -> PlannedKernel:
    """Quantize by one-element tensors."""
    quantize = FakeQuantization(call)

    @quietly
    def into(out: Any, mask: Any, x: Any, scale: Any, zero_point: Any, enabled: Any) -> None:
        if not int(enabled.item()):
            np.copyto(out, x)
            mask.fill(True)
            return
        quantize(out, mask, x, float(scale.item()), int(zero_point.item()))

    return PlannedKernel(into)


register_stub("fake_quantize_per_tensor_affine_cachemask_stub", "cpu", fake_quantize)
register_stub(
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams_stub", "cpu", fake_quantize_by_tensors
)

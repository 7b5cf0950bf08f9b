"""GPU data sheets: memory bandwidth and peak rates, and the resulting roofline.

Nothing here was measured. The figures are the vendor's, dense (without structured sparsity), of one GPU of
the SXM form:

- "NVIDIA A100 Tensor Core GPU Architecture" (2020) with the 80 GB data sheet (2021).
- "NVIDIA H100 Tensor Core GPU Architecture" (2022).
- "NVIDIA H200 Tensor Core GPU" data sheet (2024), whose processor is the H100's.
- "NVIDIA Blackwell Architecture Technical Brief" (2024), HGX B200.

The figures of cards are from "NVIDIA L40S" data sheet (2023), and "NVIDIA RTX Blackwell GPU Architecture"
(2025) with the tensor rates that accumulate in float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...runtime.float32_precision import convolution_allows_tf32, matmul_allows_tf32
from .recording import RecordedCall

OF_BANDWIDTH = 0.9
"""The share of the bandwidth that a program is taken to sustain: an assumption, no measurement."""
OF_PEAK = 0.7
"""The share of a peak rate that a program is taken to sustain: an assumption, no measurement."""

GIGA, TERA = 1e9, 1e12
PRODUCTS = frozenset({
    *("mm", "bmm", "addmm", "baddbmm", "addbmm", "_addmm_activation", "_scaled_mm"),
    *("_grouped_mm", "_scaled_grouped_mm"),
})  # fmt: skip
CONVOLUTIONS = frozenset({
    "convolution", "_convolution", "convolution_backward", "convolution_backward_input", "convolution_backward_weight",
    "_convolution_backward_both",
})  # fmt: skip
ATTENTIONS = "_scaled_dot_product_"


@dataclass(frozen=True)
class DataSheet:
    """One GPU: bytes of memory, bytes a second, and operations a second by number format.

    ``float64_tensor``, ``tf32``, ``float16``, ``bfloat16``, ``float8`` and ``float4`` are those of the tensor cores,
    ``float32`` and ``float64`` those outside of them.
    """

    name: str
    memory_bytes: float
    bytes_per_second: float
    peaks: Mapping[str, float]

    def peak(self, call: RecordedCall) -> float:
        """Return the peak rate of a call: of the tensor cores for matmuls, convolutions and attention.

        Raise ValueError for a matmul in a format that the GPU does not support.
        """
        number = number_format(call)
        if number not in self.peaks:
            raise ValueError(f"plan(): {call.func.name()} multiplies {number}, which {self.name} cannot")
        return self.peaks[number]

    def roofline_seconds(self, call: RecordedCall) -> float:
        """Return the longer of memory time and compute time, at the sustained shares of bandwidth and peak."""
        moving = call.work.bytes / (OF_BANDWIDTH * self.bytes_per_second)
        return max(moving, call.work.flops / (OF_PEAK * self.peak(call)) if call.work.flops else 0.0)


def number_format(call: RecordedCall) -> str:
    """In which numbers a call computes: 16-bit floats outside of products are computed in float32."""
    names = {operand.dtype.name for operand in (*call.operands, *call.results)}
    wide = "float64" if names & {"float64", "complex128"} else "float32"
    if call.base in CONVOLUTIONS:
        allows_tf32 = convolution_allows_tf32()
    elif call.base in PRODUCTS:
        allows_tf32 = matmul_allows_tf32()
    elif call.base.startswith(ATTENTIONS):
        allows_tf32 = False  # its kernels multiply float32 exactly
    else:
        return wide
    narrow = {operand.dtype.name for operand in call.operands if operand.dtype.is_floating_point}
    if "float4_e2m1fn_x2" in narrow:
        return "float4"
    if any(name.startswith("float8") for name in narrow):
        return "float8"
    if wide == "float64" or "float32" in narrow or not narrow:
        return "tf32" if wide == "float32" and allows_tf32 else wide
    return "float16" if "float16" in narrow else "bfloat16"


def _rates(**teraflops: float) -> dict[str, float]:
    return {name: rate * TERA for name, rate in teraflops.items()}


_HOPPER = _rates(
    float64=33.5, float64_tensor=66.9, float32=66.9, tf32=494.7, float16=989.4, bfloat16=989.4, float8=1978.9
)  # SXM5 at its boost clock
DATA_SHEETS = {
    "a100": DataSheet(
        "A100 SXM 80 GB", 80 * GIGA, 2039 * GIGA,
        _rates(float64=9.7, float64_tensor=19.5, float32=19.5, tf32=156, float16=312, bfloat16=312),
    ),
    "h100": DataSheet("H100 SXM5 80 GB", 80 * GIGA, 3350 * GIGA, _HOPPER),
    "h200": DataSheet("H200 SXM 141 GB", 141 * GIGA, 4800 * GIGA, _HOPPER),
    "b200": DataSheet(
        "B200 of HGX B200", 180 * GIGA, 8000 * GIGA,
        _rates(float64=40, float64_tensor=40, float32=80, tf32=1100, float16=2250, bfloat16=2250, float8=4500,
               float4=9000),
    ),
    "l40s": DataSheet(
        "L40S", 48 * GIGA, 864 * GIGA,
        _rates(float64=1.43, float64_tensor=1.43, float32=91.6, tf32=183, float16=362, bfloat16=362, float8=733),
    ),
    "rtx5090": DataSheet(
        "GeForce RTX 5090", 32 * GIGA, 1792 * GIGA,
        _rates(float64=1.64, float64_tensor=1.64, float32=104.8, tf32=104.8, float16=209.5, bfloat16=209.5, float8=419,
               float4=1676),
    ),
}  # fmt: skip

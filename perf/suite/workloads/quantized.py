"""Tensors on grids and back; products with weights of 8 and 4 bits, of one row of activations and of many."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..workload import Array, Operand, Scale, Workload, bar, normal

GROUP = 128
STEP, ZERO = 0.037, 3
"""The grid of numbers that are drawn from the normal distribution: few of them pass its ends."""


def integers(*shape: int, dtype: str = "int8") -> Callable[[], Array]:
    """Return a factory of arrays of all 8-bit integers; every call returns a new array with the same values."""
    limits = np.iinfo(dtype)
    return lambda: np.random.default_rng(len(shape)).integers(limits.min, limits.max + 1, shape, dtype)


def steps(count: int) -> Callable[[], Array]:
    """Return a factory of per-channel scales, between 0.5 and 1.5 times `STEP`."""
    return lambda: STEP * (0.5 + np.random.default_rng(count).random(count))


def zeros(count: int) -> Callable[[], Array]:
    """Return a factory of per-channel zero points."""
    return lambda: np.random.default_rng(count).integers(0, 8, count)


def workloads(scale: Scale) -> Iterator[Workload]:
    """Grids, then products: rows by the weight."""
    yield from grids(scale)
    yield from products(scale)


def grids(scale: Scale) -> Iterator[Workload]:
    """Yield rows of quantization and dequantization, per tensor and per channel along both dimensions."""
    side = scale.side(4096, 1024, 16)
    size = f"{side}x{side}"
    x = Operand(normal(side, side))
    channels = {"s": Operand(steps(side)), "z": Operand(zeros(side))}
    for dtype in ("qint8", "quint8", "qint32"):
        per_tensor = f"tt.quantize_per_tensor(x, {STEP}, {ZERO}, tt.{dtype})"
        yield Workload(
            "quantized", "quantize_per_tensor", "to one grid", size, dtype, f"q = {per_tensor}", operands={"x": x},
            result="q.int_repr()", bar=bar(1.2), counted=False,
        )  # fmt: skip
        yield Workload(
            "quantized", "dequantize", "from one grid", size, dtype, "q.dequantize()", operands={"x": x},
            setup=f"q = {per_tensor}", bar=bar(1.2), counted=False,
        )  # fmt: skip
    for dtype, axis in (("qint8", 0), ("qint8", 1), ("quint8", 0)):
        per_channel = f"tt.quantize_per_channel(x, s, z, {axis}, tt.{dtype})"
        name = "row" if axis == 0 else "column"
        yield Workload(
            "quantized", "quantize_per_channel", f"a grid for each {name}", size, dtype, f"q = {per_channel}",
            operands={"x": x, **channels}, result="q.int_repr()", bar=bar(1.2), counted=False,
        )  # fmt: skip
        yield Workload(
            "quantized", "dequantize", f"from a grid for each {name}", size, dtype, "q.dequantize()",
            operands={"x": x, **channels}, setup=f"q = {per_channel}", bar=bar(1.2), counted=False,
        )  # fmt: skip


def products(scale: Scale) -> Iterator[Workload]:
    """Rows by the weight. Integers by integers are VNNI's instructions in PyTorch, where a CPU has them."""
    side = scale.side(4096, 1024, 128)
    for rows in (1, scale.side(512, 64, 4)):
        size = f"{rows}x{side} @ {side}x{side}"
        for dtype in ("float32", "bfloat16"):
            x, scales = Operand(normal(rows, side), dtype), Operand(normal(side, scale=0.01), dtype)
            yield Workload(
                "quantized", "_weight_int8pack_mm", "int8 weight", size, dtype, "tt._weight_int8pack_mm(a, b, c)",
                operands={"a": x, "b": Operand(integers(side, side)), "c": scales},
            )  # fmt: skip
            numbers = Operand(normal(side // GROUP, side, 2, scale=0.01), dtype)
            if scale.device == "cpu":
                yield Workload(
                    "quantized", "_weight_int4pack_mm_for_cpu", f"int4 weight in groups of {GROUP}", size, dtype,
                    f"tt._weight_int4pack_mm_for_cpu(a, b, {GROUP}, c)",
                    operands={"a": x, "b": Operand(integers(side, side // 2, dtype="uint8")), "c": numbers},
                )  # fmt: skip
        yield Workload(
            "quantized", "_int_mm", "int8 by int8", size, "int8", "tt._int_mm(a, b.t())",
            operands={"a": Operand(integers(rows, side)), "b": Operand(integers(side, side))},
        )  # fmt: skip
        # PyTorch has the operator on the CPU alone.
        yield Workload(
            "quantized", "linear", "int8 layer", size, "quint8", "y = tt.ops.quantized.linear(q, p, 0.5, 128)",
            operands={"x": Operand(normal(rows, side)), "w": Operand(normal(side, side)), "b": Operand(normal(side))},
            setup=f"q = tt.quantize_per_tensor(x, {STEP}, 128, tt.quint8)\n"
            "p = tt.ops.quantized.linear_prepack(tt.quantize_per_tensor(w, 0.03, 0, tt.qint8), b)",
            result="y.int_repr()", counted=False,
        )  # fmt: skip

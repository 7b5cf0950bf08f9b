"""Products with weights of 8 and 4 bits, of one row of activations and of many."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..workload import Array, Operand, Scale, Workload, normal

GROUP = 128


def integers(*shape: int, dtype: str = "int8") -> Callable[[], Array]:
    """A maker of arrays of every 8-bit integer; every call gives a new array with the same values."""
    limits = np.iinfo(dtype)
    return lambda: np.random.default_rng(len(shape)).integers(limits.min, limits.max + 1, shape, dtype)


def workloads(scale: Scale) -> Iterator[Workload]:
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

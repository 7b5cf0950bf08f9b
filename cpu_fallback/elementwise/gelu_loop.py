"""Loops of gelu and of its gradient over lines of float32, for eager kernels."""

from __future__ import annotations

from collections.abc import Callable

from ...runtime.cpu.element_loop import Loop
from ...runtime.cpu.element_program import ElementProgram
from ...runtime.cpu.elementary_functions import F32
from ...runtime.cpu.llvm_source import write_loop
from ...runtime.cpu.object_code import loop_function, target
from .gelu_rows import gelu, gelu_backward


def gelu_loop(kind: str, approximate: str) -> Callable[..., None] | None:
    """Return the loop ``loop((count, *offsets and steps in bytes), out, *operands)`` over lines of float32.

    Return None if the processor has no fused multiply-add.
    """
    processor = target()
    if processor is None or not processor.fuses:
        return None
    p, is_tanh = ElementProgram(True, True), approximate == "tanh"
    reads = tuple([p.value("input", F32, detail=i) for i in range(1 if kind == "gelu" else 2)])
    first, last = reads[0], reads[-1]
    value = gelu(p, first, is_tanh) if kind == "gelu" else gelu_backward(p, first, last, is_tanh)
    return loop_function(write_loop(Loop(reads, ((value, "o0"),)), ["unit"] * (1 + len(reads)), 1))

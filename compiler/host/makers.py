"""Factories of loops for eager kernels. It imports little, since a program's first call may need it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.compiled_loops import Makers
from ...dispatch.structured.stub import StructuredCall
from .object_code import loop_function, target
from .task_pool import shared_loop


def loop_of_call(
    stub: str, call: StructuredCall, numbers: dict[str, Any], written: tuple[str, ...]
) -> Callable[..., None] | None:
    """Return a loop for a call of a stub (`eager_loops.loop_of_call`)."""
    from .eager_loops import loop_of_call

    return loop_of_call(stub, call, numbers, written)


def loop_by_name(name: str) -> Callable[..., None] | None:
    """Return a loop by name; None without llvmlite, or if it is not bitwise identical to NumPy's passes."""
    found = target()
    if found is None:
        return None
    kind, _, dtype = name.partition(" ")
    if kind.startswith("convolution"):
        if not found.fuses:
            return None
        from .convolution_source import convolution_loop

        return convolution_loop(kind, dtype)
    if kind.startswith("channel"):
        from .channel_source import channel_loop

        return channel_loop(kind, dtype)
    if kind.startswith("attention"):
        from .attention_source import attention_loop

        return attention_loop(kind, dtype)
    if kind == "row_gradient":
        from .row_gradient_source import row_gradient_loop

        return row_gradient_loop(*name.split()[1:])
    if kind in ("addresses", "adam", "sgd"):
        from .optimizer_loops import addresses, optimizer_loop

        return addresses() if kind == "addresses" else optimizer_loop(name)
    if kind in ("gelu", "gelu_backward", "recurrent"):
        if not found.fuses:
            return None
        from .gelu_loops import gelu_loop
        from .recurrent_loops import recurrent_loop

        return recurrent_loop(dtype) if kind == "recurrent" else gelu_loop(kind, dtype)
    if kind == "lines":
        from .line_loops import line_loop

        return line_loop(dtype)
    if kind == "mersenne_normal_32" and not found.fuses:
        return None
    if kind != "run_sums":
        from .draw_loops import draw_loop

        return draw_loop(name)
    from .run_sums import adds_as_numpy, sums_text

    if dtype == "float16" and not found.converts_half:
        return None
    loop = loop_function(sums_text(dtype))
    return loop if adds_as_numpy(dtype, loop) else None


MAKERS = Makers(loop_of_call, loop_by_name, shared_loop)

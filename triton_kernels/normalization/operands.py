"""Operands of normalisations as their programs take them, and the launches that read those."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...dispatch.structured.stub import StructuredCall
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import float32, float64
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration
from ..contiguous import contiguous_copy
from ..geometry import coalesced
from ..launch import ALIGNMENT, Launch, integer_type, interpreted
from ..reduction.reduction import REDUCTIONS, reduction


def strided_rows(spec: TensorSpec, lead: int) -> int | None:
    """Return the stride between a tensor's rows, or None if they are not contiguous."""
    step = 1
    for size, stride in zip(reversed(spec.sizes[lead:]), reversed(spec.strides[lead:]), strict=True):
        if size != 1 and stride != step:
            return None
        step *= size
    outer = coalesced(spec.sizes[:lead], [spec.strides[:lead]], keep_order=True)
    if len(outer.sizes) > 1:
        return None
    return outer.strides[0][0] if outer.sizes else step


class Operand(NamedTuple):
    """A tensor as rows: the stride between them, and a function from its data to data laid out so."""

    stride: int
    data: Callable[[Any], Any]


def as_rows(spec: TensorSpec, lead: int) -> Operand:
    """Return a tensor's rows in place, or those of a contiguous copy."""
    stride = strided_rows(spec, lead)
    if stride is not None:
        return Operand(stride, lambda data: data)
    return Operand(math.prod(spec.sizes[lead:]), contiguous_copy(spec)[1])


def as_row(spec: TensorSpec | None) -> Callable[[Any], Any]:
    """Return a function that makes a parameter's data contiguous; None stays."""
    return (lambda data: data) if spec is None else contiguous_copy(spec)[1]


def prepare(
    call: StructuredCall,
    kernel: Any,
    pointers: Mapping[str, TensorSpec | None],
    sizes: Mapping[str, int],
    constants: Mapping[str, object],
    warps: int,
    extent: int,
    numbers: Mapping[str, str] | None = None,
    ctas: int = 1,
) -> tuple[Launch, tuple[int, ...]]:
    """Return the launch, and the sizes that follow its pointers at each call; `numbers` come after those.

    Pointers without a spec are None in the kernel, and not passed. `ctas` blocks of `warps` are a program.
    """
    kind = integer_type(extent)
    signature = {name: f"*{s.dtype.triton_name}" for name, s in pointers.items() if s is not None}
    signature |= dict.fromkeys(sizes, kind) | dict(numbers or {})
    missing: dict[str, object] = {name: None for name, spec in pointers.items() if spec is None}
    index = {"INDEX": tl.int32 if kind == "i32" else tl.int64}
    launch = Launch(
        call.device,
        kernel,
        {name: signature[name] for name in kernel.arg_names if name in signature},
        {**constants, **missing, **index},
        divisible=[name for name, value in sizes.items() if value % ALIGNMENT == 0],
        num_warps=warps,
        num_ctas=ctas,
    )
    return launch, tuple(sizes[name] for name in kernel.arg_names if name in sizes)


def accumulator_dtype(dtype: ScalarType) -> ScalarType:
    """Return the accumulator dtype of a floating dtype."""
    return float64 if dtype is float64 else float32


def resident_programs(call: StructuredCall, blocks: int) -> int:
    """Return the number of resident programs if `blocks` share a multiprocessor; few in the interpreter."""
    if interpreted():
        return 3
    return blocks * driver().properties(call.device.resolved_index).multi_processor_count


def is_alike(tuned: Configuration, default: Configuration, body: int) -> bool:
    """Return True if a block of [rows, elements] may replace another: whole rows stay whole.

    Blocks of longer rows have sums for each of their elements, which fit only blocks that were declared for
    them.
    """
    if body <= default.tile[1]:
        return body <= tuned.tile[1]
    return body <= tuned.tile[1] or (tuned.elements <= default.elements and tuned.tile[0] <= default.tile[0])


def sum_parts(
    call: StructuredCall, parts: TensorSpec, out: TensorSpec, dims: tuple[int, ...]
) -> Callable[[Any, Any], Any]:
    """Return ``add_up(out, parts)`` over some dimensions, in a fixed order."""
    add_up = reduction(REDUCTIONS["sum_stub"])
    return add_up(
        call._replace(
            name="sum", args={"self": parts}, runtime=("self",), outputs=(out,), extra={"dims": dims}
        )
    ).into

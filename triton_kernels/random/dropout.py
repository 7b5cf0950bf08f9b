"""Dropout: values, mask and what is left of them in one pass where all is contiguous."""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ...runtime.errors import internal_assert
from ...runtime.generator import Seed
from ..budget import FLOATS, STREAMING, Configuration, declare
from ..conversion import compute_type, convert
from ..elementwise.elementwise import check_dtypes, elementwise, number_for
from ..launch import Launch, cdiv, launch_nothing
from . import random_functions as f
from .random import PHILOX_TYPES, block_of, drawn, draws, philox_numbers, start_of_draws, threshold


@triton.jit
def kept_of_counters(seed, counter, limit):
    """Return a mask of the elements that dropout keeps for blocks of counters, four elements for each counter, in
    order.
    """
    return draws(seed, counter, limit, None, None, None, f.bernoulli, False, False, tl.int1, 0)


@triton.jit
def kept_at(seed, first, index, limit):
    """Return a mask of the elements that dropout keeps, at any indices."""
    w0, w1, w2, w3 = tl.randint4x(seed, first + index // 4)
    place = index % 4
    word = tl.where(place < 2, tl.where(place == 0, w0, w1), tl.where(place == 2, w2, w3))
    return f.bernoulli(word, limit, None, None, None, tl.int1, 0)


@triton.jit
def drop(
    x,
    out,
    mask,
    n,
    seed,
    first,
    state,
    limit,
    scale,
    TYPE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    seed, first = start_of_draws(seed, first, state)
    block = tl.program_id(0).to(tl.int64)
    counter = first + block * BLOCK + tl.arange(0, BLOCK)
    keep = draws(seed, counter, limit, None, None, None, f.bernoulli, False, False, tl.int1, 0)
    start = block * BLOCK * 4
    index = start + tl.arange(0, BLOCK * 4)
    if start + BLOCK * 4 <= n:
        value = f.kept(convert(tl.load(x + index), TYPE), keep, scale)
        tl.store(out + index, convert(value, out.dtype.element_ty))
        tl.store(mask + index, keep)
    else:
        inside = index < n
        value = f.kept(convert(tl.load(x + index, mask=inside), TYPE), keep, scale)
        tl.store(out + index, convert(value, out.dtype.element_ty), mask=inside)
        tl.store(mask + index, keep, mask=inside)


def native_dropout(call: StructuredCall) -> PlannedKernel:
    """Return (input * mask / (1 - p), mask)."""
    spec, out, mask = call.args["input"], *call.outputs
    check_dtypes(call, [spec])
    if not spec.dtype.is_floating_point:
        raise call.refuse(spec)
    n = out.numel
    if n == 0:
        return PlannedKernel(launch_nothing)
    number = number_for(compute_type(spec.dtype))
    if not (spec.is_contiguous and out.is_contiguous and mask.is_contiguous):
        chosen("a mask, then products", "operands do not all lie one after another")
        fill = drawn(call, f.bernoulli, ["i64"], threshold, False, out=mask)
        scale_by = native_dropout_backward(
            call._replace(
                args={"grad_output": spec, "mask": mask, "scale": float},
                runtime=("grad_output", "mask", "scale"),
                outputs=(out,),
            )
        ).into

        def separately(out_data: Any, mask_data: Any, x: Any, p: float, seed: Seed, first: int) -> None:
            fill(mask_data, 1.0 - p, seed, first)
            scale_by(out_data, x, mask_data, scale_for(p))

        return PlannedKernel(separately)
    chosen("mask and products in one launch", "{} elements lie one after another", n)
    block = block_of(cdiv(n, 4))
    type_ = compute_type(spec.dtype)
    launch = Launch(
        call.device,
        drop,
        {
            "x": f"*{spec.dtype.triton_name}",
            "out": f"*{out.dtype.triton_name}",
            "mask": "*i1",
            "n": "i64",
            **PHILOX_TYPES,
            "limit": "i64",
            "scale": type_.name,
        },
        {"TYPE": type_, "BLOCK": block},
        elements=("state",),
    )
    grid = (cdiv(n, 4 * block), 1, 1)

    def into(out_data: Any, mask_data: Any, x: Any, p: float, seed: Seed, first: int) -> None:
        limit = threshold(1.0 - p)
        launch(
            grid,
            x.address,
            out_data.address,
            mask_data.address,
            n,
            *philox_numbers(seed, first),
            *limit,
            number(scale_for(p)),
        )

    return PlannedKernel(into)


def scale_for(p: float) -> float:
    """Return the scale of kept elements."""
    return 0.0 if p == 1 else 1.0 / (1.0 - p)


def native_dropout_backward(call: StructuredCall) -> PlannedKernel:
    """Compute grad * mask * scale."""
    inputs = [call.args[name] for name in call.runtime]
    check_dtypes(call, inputs)
    type_ = compute_type(call.outputs[0].dtype)
    types = {"grad_output": type_, "mask": tl.int1, "scale": type_}
    order = [call.runtime.index(name) for name in types if name in call.runtime]
    internal_assert(order == sorted(order), lambda: f"{call.name}: arguments in the order {order}")
    return elementwise(call, f.kept, inputs, [types[name] for name in call.runtime])


register_stub("native_dropout_stub", "cuda", native_dropout)
register_stub("native_dropout_backward_stub", "cuda", native_dropout_backward)

declare(
    drop,
    why=STREAMING,
    dtypes=FLOATS,
    configurations=(Configuration((256,)),),
    operations="2 n, and Philox's ten rounds for every four elements",
    traffic="n (2 itemsize + 1)",
    loads=("x",),
    stores=("out",),
    per_index=4,
)

"""Gamma, Poisson, binomial and Dirichlet numbers: one lane for each element, with counters of its own.

The contract is in `dispatch/structured/meta/draws.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.triton.lazy_triton import libdevice, tl, triton
from ...runtime.generator import Seed
from ...runtime.scalar_type import finfo, float64
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration, declare
from ..conversion import convert
from ..elementwise.copy import copy_kernel
from ..elementwise.elementwise import check_dtypes
from ..elementwise.value_checks import checked
from ..launch import Launch, cdiv, interpreted, launch_nothing, next_power_of_2
from . import rejection_functions as f
from .random import PHILOX_TYPES, check_floating, is_wide, philox_numbers, start_of_draws

ELEMENTS = 128
"""One for each thread of four warps: a program is done when its last lane is, so that few should wait for one."""

COLUMNS = 512
"""Elements of a row that a program has at a time."""


@triton.jit
def fill_by_rejection(
    out,
    a,
    b,
    n,
    seed,
    first,
    state,
    least,
    FUNCTION: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    seed, first = start_of_draws(seed, first, state)
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    one = convert(tl.load(a + index, mask=inside, other=1.0), tl.float64)
    other = convert(tl.load(b + index, mask=inside, other=0.5), tl.float64)
    value = FUNCTION(one, other, seed, first + index, inside, WIDE)
    value = tl.where(value < least, least, value)
    tl.store(out + index, convert(value, out.dtype.element_ty), mask=inside)


@triton.jit
def normalize_rows(logs, out, columns, least, most, BLOCK: tl.constexpr):
    """Exponentials over their sum, one program a row; where all are zero they are equal."""
    row = tl.program_id(0).to(tl.int64)
    greatest = tl.full((1,), float("-inf"), tl.float64)
    for base in range(0, columns, BLOCK):
        i = base + tl.arange(0, BLOCK).to(tl.int64)
        log = tl.load(logs + row * columns + i, mask=i < columns, other=float("-inf"))
        greatest = tl.maximum(greatest, tl.max(log, 0))
    total = tl.zeros((1,), tl.float64)
    for base in range(0, columns, BLOCK):
        i = base + tl.arange(0, BLOCK).to(tl.int64)
        log = tl.load(logs + row * columns + i, mask=i < columns, other=float("-inf"))
        power = tl.where(log == greatest, 1.0, libdevice.exp(log - greatest))
        total += tl.sum(tl.where(i < columns, power, 0.0), 0)
    for base in range(0, columns, BLOCK):
        i = base + tl.arange(0, BLOCK).to(tl.int64)
        log = tl.load(logs + row * columns + i, mask=i < columns, other=float("-inf"))
        share = tl.where(log == greatest, 1.0, libdevice.exp(log - greatest)) / total
        share = tl.where(share < least, least, tl.where(share > most, most, share))
        tl.store(out + row * columns + i, convert(share, out.dtype.element_ty), mask=i < columns)


def laid_out(call: StructuredCall, spec: TensorSpec) -> tuple[TensorSpec, Callable[[Any], Any]]:
    """Return a parameter's spec in the order of the output's elements, and the function that copies it there."""
    out = call.outputs[0]
    if spec.is_contiguous and spec.sizes == out.sizes:
        return spec, lambda data: data
    gapless = TensorSpec.contiguous(out.sizes, spec.dtype, spec.device)
    gather = copy_kernel(gapless, spec)
    allocate = get_allocator("cuda").allocate

    def gathered(data: Any) -> Any:
        buffer = allocate(gapless.nbytes, gapless.device)
        gather(buffer, data)
        return buffer

    return gapless, gathered


def by_elements(
    call: StructuredCall, function: Any, parameters: Sequence[str], least: float
) -> Callable[..., None]:
    """Return ``fill(out, *parameters, seed, first)`` with a function's numbers, which are at least `least`."""
    out = call.outputs[0]
    check_dtypes(call, [out, *(call.args[name] for name in parameters)])
    n = out.numel
    if n == 0:
        return launch_nothing
    laid = [laid_out(call, call.args[name]) for name in parameters]
    specs, gathers = [spec for spec, _ in laid], [gather for _, gather in laid]
    block = min(max(next_power_of_2(n), 16), 4096) if interpreted() else ELEMENTS
    launch = Launch(
        call.device,
        fill_by_rejection,
        {
            "out": f"*{out.dtype.triton_name}",
            "a": f"*{specs[0].dtype.triton_name}",
            "b": f"*{specs[-1].dtype.triton_name}",
            "n": "i64",
            **PHILOX_TYPES,
            "least": "fp64",
        },
        {"FUNCTION": function, "WIDE": is_wide(call.extra.get("like", out)), "BLOCK": block},
        elements=("state",),
    )
    grid = (cdiv(n, block), 1, 1)

    def fill(data: Any, *arguments: Any) -> None:
        *values, seed, first = arguments
        # Held until the launch: what was gathered has no other owner.
        held = [gather(value) for gather, value in zip(gathers, values, strict=True)]
        addresses = held[0].address, held[-1].address
        launch(grid, data.address, *addresses, n, *philox_numbers(seed, first), least)

    return fill


def gamma(call: StructuredCall) -> PlannedKernel:
    """Sample gamma numbers, at least the smallest normal number of the dtype."""
    spec = check_floating(call)
    return PlannedKernel(by_elements(call, f.standard_gamma, ["alpha"], finfo(spec.dtype).tiny))


def poisson(call: StructuredCall) -> PlannedKernel:
    """Sample Poisson numbers by rates."""
    check_floating(call)
    rate = call.args["rate"]
    check_dtypes(call, [rate])
    check = checked(call, rate, f.negative_rate, "invalid Poisson rate, expected rate to be non-negative")
    fill = by_elements(call, f.poisson, ["rate"], 0.0)

    def into(out: Any, rates: Any, seed: Seed, first: int) -> None:
        check(rates)
        fill(out, rates, seed, first)

    return PlannedKernel(into)


def binomial(call: StructuredCall) -> PlannedKernel:
    """Sample binomial numbers by counts and probabilities."""
    check_floating(call)
    return PlannedKernel(by_elements(call, f.binomial, ["count", "prob"], 0.0))


def dirichlet(call: StructuredCall) -> PlannedKernel:
    """Gamma numbers over their sum along the last dimension, by logarithms: small ones do not underflow."""
    spec = check_floating(call)
    check_dtypes(call, [spec, call.args["alpha"]])
    if spec.numel == 0:
        return PlannedKernel(launch_nothing)
    logs = TensorSpec.contiguous(spec.sizes, float64, call.device)
    draw = by_elements(
        call._replace(outputs=(logs,), extra={"like": spec}),
        f.log_standard_gamma,
        ["alpha"],
        float("-inf"),
    )
    columns = spec.sizes[-1] if spec.sizes else 1
    rows = spec.numel // columns
    limits = finfo(spec.dtype)
    launch = Launch(
        call.device,
        normalize_rows,
        {
            "logs": "*fp64",
            "out": f"*{spec.dtype.triton_name}",
            "columns": "i64",
            "least": "fp64",
            "most": "fp64",
        },
        {"BLOCK": min(max(next_power_of_2(columns), 16), 4096) if interpreted() else COLUMNS},
    )
    allocate = get_allocator("cuda").allocate

    def into(out: Any, alpha: Any, seed: Seed, first: int) -> None:
        buffer = allocate(logs.nbytes, logs.device)
        draw(buffer, alpha, seed, first)
        launch((rows, 1, 1), buffer.address, out.address, columns, limits.tiny, 1.0 - limits.eps / 2)

    return PlannedKernel(into)


register_stub("standard_gamma_stub", "cuda", gamma)
register_stub("poisson_stub", "cuda", poisson)
register_stub("binomial_stub", "cuda", binomial)
register_stub("sample_dirichlet_stub", "cuda", dirichlet)

REDUCED = (48, "libdevice's table for reducing large float64 arguments, on a path that is never taken")

declare(
    fill_by_rejection,
    warps=8,
    why="8 warps, two for each scheduler: an attempt is Philox and a dozen float64 logarithms, which need registers",
    dtypes=("fp32", "fp64", "fp16", "bf16"),
    configurations=(Configuration((128,)),),
    operations="for each element and attempt ten or twenty rounds of Philox and up to a dozen logarithms",
    traffic="n (itemsize + parameters' itemsizes)",
    local=dict.fromkeys(("standard_gamma", "log_standard_gamma"), REDUCED),
)

declare(
    normalize_rows,
    warps=16,
    why="16 warps: rows are short, and three passes of a row read what the first one left in the cache",
    dtypes=("fp32", "fp64", "fp16", "bf16"),
    configurations=(Configuration((512,)),),
    operations="two exponentials for each element",
    traffic="n (8 + itemsize)",
)

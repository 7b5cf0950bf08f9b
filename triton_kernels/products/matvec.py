"""Products of a matrix and a vector, and of two vectors: rows read once, lanes added up at the end.

Long rows of few are cut into parts, whose sums the same kernel adds up in a second launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.driver import driver
from ...runtime.cuda.lazy_triton import tl, triton
from ...runtime.scalar_type import BY_NAME
from ...runtime.tensor_spec import TensorSpec
from ..budget import STREAMING, Configuration, declare
from ..conversion import convert
from ..geometry import broadcast_strides
from ..launch import Launch, cdiv, integer_type, interpreted, launch_nothing, next_power_of_2
from .complex_matmul import complex_product
from .problem import Scales
from .product import Accumulation, accumulation, stride_arguments, with_addend

TILE = 2048
"""Elements of up to four bytes that a program adds up at a time; of longer ones half as many fit its registers."""
INTERPRETED_TILE = 1 << 16
TILES_IN_PART = 4
"""The least that a part of a row is worth a program of its own."""


@triton.jit
def matvec(
    a,
    x,
    addend,
    out,
    m,
    k,
    chunk,
    am,
    ak,
    xk,
    om,
    sm,
    alpha,
    beta,
    ACCUMULATOR: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    part = tl.program_id(1)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    total = tl.zeros((BLOCK_M, BLOCK_K), ACCUMULATOR)
    first = part * chunk
    last = tl.minimum(first + chunk, k)
    for start in range(first, last, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        mask = (rows < m)[:, None] & (inner < last)[None, :]
        value = tl.load(a + rows[:, None] * am + inner[None, :] * ak, mask=mask, other=0).to(ACCUMULATOR)
        if x is not None:
            value = value * tl.load(x + inner * xk, mask=inner < last, other=0).to(ACCUMULATOR)[None, :]
        total += value
    result = tl.sum(total, 1)
    if addend is not None:
        addend += rows * sm
    result = with_addend(result, addend, rows < m, alpha, beta)
    tl.store(out + rows * om + part, convert(result, out.dtype.element_ty), mask=rows < m)


NARROW = tuple(Configuration(tile) for tile in ((1, 2048), (32, 64), (128, 16)))
WIDE = tuple(Configuration(tile) for tile in ((1, 1024), (16, 64), (128, 8)))

declare(
    matvec,
    why=STREAMING,
    operand="a",
    tile=("BLOCK_M", "BLOCK_K"),
    dtypes={
        ("fp32", "fp16", "bf16", "i32", "i8", "i16", "u8"): NARROW,
        # Sums of 64 bits take two registers each, and as much again before they are stored: half as many for a lane.
        ("fp64",): WIDE,
        # A product of 64-bit integers is a sequence of 32-bit ones: a few registers more, 28 warps.
        ("i64",): tuple(Configuration(one.tile, blocks=7) for one in WIDE),
    },
    smaller=True,
    operations="2 m k",
    traffic="m k itemsize",
    loads=("a", "x"),
)


class Part:
    """One launch: (m, k) by (k,), or the sums of rows where there is no vector."""

    def __init__(
        self,
        call: StructuredCall,
        how: Accumulation,
        sizes: tuple[int, int],
        strides: dict[str, int],
        pointers: dict[str, str],
        scales: tuple[dict[str, str], dict[str, object]],
        splits: int,
        chunk: int,
        tile: tuple[int, int],
    ) -> None:
        m, k = sizes
        rows, inner = tile
        largest = max((m + rows) * max(strides["am"], strides["om"], strides["sm"]), m)
        largest += (k + inner + chunk) * max(strides["ak"], strides["xk"], 1)
        kind = integer_type(largest)
        signature, constants, values, divisible = stride_arguments(strides, kind)
        passed, fixed = scales
        every = {**pointers, "m": kind, "k": kind, "chunk": kind, **signature, **passed}
        self.launch = Launch(
            call.device,
            matvec,
            {name: every[name] for name in matvec.arg_names if name in every},
            {
                **dict.fromkeys(name for name in ("x", "addend") if name not in pointers),
                **constants,
                **fixed,
                "ACCUMULATOR": how.type,
                "BLOCK_M": rows,
                "BLOCK_K": inner,
            },
            divisible=[*divisible, *(n for n, v in (("m", m), ("k", k), ("chunk", chunk)) if v % 16 == 0)],
        )
        self.grid = (cdiv(m, rows), splits, 1)
        self.numbers = (m, k, chunk, *(values[name] for name in matvec.arg_names if name in values))

    def __call__(self, pointers: Sequence[int], scales: Sequence[int | float] = ()) -> None:
        self.launch(self.grid, *pointers, *self.numbers, *scales)


def tile_for(m: int, k: int, rows_are_inner: bool, itemsize: int) -> tuple[int, int]:
    """Rows and inner elements of a program, longer along the contiguous side."""
    tile = TILE if itemsize <= 4 else TILE // 2
    if interpreted():
        inner = min(next_power_of_2(k), 4096)
        return min(next_power_of_2(m), INTERPRETED_TILE // inner), inner
    if rows_are_inner:
        rows = min(next_power_of_2(m), 128)
        return rows, min(next_power_of_2(k), tile // rows)
    inner = min(next_power_of_2(k), tile)
    return min(next_power_of_2(m), max(1, tile // inner)), inner


def plan_product(
    call: StructuredCall,
    matrix: TensorSpec,
    vector: TensorSpec,
    addend: TensorSpec | None,
    scales: Scales | None,
) -> Any:
    """``run(matrix, vector, addend or None, out, numbers)`` over addresses; `matrix` is (m, k)."""
    out = call.outputs[0]
    how = accumulation(call, matrix)
    m, k = matrix.sizes
    rows, inner = tile_for(m, k, matrix.strides[0] < matrix.strides[1], matrix.dtype.itemsize)
    target = 2 if interpreted() else 2 * driver().properties(call.device.resolved_index).multi_processor_count
    splits = max(1, min(cdiv(k, TILES_IN_PART * inner), target // cdiv(m, rows)))
    chunk = cdiv(max(cdiv(k, splits), 1), inner) * inner
    splits = max(1, cdiv(k, chunk))
    strides = {
        "am": matrix.strides[0],
        "ak": matrix.strides[1],
        "xk": vector.strides[0],
        "om": out.strides[0] if out.ndim else 1,
        "sm": 0 if addend is None else broadcast_strides(addend, (m,))[0],
    }
    pointers = {
        "a": f"*{matrix.dtype.triton_name}",
        "x": f"*{vector.dtype.triton_name}",
        "out": f"*{out.dtype.triton_name}",
    }
    last = {} if addend is None else {"addend": f"*{addend.dtype.triton_name}"}
    plain: tuple[dict[str, str], dict[str, object]] = ({}, {"alpha": None, "beta": None})
    numbers = plain if scales is None else scales.signature(addend is not None)
    if splits == 1:
        whole = Part(call, how, (m, k), strides, pointers | last, numbers, 1, chunk, (rows, inner))

        def run(a: int, x: int, old: int | None, to: int, given: Sequence[int | float] = ()) -> None:
            whole((a, x, to) if old is None else (a, x, old, to), given)

        return run
    accumulator = BY_NAME[f"{'float' if how.type.is_floating() else 'int'}{how.type.primitive_bitwidth}"]
    name = f"*{accumulator.triton_name}"
    first = Part(
        call,
        how,
        (m, k),
        {**strides, "om": splits, "sm": 0},
        {**pointers, "out": name},
        plain,
        splits,
        chunk,
        (rows, inner),
    )
    width = next_power_of_2(splits)
    second = Part(
        call,
        how,
        (m, splits),
        {**strides, "am": splits, "ak": 1, "xk": 0},
        {"a": name, "out": pointers["out"], **last},
        numbers,
        1,
        width,
        (max(1, min(next_power_of_2(m), TILE // width)), width),
    )
    allocate, device, nbytes = get_allocator("cuda").allocate, call.device, m * splits * accumulator.itemsize

    def run_twice(a: int, x: int, old: int | None, to: int, given: Sequence[int | float] = ()) -> None:
        parts = allocate(nbytes, device)
        first((a, x, parts.address))
        second((parts.address, to) if old is None else (parts.address, old, to), given)

    return run_twice


def mv(call: StructuredCall) -> PlannedKernel:
    """(m, k) by (k,)."""
    matrix, vector = call.args["self"], call.args["vec"]
    if matrix.dtype.is_complex:
        return complex_product(call, ("self", "vec"))
    accumulation(call, matrix)
    if call.outputs[0].numel == 0:
        return PlannedKernel(launch_nothing)
    run = plan_product(call, matrix, vector, None, None)
    return PlannedKernel(lambda to, a, x: run(a.address, x.address, None, to.address))


def addmv(call: StructuredCall) -> PlannedKernel:
    """beta * self + alpha * (matrix by vector)."""
    matrix, vector, addend = call.args["mat"], call.args["vec"], call.args["self"]
    if matrix.dtype.is_complex:
        return complex_product(call, ("mat", "vec"))
    scales = Scales(call, accumulation(call, matrix))
    if call.outputs[0].numel == 0:
        return PlannedKernel(launch_nothing)
    with_it = plan_product(call, matrix, vector, addend, scales)
    without = plan_product(call, matrix, vector, None, scales)

    def into(to: Any, old: Any, a: Any, x: Any, *rest: Any) -> None:
        has_addend, numbers = scales.values((old, a, x, *rest))
        if has_addend:
            with_it(a.address, x.address, old.address, to.address, numbers)
        else:
            without(a.address, x.address, None, to.address, numbers)

    return PlannedKernel(into)


def dot(call: StructuredCall) -> PlannedKernel:
    """(k,) by (k,): a matrix of one row."""
    first, second = call.runtime
    left, right = call.args[first], call.args[second]
    if left.dtype.is_complex:
        return complex_product(call, (first, second), row=True, conjugated=call.name == "vdot")
    row = left.replace(sizes=(1, *left.sizes), strides=(left.numel, *left.strides))
    run = plan_product(call, row, right, None, None)
    return PlannedKernel(lambda to, a, x: run(a.address, x.address, None, to.address))


register_stub("mv_stub", "cuda", mv)
register_stub("addmv_stub", "cuda", addmv)
register_stub("dot_stub", "cuda", dot)
register_stub("vdot_stub", "cuda", dot)

"""Matrix-vector multiplication, single or batched: rows are read once, and lanes are added at the end.

A few long rows are split into parts, whose sums the same kernel adds in a second launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ...runtime.device import device as Device
from ...runtime.scalar_type import BY_NAME
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_spec import TensorSpec
from ..budget import STREAMING, Configuration, declare
from ..conversion import convert
from ..geometry import broadcast_strides
from ..launch import Launch, cdiv, integer_type, interpreted, launch_nothing, next_power_of_2
from .complex_matmul import complex_product
from .problem import Scales, multiprocessors
from .product import Accumulation, accumulation, stride_arguments, with_addend

TILE = 2048
"""Elements of up to four bytes that a program adds up at a time; of longer ones half as many fit its registers."""
INTERPRETED_TILE = 1 << 16
TILES_IN_PART = 4
"""The least that a part of a row is worth a program of its own."""
RESIDENT = 8
"""Programs that a multiprocessor holds at a time. With fewer too few loads are in flight for the memory's bandwidth."""


@triton.jit
def matvec(
    a,
    x,
    addend,
    out,
    m,
    k,
    chunk,
    az,
    am,
    ak,
    xz,
    xk,
    oz,
    om,
    sz,
    sm,
    alpha,
    beta,
    ACCUMULATOR: tl.constexpr,
    BATCHED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    part = tl.program_id(1)
    # In the sizes' type: a vector may have more elements than 32 bits count.
    block = tl.program_id(0).to(m.dtype)
    if BATCHED:
        blocks = tl.cdiv(m, BLOCK_M)
        batch = (block // blocks).to(tl.int64)
        block = block % blocks
        a += batch * az
        out += batch * oz
        if x is not None:
            x += batch * xz
        if addend is not None:
            addend += batch * sz
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
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


# On sm_80 the sums of a batch's parts take a few registers more: 28 warps.
BATCHED_BLOCKS = {80: 7, 90: 8, 100: 8}
NARROW = tuple(Configuration(tile, blocks=BATCHED_BLOCKS) for tile in ((1, 2048), (32, 64), (128, 16)))
WIDE = tuple(Configuration(tile, blocks=BATCHED_BLOCKS) for tile in ((1, 1024), (16, 64), (128, 8)))

declare(
    matvec,
    why=STREAMING,
    operand="a",
    tile=("BLOCK_M", "BLOCK_K"),
    dtypes={
        ("fp32", "fp16", "bf16", "i32", "i8", "i16", "u8"): NARROW,
        # Sums of 64 bits take two registers each, and as much again before they are stored: half as many for a lane.
        ("fp64",): WIDE,
        # A product of 64-bit integers is a sequence of 32-bit ones: 28 warps on sm_90, 24 on the others.
        ("i64",): tuple(Configuration(wide.tile, blocks={80: 6, 90: 7, 100: 6}) for wide in WIDE),
    },
    smaller=True,
    operations="2 m k",
    traffic="m k itemsize",
    loads=("a", "x"),
)


class Lines(NamedTuple):
    """Matrices' type and strides in elements; a vector's elements are rows."""

    dtype: ScalarType
    batch: int
    rows: int
    inner: int = 0


class Part:
    """One launch: (batch, m, k) by (batch, k), or the sums of rows where there is no vector."""

    def __init__(
        self,
        device: Device,
        how: Accumulation,
        sizes: tuple[int, int, int],
        matrix: Lines,
        vector: Lines | None,
        addend: Lines | None,
        out: Lines,
        scales: tuple[dict[str, str], dict[str, object]],
        splits: int,
        chunk: int,
        tile: tuple[int, int],
    ) -> None:
        batch, m, k = sizes
        rows, inner = tile
        strides = {"az": matrix.batch, "am": matrix.rows, "ak": matrix.inner, "oz": out.batch, "om": out.rows}
        operands = {"a": matrix, "out": out}
        for name, lines, letters in (("x", vector, ("xz", "xk")), ("addend", addend, ("sz", "sm"))):
            if lines is not None:
                operands[name] = lines
            along = (0, 0) if lines is None else (lines.batch, lines.rows)
            strides |= dict(zip(letters, along, strict=True))
        if batch == 1:
            strides |= dict.fromkeys(("az", "xz", "oz", "sz"), 0)
        largest = max((m + rows) * max(strides["am"], strides["om"], strides["sm"]), m + rows)
        largest += (k + inner + chunk) * max(strides["ak"], strides["xk"], 1)
        kind = integer_type(max(largest, *(strides[name] for name in ("az", "xz", "oz", "sz"))))
        signature, constants, values, divisible = stride_arguments(strides, kind)
        passed, fixed = scales
        every = {name: f"*{lines.dtype.triton_name}" for name, lines in operands.items()}
        every |= {"m": kind, "k": kind, "chunk": kind, **signature, **passed}
        self.launch = Launch(
            device,
            matvec,
            {name: every[name] for name in matvec.arg_names if name in every},
            {
                **dict.fromkeys(name for name in ("x", "addend") if name not in operands),
                **constants,
                **fixed,
                "ACCUMULATOR": how.type,
                "BATCHED": batch > 1,
                "BLOCK_M": rows,
                "BLOCK_K": inner,
            },
            divisible=[*divisible, *(n for n, v in (("m", m), ("k", k), ("chunk", chunk)) if v % 16 == 0)],
        )
        self.grid = (cdiv(m, rows) * batch, splits, 1)
        self.numbers = (m, k, chunk, *(values[name] for name in matvec.arg_names if name in values))

    def __call__(self, pointers: Sequence[int], scales: Sequence[int | float] = ()) -> None:
        self.launch(self.grid, *pointers, *self.numbers, *scales)


def tile_elements(itemsize: int) -> int:
    """Return the number of elements of a program's tile."""
    return TILE if itemsize <= 4 else TILE // 2


def tile_for(m: int, k: int, rows_are_inner: bool, itemsize: int) -> tuple[int, int]:
    """Return the rows and K elements of a program, more of them along the contiguous side."""
    tile = tile_elements(itemsize)
    if interpreted():
        inner = min(next_power_of_2(k), 4096)
        return min(next_power_of_2(m), INTERPRETED_TILE // inner), inner
    if rows_are_inner:
        rows = min(next_power_of_2(m), 128)
        return rows, min(next_power_of_2(k), tile // rows)
    inner = min(next_power_of_2(k), tile)
    return min(next_power_of_2(m), max(1, tile // inner)), inner


class Division(NamedTuple):
    """Division of a matrix-vector multiplication: the tile, and the parts of each row with their length."""

    tile: tuple[int, int]
    splits: int
    chunk: int


def division_of(device: Device, sizes: tuple[int, int, int], matrix: Lines) -> Division:
    """Divide a matrix-vector multiplication of sizes (batch, m, k): a few long rows have several parts."""
    batch, m, k = sizes
    rows, inner = tile_for(m, k, matrix.rows < matrix.inner, matrix.dtype.itemsize)
    blocks = cdiv(m, rows) * batch
    slots = 2 * blocks if interpreted() else RESIDENT * multiprocessors(device)
    splits = max(1, min(cdiv(k, TILES_IN_PART * inner), slots // blocks))
    chunk = cdiv(max(cdiv(k, splits), 1), inner) * inner
    return Division((rows, inner), max(1, cdiv(k, chunk)), chunk)


def plan_product(
    device: Device,
    how: Accumulation,
    sizes: tuple[int, int, int],
    matrix: Lines,
    vector: Lines,
    out: Lines,
    addend: Lines | None = None,
    scales: Scales | None = None,
) -> Any:
    """Return ``run(matrix, vector, addend or None, out, numbers)`` over addresses; `sizes` are (batch, m, k)."""
    batch, m, k = sizes
    tile, splits, chunk = division_of(device, sizes, matrix)
    plain: tuple[dict[str, str], dict[str, object]] = ({}, {"alpha": None, "beta": None})
    numbers = plain if scales is None else scales.signature(addend is not None)
    if splits == 1:
        whole = Part(device, how, sizes, matrix, vector, addend, out, numbers, 1, chunk, tile)

        def run(
            a: int, x: int, old: int | None, out_data: int, scale_values: Sequence[int | float] = ()
        ) -> None:
            whole((a, x, out_data) if old is None else (a, x, old, out_data), scale_values)

        return run
    chosen(
        "split-K",
        "{} blocks of lines are few, and {} elements of a line are summed in {} parts",
        cdiv(m, tile[0]) * batch,
        k,
        splits,
    )
    sums = BY_NAME[f"{'float' if how.type.is_floating() else 'int'}{how.type.primitive_bitwidth}"]
    first = Part(
        device, how, sizes, matrix, vector, None, Lines(sums, m * splits, splits), plain, splits, chunk, tile
    )
    width = next_power_of_2(splits)
    tile = max(1, min(next_power_of_2(m), tile_elements(sums.itemsize) // width)), width
    parts = Lines(sums, m * splits, splits, 1)
    second = Part(device, how, (batch, m, splits), parts, None, addend, out, numbers, 1, width, tile)
    allocate, nbytes = get_allocator("cuda").allocate, batch * m * splits * sums.itemsize

    def run_twice(
        a: int, x: int, old: int | None, out_data: int, scale_values: Sequence[int | float] = ()
    ) -> None:
        parts = allocate(nbytes, device)
        first((a, x, parts.address))
        second((parts.address, out_data) if old is None else (parts.address, old, out_data), scale_values)

    return run_twice


def plan_pair(
    call: StructuredCall,
    matrix: TensorSpec,
    vector: TensorSpec,
    addend: TensorSpec | None = None,
    scales: Scales | None = None,
) -> Any:
    """Return `plan_product` of one matrix (m, k) and one vector (k,)."""
    out = call.outputs[0]
    m, k = matrix.sizes
    return plan_product(
        call.device,
        accumulation(call, matrix),
        (1, m, k),
        Lines(matrix.dtype, 0, *matrix.strides),
        Lines(vector.dtype, 0, vector.strides[0]),
        Lines(out.dtype, 0, out.strides[0] if out.ndim else 1),
        None if addend is None else Lines(addend.dtype, 0, broadcast_strides(addend, (m,))[0]),
        scales,
    )


def mv(call: StructuredCall) -> PlannedKernel:
    """Multiply a matrix (m, k) by a vector (k,)."""
    matrix, vector = call.args["self"], call.args["vec"]
    if matrix.dtype.is_complex:
        return complex_product(call, ("self", "vec"))
    accumulation(call, matrix)
    if call.outputs[0].numel == 0:
        return PlannedKernel(launch_nothing)
    run = plan_pair(call, matrix, vector)
    return PlannedKernel(lambda out, a, x: run(a.address, x.address, None, out.address))


def addmv(call: StructuredCall) -> PlannedKernel:
    """Compute beta * self + alpha * (matrix by vector)."""
    matrix, vector, addend = call.args["mat"], call.args["vec"], call.args["self"]
    if matrix.dtype.is_complex:
        return complex_product(call, ("mat", "vec"))
    scales = Scales(call, accumulation(call, matrix))
    if call.outputs[0].numel == 0:
        return PlannedKernel(launch_nothing)
    with_it = plan_pair(call, matrix, vector, addend, scales)
    without = plan_pair(call, matrix, vector, None, scales)

    def into(out: Any, old: Any, a: Any, x: Any, *rest: Any) -> None:
        has_addend, numbers = scales.values((old, a, x, *rest))
        if has_addend:
            with_it(a.address, x.address, old.address, out.address, numbers)
        else:
            without(a.address, x.address, None, out.address, numbers)

    return PlannedKernel(into)


def dot(call: StructuredCall) -> PlannedKernel:
    """Compute the dot product of (k,) and (k,), as a matrix of one row."""
    first, second = call.runtime
    left, right = call.args[first], call.args[second]
    if left.dtype.is_complex:
        return complex_product(call, (first, second), row=True, conjugated=call.name == "vdot")
    row = left.replace(sizes=(1, *left.sizes), strides=(left.numel, *left.strides))
    run = plan_pair(call, row, right)
    return PlannedKernel(lambda out, a, x: run(a.address, x.address, None, out.address))


register_stub("mv_stub", "cuda", mv)
register_stub("addmv_stub", "cuda", addmv)
register_stub("dot_stub", "cuda", dot)
register_stub("vdot_stub", "cuda", dot)

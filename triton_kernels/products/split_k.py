"""Split-K for matmuls of few tiles: parts of the K dimension, whose sums are added in order.

It uses no atomics, so results do not depend on which part finishes first.
"""

from __future__ import annotations

from collections.abc import Callable

from ...runtime.allocator import get_allocator
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import STREAMING, Configuration, declare
from ..conversion import convert
from ..launch import Launch, cdiv, integer_type, interpreted, next_power_of_2
from ..programmatic import wait_for_earlier
from .epilogue import finish, saturated, scaled
from .problem import FusedEpilogue, Problem
from .product import stride_arguments


@triton.jit
def part_sums(
    parts, batch, rows, columns, mask, count, m, n, apart, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Return the sums of a tile of the result: its split-K parts, added in order."""
    part = parts + (batch * m + rows[:, None]) * n + columns[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), parts.dtype.element_ty)
    for _ in range(count):
        total += tl.load(part, mask=mask, other=0)
        part += apart
    return total


@triton.jit
def store_sums(
    total,
    addend,
    out,
    scale_a,
    scale_b,
    scale_out,
    batch,
    rows,
    columns,
    mask,
    m,
    n,
    oz,
    om,
    on,
    sz,
    sm,
    sn,
    alpha,
    beta,
    ACTIVATION: tl.constexpr,
    ROW_WISE: tl.constexpr,
    SATURATES: tl.constexpr,
):
    """Apply the epilogue to a tile of sums and store it through pointers; `batch` has 64 bits."""
    total = scaled(total, scale_a, scale_b, rows, columns, m, n, ROW_WISE)
    value = None
    if addend is not None:
        value = tl.load(addend + batch * sz + rows[:, None] * sm + columns[None, :] * sn, mask=mask, other=0)
        value = value.to(total.dtype)
    total = finish(total, value, alpha, beta, ACTIVATION)
    if SATURATES:
        total = saturated(total, scale_out, out.dtype.element_ty)
    tl.store(
        out + batch * oz + rows[:, None] * om + columns[None, :] * on,
        convert(total, out.dtype.element_ty),
        mask=mask,
    )


@triton.jit
def add_parts(
    parts,
    addend,
    out,
    scale_a,
    scale_b,
    scale_out,
    count,
    m,
    n,
    apart,
    oz,
    om,
    on,
    sz,
    sm,
    sn,
    alpha,
    beta,
    ACTIVATION: tl.constexpr,
    ROW_WISE: tl.constexpr,
    SATURATES: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    OVERLAPS: tl.constexpr,
    operands=None,
    EPILOGUE: tl.constexpr = None,
):
    wait_for_earlier(OVERLAPS)
    across, down = tl.cdiv(n, BLOCK_N), tl.cdiv(m, BLOCK_M)
    # In one dimension of the grid: the others end at 65,535.
    batch = (tl.program_id(0) // (across * down)).to(tl.int64)
    row, column = tl.program_id(0) // across % down * BLOCK_M, tl.program_id(0) % across * BLOCK_N
    rows, columns = row + tl.arange(0, BLOCK_M), column + tl.arange(0, BLOCK_N)
    mask = (rows < m)[:, None] & (columns < n)[None, :]
    total = part_sums(parts, batch, rows, columns, mask, count, m, n, apart, BLOCK_M, BLOCK_N)
    if EPILOGUE is not None:
        EPILOGUE(total, operands, addend, out, batch, row, column, m, n, sz, sm, sn, alpha, beta, ACTIVATION)
    else:
        store_sums(
            total, addend, out, scale_a, scale_b, scale_out, batch, rows, columns, mask, m, n, oz, om, on, sz, sm, sn,
            alpha, beta, ACTIVATION, ROW_WISE, SATURATES,
        )  # fmt: skip


declare(
    add_parts,
    why=STREAMING,
    operand="out",
    tile=("BLOCK_M", "BLOCK_N"),
    dtypes={
        ("fp32", "fp16", "bf16"): (Configuration((1, 512)), Configuration((8, 64))),
        ("fp8e4nv", "fp8e5"): (Configuration((1, 512), blocks={89: 8, 90: 8, 100: 8}),),
    },
    smaller=True,
    operations="m n parts",
    traffic="m n (4 parts + itemsize)",
    loads=("parts",),
)


def plan_addition(problem: Problem, count: int) -> Callable[..., None]:
    """``launch(parts address, [addend address,] out address, *scales)`` for parts of float32, one after another.

    With a fused epilogue, which is computed of the sums of all parts, its addresses come before the scales.
    """
    m, n, batch = problem.m, problem.n, problem.batch
    epilogue, addend = problem.epilogue, problem.epilogue.addend
    fused = epilogue.fused
    kernel = add_parts if fused is None else fused.kernel("parts")
    strides = dict(zip(("oz", "om", "on"), problem.out.strides, strict=True))
    strides |= dict(zip(("sz", "sm", "sn"), (0, 0, 0) if addend is None else addend.strides, strict=True))
    if interpreted():
        tile = min(next_power_of_2(m), 256), min(next_power_of_2(n), 256)
    else:
        tile = (1, 512) if n > 256 else (8, 64)
    reach = (m + tile[0]) * max(strides["om"], strides["sm"]) + (n + tile[1]) * max(
        strides["on"], strides["sn"]
    )
    apart = batch * m * n
    kind = integer_type(2 * max(reach, apart))
    signature, constants, values, divisible = stride_arguments({"apart": apart, **strides}, kind)
    passed, fixed = epilogue.signature()
    scales, kinds = epilogue.scale_arguments(problem.saturates)
    every = {
        "parts": "*fp32",
        "out": f"*{problem.out.dtype.triton_name}",
        **dict.fromkeys(("count", "m", "n"), "i32"),
        **signature,
        **passed,
        **scales,
    }
    if addend is None:
        constants["addend"] = None
    else:
        every["addend"] = f"*{addend.dtype.triton_name}"
    if fused is not None:
        every |= dict(fused.pointers)
    launch = Launch(
        problem.device,
        kernel,
        {name: every[name] for name in kernel.arg_names if name in every},
        {
            **constants,
            **fixed,
            **kinds,
            "ACTIVATION": epilogue.activation,
            "BLOCK_M": tile[0],
            "BLOCK_N": tile[1],
        },
        elements=tuple(scales) if fused is None else fused.elements,
        divisible=[*divisible, *(name for name, size in (("m", m), ("n", n)) if size % 16 == 0)],
    )
    grid = (cdiv(n, tile[1]) * cdiv(m, tile[0]) * batch, 1, 1)
    numbers = (count, m, n, *(values[name] for name in kernel.arg_names if name in values))
    pointers = 2 + epilogue.pointers

    def run(*arguments: int | float) -> None:
        launch(grid, *arguments[:pointers], *numbers, *arguments[pointers:])

    return run


def in_parts(problem: Problem, count: int, multiply: Callable[..., None]) -> Callable[..., None]:
    """Return a split-K matmul: `multiply(a, b, workspace)` writes the parts, and a second launch adds them.

    It is called as every plan of a matmul: ``(a, b, [addend,] out, *scales)`` over addresses. The launch that
    adds the parts also computes the fused epilogue.
    """
    add = plan_addition(problem, count)
    fused = problem.epilogue.fused
    if fused is not None and fused.sums is not None:
        return _of_computed_operands(problem, count, multiply, add, fused)
    allocate, device = get_allocator("cuda").allocate, problem.device
    nbytes = 4 * count * problem.batch * problem.m * problem.n

    def run(a: int, b: int, *rest: int | float) -> None:
        workspace = allocate(nbytes, device)
        multiply(a, b, workspace.address)
        add(workspace.address, *rest)

    return run


def _of_computed_operands(
    problem: Problem,
    count: int,
    multiply: Callable[..., None],
    add: Callable[..., None],
    fused: FusedEpilogue,
) -> Callable[..., None]:
    """`in_parts` where `multiply` computes operands: its further addresses are the last that come with `out`."""
    assert fused.sums is not None
    allocate, device = get_allocator("cuda").allocate, problem.device
    nbytes = 4 * count * problem.batch * problem.m * problem.n
    end = 1 + (problem.epilogue.addend is not None) + len(fused.pointers)
    begin = end - len(fused.sums.pointers)

    def run(a: int, b: int, *rest: int | float) -> None:
        workspace = allocate(nbytes, device)
        multiply(a, b, workspace.address, *rest[begin:end])
        add(workspace.address, *rest)

    return run

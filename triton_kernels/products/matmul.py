"""Matrix products: one tiled kernel over strides as they come, so that a transpose costs no copy.

The kernel ends with ``alpha * product + beta * addend`` where there is an addend, before anything is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.lazy_triton import tl, triton
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration, declare
from ..conversion import convert, type_name
from ..elementwise.copy import copy_kernel
from ..elementwise.elementwise import number_for
from ..geometry import broadcast_strides
from ..launch import ALIGNMENT, Launch, cdiv, integer_type, launch_nothing
from .product import (
    Accumulation,
    accumulation,
    multiply_add,
    stride_arguments,
    tile_of,
    tiling,
    with_addend,
)


@triton.jit
def matmul(
    a,
    b,
    addend,
    out,
    m,
    n,
    k,
    az,
    am,
    ak,
    bz,
    bk,
    bn,
    oz,
    om,
    on,
    sz,
    sm,
    sn,
    alpha,
    beta,
    ACCUMULATOR: tl.constexpr,
    DOT: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    batch = (tl.program_id(0) // (tiles_m * tiles_n)).to(tl.int64)
    tile_m, tile_n = tile_of(tl.program_id(0) % (tiles_m * tiles_n), tiles_m, tiles_n, 8)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_tile = a + batch * az + rows[:, None] * am + inner[None, :] * ak
    b_tile = b + batch * bz + inner[:, None] * bk + columns[None, :] * bn
    total = tl.zeros((BLOCK_M, BLOCK_N), ACCUMULATOR)
    for done in range(0, k, BLOCK_K):
        left = k - done
        x = tl.load(a_tile, mask=(rows < m)[:, None] & (inner < left)[None, :], other=0)
        y = tl.load(b_tile, mask=(inner < left)[:, None] & (columns < n)[None, :], other=0)
        total = multiply_add(total, x, y, DOT)
        a_tile += BLOCK_K * ak
        b_tile += BLOCK_K * bk
    mask = (rows < m)[:, None] & (columns < n)[None, :]
    if addend is not None:
        addend += batch * sz + rows[:, None] * sm + columns[None, :] * sn
    total = with_addend(total, addend, mask, alpha, beta)
    to = out + batch * oz + rows[:, None] * om + columns[None, :] * on
    tl.store(to, convert(total, out.dtype.element_ty), mask=mask)


HALF = (
    # 64 registers of sums for each lane: two blocks on sm_90, where operands stay in shared memory. On sm_100 one: its
    # tensor core works by itself on sums in tensor memory, and the epilogue has all of them and of the addend in
    # registers; on sm_80 one, where operands lie in registers too.
    # Where operands are not aligned their elements go through registers, with an address and a mask each: one.
    Configuration((128, 128, 64), 8, 3, {90: 2, 100: 1}, unaligned=1),
    Configuration((128, 128, 32), 8, 4, {80: 1}),
    # For few tiles: seldom more than two on a multiprocessor.
    Configuration((64, 64, 64), 4, 3, {90: 2, 100: 2}),
    Configuration((64, 64, 32), 4, 4, {80: 2}),
    # For lines that are no whole vectors, whose elements have an address and a mask each, as in a convolution.
    Configuration((128, 64, 32), 8, 3, 1),
    Configuration((64, 64, 32), 4, 3, 2),
)
SINGLE = (
    # 16 warps, four for each scheduler, hide the latency of FFMA.
    Configuration((64, 128, 16), 8, 3, 2),
    Configuration((64, 32, 16), 4, 3, 4),
)
DOUBLE = (
    # 32 registers of sums for each lane, and 16 warps for DMMA's latency.
    Configuration((64, 64, 16), 8, 3, 2),
    Configuration((32, 32, 16), 4, 3, 4),
)
WHOLE = (Configuration((16, 16, 16), 4, 2, 4),)

declare(
    matmul,
    why="see each configuration; a product is bound by arithmetic, and a tile's sums by registers",
    operand="a",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={
        ("bf16", "fp16"): HALF,
        ("fp32",): SINGLE,
        ("fp64",): DOUBLE,
        ("i32", "i64", "i8", "i16", "u8"): WHOLE,
    },
    smaller=True,
    operations="2 m n k",
    traffic="(m k + k n + m n) itemsize, and each operand again for every tile that shares it and finds it not in L2",
    loads=("a", "b"),
    stores=("out",),
    tensor_cores=("bf16", "fp16", "fp64"),
    exact=("fp32",),
)


def has_whole_vectors(spec: TensorSpec) -> bool:
    """Whether the lines of a matrix lie whole vectors of 128 bits apart; else its elements are loaded one by one."""
    strides = sorted(spec.strides[-2:])
    return strides[0] == 1 and strides[1] * spec.itemsize % ALIGNMENT == 0


class Scales:
    """The runtime numbers `beta` and `alpha` of a product-sum: where they stand, and how they are passed.

    Each is passed only where the call has one; a beta of 0 at the call takes the variant without an addend.
    """

    def __init__(self, call: StructuredCall, how: Accumulation) -> None:
        self.position = {name: call.runtime.index(name) for name in ("alpha", "beta") if name in call.runtime}
        self.number = number_for(how.type)
        self.type_name = type_name(how.type)
        self.drops_addend = "beta" not in self.position and call.args.get("beta") == 0

    def signature(self, has_addend: bool) -> tuple[dict[str, str], dict[str, object]]:
        """Types of the scales that are passed, and the others as constants."""
        passed = [name for name in self.position if has_addend or name == "alpha"]
        fixed = [name for name in ("alpha", "beta") if name not in passed]
        return dict.fromkeys(passed, self.type_name), dict.fromkeys(fixed)

    def values(self, inputs: Sequence[Any]) -> tuple[bool, list[int | float]]:
        """Whether the addend counts, and the scales as the kernel is given them."""
        beta = self.position.get("beta")
        has_addend = not self.drops_addend and (beta is None or inputs[beta] != 0)
        names = [name for name in self.position if has_addend or name == "alpha"]
        return has_addend, [self.number(inputs[self.position[name]]) for name in names]


def plan_matmul(
    call: StructuredCall,
    left: TensorSpec,
    right: TensorSpec,
    addend: TensorSpec | None,
    scales: Scales | None,
) -> Callable[..., None]:
    """``launch(a address, b address, [addend address,] out address, *scales)``."""
    out = call.outputs[0]
    how = accumulation(call, left)
    batch = out.sizes[0] if out.ndim == 3 else 1
    m, n, k = out.sizes[-2], out.sizes[-1], left.sizes[-1]
    strides: dict[str, int] = {}
    for spec, letters in (
        (left, ("az", "am", "ak")),
        (right, ("bz", "bk", "bn")),
        (out, ("oz", "om", "on")),
    ):
        own = spec.strides if spec.ndim == 3 else (0, *spec.strides)
        strides |= dict(zip(letters, own, strict=True))
    expanded = (0, 0, 0) if addend is None else (0, *broadcast_strides(addend, out.sizes))[-3:]
    strides |= dict(zip(("sz", "sm", "sn"), expanded, strict=True))
    gathered = left.itemsize == 2 and not (has_whole_vectors(left) and has_whole_vectors(right))
    tile = tiling(call.device, left.itemsize, how, m, n, k, batch, gathered)
    reach = max(
        (m + tile.m) * max(abs(strides[s]) for s in ("am", "om", "sm")) + (k + tile.k) * abs(strides["ak"]),
        (n + tile.n) * max(abs(strides[s]) for s in ("bn", "on", "sn")) + (k + tile.k) * abs(strides["bk"]),
    )
    signature, constants, values, divisible = stride_arguments(strides, integer_type(2 * reach))
    every = {
        "a": f"*{left.dtype.triton_name}",
        "b": f"*{right.dtype.triton_name}",
        "out": f"*{out.dtype.triton_name}",
        "m": "i32",
        "n": "i32",
        "k": "i32",
        **signature,
    }
    if addend is None:
        constants["addend"] = None
    else:
        every["addend"] = f"*{addend.dtype.triton_name}"
    if scales is None:
        constants |= {"alpha": None, "beta": None}
    else:
        passed, fixed = scales.signature(addend is not None)
        every |= passed
        constants |= fixed
    launch = Launch(
        call.device,
        matmul,
        {name: every[name] for name in matmul.arg_names if name in every},
        {**constants, **tile.constants(), "ACCUMULATOR": how.type, "DOT": how.dot},
        divisible=[
            *divisible,
            *(name for name, size in (("m", m), ("n", n), ("k", k)) if size % 16 == 0),
        ],
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
    grid = (cdiv(m, tile.m) * cdiv(n, tile.n) * batch, 1, 1)
    numbers = (m, n, k, *(values[name] for name in matmul.arg_names if name in values))
    pointers = 3 if addend is None else 4

    def run(*given: int | float) -> None:
        launch(grid, *given[:pointers], *numbers, *given[pointers:])

    return run


def product(names: tuple[str, str]) -> Callable[[StructuredCall], PlannedKernel]:
    """The kernel factory of ``left @ right`` for two matrices, or two batches of them; `names` are theirs."""

    def factory(call: StructuredCall) -> PlannedKernel:
        left, right = call.args[names[0]], call.args[names[1]]
        accumulation(call, left)
        if call.outputs[0].numel == 0:
            return PlannedKernel(launch_nothing)
        run = plan_matmul(call, left, right, None, None)
        return PlannedKernel(lambda to, x, y: run(x.address, y.address, to.address))

    return factory


def product_sum(names: tuple[str, str]) -> Callable[[StructuredCall], PlannedKernel]:
    """The kernel factory of ``beta * self + alpha * (left @ right)``; a beta of 0 drops `self`, its NaNs too."""

    def factory(call: StructuredCall) -> PlannedKernel:
        left, right, addend = call.args[names[0]], call.args[names[1]], call.args["self"]
        scales = Scales(call, accumulation(call, left))
        if call.outputs[0].numel == 0:
            return PlannedKernel(launch_nothing)
        with_it = plan_matmul(call, left, right, addend, scales)
        without = plan_matmul(call, left, right, None, scales)

        def into(to: Any, *inputs: Any) -> None:
            has_addend, numbers = scales.values(inputs)
            old, x, y = inputs[:3]
            if has_addend:
                with_it(x.address, y.address, old.address, to.address, *numbers)
            else:
                without(x.address, y.address, to.address, *numbers)

        return PlannedKernel(into)

    return factory


def folded(spec: TensorSpec) -> TensorSpec | None:
    """(b, n, k) as a matrix (n, b * k), or None where the strides do not allow it."""
    (b, n, k), (sb, sn, sk) = spec.sizes, spec.strides
    if b != 1 and k != 1 and sb != k * sk:
        return None
    return spec.replace(sizes=(n, b * k), strides=(sn, sb if k == 1 else sk))


def transposed(spec: TensorSpec) -> TensorSpec:
    """The spec with its last two dimensions exchanged."""
    return spec.replace(
        sizes=(*spec.sizes[:-2], spec.sizes[-1], spec.sizes[-2]),
        strides=(*spec.strides[:-2], spec.strides[-1], spec.strides[-2]),
    )


def gapless_fold(spec: TensorSpec) -> TensorSpec:
    """(b, n, k) with the strides of a contiguous (n, b, k), which folds."""
    b, _, k = spec.sizes
    return spec.replace(strides=(k, b * k, 1))


def addbmm(call: StructuredCall) -> PlannedKernel:
    """A sum over the batch is one product whose inner side runs over the batch too."""
    batches = (call.args["batch1"], transposed(call.args["batch2"]))
    accumulation(call, batches[0])
    if call.outputs[0].numel == 0:
        return PlannedKernel(launch_nothing)
    matrices: list[TensorSpec] = []
    gathers: list[tuple[Any, int] | None] = []
    for spec in batches:
        found = folded(spec)
        if found is None:
            gapless = gapless_fold(spec)
            gathers.append((copy_kernel(gapless, spec), gapless.numel * gapless.itemsize))
            found = folded(gapless)
            assert found is not None
        else:
            gathers.append(None)
        matrices.append(found)
    args = {**call.args, "batch1": matrices[0], "batch2": transposed(matrices[1])}
    multiply = product_sum(("batch1", "batch2"))(call._replace(args=args)).into
    allocate, device = get_allocator("cuda").allocate, call.device

    def into(to: Any, old: Any, *inputs: Any) -> None:
        operands = list(inputs)
        for i, gather in enumerate(gathers):
            if gather is not None:
                copy, nbytes = gather
                operands[i] = allocate(nbytes, device)
                copy(operands[i], inputs[i])
        multiply(to, old, *operands)

    return PlannedKernel(into)


register_stub("mm_stub", "cuda", product(("self", "mat2")))
register_stub("bmm_stub", "cuda", product(("self", "mat2")))
register_stub("addmm_stub", "cuda", product_sum(("mat1", "mat2")))
register_stub("baddbmm_stub", "cuda", product_sum(("batch1", "batch2")))
register_stub("addbmm_stub", "cuda", addbmm)

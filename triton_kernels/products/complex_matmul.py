"""Matmuls of complex matrices over pairs of reals: four real matmuls for each tile, in one launch.

Three would do (Gauss), but a sum of operands loses low bits of the smaller part. Sums have the real matmuls'
types: float32 for complex64, float64 for complex128.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ...runtime.float32_precision import matmul_allows_tf32
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration, declare
from ..geometry import broadcast_strides
from ..launch import Launch, cdiv, integer_type, interpreted, launch_nothing
from .problem import Matrices
from .product import bounded, stride_arguments, tile_of


@triton.jit
def times(real, imaginary, by_real, by_imaginary):
    """Multiply a complex tile by a number; a real number makes no NaN of infinities."""
    no_imaginary = by_imaginary == 0
    first = tl.where(no_imaginary, real * by_real, real * by_real - imaginary * by_imaginary)
    second = tl.where(no_imaginary, imaginary * by_real, real * by_imaginary + imaginary * by_real)
    return first, second


@triton.jit
def matmul_complex(
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
    alpha_real,
    alpha_imaginary,
    beta_real,
    beta_imaginary,
    CONJUGATED: tl.constexpr,
    PRECISION: tl.constexpr,
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
    a_tile = a + 2 * (batch * az + rows[:, None] * am + inner[None, :] * ak)
    b_tile = b + 2 * (batch * bz + inner[:, None] * bk + columns[None, :] * bn)
    real = tl.zeros((BLOCK_M, BLOCK_N), a.dtype.element_ty)
    imaginary = tl.zeros((BLOCK_M, BLOCK_N), a.dtype.element_ty)
    for done in range(0, k, BLOCK_K):
        left = k - done
        of_a = (rows < m)[:, None] & (inner < left)[None, :]
        of_b = (inner < left)[:, None] & (columns < n)[None, :]
        p = tl.load(a_tile, mask=of_a, other=0)
        q = tl.load(a_tile + 1, mask=of_a, other=0)
        if CONJUGATED:
            q = -q
        r = tl.load(b_tile, mask=of_b, other=0)
        s = tl.load(b_tile + 1, mask=of_b, other=0)
        real = tl.dot(p, r, real, input_precision=PRECISION, out_dtype=real.dtype)
        real = tl.dot(-q, s, real, input_precision=PRECISION, out_dtype=real.dtype)
        imaginary = tl.dot(p, s, imaginary, input_precision=PRECISION, out_dtype=real.dtype)
        imaginary = tl.dot(q, r, imaginary, input_precision=PRECISION, out_dtype=real.dtype)
        a_tile += 2 * BLOCK_K * ak
        b_tile += 2 * BLOCK_K * bk
    mask = (rows < m)[:, None] & (columns < n)[None, :]
    if alpha_real is not None:
        real, imaginary = times(real, imaginary, alpha_real, alpha_imaginary)
    if addend is not None:
        addend += 2 * (batch * sz + rows[:, None] * sm + columns[None, :] * sn)
        first = tl.load(addend, mask=mask, other=0)
        second = tl.load(addend + 1, mask=mask, other=0)
        if beta_real is not None:
            first, second = times(first, second, beta_real, beta_imaginary)
        real += first
        imaginary += second
    out_ptrs = out + 2 * (batch * oz + rows[:, None] * om + columns[None, :] * on)
    tl.store(out_ptrs, real, mask=mask)
    tl.store(out_ptrs + 1, imaginary, mask=mask)


declare(
    matmul_complex,
    why="two sums for each element take twice the registers of a real product's, so a tile has half of the elements",
    operand="a",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={
        # Every real has an address of its own, two apart, and takes registers for it: one block.
        ("fp32", "fp64"): (Configuration((32, 32, 16), 8, 2, 1),),
    },
    smaller=True,
    operations="8 m n k",
    traffic="(m k + k n + m n) itemsize, and each operand again for every tile that shares it and finds it not in L2",
)


def plan_complex(
    call: StructuredCall,
    left: Matrices,
    right: Matrices,
    out: Matrices,
    addend: Matrices | None,
    scaled: Sequence[str],
    precision: str,
    conjugated: bool = False,
) -> Callable[..., None]:
    """``launch(a, b, [addend,] out, *scales)`` over addresses, with each of `scaled`, complex numbers, as two reals."""
    batch, m, n = out.sizes
    k = left.sizes[2]
    element = left.dtype.to_real().triton_name
    block = (bounded(m, 32), bounded(n, 32), 16)
    if interpreted():
        block = (bounded(m, 256), bounded(n, 128), bounded(k, 128))
    strides: dict[str, int] = {}
    for letters, own in (
        (("az", "am", "ak"), left.strides),
        (("bz", "bk", "bn"), right.strides),
        (("oz", "om", "on"), out.strides),
        (("sz", "sm", "sn"), (0, 0, 0) if addend is None else addend.strides),
    ):
        strides |= dict(zip(letters, own, strict=True))
    reach = (m + block[0]) * max(strides["am"], strides["om"], strides["sm"])
    reach += (n + block[1]) * max(strides["bn"], strides["on"], strides["sn"])
    reach += (k + block[2]) * max(strides["ak"], strides["bk"])
    signature, constants, values, divisible = stride_arguments(strides, integer_type(4 * reach))
    every = {
        "a": f"*{element}",
        "b": f"*{element}",
        "out": f"*{element}",
        **dict.fromkeys("mnk", "i32"),
        **signature,
    }
    if addend is None:
        constants["addend"] = None
    else:
        every["addend"] = f"*{element}"
    for name in ("alpha", "beta"):
        for part in (f"{name}_real", f"{name}_imaginary"):
            if name in scaled and element is not None:
                every[part] = element
            else:
                constants[part] = None
    launch = Launch(
        call.device,
        matmul_complex,
        {name: every[name] for name in matmul_complex.arg_names if name in every},
        {
            **constants,
            "CONJUGATED": conjugated,
            "PRECISION": precision,
            "BLOCK_M": block[0],
            "BLOCK_N": block[1],
            "BLOCK_K": block[2],
        },
        divisible=divisible,
        num_warps=8,
        num_stages=2,
    )
    grid = (cdiv(m, block[0]) * cdiv(n, block[1]) * batch, 1, 1)
    numbers = (m, n, k, *(values[name] for name in matmul_complex.arg_names if name in values))
    pointers = 3 if addend is None else 4

    def run(*arguments: int | float) -> None:
        launch(grid, *arguments[:pointers], *numbers, *arguments[pointers:])

    return run


class ComplexScales:
    """The runtime numbers `beta` and `alpha` of a complex product-sum, each passed as two reals."""

    def __init__(self, call: StructuredCall) -> None:
        self.position = {name: call.runtime.index(name) for name in ("alpha", "beta") if name in call.runtime}
        self.drops_addend = "beta" not in self.position and call.args.get("beta") == 0

    def passed(self, has_addend: bool) -> list[str]:
        """Return the names of the scales that a launch with or without an addend takes."""
        return [name for name in self.position if has_addend or name == "alpha"]

    def values(self, inputs: Sequence[Any]) -> tuple[bool, list[float]]:
        """Return whether the addend counts, and the real and imaginary parts of the scales."""
        beta = self.position.get("beta")
        has_addend = not self.drops_addend and (beta is None or inputs[beta] != 0)
        numbers = (complex(inputs[self.position[name]]) for name in self.passed(has_addend))
        return has_addend, [part for number in numbers for part in (number.real, number.imag)]


def as_matrices(spec: TensorSpec, row: bool = False) -> Matrices:
    """Return matrices as they are; a vector as a column, or as a row."""
    if spec.ndim >= 2:
        return Matrices.of(spec)
    size, stride = (spec.sizes[0], spec.strides[0]) if spec.ndim else (1, 1)
    sizes, strides = ((1, 1, size), (0, 0, stride)) if row else ((1, size, 1), (0, stride, 0))
    return Matrices(sizes, strides, spec.dtype)


def complex_product(
    call: StructuredCall, names: tuple[str, str], row: bool = False, conjugated: bool = False
) -> PlannedKernel:
    """Return the kernel of left @ right, or of beta * self + alpha * (left @ right) if neither is called `self`.

    A left operand of one dimension is a `row`, and may be `conjugated`.
    """
    out = call.outputs[0]
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    left, right = as_matrices(call.args[names[0]], row), as_matrices(call.args[names[1]])
    out_data = as_matrices(out)
    precision = "tf32" if matmul_allows_tf32() and left.dtype.itemsize == 8 else "ieee"
    if "self" in names:
        run = plan_complex(call, left, right, out_data, None, (), precision, conjugated)
        return PlannedKernel(lambda out_data, x, y: run(x.address, y.address, out_data.address))
    scales = ComplexScales(call)
    old = call.args["self"]
    strides = broadcast_strides(old, out.sizes)
    addend = as_matrices(out.replace(strides=strides))
    with_it = plan_complex(call, left, right, out_data, addend, scales.passed(True), precision)
    without = plan_complex(call, left, right, out_data, None, scales.passed(False), precision)

    def into(out_data: Any, *inputs: Any) -> None:
        has_addend, numbers = scales.values(inputs)
        old, x, y = inputs[:3]
        if has_addend:
            with_it(x.address, y.address, old.address, out_data.address, *numbers)
        else:
            without(x.address, y.address, out_data.address, *numbers)

    return PlannedKernel(into)

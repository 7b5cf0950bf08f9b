"""Matmuls of badly laid out operands, copied first to lines of whole vectors, or to lines along K.

Element-wise loads of unaligned lines keep the tensor cores waiting. Warpgroups take 32-bit operands along K
alone (PTX ISA, wgmma, "Matrix-multiply instructions"). The kernel would transpose others in every tile again,
at a fifth of the speed on an H200. A copy moves each element twice; a matmul reads it once for every tile.
The copy therefore pays only for large matmuls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from ...runtime.allocator import get_allocator
from ...runtime.cuda.driver import driver
from ...runtime.device import device as Device
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.copy import copy_kernel
from ..launch import ALIGNMENT, cdiv
from .bulk import describe, plan_bulk
from .matmul import plan_tiled
from .problem import Matrices, Problem

WARPGROUPS = 90
"""The design of devices (`DeviceProperties.design`) whose matrix instructions are those of warpgroups."""
MIN_WORK = 1 << 24
"""Multiply-adds of a product that is worth another launch."""
MIN_USES = 128
"""Result elements for each element of an operand, from which its copy is worthwhile."""


class Bytes(NamedTuple):
    """Bytes at an address, as a copy takes them."""

    address: int


def padded(matrices: Matrices, near: int | None = None) -> Matrices:
    """Return the same sizes with line strides of whole vectors; expanded batches have one copy.

    Lines are along the dimension `near`, by default in memory order.
    """
    whole = ALIGNMENT // matrices.dtype.itemsize
    batch, rows, columns = matrices.sizes
    by_columns = matrices.strides[1] < matrices.strides[2] if near is None else near == 1
    lines, length = (columns, rows) if by_columns else (rows, columns)
    pitch = cdiv(length, whole) * whole
    apart = pitch * lines if matrices.strides[0] else 0
    return replace(matrices, strides=(apart if batch > 1 else 0, *((1, pitch) if by_columns else (pitch, 1))))


def turned(problem: Problem) -> tuple[bool, bool]:
    """Return for each operand whether it is not contiguous along K although warpgroups need it."""
    if problem.precision != "tf32" or driver().properties(problem.device.resolved_index).design != WARPGROUPS:
        return False, False
    return problem.left.strides[2] != 1, problem.right.strides[1] != 1


class Repacking:
    """The copy of one operand."""

    def __init__(self, device: Device, source: Matrices, target: Matrices) -> None:
        count = source.sizes[0] if target.strides[0] else 1
        sizes = (count, *source.sizes[1:])
        plain = TensorSpec.contiguous(sizes, source.dtype, device)
        self.copy = copy_kernel(plain.replace(strides=target.strides), plain.replace(strides=source.strides))
        by_columns = target.strides[1] == 1
        lines = sizes[2] if by_columns else sizes[1]
        self.nbytes = count * lines * max(target.strides[1:]) * target.dtype.itemsize
        self.device = device

    def __call__(self, address: int) -> Any:
        """Return the memory of the copy."""
        memory = get_allocator("cuda").allocate(self.nbytes, self.device)
        self.copy(memory, Bytes(address))
        return memory


def plan_repacked(problem: Problem) -> Callable[..., None] | None:
    """Return ``launch(a, b, [addend,] out, *scales)``; None where nothing is to be copied, or not worth it."""
    m, n, k, batch = problem.shape
    if batch * m * n * k < MIN_WORK:
        return None
    operands = [problem.left, problem.right]
    copies: list[Repacking | None] = [None, None]
    for i, (uses, inner, is_turned) in enumerate(zip((n, m), (2, 1), turned(problem), strict=True)):
        operand = operands[i]
        badly_apart = describe(operand) is None
        if badly_apart and uses < MIN_USES:
            return None
        if badly_apart or (is_turned and uses >= MIN_USES):
            operands[i] = padded(operand, inner if is_turned else None)
            copies[i] = Repacking(problem.device, operand, operands[i])
    if copies == [None, None]:
        return None
    left, right = operands
    bulk = plan_bulk(replace(problem, left=left, right=right))
    if bulk is None:
        return None
    pointers = 3 if problem.epilogue.addend is None else 4
    first, second = copies
    tiled: list[Callable[..., None]] = []

    def run(a: int, b: int, *rest: int) -> None:
        bits = (a if first is None else 0) | (b if second is None else 0)
        for address in rest[: pointers - 2]:
            bits |= address
        if bits % ALIGNMENT:
            if not tiled:
                tiled.append(plan_tiled(problem))
            tiled[0](a, b, *rest)
            return
        x = Bytes(a) if first is None else first(a)
        y = Bytes(b) if second is None else second(b)
        bulk(x.address, y.address, *rest)

    return run

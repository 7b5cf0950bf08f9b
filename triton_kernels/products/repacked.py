"""Products of operands whose lines are no whole vectors apart: those are copied into lines that are.

Element by element, such lines keep the tensor cores waiting; a copy moves each element twice, a product reads it once
for every tile. Only for products large enough that the copy is the smaller part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from ...runtime.allocator import get_allocator
from ...runtime.device import device as Device
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.copy import copy_kernel
from ..launch import ALIGNMENT, cdiv
from .bulk import describe, plan_bulk
from .matmul import plan_tiled
from .problem import Matrices, Problem

LEAST_WORK = 1 << 24
"""Multiply-adds of a product that is worth another launch."""
LEAST_USES = 128
"""How many elements of the result each element of an operand goes into, for its copy to be worthwhile."""


class _Bytes(NamedTuple):
    """Bytes at an address, as a copy takes them."""

    address: int


def padded(matrices: Matrices) -> Matrices:
    """The same sizes over lines whole vectors apart, in the order in which they lie; expanded batches once."""
    whole = ALIGNMENT // matrices.dtype.itemsize
    batch, rows, columns = matrices.sizes
    by_columns = matrices.strides[1] < matrices.strides[2]
    lines, length = (columns, rows) if by_columns else (rows, columns)
    pitch = cdiv(length, whole) * whole
    near = (1, pitch) if by_columns else (pitch, 1)
    apart = pitch * lines if matrices.strides[0] else 0
    return replace(matrices, strides=(apart if batch > 1 else 0, *near))


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
        """The copy's memory."""
        memory = get_allocator("cuda").allocate(self.nbytes, self.device)
        self.copy(memory, _Bytes(address))
        return memory


def plan_repacked(problem: Problem) -> Callable[..., None] | None:
    """``launch(a, b, [addend,] out, *scales)``; None where nothing is to be copied, or not worth it."""
    m, n, k, batch = problem.shape
    if batch * m * n * k < LEAST_WORK:
        return None
    left, right = problem.left, problem.right
    copies: list[Repacking | None] = [None, None]
    for i, (operand, uses) in enumerate(((left, n), (right, m))):
        if describe(operand) is None:
            if uses < LEAST_USES:
                return None
            copies[i] = Repacking(problem.device, operand, padded(operand))
    if copies == [None, None]:
        return None
    bulk = plan_bulk(
        replace(
            problem,
            left=left if copies[0] is None else padded(left),
            right=right if copies[1] is None else padded(right),
        )
    )
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
        x = _Bytes(a) if first is None else first(a)
        y = _Bytes(b) if second is None else second(b)
        bulk(x.address, y.address, *rest)

    return run

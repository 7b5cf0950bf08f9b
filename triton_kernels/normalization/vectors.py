"""Rows split into whole vectors of 16 bytes and the elements before and after them, at any start address.

A row is a run of memory. Its whole vectors are its body, accessed 128 bits at a time. Fewer than two vectors
of elements are at its edges; they form a small tile of their own, each with an address and a mask. Kernels
read nothing outside of a row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..conversion import convert
from ..launch import ALIGNMENT, interpreted
from ..reduction.reduction_kernels import largest, sum_of

SHORTEST = 1025
"""Minimum length of a row with edges, which has a program to itself: shorter rows share theirs."""
INTERPRETED_VECTORS = 4
"""The interpreter cuts rows of so many vectors."""


class Cut(NamedTuple):
    """Split of rows for a kernel: elements of a vector, and whether rows begin or end within a vector.

    Rows with edges have a program each. 64-bit elements may as well be loaded one by one.

    `vector` is 0 if rows are accessed without edges: as whole vectors if their length and strides are
    multiples of 16, which the compiler is told, else an element at a time.
    """

    vector: int
    edges: bool

    def constants(self) -> dict[str, object]:
        """Return the kernel's constexprs."""
        return {"VECTOR": self.vector, "EDGES": self.edges}

    def body(self, n: int) -> int:
        """Return the most elements that the body of a row of `n` has."""
        return n // self.vector * self.vector if self.edges else n


AS_THEY_ARE = Cut(0, False)


def cut_rows(n: int, itemsizes: Sequence[int], strides: Sequence[Sequence[int]]) -> Cut:
    """Return the split of contiguous rows of `n` elements.

    Args:
        itemsizes: Item size of each tensor; a vector has elements of the smallest one.
        strides: Strides between rows, of each tensor. All rows of an index must have the same offset in a vector.

    Example:
        >>> from triten.triton_kernels.normalization.vectors import cut_rows
        >>> cut_rows(50257, [2, 2], [[50257], [50257]])
        Cut(vector=8, edges=True)
        >>> cut_rows(1000, [2], [[1000]]), cut_rows(12, [2], [[12]])
        (Cut(vector=8, edges=False), Cut(vector=4, edges=False))
        >>> cut_rows(1024, [2], [[1024]]), cut_rows(1023, [2, 2], [[1023], [1024]])
        (Cut(vector=0, edges=False), Cut(vector=0, edges=False))
    """
    widest = ALIGNMENT // min(itemsizes)
    every = (n, *(stride for own in strides for stride in own))
    if widest < 2 or all(size % ALIGNMENT == 0 for size in every):
        return AS_THEY_ARE
    common = math.gcd(widest, *every)
    shortest = INTERPRETED_VECTORS * widest if interpreted() else SHORTEST
    if common < widest and widest >= 4 and n >= shortest:
        begin_alike = all(
            (element_stride - own[0]) % widest == 0
            for own in zip(*strides, strict=True)
            for element_stride in own
        )
        if begin_alike:
            return Cut(widest, True)
    return Cut(common, False) if common > 1 else AS_THEY_ARE


@triton.jit
def loaded(at, mask, ACCUMULATOR: tl.constexpr, EVICTION: tl.constexpr = ""):
    """Load elements, 0 outside the mask.

    EVICTION: "evict_last" in the first pass over a row that is read twice, so that L2 has it for the second pass, which
    is "evict_first".
    """
    return convert(tl.load(at, mask=mask, other=0, eviction_policy=EVICTION), ACCUMULATOR)


@triton.jit
def first_vector(start, VECTOR: tl.constexpr):
    """Return the first whole vector of rows that begin at `start`."""
    if VECTOR > 0:
        return (start + (VECTOR - 1)) // VECTOR * VECTOR
    else:
        return start


@triton.jit
def room_after(begin, start, n, row_mask, VECTOR: tl.constexpr):
    """Return the number of elements of each row from `begin` on; `n` if rows are not split."""
    if VECTOR > 0:
        return tl.where(row_mask, start + n - begin, 0)[:, None]
    else:
        return n


@triton.jit
def inside(lane, base, room, row_mask, VECTOR: tl.constexpr):
    """Return a mask of the elements of the tile at `base` within the body; each whole vector has one mask bit."""
    if VECTOR > 0:
        return lane // VECTOR * VECTOR + VECTOR <= room - base
    else:
        return row_mask[:, None] & (base + lane < room)


@triton.jit
def edge_columns(start, n, VECTOR: tl.constexpr, INDEX: tl.constexpr):
    """Return the columns outside whole vectors of a row that begins at the number `start`, as [2 VECTOR], and their
    mask.

    The result covers one row in one dimension, because a reduction to a scalar has no layout. Otherwise the
    compiler would load the columns again in the body's layout, with one load for each element of a vector.
    """
    lane = tl.arange(0, 2 * VECTOR).to(INDEX)
    first = tl.minimum((start + (VECTOR - 1)) // VECTOR * VECTOR - start, n)
    after = tl.maximum((start + n) // VECTOR * VECTOR - start, first)
    column = tl.where(lane < VECTOR, lane, after + (lane - VECTOR))
    return column, column < tl.where(lane < VECTOR, first, n)


@triton.jit
def sum_of_all(elements):
    """Return the sum of a one-dimensional tensor; a single element becomes a scalar."""
    return tl.reduce(elements, 0, sum_of)


@triton.jit
def largest_of(elements):
    return tl.reduce(elements, 0, largest)

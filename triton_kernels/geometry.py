"""Sizes and strides of several operands over one index space, broadcast, ordered and coalesced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..runtime.tensor_spec import TensorSpec


class Geometry(NamedTuple):
    """An index space, fastest dimension first, and each operand's strides in elements over it."""

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def is_dense(self) -> bool:
        """True if every operand is one dense run of elements, or a single element."""
        return len(self.sizes) <= 1 and all(s in ((1,), (0,), ()) for s in self.strides)

    def extent(self) -> int:
        """Return the largest offset, in elements, of any operand."""
        return max(
            (
                sum((n - 1) * abs(s) for n, s in zip(self.sizes, strides, strict=True))
                for strides in self.strides
            ),
            default=0,
        )

    def exchanged(self, least: int) -> Geometry | None:
        """Return the space with a second dimension along which some operand is contiguous, but not along the
        first.

        Return None if there is no such operand, or if those two dimensions have fewer than `least` elements.

        Example:
            >>> from triten.triton_kernels.geometry import Geometry
            >>> Geometry((8, 3, 5), ((1, 8, 24), (15, 5, 1))).exchanged(16)
            Geometry(sizes=(8, 5, 3), strides=((1, 24, 8), (15, 1, 5)))
        """
        for own in self.strides[1:]:
            if not own or own[0] in (0, 1) or 1 not in own:
                continue
            second = own.index(1)
            if self.sizes[0] * self.sizes[second] >= least:
                order = [0, second, *(i for i in range(1, len(own)) if i != second)]
                return Geometry(
                    tuple(self.sizes[i] for i in order),
                    tuple(tuple(strides[i] for i in order) for strides in self.strides),
                )
        return None


def broadcast_strides(spec: TensorSpec, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a tensor expanded to `sizes`."""
    lead = len(sizes) - spec.ndim
    return (0,) * lead + tuple(0 if n == 1 else s for n, s in zip(spec.sizes, spec.strides, strict=True))


def coalesced(sizes: Sequence[int], operands: Sequence[Sequence[int]], keep_order: bool = False) -> Geometry:
    """Merge dimensions that every operand walks through in one stride.

    Args:
        sizes: the index space, outermost dimension first, as tensors have it; without zeros.
        operands: strides of each operand over it; the first one's order decides which dimension is inner.
        keep_order: leave the logical order of the dimensions as it is.
    """
    dims = [i for i in range(len(sizes) - 1, -1, -1) if sizes[i] != 1]
    if not keep_order:
        dims.sort(key=lambda i: tuple(abs(strides[i]) for strides in operands))
    merged: list[int] = []
    steps: list[list[int]] = [[] for _ in operands]
    for i in dims:
        if merged and all(
            strides[i] == own[-1] * merged[-1] for strides, own in zip(operands, steps, strict=True)
        ):
            merged[-1] *= sizes[i]
            continue
        merged.append(sizes[i])
        for strides, own in zip(operands, steps, strict=True):
            own.append(strides[i])
    return Geometry(tuple(merged), tuple(tuple(own) for own in steps))


def elementwise_geometry(out: TensorSpec, inputs: Sequence[TensorSpec]) -> Geometry:
    """Return the space of an elementwise operator: the output first, then its inputs broadcast to its sizes."""
    return coalesced(out.sizes, [out.strides, *(broadcast_strides(spec, out.sizes) for spec in inputs)])

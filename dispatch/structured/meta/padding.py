"""Meta functions of padding (ATen/native/PadNd.cpp, ReflectionPad.cpp, ReplicationPadding.cpp)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....runtime.memory_format import channels_last, channels_last_3d, channels_last_strides
from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase
from .line_maps import Kind, LineMap

if TYPE_CHECKING:
    from ..meta_base import NumberKind

KINDS = {"reflection": Kind.REFLECT, "replication": Kind.REPLICATE}
SIDES = {1: "W", 2: "HW", 3: "DHW"}


def constant_pad_nd(meta: MetaBase, self: TensorSpec, pad: Sequence[int], value: NumberKind) -> None:
    """Infer a border of a constant on both sides of the last dimensions; negative widths crop elements.

    Raises RuntimeError for an odd number of sides, for more sides than the tensor has, and for negative output sizes.
    """
    if len(pad) % 2:
        raise RuntimeError("Length of pad must be even but instead it equals " + str(len(pad)))
    if len(pad) > 2 * self.ndim:
        raise RuntimeError(
            f"Length of pad should be no more than twice the number of dimensions of the input. Pad length is "
            f"{len(pad)}while the input has {self.ndim}dimensions."
        )
    untouched = self.ndim - len(pad) // 2
    maps = []
    for dim, n in enumerate(self.sizes):
        left, right = pad_of(pad, self.ndim, dim)
        out = n + left + right
        if out < 0 and dim >= untouched:
            raise RuntimeError(
                f"The input size {n}, plus negative padding {left} and {right} resulted in a negative output size, "
                f"which is invalid. Check dimension {dim} of your input."
            )
        kind = Kind.CONSTANT if left or right else Kind.KEEP
        maps.append(LineMap(kind, n, out, left))
    sizes = tuple(line.out for line in maps)
    meta.extra["maps"] = tuple(maps)
    meta.set_output_strided(0, sizes, strides_like(self, sizes), dtype=self.dtype)


def pad_of(pad: Sequence[int], rank: int, dim: int) -> tuple[int, int]:
    """Return the padding before and after a dimension; pairs begin with the last dimension."""
    offset = 2 * (rank - 1 - dim)
    return (pad[offset], pad[offset + 1]) if offset < len(pad) else (0, 0)


def strides_like(self: TensorSpec, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return channels-last strides if the input is channels-last, else contiguous ones."""
    format = self.suggest_memory_format()
    return channels_last_strides(sizes) if format in (channels_last, channels_last_3d) else ()


def _spatial(meta: MetaBase, self: TensorSpec, padding: Sequence[int]) -> tuple[LineMap, ...]:
    """Return the checked maps of the last dimensions of `reflection_pad2d` and similar operators."""
    kind = KINDS[meta.name.partition("_")[0]]
    rank = int(meta.name.partition("_pad")[2][0])
    if len(padding) != 2 * rank:
        detail = f", but got: {len(padding)}" if kind is Kind.REFLECT else ""
        raise RuntimeError(f"padding size is expected to be {2 * rank}{detail}")
    batched = self.ndim == rank + 2
    if self.ndim not in (rank + 1, rank + 2) or 0 in self.sizes[batched:]:
        raise RuntimeError(
            f"Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(self.sizes)}"
        )
    maps: list[LineMap] = []
    for dim in range(self.ndim - 1, self.ndim - rank - 1, -1):
        left, right = pad_of(padding, self.ndim, dim)
        n = self.sizes[dim]
        if kind is Kind.REFLECT and (left >= n or right >= n):
            raise RuntimeError(
                f"Argument #{4 + 2 * len(maps)}: Padding size should be less than the corresponding input dimension, "
                f"but got: padding ({left}, {right}) at dimension {dim} of input {list(self.sizes)}"
            )
        maps.insert(0, LineMap(kind, n, n + left + right, left))
    sizes = [line.out for line in maps]
    if all(n < 1 for n in sizes):
        sides = [f"{side}: {line.n}" for side, line in zip(SIDES[rank], maps, strict=True)]
        made = " ".join(f"{side}: {n}" for side, n in zip(SIDES[rank], sizes, strict=True))
        input_sides = ", ".join(sides[-2:])
        if rank == 2 and kind is Kind.REPLICATE:
            input_sides += " "
        if rank == 3:
            input_sides = f"{sides[0]} {input_sides}"
        raise RuntimeError(f"input ({input_sides}) is too small. Calculated output {made}")
    if any(n < 0 for n in sizes):
        made_sizes = [*self.sizes[:-rank], *sizes]
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(sizes)}: {made_sizes}")
    return tuple(maps)


def pad_spatial(meta: MetaBase, self: TensorSpec, padding: Sequence[int]) -> None:
    """Infer a border of mirrored or replicated elements around the last one to three dimensions."""
    maps = _spatial(meta, self, padding)
    sizes = (*self.sizes[: -len(maps)], *(line.out for line in maps))
    meta.extra["maps"] = maps
    meta.set_output_strided(0, sizes, strides_like(self, sizes), dtype=self.dtype)


def pad_spatial_backward(
    meta: MetaBase, grad_output: TensorSpec, self: TensorSpec, padding: Sequence[int]
) -> None:
    """Infer the gradient of each element: the sum of the gradients of its copies."""
    maps = _spatial(meta, self, padding)
    expected = (*self.sizes[: -len(maps)], *(line.out for line in maps))
    if grad_output.sizes != expected:
        for dim in range(-1, -len(maps) - 1, -1):
            if grad_output.ndim != self.ndim or grad_output.sizes[dim] != expected[dim]:
                names = {-1: "width", -2: "height", -3: "depth"}
                got = grad_output.sizes[dim] if grad_output.ndim >= -dim else None
                raise RuntimeError(
                    f"gradOutput {names[dim]} unexpected. Expected: {expected[dim]}, Got: {got}"
                )
        raise RuntimeError(f"grad_output: expected sizes {list(expected)}, got {list(grad_output.sizes)}")
    meta.extra["maps"] = maps
    meta.set_output_strided(0, self.sizes, strides_like(self, self.sizes), dtype=self.dtype)

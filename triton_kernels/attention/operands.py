"""Operands of attention as its programs take them: strides, masks, tiles by dtype and head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...dispatch.structured.stub import StructuredCall
from ...runtime.tensor_spec import TensorSpec
from ..contiguous import contiguous_copy
from ..geometry import broadcast_strides
from ..launch import ALIGNMENT, integer_type, next_power_of_2
from ..products.product import MIN_TILE_SIZE, stride_arguments

LOG2_E = 1.4426950408889634
LARGEST_TILE = 256
"""Rows of the largest tile, interpreted or not."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of a call: query (batch, heads, length_q, width), key (batch, heads_k, length_k, width)."""

    batch: int
    heads: int
    heads_k: int
    length_q: int
    length_k: int
    width: int
    width_v: int

    @staticmethod
    def of(query: TensorSpec, key: TensorSpec, value: TensorSpec) -> Sizes:
        """Return the sizes of these operands."""
        return Sizes(
            *query.sizes[:2], key.sizes[1], query.sizes[2], key.sizes[2], query.sizes[3], value.sizes[3]
        )

    @property
    def group(self) -> int:
        """Number of heads that share keys."""
        return self.heads // max(self.heads_k, 1)

    @property
    def lines(self) -> int:
        """Queries of all heads."""
        return self.batch * self.heads * self.length_q

    @property
    def head(self) -> int:
        """Return the wider of the two head dimensions, which is the tiles' size."""
        return padded(max(self.width, self.width_v))

    def constants(self) -> dict[str, object]:
        """Return the kernels' constexprs for the head widths: the number of elements, and the block that holds
        them.
        """
        return {
            "D": self.width,
            "DV": self.width_v,
            "BLOCK_D": padded(self.width),
            "BLOCK_DV": padded(self.width_v),
        }

    def numbers(self) -> dict[str, int]:
        """Return the other sizes, which kernels take as arguments."""
        return {
            "length_q": self.length_q,
            "length_k": self.length_k,
            "heads": self.heads,
            "group": self.group,
        }


def padded(width: int) -> int:
    """Return a power of two that `tl.dot` accepts and that holds a head."""
    return max(next_power_of_2(width), MIN_TILE_SIZE)


def with_unit_stride(spec: TensorSpec) -> tuple[TensorSpec, Callable[[Any], Any]]:
    """Return the operand and the identity if a head is contiguous, else a contiguous spec and the copy."""
    if spec.strides[-1] == 1 or spec.sizes[-1] == 1 or not spec.numel:
        return spec, lambda data: data
    return contiguous_copy(spec)


def mask_strides(mask: TensorSpec | None, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a mask broadcast to the scores, 0 for broadcast dimensions."""
    return (0, 0, 0, 0) if mask is None else broadcast_strides(mask, sizes)


class Arguments:
    """Integers, strides and constants of a program, sorted into what it is passed and what is compiled in.

    Args:
        call: the call.
        sizes: its sizes.
        operands: by the letter that names their strides, each operand's spec and the letters of its dimensions.
        mask: the mask; its strides are ``bb, bh, bm, bn``.
    """

    def __init__(
        self,
        call: StructuredCall,
        sizes: Sizes,
        operands: Sequence[tuple[str, TensorSpec]],
        mask: TensorSpec | None,
        **numbers: int,
    ) -> None:
        strides: dict[str, int] = {}
        reach = 0
        for names, spec in operands:
            letter, rows = names[0], names[1]
            own = dict(zip((f"{letter}b", f"{letter}h", f"{letter}{rows}"), spec.strides[:3], strict=True))
            strides |= own
            reach = max(reach, self._reach(spec.sizes, spec.strides))
        over = (sizes.batch, sizes.heads, sizes.length_q, sizes.length_k)
        own_mask = mask_strides(mask, over)
        strides |= dict(zip(("bb", "bh", "bm", "bn"), own_mask, strict=True))
        reach = max(reach, self._reach(over, own_mask))
        self.types, self.constants, values, self.divisible = stride_arguments(
            strides, integer_type(2 * reach)
        )
        counted = {**sizes.numbers(), **numbers}
        self.types |= dict.fromkeys(counted, "i32")
        self.divisible += [name for name, value in counted.items() if value % 16 == 0]
        self.values = {**values, **counted}
        self.constants |= sizes.constants()
        self.has_whole_lines = all(
            stride % ALIGNMENT == 0
            for name, stride in strides.items()
            if name not in ("bb", "bh", "bm", "bn")
        )

    @staticmethod
    def _reach(sizes: Sequence[int], strides: Sequence[int]) -> int:
        """Return a bound on the offsets of one head's tiles, which may go past the last row."""
        return (
            (sizes[2] + LARGEST_TILE) * abs(strides[2])
            + (max(sizes[1], 1) + 1) * abs(strides[1])
            + 2 * sizes[3]
        )

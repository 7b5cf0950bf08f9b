"""`Size`: the shape of a tensor, a tuple of sizes (`torch.Size`)."""

from __future__ import annotations

import math
from typing import SupportsIndex, overload


class Size(tuple[int, ...]):
    """A tuple of sizes that prints itself and knows its number of elements; slices and sums stay sizes.

    Example:
        >>> import triten as tt
        >>> tt.ones(2, 3).shape, tt.ones(2, 3).shape.numel()
        (triten.Size([2, 3]), 6)
    """

    __slots__ = ()

    def numel(self) -> int:
        """The product of the sizes."""
        return math.prod(self)

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Size: ...
    def __getitem__(self, index: SupportsIndex | slice) -> int | Size:
        picked = tuple.__getitem__(self, index)
        return Size(picked) if isinstance(picked, tuple) else picked

    def __add__(self, other: tuple[int, ...]) -> Size:  # type: ignore[override]  # a Size plus sizes is a Size
        return Size(tuple.__add__(self, tuple(other)))

    def __repr__(self) -> str:
        return f"triten.Size([{', '.join(map(str, self))}])"

"""`Size`: the shape of a tensor, a tuple of sizes (`torch.Size`)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import index as as_index
from typing import Any, SupportsIndex, overload

from . import public_name


class SymInt:
    """Base of symbolic integers, which operators accept as arguments but Python does not (`torch.SymInt`)."""

    __slots__ = ()


class Size(tuple[int, ...]):
    """Tuple of sizes with its own repr and number of elements; slices and sums stay sizes.

    Example:
        >>> import triten as tt
        >>> tt.ones(2, 3).shape, tt.ones(2, 3).shape.numel()
        (triten.Size([2, 3]), 6)
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[Any] = ()) -> Size:
        """Raise TypeError for anything but integers, or tensors of one integer."""
        made = tuple.__new__(cls, sizes)
        for size in made:
            if type(size) is not int:
                return tuple.__new__(cls, [_as_size(size, position) for position, size in enumerate(made)])
        return made

    def numel(self) -> int:
        """Return the product of the sizes."""
        return math.prod(self)

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Size: ...
    def __getitem__(self, index: SupportsIndex | slice) -> int | Size:
        picked = tuple.__getitem__(self, index)
        return _made(Size, picked) if isinstance(picked, tuple) else picked

    def __add__(self, other: tuple[int, ...]) -> Size:  # type: ignore[override]  # a Size plus sizes is a Size
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other: tuple[int, ...]) -> Size:
        return Size((*other, *self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: SupportsIndex) -> Size:
        return _made(Size, tuple.__mul__(self, times))

    def __rmul__(self, times: SupportsIndex) -> Size:
        return _made(Size, tuple.__mul__(self, times))

    def __reduce__(self) -> tuple[type[Size], tuple[tuple[int, ...]]]:
        return Size, (tuple(self),)

    def __repr__(self) -> str:
        return f"{public_name.shown}.Size([{', '.join(map(str, self))}])"


_made = tuple.__new__


def _as_size(size: Any, position: int) -> int:
    """Return an element as an int; it must be usable as an index, so no float tensor and no larger tensor."""
    try:
        return as_index(size)
    except TypeError:
        raise TypeError(
            f"triten.Size() takes an iterable of 'int' (item {position} is '{type(size).__name__}')"
        ) from None

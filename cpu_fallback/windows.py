"""Sliding windows over the spatial dimensions of (N, C, *spatial) arrays, shared by convolution and pooling."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..runtime.memory_format import contiguous_strides
from .plain_numpy import np

MAX_WASTE = 1.5
"""Ratio of a run's positions to windows above which gathering the windows alone is cheaper."""


FAR = 1 << 31
"""A step of so many elements and more lies beyond every input, unless it is never made."""


class Window(NamedTuple):
    """Sliding window of `kernel` taps, at `out` positions over inputs of `spatial` elements."""

    spatial: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    out: tuple[int, ...]

    @staticmethod
    def of(
        spatial: tuple[int, ...],
        kernel: tuple[int, ...],
        stride: tuple[int, ...],
        padding: tuple[int, ...],
        dilation: tuple[int, ...],
        out: tuple[int, ...],
    ) -> Window:
        """Return a window whose steps fit an array's strides: a step that is never made may be of any size."""
        return Window(
            spatial,
            kernel,
            tuple([s if s < FAR or o > 1 else 1 for s, o in zip(stride, out, strict=True)]),
            padding,
            tuple([d if d < FAR or k > 1 else 1 for d, k in zip(dilation, kernel, strict=True)]),
            out,
        )

    @property
    def padded(self) -> tuple[int, ...]:
        """Elements that windows may meet: the input, its border, and what the last window reaches beyond."""
        return tuple(
            max(n + 2 * p, (k - 1) * d + (o - 1) * s + 1)
            for n, p, k, d, o, s in zip(
                self.spatial, self.padding, self.kernel, self.dilation, self.out, self.stride, strict=True
            )
        )

    @property
    def taps(self) -> Iterator[tuple[int, ...]]:
        """Every tap of the kernel, the last dimension fastest."""
        return itertools.product(*[range(k) for k in self.kernel])

    @property
    def is_pointwise(self) -> bool:
        """True if each window is one element (a 1x1 convolution)."""
        return self.padded == self.spatial == self.out and math.prod(self.kernel) == 1

    @property
    def inside(self) -> tuple[slice, ...]:
        """The input within a padded array."""
        return tuple(slice(p, p + n) for p, n in zip(self.padding, self.spatial, strict=True))

    @property
    def run(self) -> int | None:
        """Elements from an image's first window to its last in a padded plane, where strides are 1.

        Then the elements that one tap meets are one run of memory, with those between the rows of windows
        for company; None where too many are.
        """
        if any(s != 1 for s in self.stride):
            return None
        pitch = contiguous_strides(self.padded)
        run = 1 + sum((o - 1) * p for o, p in zip(self.out, pitch, strict=True))
        return run if run <= MAX_WASTE * math.prod(self.out) else None

    def slices(self, tap: Sequence[int]) -> tuple[slice, ...]:
        """Return the slices of a padded array that a tap reads, with an element for each position."""
        return tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, self.dilation, self.out, self.stride, strict=True)
        )


class Padding:
    """Copy of (N, C, *spatial) arrays to a dtype, with a border of `value`, in C order or channels-last order.

    The result is contiguous in that order, (N, C, *padded) or (N, *padded, C), so strides of its views are
    known beforehand.
    """

    __slots__ = ("dtype", "inside", "last", "needed", "order", "padded", "value")

    def __init__(self, window: Window, dtype: Any, value: Any = 0, last: bool = False) -> None:
        rank = len(window.spatial)
        self.padded = window.padded
        self.needed = self.padded != window.spatial
        self.inside = (slice(None), *window.inside) if last else (slice(None), slice(None), *window.inside)
        self.order = (0, *range(2, rank + 2), 1) if last else None
        self.dtype = dtype
        self.value = value
        self.last = last

    def __call__(self, array: Any) -> Any:
        n, c = array.shape[:2]
        source = array if self.order is None else array.transpose(self.order)
        if not self.needed:
            return np.ascontiguousarray(source, self.dtype)
        shape = (n, *self.padded, c) if self.last else (n, c, *self.padded)
        out = np.zeros(shape, self.dtype) if self.value == 0 else np.full(shape, self.value, self.dtype)
        out[self.inside] = source
        return out


def windows(padded: Any, window: Window) -> Any:
    """Return a view (N, C, *kernel, *out) of a padded array in C order: every window without a copy."""
    n, c, *spatial = padded.strides
    down = [s * d for s, d in zip(spatial, window.dilation, strict=True)]
    along = [s * t for s, t in zip(spatial, window.stride, strict=True)]
    shape = (*padded.shape[:2], *window.kernel, *window.out)
    return np.ndarray(shape, padded.dtype, padded, 0, (n, c, *down, *along))

"""Sliding windows over the spatial dimensions of (N, C, *spatial) arrays, shared by convolution and pooling."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np


class Window(NamedTuple):
    """Where a window of `kernel` taps stands: `out` positions in each spatial dimension."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    out: tuple[int, ...]

    @property
    def taps(self) -> Iterator[tuple[int, ...]]:
        """Every tap of the kernel, the last dimension fastest."""
        return itertools.product(*[range(k) for k in self.kernel])

    @property
    def is_pointwise(self) -> bool:
        """Whether the windows are the elements themselves."""
        return all(k == 1 and s == 1 and p == 0 for k, s, p in zip(self.kernel, self.stride, self.padding, strict=True))

    def slices(self, tap: Sequence[int]) -> tuple[slice, ...]:
        """The elements of a padded array that a tap meets, one for each position."""
        return tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, self.dilation, self.out, self.stride, strict=True)
        )

    def inside(self, spatial: Sequence[int]) -> tuple[slice, ...]:
        """The unpadded part of a padded array."""
        return tuple(slice(p, p + n) for p, n in zip(self.padding, spatial, strict=True))


def pad(array: Any, window: Window, np_dtype: Any, value: Any = 0, channels_last: bool = False) -> Any:
    """The array in a dtype with a border of `value`; as it is where it has both already."""
    spatial = array.shape[2:]
    reach = [
        max(p + n, (k - 1) * d + (o - 1) * s + 1)
        for p, n, k, d, o, s in zip(
            window.padding, spatial, window.kernel, window.dilation, window.out, window.stride, strict=True
        )
    ]
    if not any(window.padding) and reach == list(spatial):
        return array if array.dtype == np_dtype else array.astype(np_dtype)
    sizes = [max(r, n + 2 * p) for r, n, p in zip(reach, spatial, window.padding, strict=True)]
    n, c = array.shape[:2]
    if channels_last:
        out = np.moveaxis(_filled((n, *sizes, c), value, np_dtype), -1, 1)
    else:
        out = _filled((n, c, *sizes), value, np_dtype)
    out[(slice(None), slice(None), *window.inside(spatial))] = array
    return out


def _filled(shape: tuple[int, ...], value: Any, np_dtype: Any) -> Any:
    return np.zeros(shape, np_dtype) if value == 0 else np.full(shape, value, np_dtype)


def windows(padded: Any, window: Window) -> Any:
    """A view (N, C, *kernel, *out) of a padded array: every window without a copy."""
    n, c, *spatial = padded.strides
    down = [s * d for s, d in zip(spatial, window.dilation, strict=True)]
    along = [s * t for s, t in zip(spatial, window.stride, strict=True)]
    shape = (*padded.shape[:2], *window.kernel, *window.out)
    return np.lib.stride_tricks.as_strided(padded, shape, (n, c, *down, *along), writeable=False)

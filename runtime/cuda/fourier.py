"""Fourier transforms as library calls: cuFFT by `cupy.fft` on a GPU, `scipy.fft` in the interpreter."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol


class FourierTransform(NamedTuple):
    """Transform of one contiguous array to another.

    Attributes:
        sizes, dtype: Sizes and NumPy dtype name of the input.
        out_sizes, out_dtype: Sizes and dtype of the output. If the input or the output is real, their sizes differ in
            the last of `dims`.
        dims: Transformed dimensions, the halved dimension last.
        inverse: If True, exponents are positive.
        norm: "backward", "ortho" or "forward", as in NumPy; it says which transform divides by the number of points.
    """

    sizes: tuple[int, ...]
    dtype: str
    out_sizes: tuple[int, ...]
    out_dtype: str
    dims: tuple[int, ...]
    inverse: bool
    norm: str

    def compute(self, library: Any, array: Any) -> Any:
        """Return the output as a new array, by `scipy.fft`, `numpy.fft` or `cupy.fft`."""
        if not self.out_dtype.startswith("complex"):
            sizes = tuple(self.out_sizes[dim] for dim in self.dims)
            return library.irfftn(array, sizes, self.dims, self.norm)
        if not self.dtype.startswith("complex") and self.sizes != self.out_sizes:
            return library.rfftn(array, None, self.dims, self.norm)
        return (library.ifftn if self.inverse else library.fftn)(array, None, self.dims, self.norm)


class PlanCache(Protocol):
    """LRU cache of a library's plans for a device (`cupy.fft.config.get_plan_cache`)."""

    def get_curr_size(self) -> int:
        """Return the number of plans."""

    def get_size(self) -> int:
        """Return the maximum number of plans."""

    def set_size(self, size: int) -> None:
        """Set the maximum number of plans."""

    def clear(self) -> None:
        """Free all plans."""


class NoPlans:
    """Plan cache of a device whose transforms need no plans: it has a limit, and is always empty."""

    def __init__(self) -> None:
        self._limit = 16

    def get_curr_size(self) -> int:
        return 0

    def get_size(self) -> int:
        return self._limit

    def set_size(self, size: int) -> None:
        self._limit = size

    def clear(self) -> None:
        """Do nothing: there are no plans."""

"""Fourier transforms as library calls: cuFFT by `cupy.fft` on a GPU, `scipy.fft` in the interpreter, called alike."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol


class FourierTransform(NamedTuple):
    """A transform of one gapless array to another.

    Attributes:
        sizes, dtype: of the input, the dtype by its NumPy name.
        out_sizes, out_dtype: of the output; where one of both is real, the last of `dims` tells them apart.
        dims: what is transformed, the halved dimension last.
        inverse: whether exponents are positive.
        norm: "backward", "ortho" or "forward", as NumPy has it, which says what is divided by the number of points.
    """

    sizes: tuple[int, ...]
    dtype: str
    out_sizes: tuple[int, ...]
    out_dtype: str
    dims: tuple[int, ...]
    inverse: bool
    norm: str

    def compute(self, library: Any, array: Any) -> Any:
        """The output as a new array, by `scipy.fft`, `numpy.fft` or `cupy.fft`."""
        if not self.out_dtype.startswith("complex"):
            sizes = tuple(self.out_sizes[dim] for dim in self.dims)
            return library.irfftn(array, sizes, self.dims, self.norm)
        if not self.dtype.startswith("complex") and self.sizes != self.out_sizes:
            return library.rfftn(array, None, self.dims, self.norm)
        return (library.ifftn if self.inverse else library.fftn)(array, None, self.dims, self.norm)


class PlanCache(Protocol):
    """Plans of transforms that a library keeps for a device, the latest used (`cupy.fft.config.get_plan_cache`)."""

    def get_curr_size(self) -> int:
        """How many there are."""

    def get_size(self) -> int:
        """How many may be kept."""

    def set_size(self, size: int) -> None:
        """How many may be kept from now on."""

    def clear(self) -> None:
        """Give all back."""


class NoPlans:
    """The cache of a device whose transforms need no plans: it has a limit, and nothing in it."""

    def __init__(self) -> None:
        self._limit = 16

    def get_curr_size(self) -> int:
        return 0

    def get_size(self) -> int:
        return self._limit

    def set_size(self, size: int) -> None:
        self._limit = size

    def clear(self) -> None:
        """Nothing to give back."""

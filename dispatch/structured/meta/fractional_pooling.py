"""Meta functions of fractional pooling (ATen/native/FractionalMaxPool2d.cpp, FractionalMaxPool3d.cpp)."""

from __future__ import annotations

from collections.abc import Sequence

from ....runtime.scalar_type import int64
from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase
from .linalg import check_same_device
from .pooling import WORDS, Pool

SIDES = {2: ("height", "width"), 3: ("time", "height", "width")}


def check_images(name: str, self: TensorSpec, rank: int) -> None:
    """Check for (N, C, *spatial) or (C, *spatial); only N may be zero."""
    if self.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(f"{name}(): Expected {WORDS[rank].ranks} tensor, but got: {list(self.sizes)}")
    for d in range(self.ndim - rank - 1, self.ndim):
        if not self.sizes[d]:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but got"
                f"{list(self.sizes)} with dimension {d} being empty."
            )


def check_samples(self: TensorSpec, samples: TensorSpec, rank: int) -> None:
    """Check for one sample per image, channel and spatial dimension, of the input's dtype; extra images are allowed."""
    if samples.dtype is not self.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    if samples.ndim != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions, got {samples.ndim}")
    batch = self.sizes[0] if self.ndim == rank + 2 else 1
    if samples.sizes[0] < batch:
        raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
    if samples.sizes[1] != self.sizes[-rank - 1]:
        raise RuntimeError("Expect _random_samples.size(1) equals to input channel size.")
    if samples.sizes[2] != rank:
        raise RuntimeError(f"Expect _random_samples.size(2) equals to {rank}; got {samples.sizes[2]}.")


def _fractional(
    meta: MetaBase,
    self: TensorSpec,
    kernel_size: Sequence[int],
    output_size: Sequence[int],
    random_samples: TensorSpec,
    rank: int,
) -> None:
    base = f"fractional_max_pool{rank}d"
    name = base if rank == 2 else f"{base}_out"
    number = "" if rank == 2 else "three "
    for argument, sizes in (("kernel_size", kernel_size), ("output_size", output_size)):
        if len(sizes) != rank:
            raise RuntimeError(f"{base}: {argument} must either be a single Int or tuple of {number}Ints")
    check_images(name, self, rank)
    check_same_device(name, self, random_samples)
    check_samples(self, random_samples, rank)
    spatial = self.sizes[-rank:]
    for side, n, k, out in zip(SIDES[rank], spatial, kernel_size, output_size, strict=True):
        if k < -(2**31):
            raise RuntimeError(f"{name}(): kernel_size must be positive, got {k} for the pool's {side}")
        if out + k - 1 > n:
            raise RuntimeError(f"{name}(): pool {side} {k} too large relative to input {side} {n}")
    sizes = (*self.sizes[:-rank], *output_size)
    if min(output_size) < 0:
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {min(output_size)}: {list(sizes)}"
        )
    ones = (1,) * rank
    meta.extra["pool"] = Pool(tuple(kernel_size), ones, (0,) * rank, ones, tuple(output_size), ones)
    meta.set_output_raw_strided(0, sizes, (), dtype=self.dtype)
    meta.set_output_raw_strided(1, sizes, (), dtype=int64)


def fractional_max_pool2d(
    meta: MetaBase,
    self: TensorSpec,
    kernel_size: Sequence[int],
    output_size: Sequence[int],
    random_samples: TensorSpec,
) -> None:
    """Infer the maximum of each window of (N, C, H, W) or (C, H, W), and its index in its plane."""
    _fractional(meta, self, kernel_size, output_size, random_samples, 2)


def fractional_max_pool3d(
    meta: MetaBase,
    self: TensorSpec,
    kernel_size: Sequence[int],
    output_size: Sequence[int],
    random_samples: TensorSpec,
) -> None:
    """Infer the maximum of each window of (N, C, D, H, W) or (C, D, H, W), and its index."""
    _fractional(meta, self, kernel_size, output_size, random_samples, 3)

"""Meta functions of windows as columns (ATen/native/im2col_shape_check.h)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase
from .dims import wrap_dim


class Windows(NamedTuple):
    """Checked windows over images of `size`; `out` is the number of windows along height and width."""

    size: tuple[int, int]
    kernel: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int]
    stride: tuple[int, int]
    out: tuple[int, int]


def windows_over(
    size: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Windows:
    """Return the windows over an image."""
    out = [
        (n + 2 * p - (d * (k - 1) + 1)) // s + 1
        for n, k, d, p, s in zip(size, kernel_size, dilation, padding, stride, strict=True)
    ]
    return Windows(*[(a, b) for a, b in (size, kernel_size, dilation, padding, stride, out)])


def check_parameters(
    kernel_size: Sequence[int], dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]
) -> None:
    """Raise RuntimeError for lists of another length than two, and numbers out of range."""
    lists = {"kernel_size": kernel_size, "dilation": dilation, "padding": padding, "stride": stride}
    for name, values in lists.items():
        if len(values) != 2:
            raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(values)}")
    for message, name, values, least in (
        ("kernel size should be greater than zero", "kernel", kernel_size, 1),
        ("dilation should be greater than zero", "dilation", dilation, 1),
        ("padding should be non-negative", "pad", padding, 0),
        ("stride should be greater than zero", "stride", stride, 1),
    ):
        if min(values) < least:
            raise RuntimeError(f"{message}, but got {name}_height: {values[0]} {name}_width: {values[1]}")


def _pair(values: Sequence[int]) -> str:
    return f"({values[0]}, {values[1]})"


def im2col(
    meta: MetaBase,
    self: TensorSpec,
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> None:
    """Infer each window of each channel of (N, C, H, W) or (C, H, W) as a column, (N, C kh kw, windows)."""
    check_parameters(kernel_size, dilation, padding, stride)
    # Unbatched height and width: PyTorch checks them before the number of dimensions.
    for dim in (1, 2):
        if not self.sizes[wrap_dim(dim, self.ndim, scalar_ok=False)]:
            break
    if self.ndim not in (3, 4) or 0 in self.sizes[self.ndim == 4 :]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, "
            f"but got: {list(self.sizes)}"
        )
    windows = windows_over(self.sizes[-2:], kernel_size, dilation, padding, stride)
    if min(windows.out) < 1:
        raise RuntimeError(
            f"Given input with spatial size {_pair(windows.size)}, kernel_size={_pair(kernel_size)}, "
            f"dilation={_pair(dilation)}, padding={_pair(padding)}, calculated shape of the array of sliding blocks as "
            f"{_pair(windows.out)}, but its components must be at least one."
        )
    kh, kw = windows.kernel
    meta.extra["windows"] = windows
    sizes = (*self.sizes[:-3], self.sizes[-3] * kh * kw, windows.out[0] * windows.out[1])
    meta.set_output_contiguous(0, sizes, dtype=self.dtype)


def col2im(
    meta: MetaBase,
    self: TensorSpec,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> None:
    """Infer the columns (N, C kh kw, windows) or (C kh kw, windows) summed to (N, C, H, W)."""
    if len(output_size) != 2:
        raise RuntimeError(f"It is expected output_size equals to 2, but got size {len(output_size)}")
    check_parameters(kernel_size, dilation, padding, stride)
    if self.ndim not in (2, 3) or 0 in self.sizes[self.ndim == 3 :]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
            f"input, but got: {list(self.sizes)}"
        )
    planes, length = self.sizes[-2:]
    area = kernel_size[0] * kernel_size[1]
    if planes % area:
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={planes} and kernel_size={_pair(kernel_size)}."
        )
    windows = windows_over(output_size, kernel_size, dilation, padding, stride)
    prefix = (
        f"Given output_size={_pair(output_size)}, kernel_size={_pair(kernel_size)}, dilation={_pair(dilation)}, "
        f"padding={_pair(padding)}, stride={_pair(stride)}, "
    )
    blocks_h, blocks_w = windows.out
    if length != blocks_h * blocks_w:
        raise RuntimeError(
            f"{prefix}expected size of input's dimension 2 to match the calculated number of sliding blocks {blocks_h} "
            f"* {blocks_w} = {blocks_h * blocks_w}, but got input.size(2)={length}."
        )
    if min(windows.out) < 1:
        raise RuntimeError(
            f"{prefix}calculated shape of the array of sliding blocks as {_pair(windows.out)}, which is too small "
            "(non-positive)"
        )
    if min(output_size) < 1:
        raise RuntimeError(
            f"Expected output spatial size to be positive, but got: output_size={_pair(output_size)}."
        )
    meta.extra["windows"] = windows
    meta.set_output_contiguous(0, (*self.sizes[:-2], planes // area, *output_size), dtype=self.dtype)

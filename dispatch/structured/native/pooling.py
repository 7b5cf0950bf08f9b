"""Meta functions of pooling (ATen/native/Pool.h)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ....runtime.memory_format import channels_last, channels_last_strides
from ....runtime.scalar_type import int64
from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase


class Pool(NamedTuple):
    """A checked window of a pooling operator, every list of the spatial rank, with the output's sizes."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    out: tuple[int, ...]


def _two(name: str, argument: str, values: Sequence[int], omissible: bool = False) -> tuple[int, ...]:
    """A list of one or two numbers as two."""
    if len(values) == 2:
        return tuple(values)
    if len(values) == 1:
        return (values[0], values[0])
    how = "either be omitted, a single int, or a tuple" if omissible else "either be a single int, or a tuple"
    raise RuntimeError(f"{name}: {argument} must {how} of two ints")


def pooling_output_size(
    n: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool
) -> int:
    """Windows along a dimension; the last one starts inside the input or its left border."""
    reach = n + 2 * padding - dilation * (kernel - 1) - 1
    out = (reach + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (out - 1) * stride >= n + padding:
        out -= 1
    return out


def pool2d(
    name: str,
    self: TensorSpec,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> Pool:
    """The checked window. Raises RuntimeError with PyTorch's messages."""
    kernel = _two(name, "kernel_size", kernel_size)
    steps = _two(name, "stride", stride, omissible=True) if len(stride) else kernel
    border = _two(name, "padding", padding)
    spread = _two(name, "dilation", dilation)
    if any(s == 0 for s in steps):
        raise RuntimeError("stride should not be zero")
    if any(p < 0 for p in border):
        raise RuntimeError(f"pad must be non-negative, but got pad: {min(border)}")
    for k, p, d in zip(kernel, border, spread, strict=True):
        if d > 0 and p > ((k - 1) * d + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and "
                f"dilation={d}"
            )
    if any(k <= 0 for k in kernel):
        raise RuntimeError(
            f"kernel size should be greater than zero, but got kH: {kernel[0]} kW: {kernel[1]}"
        )
    if any(s < 0 for s in steps):
        raise RuntimeError(f"stride should be greater than zero, but got dH: {steps[0]} dW: {steps[1]}")
    if any(d <= 0 for d in spread):
        raise RuntimeError(
            f"dilation should be greater than zero, but got dilationH: {spread[0]} dilationW: {spread[1]}"
        )
    if self.ndim not in (3, 4):
        raise RuntimeError(
            f"{name}: non-empty 3D or 4D (batch mode) tensor expected for input, but got {self.ndim}-D"
        )
    if 0 in self.sizes[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:"
            f"{list(self.sizes)}"
        )
    out = tuple(
        pooling_output_size(n, k, s, p, d, ceil_mode)
        for n, k, s, p, d in zip(self.sizes[-2:], kernel, steps, border, spread, strict=True)
    )
    if any(n < 1 for n in out):
        c, h, w = self.sizes[-3:]
        raise RuntimeError(
            f"Given input size: ({c}x{h}x{w}). Calculated output size: ({c}x{max(out[0], 0)}x{max(out[1], 0)}). "
            "Output size is too small"
        )
    return Pool(kernel, steps, border, spread, out)


def _strides(self: TensorSpec, sizes: tuple[int, ...]) -> tuple[int, ...]:
    if self.ndim == 4 and self.suggest_memory_format() is channels_last:
        return channels_last_strides(sizes)
    return ()


def max_pool2d_with_indices(
    meta: MetaBase,
    self: TensorSpec,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> None:
    """(N, C, H, W) or (C, H, W): the largest element under each window, and its index in its plane."""
    pool = pool2d("max_pool2d", self, kernel_size, stride, padding, dilation, ceil_mode)
    sizes = (*self.sizes[:-2], *pool.out)
    strides = _strides(self, sizes)
    meta.extra["pool"] = pool
    meta.set_output_raw_strided(0, sizes, strides, dtype=self.dtype)
    meta.set_output_raw_strided(1, sizes, strides, dtype=int64)


def _check_gradient(name: str, grad_output: TensorSpec, self: TensorSpec, pool: Pool) -> None:
    expected = (*self.sizes[:-2], *pool.out)
    if grad_output.sizes != expected:
        raise RuntimeError(
            f"{name}: Expected a tensor of shape {list(expected)} for grad_output, but got {list(grad_output.sizes)}"
        )
    if grad_output.dtype is not self.dtype:
        raise RuntimeError(
            f"{name}: expected dtype {self.dtype.scalar_name} for `grad_output` but got dtype "
            f"{grad_output.dtype.scalar_name}"
        )


def max_pool2d_with_indices_backward(
    meta: MetaBase,
    grad_output: TensorSpec,
    self: TensorSpec,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: TensorSpec,
) -> None:
    """The gradient put where the largest elements were."""
    pool = pool2d("max_pool2d", self, kernel_size, stride, padding, dilation, ceil_mode)
    _check_gradient("max_pool2d_with_indices_backward", grad_output, self, pool)
    if indices.sizes != grad_output.sizes:
        raise RuntimeError(
            f"max_pool2d_with_indices_backward: Expected a tensor of shape {list(grad_output.sizes)} for indices, but "
            f"got {list(indices.sizes)}"
        )
    meta.extra["pool"] = pool
    meta.set_output_raw_strided(0, self.sizes, _strides(self, self.sizes), dtype=self.dtype)


def _average(
    name: str,
    self: TensorSpec,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    divisor_override: int | None,
) -> Pool:
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    return pool2d(name, self, kernel_size, stride, padding, (1, 1), ceil_mode)


def avg_pool2d(
    meta: MetaBase,
    self: TensorSpec,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> None:
    """(N, C, H, W) or (C, H, W): the mean under each window."""
    pool = _average("avg_pool2d", self, kernel_size, stride, padding, ceil_mode, divisor_override)
    sizes = (*self.sizes[:-2], *pool.out)
    meta.extra["pool"] = pool
    meta.set_output_raw_strided(0, sizes, _strides(self, sizes), dtype=self.dtype)


def avg_pool2d_backward(
    meta: MetaBase,
    grad_output: TensorSpec,
    self: TensorSpec,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> None:
    """The gradient spread over each window."""
    pool = _average("avg_pool2d", self, kernel_size, stride, padding, ceil_mode, divisor_override)
    _check_gradient("avg_pool2d_backward", grad_output, self, pool)
    meta.extra["pool"] = pool
    meta.set_output_raw_strided(0, self.sizes, _strides(self, self.sizes), dtype=self.dtype)

"""Meta functions of pooling (ATen/native/Pool.h)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ....runtime.scalar_type import int64
from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase
from ..operand_checks import check_dtype
from .dims import wrap_dim
from .linalg import check_same_device
from .padding import strides_like


class Pool(NamedTuple):
    """Checked window of a pooling operator, with every list of the spatial rank, and the output's sizes.

    With `adaptive` the windows divide the input evenly, and `kernel` is the size of the largest one.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    out: tuple[int, ...]
    windows: tuple[int, ...]
    """Maximum number of windows that contain an element, along each dimension."""
    adaptive: bool = False


class Words(NamedTuple):
    """Words of the error messages for a spatial rank."""

    number: str
    sides: str
    ranks: str


WORDS = {2: Words("two", "HW", "3D or 4D"), 3: Words("three", "THW", "4D or 5D")}


def _list(
    name: str, argument: str, values: Sequence[int], rank: int, omissible: bool = False
) -> tuple[int, ...]:
    """Return a list with one number for each dimension, from such a list or from a single number."""
    if len(values) == rank:
        return tuple(values)
    if len(values) == 1:
        return (values[0],) * rank
    how = "be omitted, a single int, or a tuple" if omissible else "be a single int, or a tuple"
    if name != "avg_pool3d":
        how = f"be either {how[3:]}" if (name, argument) == ("max_pool3d", "dilation") else f"either {how}"
    raise RuntimeError(f"{name}: {argument} must {how} of {WORDS[rank].number} ints")


def pooling_output_size(
    n: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool
) -> int:
    """Return the number of windows along a dimension; the last one starts inside the input or its left border."""
    reach = n + 2 * padding - dilation * (kernel - 1) - 1
    out = (reach + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (out - 1) * stride >= n + padding:
        out -= 1
    return out


def _sides(letter: str, sides: str, values: Sequence[int]) -> str:
    return " ".join(f"{letter}{side}: {value}" for side, value in zip(sides, values, strict=True))


LARGEST = (1 << 31) - 1
"""The largest number in a window, as in PyTorch."""


def pool_window(
    name: str,
    self: TensorSpec,
    rank: int,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> Pool:
    """Return the checked window over `rank` dimensions. Raises RuntimeError with PyTorch's messages."""
    words = WORDS[rank]
    kernel = _list(name, "kernel_size", kernel_size, rank)
    steps = _list(name, "stride", stride, rank, omissible=True) if len(stride) else kernel
    border = _list(name, "padding", padding, rank)
    spread = _list(name, "dilation", dilation, rank)
    if any(not -LARGEST <= v <= LARGEST for values in (kernel, steps, border, spread) for v in values):
        raise RuntimeError(f"{name}: value cannot be converted to type int without overflow")
    if name == "avg_pool2d":
        wrap_dim(-3, self.ndim, scalar_ok=False)
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
    for noun, letter, values in (
        ("kernel size", "k", kernel),
        ("stride", "d", steps),
        ("dilation", "dilation", spread),
    ):
        if any(v <= 0 for v in values):
            raise RuntimeError(
                f"{noun} should be greater than zero, but got {_sides(letter, words.sides, values)}"
            )
    if self.ndim not in (rank + 1, rank + 2):
        if rank == 2:
            raise RuntimeError(
                f"{name}: non-empty 3D or 4D (batch mode) tensor expected for input, but got {self.ndim}-D"
            )
        raise RuntimeError(f"non-empty {words.ranks} (batch mode) tensor expected for input")
    if 0 in self.sizes[-rank - 1 :]:
        if rank == 2:
            raise RuntimeError(
                "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:"
                f"{list(self.sizes)}"
            )
        raise RuntimeError(
            f"{name}(): Expected input's non-batch dimensions to have positive length, but input has a shape of "
            f"{list(self.sizes)} and non-batch dimension 0 has length zero!"
        )
    spatial = self.sizes[-rank:]
    if name == "avg_pool3d" and any(n < k for n, k in zip(spatial, kernel, strict=True)):
        # Only this operator rejects an image that is too small without its padding.
        raise RuntimeError(
            f"input image ({_sides('', words.sides, spatial)}) smaller than kernel size "
            f"({_sides('k', words.sides, kernel)})"
        )
    out = tuple(
        pooling_output_size(n, k, s, p, d, ceil_mode)
        for n, k, s, p, d in zip(spatial, kernel, steps, border, spread, strict=True)
    )
    if any(n < 1 for n in out):
        shown_sizes = [max(n, 0) for n in out] if rank == 2 else out
        input_text, calculated = (
            "x".join(str(n) for n in (self.sizes[-rank - 1], *sizes)) for sizes in (spatial, shown_sizes)
        )
        raise RuntimeError(
            f"Given input size: ({input_text}). Calculated output size: ({calculated}). Output size is too small"
        )
    windows = tuple(-(-((k - 1) * d + 1) // s) for k, s, d in zip(kernel, steps, spread, strict=True))
    return Pool(kernel, steps, border, spread, out, windows)


COMPARED = ("uint8", "int8", "int16", "int32", "int64")
"""Integers that have a largest element under a window."""


CONTIGUOUS = ("avg_pool3d", "_adaptive_avg_pool3d", "adaptive_max_pool3d")
"""Operators whose results are contiguous in PyTorch regardless of the input's layout."""


def _set_pooled(meta: MetaBase, self: TensorSpec, pool: Pool, indices: bool) -> None:
    sizes = (*self.sizes[: -len(pool.out)], *pool.out)
    strides = () if meta.name in CONTIGUOUS else strides_like(self, sizes)
    meta.extra["pool"] = pool
    meta.set_output_raw_strided(0, sizes, strides, dtype=self.dtype)
    if indices:
        meta.set_output_raw_strided(1, sizes, strides, dtype=int64)


def _check_gradient(
    name: str, grad_output: TensorSpec, self: TensorSpec, pool: Pool, indices: TensorSpec | None = None
) -> None:
    check_same_device(name, grad_output, self, indices)
    check_dtype(name, "indices", indices, int64)
    expected = (*self.sizes[: -len(pool.out)], *pool.out)
    for argument, spec in (("grad_output", grad_output), ("indices", indices)):
        if spec is not None and spec.sizes != expected:
            raise RuntimeError(
                f"{name}: Expected a tensor of shape {list(expected)} for {argument}, but got {list(spec.sizes)}"
            )
    if grad_output.dtype is not self.dtype:
        raise RuntimeError(
            f"{name}: expected dtype {self.dtype.scalar_name} for `grad_output` but got dtype "
            f"{grad_output.dtype.scalar_name}"
        )


def set_gradient(meta: MetaBase, self: TensorSpec, pool: Pool) -> None:
    """Set the output to the gradient of the input."""
    meta.extra["pool"] = pool
    meta.set_output_raw_strided(0, self.sizes, strides_like(self, self.sizes), dtype=self.dtype)


def max_pool2d_with_indices(meta: MetaBase, self: TensorSpec, *window: Any) -> None:
    """Infer the maximum of each window of (N, C, H, W) or (C, H, W), and its index in its plane."""
    meta.extra["integers"] = COMPARED
    _set_pooled(meta, self, pool_window("max_pool2d", self, 2, *window), indices=True)


def max_pool3d_with_indices(meta: MetaBase, self: TensorSpec, *window: Any) -> None:
    """Infer the maximum of each window of (N, C, D, H, W) or (C, D, H, W), and its index."""
    meta.extra["integers"] = COMPARED
    _set_pooled(meta, self, pool_window("max_pool3d", self, 3, *window), indices=True)


def max_pool2d_with_indices_backward(
    meta: MetaBase, grad_output: TensorSpec, self: TensorSpec, *window: Any
) -> None:
    """Infer the gradient, scattered to the argmax positions."""
    *window_, indices = window
    pool = pool_window("max_pool2d", self, 2, *window_)
    _check_gradient("max_pool2d_with_indices_backward", grad_output, self, pool, indices)
    set_gradient(meta, self, pool)


def max_pool3d_with_indices_backward(
    meta: MetaBase, grad_output: TensorSpec, self: TensorSpec, *window: Any
) -> None:
    """Infer the gradient, scattered to the argmax positions."""
    *window_, indices = window
    pool = pool_window("max_pool3d", self, 3, *window_)
    _check_gradient("max_pool3d_with_indices_backward", grad_output, self, pool, indices)
    set_gradient(meta, self, pool)


def _average(
    name: str,
    self: TensorSpec,
    rank: int,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Pool:
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    return pool_window(name, self, rank, kernel_size, stride, padding, (1,), ceil_mode)


def avg_pool2d(meta: MetaBase, self: TensorSpec, *window: Any) -> None:
    """Infer the mean of each window of (N, C, H, W) or (C, H, W)."""
    meta.extra["integers"] = ("int64",)
    _set_pooled(meta, self, _average("avg_pool2d", self, 2, *window), indices=False)


def avg_pool3d(meta: MetaBase, self: TensorSpec, *window: Any) -> None:
    """Infer the mean of each window of (N, C, D, H, W) or (C, D, H, W)."""
    meta.extra["integers"] = ("int64",)
    _set_pooled(meta, self, _average("avg_pool3d", self, 3, *window), indices=False)


def avg_pool2d_backward(meta: MetaBase, grad_output: TensorSpec, self: TensorSpec, *window: Any) -> None:
    """Infer the gradient, spread over each window."""
    pool = _average("avg_pool2d", self, 2, *window)
    _check_gradient("avg_pool2d_backward", grad_output, self, pool)
    set_gradient(meta, self, pool)


def avg_pool3d_backward(meta: MetaBase, grad_output: TensorSpec, self: TensorSpec, *window: Any) -> None:
    """Infer the gradient, spread over each window."""
    pool = _average("avg_pool3d", self, 3, *window)
    _check_gradient("avg_pool3d_backward", grad_output, self, pool)
    set_gradient(meta, self, pool)


def largest_share(n: int, parts: int) -> int:
    """Return the number of elements of the largest of `parts` even windows over `n` elements."""
    if parts == 0:
        return 0
    whole, rest = divmod(n, parts)
    # A window touches one more element, or two if an element boundary lies within some window.
    return whole + (0 if rest == 0 else 1 if parts % rest == 0 else 2)


def adaptive_window(
    name: str, self: TensorSpec, rank: int, output_size: Sequence[int], channels: bool
) -> Pool:
    """Return windows that divide each dimension evenly. With `channels`, there must be at least one channel."""
    average = name.startswith("adaptive_avg")
    if len(output_size) != rank:
        prefix = f"{name}: output_size" if average else f"{name}(): internal error: output_size.size()"
        raise RuntimeError(f"{prefix} must be {rank}")
    if self.ndim not in (rank + 1, rank + 2):
        colon = "" if average else ":"
        raise RuntimeError(
            f"{name}(): Expected {WORDS[rank].ranks} tensor, but got{colon} {list(self.sizes)}"
        )
    for d in range(1 - self.ndim if channels else -rank, 0):
        if self.sizes[d] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
                f"{list(self.sizes)} with dimension {d + self.ndim} being empty"
            )
    if any(n < 0 for n in output_size):
        sizes = [*self.sizes[:-rank], *output_size]
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(output_size)}: {sizes}")
    return _even(self, tuple(output_size))


def _even(self: TensorSpec, out: tuple[int, ...]) -> Pool:
    spatial, rank = self.sizes[-len(out) :], len(out)
    kernel = tuple(largest_share(n, o) for n, o in zip(spatial, out, strict=True))
    windows = tuple(largest_share(o, n) for n, o in zip(spatial, out, strict=True))
    return Pool(kernel, (1,) * rank, (0,) * rank, (1,) * rank, out, windows, adaptive=True)


def _adaptive_avg_pool2d(meta: MetaBase, self: TensorSpec, output_size: Sequence[int]) -> None:
    """Infer the means of even windows of each plane of (N, C, H, W) or (C, H, W)."""
    _set_pooled(
        meta, self, adaptive_window("adaptive_avg_pool2d", self, 2, output_size, False), indices=False
    )


def _adaptive_avg_pool3d(meta: MetaBase, self: TensorSpec, output_size: Sequence[int]) -> None:
    """Infer the means of even windows of each volume of (N, C, D, H, W) or (C, D, H, W)."""
    _set_pooled(meta, self, adaptive_window("adaptive_avg_pool3d", self, 3, output_size, True), indices=False)


def adaptive_max_pool2d(meta: MetaBase, self: TensorSpec, output_size: Sequence[int]) -> None:
    """Infer the maxima of even windows of each plane of (N, C, H, W) or (C, H, W), and their indices."""
    _set_pooled(meta, self, adaptive_window("adaptive_max_pool2d", self, 2, output_size, True), indices=True)


def adaptive_max_pool3d(meta: MetaBase, self: TensorSpec, output_size: Sequence[int]) -> None:
    """Infer the maxima of even windows of (N, C, D, H, W) or (C, D, H, W), and their indices."""
    _set_pooled(meta, self, adaptive_window("adaptive_max_pool3d", self, 3, output_size, True), indices=True)


def adaptive_backward(
    meta: MetaBase, grad_output: TensorSpec, self: TensorSpec, indices: TensorSpec | None = None
) -> None:
    """Infer the gradient of an adaptive pooling operator's input."""
    name = meta.name.lstrip("_")
    rank = 3 if "3d" in name else 2
    if grad_output.ndim != self.ndim or self.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"{name}: Expected dimensions {self.ndim} for `grad_output` but got dimensions {grad_output.ndim}"
        )
    for d in range(1 - self.ndim, 0):
        if grad_output.sizes[d] == 0:
            raise RuntimeError(
                f"{name}(): Expected grad_output to have non-zero size for non-batch dimensions, but grad_output "
                f"has sizes {list(grad_output.sizes)} with dimension {d + self.ndim} being empty"
            )
    pool = _even(self, grad_output.sizes[-rank:])
    _check_gradient(name, grad_output, self, pool, indices)
    set_gradient(meta, self, pool)

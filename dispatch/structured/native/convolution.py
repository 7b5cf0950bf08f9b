"""Meta functions of convolutions over one, two or three spatial dimensions (ATen/native/Convolution.cpp)."""

from __future__ import annotations

from collections.abc import Sequence

from ....runtime.memory_format import (
    channels_last,
    channels_last_3d,
    channels_last_strides,
)
from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase
from .linalg import check_same_device


def check_window(rank: int, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]) -> None:
    """Refuse lists of another length than the spatial rank, and values out of range."""
    for name, values in (("stride", stride), ("padding", padding), ("dilation", dilation)):
        if len(values) != rank:
            raise RuntimeError(
                f"expected {name} to be a single integer value or a list of {rank} values to match the convolution "
                f"dimensions, but got {name}={list(values)}"
            )
    if any(p < 0 for p in padding):
        raise RuntimeError("negative padding is not supported")
    if any(s <= 0 for s in stride):
        raise RuntimeError("non-positive stride is not supported")
    if any(d <= 0 for d in dilation):
        raise RuntimeError(f"dilation should be greater than zero, but got {list(dilation)}")


def _check_shapes(input: TensorSpec, weight: TensorSpec, bias: TensorSpec | None, groups: int) -> None:
    if weight.ndim < 3:
        raise RuntimeError(f"weight should have at least three dimensions, but got {weight.ndim}")
    rank = weight.ndim - 2
    if input.ndim != weight.ndim:
        raise RuntimeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to conv{rank}d, but got input of size: "
            f"{list(input.sizes)}"
        )
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    if weight.sizes[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size "
            f"{list(weight.sizes)} instead"
        )
    if weight.sizes[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of "
            f"size {list(weight.sizes)} instead"
        )
    if input.sizes[1] != weight.sizes[1] * groups:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(weight.sizes)}, expected input{list(input.sizes)} to have "
            f"{weight.sizes[1] * groups} channels, but got {input.sizes[1]} channels instead"
        )
    if bias is not None and bias.sizes != weight.sizes[:1]:
        raise RuntimeError(
            f"Given weight of size {list(weight.sizes)}, expected bias to be 1-dimensional with {weight.sizes[0]} "
            f"elements, but got bias of size {list(bias.sizes)} instead"
        )


def _by(sizes: Sequence[int]) -> str:
    return " x ".join(str(n) for n in sizes)


def convolution(
    meta: MetaBase,
    input: TensorSpec,
    weight: TensorSpec,
    bias: TensorSpec | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> None:
    """(N, C, *spatial) with weight (O, C / groups, *kernel) gives (N, O, *out); channels-last stays so."""
    if transposed or any(output_padding):
        raise NotImplementedError(
            "convolution: transposed=True is not implemented; use conv_transpose1d, 2d or 3d"
        )
    _check_shapes(input, weight, bias, groups)
    kernel = weight.sizes[2:]
    check_window(len(kernel), stride, padding, dilation)
    check_same_device("convolution", input, weight, bias)
    if input.dtype is not weight.dtype:
        raise RuntimeError(
            f"expected scalar type {input.dtype.scalar_name} but found {weight.dtype.scalar_name} (weight of "
            "convolution)"
        )
    if bias is not None and bias.dtype is not input.dtype:
        raise RuntimeError(
            f"Input type ({input.dtype.scalar_name.lower()}) and bias type ({bias.dtype.scalar_name.lower()}) should "
            "be the same"
        )
    padded = tuple(n + 2 * p for n, p in zip(input.sizes[2:], padding, strict=True))
    reach = tuple(d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True))
    if any(have < need for have, need in zip(padded, reach, strict=True)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({_by(padded)}). Kernel size: ({_by(reach)}). Kernel size "
            "can't be greater than actual input size"
        )
    if 0 in input.sizes[2:]:
        raise RuntimeError(
            f"Only zero batch or zero channel inputs are supported, but got input shape: {list(input.sizes)}"
        )
    out = tuple((have - need) // s + 1 for have, need, s in zip(padded, reach, stride, strict=True))
    sizes = (input.sizes[0], weight.sizes[0], *out)
    meta.set_output_raw_strided(0, sizes, _strides(sizes, input, weight), dtype=input.dtype)


def _strides(sizes: Sequence[int], *operands: TensorSpec) -> tuple[int, ...]:
    """Channels-last where an operand is, else contiguous."""
    formats = (channels_last, channels_last_3d)
    for spec in operands:
        if spec.ndim == len(sizes) and spec.suggest_memory_format() in formats:
            return channels_last_strides(sizes)
    return ()


def convolution_backward_input(
    meta: MetaBase,
    grad_output: TensorSpec,
    weight: TensorSpec,
    input_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> None:
    """The gradient of `convolution` with respect to its input."""
    sizes = tuple(input_size)
    meta.set_output_raw_strided(0, sizes, _strides(sizes, grad_output, weight), dtype=grad_output.dtype)


def convolution_backward_weight(
    meta: MetaBase,
    grad_output: TensorSpec,
    input: TensorSpec,
    weight_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> None:
    """The gradient of `convolution` with respect to its weight."""
    meta.set_output_raw_strided(0, tuple(weight_size), dtype=grad_output.dtype)

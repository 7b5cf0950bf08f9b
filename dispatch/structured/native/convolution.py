"""Meta functions of convolutions (ATen/native/Convolution.cpp)."""

from __future__ import annotations

from collections.abc import Sequence

from ....runtime.memory_format import channels_last, channels_last_strides
from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase
from .linalg import check_same_device


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
    """(N, C, H, W) with weight (O, C / groups, R, S) gives (N, O, OH, OW); channels-last stays channels-last."""
    if transposed or any(output_padding):
        raise NotImplementedError("convolution: transposed convolutions are not implemented")
    if input.ndim != 4 or weight.ndim != 4:
        raise RuntimeError(
            f"Expected 4D input and weight to conv2d, but got input of size: {list(input.sizes)} and weight of size: "
            f"{list(weight.sizes)}"
        )
    check_same_device("conv2d", input, weight)
    if input.dtype is not weight.dtype:
        raise RuntimeError(
            f"Input type ({input.dtype.scalar_name.lower()}) and bias type ({weight.dtype.scalar_name.lower()}) "
            "should be the same"
        )
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    if any(p < 0 for p in padding):
        raise RuntimeError("negative padding is not supported")
    if any(s <= 0 for s in stride):
        raise RuntimeError("non-positive stride is not supported")
    if any(d <= 0 for d in dilation):
        raise RuntimeError("dilation should be greater than zero")
    n, c, h, w = input.sizes
    out, per_group, r, s = weight.sizes
    if c != per_group * groups:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(weight.sizes)}, expected input{list(input.sizes)} to have "
            f"{per_group * groups} channels, but got {c} channels instead"
        )
    if out % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of "
            f"size {list(weight.sizes)} instead"
        )
    if bias is not None and bias.sizes != (out,):
        raise RuntimeError(
            f"Given weight of size {list(weight.sizes)}, expected bias to be 1-dimensional with {out} elements, but "
            f"got bias of size {list(bias.sizes)} instead"
        )
    spatial = []
    for size, k, st, p, d in zip((h, w), (r, s), stride, padding, dilation, strict=True):
        if size + 2 * p < d * (k - 1) + 1:
            raise RuntimeError(
                f"Calculated padded input size per channel: ({h + 2 * padding[0]} x {w + 2 * padding[1]}). Kernel "
                f"size: ({dilation[0] * (r - 1) + 1} x {dilation[1] * (s - 1) + 1}). Kernel size can't be greater "
                "than actual input size"
            )
        spatial.append((size + 2 * p - d * (k - 1) - 1) // st + 1)
    sizes = (n, out, *spatial)
    last = channels_last in (input.suggest_memory_format(), weight.suggest_memory_format())
    meta.set_output_raw_strided(0, sizes, channels_last_strides(sizes) if last else (), dtype=input.dtype)


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
    meta.set_output_raw_strided(0, tuple(input_size), dtype=grad_output.dtype)


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

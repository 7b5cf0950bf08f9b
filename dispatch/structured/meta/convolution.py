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
from ..operand_checks import check_dtype, check_sizes_given
from .linalg import check_same_device


def for_each_dimension(values: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return one number of a window for each spatial dimension; a single number applies to all."""
    return tuple(values) * rank if len(values) == 1 else tuple(values)


def check_window(
    rank: int,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    output_padding: Sequence[int] | None = None,
) -> None:
    """Raise an error for lists of another length than the spatial rank, and for values out of range."""
    lists = {"stride": stride, "padding": padding, "dilation": dilation, "output_padding": output_padding}
    for name, values in lists.items():
        if values is not None and len(values) != rank:
            raise RuntimeError(
                f"expected {name} to be a single integer value or a list of {rank} values to match the convolution "
                f"dimensions, but got {name}={list(values)}"
            )
    if any(p < 0 for p in padding):
        raise RuntimeError("negative padding is not supported")
    if output_padding is not None and any(p < 0 for p in output_padding):
        raise RuntimeError("negative output_padding is not supported")
    if any(s <= 0 for s in stride):
        raise RuntimeError("non-positive stride is not supported")
    if any(d <= 0 for d in dilation):
        raise RuntimeError(f"dilation should be greater than zero, but got {list(dilation)}")


def _check_shapes(
    input: TensorSpec, weight: TensorSpec, bias: TensorSpec | None, groups: int, transposed: bool
) -> None:
    if weight.ndim < 3:
        raise RuntimeError(f"weight should have at least three dimensions, but got {weight.ndim}")
    rank = weight.ndim - 2
    name = f"conv_transpose{rank}d" if transposed else f"conv{rank}d"
    if input.ndim != weight.ndim:
        raise RuntimeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but got input of size: "
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
    if transposed:
        if input.sizes[1] != weight.sizes[0]:
            raise RuntimeError(
                f"Given transposed=1, weight of size {list(weight.sizes)}, expected input{list(input.sizes)} to have "
                f"{weight.sizes[0]} channels, but got {input.sizes[1]} channels instead"
            )
        outputs = weight.sizes[1] * groups
        if bias is not None and bias.sizes != (outputs,):
            raise RuntimeError(
                f"Given transposed=1, weight of size {list(weight.sizes)}, expected bias to be 1-dimensional with "
                f"{outputs} elements, but got bias of size {list(bias.sizes)} instead"
            )
        return
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
    """Infer (N, O, *out) from (N, C, *spatial) and a weight.

    The weight is (O, C / groups, *kernel), transposed (C, O / groups, *kernel). Channels-last inputs give channels-last
    outputs.
    """
    _check_shapes(input, weight, bias, groups, transposed)
    kernel = weight.sizes[2:]
    stride, padding, dilation, output_padding = (
        for_each_dimension(values, len(kernel)) for values in (stride, padding, dilation, output_padding)
    )
    check_window(len(kernel), stride, padding, dilation, output_padding)
    if 0 in kernel:
        raise RuntimeError(f"kernel size should be greater than zero, but got {list(kernel)}")
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
    if transposed:
        outputs = weight.sizes[1] * groups
        out = _transposed_sizes(input.sizes, kernel, stride, padding, dilation, output_padding)
    else:
        outputs = weight.sizes[0]
        out = _forward_sizes(input.sizes[2:], kernel, stride, padding, dilation)
    if input.sizes[0] and 0 in input.sizes[2:]:
        raise RuntimeError(
            f"Only zero batch or zero channel inputs are supported, but got input shape: {list(input.sizes)}"
        )
    sizes = (input.sizes[0], outputs, *out)
    meta.set_output_raw_strided(0, sizes, _strides(sizes, input, weight), dtype=input.dtype)


def _forward_sizes(
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> tuple[int, ...]:
    """Return the output sizes. Raises an error for a kernel that is larger than the padded input."""
    padded = tuple(n + 2 * p for n, p in zip(sizes, padding, strict=True))
    reach = tuple(d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True))
    if any(have < need for have, need in zip(padded, reach, strict=True)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({_by(padded)}). Kernel size: ({_by(reach)}). Kernel size "
            "can't be greater than actual input size"
        )
    return tuple((have - need) // s + 1 for have, need, s in zip(padded, reach, stride, strict=True))


def _transposed_sizes(
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    output_padding: Sequence[int],
) -> tuple[int, ...]:
    """Return the input sizes that give these output sizes, plus `output_padding` to resolve the stride's ambiguity.

    `sizes` are (N, C, *positions). An empty batch may have no elements.
    """
    batch, sizes = sizes[0], sizes[2:]
    if any(extra >= s and extra >= d for extra, s, d in zip(output_padding, stride, dilation, strict=True)):
        raise RuntimeError(
            "output padding must be smaller than either stride or dilation, but got output_padding: "
            f"{list(output_padding)} stride: {list(stride)} dilation: {list(dilation)}"
        )
    rows = zip(sizes, kernel, stride, padding, dilation, output_padding, strict=True)
    out = tuple((n - 1) * s - 2 * p + d * (k - 1) + extra + 1 for n, k, s, p, d, extra in rows)
    if any(n < (0 if batch == 0 else 1) for n in out):
        raise RuntimeError(
            f"Given input size per channel: ({_by(sizes)}). Calculated output size per channel: ({_by(out)}). Output "
            "size is too small"
        )
    return out


def _strides(sizes: Sequence[int], *operands: TensorSpec) -> tuple[int, ...]:
    """Return channels-last strides if an operand is channels-last; else, and without elements, contiguous ones."""
    if 0 in sizes:
        return ()
    formats = (channels_last, channels_last_3d)
    for spec in operands:
        if spec.ndim == len(sizes) and spec.suggest_memory_format() in formats:
            return channels_last_strides(sizes)
    return ()


def _check_gradient(
    name: str,
    grad: TensorSpec,
    other: Sequence[TensorSpec],
    input: tuple[int, ...],
    weight: tuple[int, ...],
    window: Sequence[Sequence[int]],
    groups: int,
) -> None:
    """Raise an error for a gradient of other sizes than the result; a transposed one may lack the last positions."""
    rank = len(weight) - 2
    if rank < 1 or not grad.ndim == len(input) == len(weight):
        raise RuntimeError(
            f"Expected gradient, input and weight of one rank, at least 3, but got sizes {list(grad.sizes)}, "
            f"{list(input)} and {list(weight)}"
        )
    check_same_device(name, grad, *other)
    for spec in other:
        check_dtype(name, "input and weight", spec, grad.dtype)
    check_sizes_given(name, "input", input)
    check_sizes_given(name, "weight", weight)
    if groups < 1 or weight[0] % groups or input[1] != weight[1] * groups:
        raise RuntimeError(
            f"{name}: expected groups to divide the channels of input and weight, but got groups={groups}, input of "
            f"sizes {list(input)} and weight of sizes {list(weight)}"
        )
    stride, padding, dilation = (for_each_dimension(values, rank) for values in window)
    check_window(rank, stride, padding, dilation)
    out = _forward_sizes(input[2:], weight[2:], stride, padding, dilation)
    # A transposed gradient lacks fewer positions than its output padding, which is below stride or dilation.
    lacking = [0, 0, *[(max(s, d) - 1) // s for s, d in zip(stride, dilation, strict=True)]]
    for dim, (have, want) in enumerate(zip(grad.sizes, (input[0], weight[0], *out), strict=True)):
        if not 0 <= want - have <= lacking[dim]:
            raise RuntimeError(
                f"Expected a tensor of dimension {rank + 2} and tensor.size[{dim}] == {want} but got: dimension "
                f"{grad.ndim} and tensor.size[{dim}] = {have}"
            )


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
    """Infer the gradient of `convolution` with respect to its input."""
    sizes = tuple(input_size)
    _check_gradient(
        meta.name, grad_output, [weight], sizes, weight.sizes, (stride, padding, dilation), groups
    )
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
    """Infer the gradient of `convolution` with respect to its weight."""
    _check_gradient(
        meta.name, grad_output, [input], input.sizes, tuple(weight_size), (stride, padding, dilation), groups
    )
    meta.set_output_raw_strided(0, tuple(weight_size), dtype=grad_output.dtype)


def _convolution_backward_both(
    meta: MetaBase,
    grad_output: TensorSpec,
    input: TensorSpec,
    weight: TensorSpec,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> None:
    """Infer the gradients of `convolution` with respect to its input and its weight."""
    window = (stride, padding, dilation)
    _check_gradient(meta.name, grad_output, [input, weight], input.sizes, weight.sizes, window, groups)
    strides = _strides(input.sizes, grad_output, weight)
    meta.set_output_raw_strided(0, input.sizes, strides, dtype=grad_output.dtype)
    meta.set_output_raw_strided(1, weight.sizes, dtype=grad_output.dtype)

"""Convolutions as users call them, over `convolution` and, transposed, over its backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...runtime.memory_format import contiguous_format
from ..core.dispatcher import Dispatcher
from ..core.kernel_function import Plan, Planner
from ..core.operator_entry import OperatorEntry
from ..generated.functions import convolution, convolution_backward_input
from ..structured.native.convolution import check_window
from ..structured.register import planned_by


def _planner(rank: int) -> Planner:
    """A batched call with paddings in numbers is planned as `convolution`, so that it costs one call."""

    def plan(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
        input, weight, bias, stride, padding, dilation, groups = args
        if input._spec.ndim != rank + 2 or isinstance(padding, str):
            return op.rebind(CONVOLUTIONS[rank], args)
        target = Dispatcher.singleton().find_schema_or_throw("aten::convolution")
        static = (tuple(stride), tuple(padding), tuple(dilation), False, (0,) * rank, groups)
        return target.plan(key_set, (input, weight, bias, *static))

    return plan


def _conv(
    rank: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int] | str,
    dilation: Sequence[int],
    groups: int,
) -> Any:
    if input._spec.ndim == rank + 1:
        return _conv(rank, input.unsqueeze(0), weight, bias, stride, padding, dilation, groups).squeeze(0)
    if input._spec.ndim != rank + 2:
        raise RuntimeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to conv{rank}d, but got input of size: "
            f"{list(input.shape)}"
        )
    none = (0,) * rank
    if not isinstance(padding, str):
        return convolution(input, weight, bias, stride, padding, dilation, False, none, groups)
    if padding == "valid":
        return convolution(input, weight, bias, stride, none, dilation, False, none, groups)
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    return _conv_same(rank, input, weight, bias, stride, dilation, groups)


def _conv_same(
    rank: int, input: Any, weight: Any, bias: Any, stride: Sequence[int], dilation: Sequence[int], groups: int
) -> Any:
    """``padding='same'``: where an odd total goes half to each side, the extra element on the left is cut off.

    PyTorch pads the right more; padding both sides by as much and dropping the first result is the same.
    """
    if weight._spec.ndim != rank + 2:
        raise RuntimeError(f"weight should have {rank + 2} dimensions, but got {weight._spec.ndim}")
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for d, k in zip(dilation, weight._spec.sizes[2:], strict=True)]
    padding = tuple((t + 1) // 2 for t in total)
    out = convolution(input, weight, bias, stride, padding, dilation, False, (0,) * rank, groups)
    if not any(t % 2 for t in total):
        return out
    for dim, t in enumerate(total):
        if t % 2:
            out = out.slice(dim + 2, 1)
    return out.clone(memory_format=contiguous_format)


def _of_rank(rank: int) -> Callable[..., Any]:
    @planned_by(_planner(rank))
    def conv(
        input: Any,
        weight: Any,
        bias: Any,
        stride: Sequence[int],
        padding: Sequence[int] | str,
        dilation: Sequence[int],
        groups: int,
    ) -> Any:
        return _conv(rank, input, weight, bias, stride, padding, dilation, groups)

    return conv


conv1d = _of_rank(1)
conv2d = _of_rank(2)
conv3d = _of_rank(3)
CONVOLUTIONS = {1: conv1d, 2: conv2d, 3: conv3d}


def _conv_transpose(
    rank: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
    dilation: Sequence[int],
) -> Any:
    """The gradient of a convolution as an operator: weight (C, O / groups, *kernel)."""
    if input._spec.ndim == rank + 1:
        batched = input.unsqueeze(0)
        return _conv_transpose(
            rank, batched, weight, bias, stride, padding, output_padding, groups, dilation
        ).squeeze(0)
    sizes, kernel = input._spec.sizes, weight._spec.sizes
    if len(sizes) != rank + 2 or len(kernel) != rank + 2:
        raise RuntimeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to conv_transpose{rank}d, but got "
            f"input of size: {list(sizes)}"
        )
    check_window(rank, stride, padding, dilation)
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    if sizes[1] != kernel[0] or kernel[0] % groups:
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(kernel)}, expected input{list(sizes)} to have {kernel[0]} "
            f"channels, but got {sizes[1]} channels instead"
        )
    for extra, s, d in zip(output_padding, stride, dilation, strict=True):
        if extra >= s and extra >= d:
            raise RuntimeError(
                f"output padding must be smaller than either stride or dilation, but got output_padding: "
                f"{list(output_padding)} stride: {list(stride)} dilation: {list(dilation)}"
            )
    spatial = [
        (n - 1) * s - 2 * p + d * (k - 1) + extra + 1
        for n, s, p, d, k, extra in zip(
            sizes[2:], stride, padding, dilation, kernel[2:], output_padding, strict=True
        )
    ]
    size = (sizes[0], kernel[1] * groups, *spatial)
    if bias is not None and bias._spec.sizes != size[1:2]:
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(kernel)}, expected bias to be 1-dimensional with {size[1]} "
            f"elements, but got bias of size {list(bias.shape)} instead"
        )
    out = convolution_backward_input(
        input, weight, size, tuple(stride), tuple(padding), tuple(dilation), groups
    )
    return out if bias is None else out + bias.view((size[1], *(1,) * rank))


def conv_transpose1d(input: Any, weight: Any, bias: Any, *window: Any) -> Any:
    """`torch.nn.functional.conv_transpose1d`."""
    return _conv_transpose(1, input, weight, bias, *window)


def conv_transpose2d(input: Any, weight: Any, bias: Any, *window: Any) -> Any:
    """`torch.nn.functional.conv_transpose2d`."""
    return _conv_transpose(2, input, weight, bias, *window)


def conv_transpose3d(input: Any, weight: Any, bias: Any, *window: Any) -> Any:
    """`torch.nn.functional.conv_transpose3d`."""
    return _conv_transpose(3, input, weight, bias, *window)

"""Convolutions as users call them, over `convolution`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.memory_format import contiguous_format
from ...runtime.scalar_type import complex32
from ...runtime.tensor_spec import TensorSpec
from ..autograd.formulas.convolution import (
    convolution_bias_backward,
    convolution_gradients,
    convolution_input_gradient,
    convolution_weight_gradient,
)
from ..core.dispatcher import Dispatcher
from ..core.kernel_function import Plan, Planner
from ..core.operator_entry import OperatorEntry
from ..generated.functions import add, convolution, neg, stack, view_as_complex, view_as_real
from ..plans.register import planned_by
from ..structured.meta.convolution import for_each_dimension
from ..structured.operand_checks import check_ranks

if TYPE_CHECKING:
    from ..tensor import Tensor


def _by_parts(input: Tensor, weight: Tensor) -> bool:
    """Return True if a device lacks the complex convolution that is asked for; PyTorch splits it into real ones too."""
    spec: TensorSpec = input._spec
    if not spec.dtype.is_complex or weight._spec.dtype is not spec.dtype:
        return False
    return spec.device.type == "cuda" or spec.dtype is complex32


def _of_numbers(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    """Compute `convolution` of real or complex numbers by parts, on a device without a complex kernel.

    Each real channel is next to its imaginary channel, and each weight becomes the 2x2 matrix of a complex product. The
    result is one convolution of twice the channels, without the cancellation of ATen's three products (ATen's
    ``complex_convolution``).
    """
    window = (stride, padding, dilation, transposed, output_padding, groups)
    sizes, filters = input._spec.sizes, weight._spec.sizes
    if not _by_parts(input, weight) or input._spec.ndim < 3 or weight._spec.ndim != input._spec.ndim:
        return convolution(input, weight, bias, *window)
    channels = view_as_real(input).movedim(-1, 2).reshape((sizes[0], 2 * sizes[1], *sizes[2:]))
    re, im = view_as_real(weight).unbind(-1)
    # Weights from the parts of an input channel to the real and to the imaginary output.
    rows = ([re, im], [neg(im), re]) if transposed else ([re, neg(im)], [im, re])
    matrices = stack([stack(row, 2) for row in rows], 1)
    products = matrices.reshape((2 * filters[0], 2 * filters[1], *filters[2:]))
    offsets = None if bias is None else view_as_real(bias).reshape((-1,))
    made = convolution(channels, products, offsets, *window)
    n, columns, *space = made._spec.sizes
    parts = made.reshape((n, columns // 2, 2, *space)).movedim(2, -1)
    # Always copy: a contiguous tensor may have odd strides along dimensions of size 1.
    return view_as_complex(parts.clone(memory_format=contiguous_format))


def _planner(rank: int) -> Planner:
    """Return a planner that plans a batched call with numeric paddings as `convolution`, so that it costs one call."""

    def plan(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
        input, weight, bias, stride, padding, dilation, groups = args
        if input._spec.ndim != rank + 2 or isinstance(padding, str) or _by_parts(input, weight):
            return op.rebind(CONVOLUTIONS[rank], args)
        target = Dispatcher.singleton().find_schema_or_throw("aten::convolution")
        static = (tuple(stride), tuple(padding), tuple(dilation), False, (0,) * rank, groups)
        return target.plan(key_set, (input, weight, bias, *static))

    return plan


def _conv(
    rank: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int] | str,
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    if input._spec.ndim == rank + 1:
        return _conv(rank, input.unsqueeze(0), weight, bias, stride, padding, dilation, groups).squeeze(0)
    if input._spec.ndim != rank + 2:
        raise RuntimeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to conv{rank}d, but got input of size: "
            f"{list(input.shape)}"
        )
    none = (0,) * rank
    if not isinstance(padding, str):
        return _of_numbers(input, weight, bias, stride, padding, dilation, False, none, groups)
    if padding == "valid":
        return _of_numbers(input, weight, bias, stride, none, dilation, False, none, groups)
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    return _conv_same(rank, input, weight, bias, stride, dilation, groups)


def _conv_same(
    rank: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """Compute ``padding='same'``: pad both sides of an odd total equally, and drop the first result.

    PyTorch pads one more element on the right. Equal padding without the first result gives the same values.
    """
    if weight._spec.ndim != rank + 2:
        raise RuntimeError(f"weight should have {rank + 2} dimensions, but got {weight._spec.ndim}")
    for name, numbers in (("stride", stride), ("dilation", dilation)):
        if len(numbers) not in (1, rank):
            raise RuntimeError(f"{name} cannot broadcast to {rank} dimensions, got {list(numbers)}")
    dilation = for_each_dimension(dilation, rank)
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for d, k in zip(dilation, weight._spec.sizes[2:], strict=True)]
    padding = tuple((t + 1) // 2 for t in total)
    out = _of_numbers(input, weight, bias, stride, padding, dilation, False, (0,) * rank, groups)
    if not any(t % 2 for t in total):
        return out
    for dim, t in enumerate(total):
        if t % 2:
            out = out.slice(dim + 2, 1)
    return out.clone(memory_format=contiguous_format)


def _of_rank(rank: int) -> Callable[..., Any]:
    @planned_by(_planner(rank))
    def conv(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: Sequence[int],
        padding: Sequence[int] | str,
        dilation: Sequence[int],
        groups: int,
    ) -> Tensor:
        return _conv(rank, input, weight, bias, stride, padding, dilation, groups)

    return conv


conv1d = _of_rank(1)
conv2d = _of_rank(2)
conv3d = _of_rank(3)
CONVOLUTIONS = {1: conv1d, 2: conv2d, 3: conv3d}


def _transposed_planner(rank: int) -> Planner:
    """Return a planner that plans a batched call as `convolution`."""

    def plan(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
        input, weight, bias, stride, padding, output_padding, groups, dilation = args
        if input._spec.ndim != rank + 2 or _by_parts(input, weight):
            return op.rebind(TRANSPOSED[rank], args)
        target = Dispatcher.singleton().find_schema_or_throw("aten::convolution")
        static = (tuple(stride), tuple(padding), tuple(dilation), True, tuple(output_padding), groups)
        return target.plan(key_set, (input, weight, bias, *static))

    return plan


def _transposed_of_rank(rank: int) -> Callable[..., Any]:
    @planned_by(_transposed_planner(rank))
    def conv_transpose(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: Sequence[int],
        padding: Sequence[int],
        output_padding: Sequence[int],
        groups: int,
        dilation: Sequence[int],
    ) -> Tensor:
        window = (stride, padding, dilation, True, output_padding, groups)
        if input._spec.ndim == rank + 1:
            return _of_numbers(input.unsqueeze(0), weight, bias, *window).squeeze(0)
        if input._spec.ndim != rank + 2:
            raise RuntimeError(
                f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to conv_transpose{rank}d, but got "
                f"input of size: {list(input.shape)}"
            )
        return _of_numbers(input, weight, bias, *window)

    return conv_transpose


conv_transpose1d = _transposed_of_rank(1)
conv_transpose2d = _transposed_of_rank(2)
conv_transpose3d = _transposed_of_rank(3)
TRANSPOSED = {1: conv_transpose1d, 2: conv_transpose2d, 3: conv_transpose3d}


def _convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    *library: bool,
) -> Tensor:
    """Compute `convolution`; the flags of an unused library have no effect here."""
    return convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def _convolution_mode(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: str,
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """Compute a batched convolution with padding named ``same`` or ``valid``."""
    rank = weight._spec.ndim - 2
    stride, dilation = for_each_dimension(stride, rank), for_each_dimension(dilation, rank)
    return _conv(rank, input, weight, bias, stride, padding, dilation, groups)


def convolution_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return the gradients of input, weight and bias that `output_mask` asks for, None for the others."""
    for argument, x in (("grad_output", grad_output), ("input", input)):
        check_ranks("convolution_backward", argument, x._spec, weight._spec.ndim)
    window = (stride, padding, dilation, transposed, groups)
    of_input = of_weight = None
    if output_mask[0] and output_mask[1]:
        of_input, of_weight = convolution_gradients(grad_output, input, weight, *window)
    elif output_mask[0]:
        of_input = convolution_input_gradient(grad_output, weight, input.shape, *window)
    elif output_mask[1]:
        of_weight = convolution_weight_gradient(grad_output, input, weight.shape, *window)
    return of_input, of_weight, convolution_bias_backward(grad_output) if output_mask[2] else None


def _convolution_double_backward(
    ggI: Tensor | None,
    ggW: Tensor | None,
    ggb: Tensor | None,
    gO: Tensor,
    weight: Tensor,
    self: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return the gradients of grad_output, input and weight from those of the input, weight and bias gradients."""
    window = (stride, padding, dilation, transposed, groups)
    outer = inner = filters = None
    if output_mask[0]:
        forward = (stride, padding, dilation, transposed, output_padding, groups)
        terms = [
            *([] if ggI is None else [convolution(ggI, weight, None, *forward)]),
            *([] if ggW is None else [convolution(self, ggW, None, *forward)]),
            *([] if ggb is None else [ggb.reshape((-1, *(1,) * (gO._spec.ndim - 2))).expand(gO.shape)]),
        ]
        outer = functools.reduce(add, terms) if terms else None
    if output_mask[1] and ggW is not None:
        inner = convolution_input_gradient(gO, ggW, self.shape, *window)
    if output_mask[2] and ggI is not None:
        filters = convolution_weight_gradient(gO, ggI, weight.shape, *window)
    return outer, inner, filters


def conv_tbc(self: Tensor, weight: Tensor, bias: Tensor, pad: int) -> Tensor:
    """Compute a convolution over time of rows (time, batch, channel) with (kernel, channels, outputs)."""
    if self._spec.ndim != 3:
        raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if weight._spec.ndim != 3:
        raise RuntimeError("Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.")
    if bias._spec.ndim != 1:
        raise RuntimeError("Bias must be 1-D")
    if self._spec.sizes[2] != weight._spec.sizes[1]:
        raise RuntimeError("Input dim 2 (input channels) is not == dim 1 in the weight tensor")
    if bias._spec.sizes[0] != weight._spec.sizes[2]:
        raise RuntimeError("Bias size must equal dim 2 in the weight tensor (output channels).")
    length = self._spec.sizes[0] + 2 * pad - weight._spec.sizes[0] + 1
    if length < 0:
        sizes = [length, self._spec.sizes[1], weight._spec.sizes[2]]
        raise RuntimeError(f"Trying to create tensor with negative dimension {length}: {sizes}")
    lines, filters = self.permute((1, 2, 0)), weight.permute((2, 1, 0))
    return (
        convolution(lines, filters, bias, (1,), (pad,), (1,), False, (0,), 1).permute((2, 0, 1)).contiguous()
    )

"""Packed weights of quantized layers, with bias and geometry, for `tt.ops.quantized`.

PyTorch packs them for the kernels of one library (`LinearPackedParamsBase`, `ConvPackedParamsBase`). Here they are the
weight itself, and values for the matmuls that are computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....runtime.fork_lock import cached_property
from ....runtime.quantized_data import PerTensorAffine
from ....runtime.scalar_type import float16, float32, float64, int32, qint8
from ...composite.quantized import along, is_quantized
from ...generated import functions as ops
from .pointwise import require_quantized

single = np.float32
FLOAT16_MAX = 65504.0


def checked_bias(name: str, bias: Any, outputs: int) -> Any:
    """Return a copy of a bias. Raises RuntimeError unless it is None or a float32 vector with an element per output."""
    if bias is None:
        return None
    if bias._spec.dtype is not float32:
        raise RuntimeError(f"{name}: expected a bias of dtype {float32}, got {bias._spec.dtype}")
    if bias._spec.ndim != 1:
        raise RuntimeError("bias should be a vector (1D Tensor)")
    if bias._spec.sizes[0] != outputs:
        raise RuntimeError(f"bias should have N elements: {outputs}, got {bias._spec.sizes[0]}")
    return bias.detach().clone()


class PackedWeight:
    """Quantized weight with an output dimension, and a floating bias.

    Args:
        name: Name of the packing operator, for messages.
        weight: Tensor of qint8 with one scale, or one for each index of `axis`.
        bias: Tensor of float32 with one element per output, or None.
        axis: The output dimension.
        outputs: Number of outputs.
    """

    def __init__(self, name: str, weight: Any, bias: Any, axis: int, outputs: int) -> None:
        require_quantized(name, weight)
        if weight._spec.dtype is not qint8:
            raise RuntimeError(f"{name}: expected a weight of dtype {qint8}, got {weight._spec.dtype}")
        quantizer = weight._data.quantizer
        if not isinstance(quantizer, PerTensorAffine) and (
            quantizer.axis != axis or quantizer.scales._spec.numel != outputs
        ):
            raise RuntimeError(
                f"{name}: expected a scale for each of {outputs} outputs along dimension {axis}, got "
                f"{quantizer.scales._spec.numel} along dimension {quantizer.axis}"
            )
        self.weight = weight.clone()
        self.bias = checked_bias(name, bias, outputs)

    @cached_property
    def scales(self) -> Any:
        """Scale of each output in float32, or the one scale of all: a tensor or a number."""
        quantizer = self.weight._data.quantizer
        return quantizer.scale if isinstance(quantizer, PerTensorAffine) else quantizer.scales.to(float32)

    @cached_property
    def zero_points(self) -> Any:
        """Zero point of each output in int32, or the one zero point of all: a tensor or a number."""
        quantizer = self.weight._data.quantizer
        return (
            quantizer.zero_point
            if isinstance(quantizer, PerTensorAffine)
            else quantizer.zero_points.to(int32)
        )

    @cached_property
    def is_symmetric(self) -> bool:
        """True if all zero points are known to be 0. The first access waits for per-channel zero points on a GPU."""
        zero_points = self.zero_points
        if isinstance(zero_points, int):
            return zero_points == 0
        return not zero_points._spec.is_meta and not bool(zero_points.any())

    def unpack(self) -> tuple[Any, Any]:
        """Return the weight and the bias."""
        return self.weight, self.bias


class LinearPackedParams(PackedWeight):
    """The matrix of a linear layer, of shape [outputs, inputs]."""

    def __init__(self, weight: Any, bias: Any) -> None:
        if weight._spec.ndim != 2:
            raise RuntimeError(
                "The weight tensor for quantized::linear_prepack (fbgemm) should be 2-dimensional."
            )
        super().__init__("quantized::linear_prepack", weight, bias, 0, weight._spec.sizes[0])
        self._epilogue: tuple[tuple[int, float, float], tuple[Any, Any, Any]] | None = None

    @cached_property
    def transposed(self) -> Any:
        """The integers as they multiply rows from the right, of shape [inputs, outputs]."""
        return self.weight._data.ints.t()

    @cached_property
    def sums(self) -> Any:
        """The sum of each output's integers, in int32."""
        return ops.sum(self.weight._data.ints, 1, dtype=int32)

    def epilogue(self, zero_point: int, scale: float, out_scale: float) -> tuple[Any, Any, Any]:
        """Return the offset, bias and multiplier of each output's sums of products of an input.

        The last result is cached: a layer's input and output have the same grids in every call.
        """
        cached = self._epilogue
        if cached is None or cached[0] != (zero_point, scale, out_scale):
            step = self.scales
            if isinstance(step, float):
                weighted: Any = float(single(scale) * single(step))
                number = float(single(weighted) / single(out_scale))
                multiplier = ops.full_like(self.sums, number, dtype=float32)
            else:
                weighted = step * float(single(scale))
                multiplier = weighted / float(single(out_scale))
            bias = None if self.bias is None else self.bias / weighted
            cached = (zero_point, scale, out_scale), (self.sums * zero_point, bias, multiplier)
            self._epilogue = cached
        return cached[1]


class LinearPackedParamsFp16:
    """The matrix of a linear layer in float16, of shape [outputs, inputs]; larger numbers saturate.

    Args:
        weight: Floating tensor.
        bias: As in `PackedWeight`.
    """

    def __init__(self, weight: Any, bias: Any) -> None:
        name = "quantized::linear_prepack_fp16"
        if is_quantized(weight) or not weight._spec.dtype.is_floating_point or weight._spec.ndim != 2:
            raise RuntimeError(
                f"{name}: expected a floating weight with 2 dimensions, got {weight._spec.dtype} of shape "
                f"{list(weight._spec.sizes)}"
            )
        self.weight = weight.detach().clamp(-FLOAT16_MAX, FLOAT16_MAX).to(float16, copy=True)
        self.bias = checked_bias(name, bias, weight._spec.sizes[0])

    def unpack(self) -> tuple[Any, Any]:
        """Return the weight in float32, and the bias."""
        return self.weight.to(float32), self.bias


class ConvPackedParams(PackedWeight):
    """The filters of a convolution, and where they are applied.

    Args:
        name: Name of the packing operator, for messages.
        weight: Tensor of shape [outputs, inputs / groups, *window]; for a transposed convolution, [inputs, outputs /
            groups, *window].
        bias: As in `PackedWeight`.
        stride: One number per window dimension, like the following three.
        padding: Number of zeros at both ends.
        output_padding: Number of extra output elements of a transposed convolution.
        dilation: Distance between a window's elements.
        groups: Number of groups of inputs and outputs.
        transposes: True for a transposed convolution.
    """

    def __init__(
        self,
        name: str,
        weight: Any,
        bias: Any,
        stride: Sequence[int],
        padding: Sequence[int],
        output_padding: Sequence[int],
        dilation: Sequence[int],
        groups: int,
        transposes: bool,
    ) -> None:
        sizes = weight._spec.sizes
        spatial = len(sizes) - 2
        for argument, values in (("stride", stride), ("padding", padding), ("dilation", dilation)):
            if len(values) != spatial:
                raise RuntimeError(
                    f"{name}: {argument} should contain {spatial} elements for {spatial}D convolution, got "
                    f"{list(values)}"
                )
        axis = 1 if transposes else 0
        super().__init__(name, weight, bias, axis, sizes[1] * groups if transposes else sizes[0])
        self.stride, self.padding, self.output_padding = tuple(stride), tuple(padding), tuple(output_padding)
        self.dilation, self.groups, self.transposes = tuple(dilation), groups, transposes

    @property
    def transposes_as_int(self) -> int:
        """`transposes`, as the schemas have it."""
        return int(self.transposes)

    @cached_property
    def shifted(self) -> Any:
        """The integers less their zero points in float64, in which products and their sums are exact."""
        quantizer = self.weight._data.quantizer
        ints = self.weight._data.ints.to(float64)
        if isinstance(quantizer, PerTensorAffine):
            return ints - quantizer.zero_point
        return ints - along(quantizer.zero_points, quantizer.axis, ints._spec.ndim)

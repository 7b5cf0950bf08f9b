"""Linear layers and convolutions of `tt.ops.quantized` (ATen/native/quantized/cpu/qlinear.cpp, qconv.cpp).

Integer matmuls are exact. The sum and the bias are added in float32 and requantized, as in PyTorch's kernels for x86.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....runtime.quantized_data import PerTensorAffine
from ....runtime.scalar_type import float32, float64, int8, int32, quint8, uint8
from ...composite.quantized import along, is_quantized, quantized_tensor
from ...generated import functions as ops
from .packed import ConvPackedParams, LinearPackedParams, LinearPackedParamsFp16, PackedWeight
from .pointwise import check_uniform, requantized

single = np.float32


def signed(ints: Any) -> tuple[Any, int]:
    """Return 8-bit integers as int8, and the subtracted offset."""
    if ints._spec.dtype is uint8:
        return ops.bitwise_xor(ints, 128).view(int8), 128
    return ints, 0


def product(x: Any, zero_point: Any, packed: LinearPackedParams) -> Any:
    """Compute the int32 matmul of rows and the weight, both minus their zero points."""
    ints, shift = signed(x)
    zero = zero_point - shift
    total = ops._int_mm(ints, packed.transposed)
    sums = packed.sums * zero if zero else 0
    weight_zeros = packed.zero_points
    if isinstance(weight_zeros, int) and weight_zeros == 0:
        return total - sums
    rows = ops.sum(ints, 1, keepdim=True, dtype=int32) - ints._spec.sizes[1] * zero
    return total - sums - rows * weight_zeros


def check_activation(name: str, x: Any) -> PerTensorAffine:
    """Return the quantizer of a layer's input. Raises RuntimeError for dtypes other than quint8, and for per-channel
    inputs.
    """
    quantizer = check_uniform(name, x)
    if x._spec.dtype is not quint8:
        raise RuntimeError(f"Expected input data type QUInt8 but got {x._spec.dtype.scalar_name}")
    return quantizer


def output_of(
    sums: Any, scale: float, packed: PackedWeight, grid: PerTensorAffine, axis: int, relu: bool
) -> Any:
    """Add the bias to exact sums of products, and requantize to quint8."""
    ndim = sums._spec.ndim
    step = packed.scales
    if isinstance(step, float):
        weighted: Any = float(single(scale) * single(step))
        multiplier: Any = float(single(weighted) / single(grid.scale))
    else:
        weighted = along(step, axis, ndim) * float(single(scale))
        multiplier = weighted / float(single(grid.scale))
    sums = sums.to(float32)
    if packed.bias is not None:
        sums = sums + along(packed.bias, axis, ndim) / weighted
    ints = ops._requantize(sums, multiplier, grid.zero_point, quint8)
    if relu:
        ints = ints.clamp(min=min(max(grid.zero_point, 0), 255))
    return quantized_tensor(ints, grid, quint8)


def requantized_product(
    rows: Any, quantizer: PerTensorAffine, packed: LinearPackedParams, grid: PerTensorAffine, relu: bool
) -> Any:
    """Compute `product` and `output_of` in one kernel, bitwise identical, if the weight's zero points are 0."""
    ints, shift = signed(rows)
    offsets, bias, multiplier = packed.epilogue(quantizer.zero_point - shift, quantizer.scale, grid.scale)
    least = grid.zero_point if relu else 0
    made = ops._requantized_int_mm(ints, packed.transposed, offsets, bias, multiplier, grid.zero_point, least)
    return quantized_tensor(made, grid, quint8)


def rows_of(name: str, x: Any, packed: LinearPackedParams) -> Any:
    """Return the last dimension of a tensor as rows. Raises RuntimeError if its size differs from the weight's."""
    if type(packed) is not LinearPackedParams:
        raise RuntimeError(
            f"{name}: expected a weight that linear_prepack has packed, got {type(packed).__name__}"
        )
    inputs = packed.weight._spec.sizes[1]
    if not x._spec.ndim:
        raise RuntimeError(f"{name}: the dimension of the input tensor should be at least 1")
    if x._spec.sizes[-1] != inputs:
        raise RuntimeError(
            f"The number of rows in the packB should be equal to K: {x._spec.sizes[-1]}, got {inputs}"
        )
    return x.reshape(-1, inputs)


def linear(relu: bool) -> Callable[..., Any]:
    """Return a linear layer from quint8 to quint8."""

    def forward(x: Any, packed: LinearPackedParams, scale: float, zero_point: int) -> Any:
        quantizer = check_activation("quantized::linear", x)
        rows = rows_of("quantized::linear", x._data.ints, packed)
        grid = PerTensorAffine(float(scale), zero_point)
        if packed.is_symmetric and 0 <= zero_point <= 255:
            out = requantized_product(rows, quantizer, packed, grid, relu)
        else:
            sums = product(rows, quantizer.zero_point, packed)
            out = output_of(sums, quantizer.scale, packed, grid, 1, relu)
        return out.reshape(*x._spec.sizes[:-1], packed.weight._spec.sizes[0])

    return forward


def linear_then(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a linear layer that applies a function to its floating output before quantization."""

    def forward(x: Any, packed: LinearPackedParams, scale: float, zero_point: int, *rest: Any) -> Any:
        grid = PerTensorAffine(float(scale), zero_point)
        return requantized(function(linear_to_float(x, packed), *rest), grid, quint8)

    return forward


def linear_to_float(x: Any, packed: LinearPackedParams) -> Any:
    """Compute a linear layer of a quint8 tensor, in float32."""
    quantizer = check_activation("quantized::linear", x)
    rows = rows_of("quantized::linear", x._data.ints, packed)
    numbers = numbers_from(product(rows, quantizer.zero_point, packed), quantizer.scale, packed)
    return numbers.reshape(*x._spec.sizes[:-1], packed.weight._spec.sizes[0])


def numbers_from(sums: Any, scale: float, packed: LinearPackedParams) -> Any:
    """Return sums of products as numbers, with the bias; product and sum round once."""
    step = packed.scales
    weighted = float(single(scale) * single(step)) if isinstance(step, float) else step * float(single(scale))
    if packed.bias is None:
        return sums.to(float32) * weighted
    weighted = weighted if isinstance(weighted, float) else weighted.to(float64)
    return (sums.to(float64) * weighted + packed.bias).to(float32)


def linear_dynamic(relu: bool) -> Callable[..., Any]:
    """Return a linear layer of a floating input, quantized to 7 bits by its range, as in PyTorch on x86."""

    def forward(x: Any, packed: LinearPackedParams, reduce_range: bool = False) -> Any:
        if is_quantized(x) or x._spec.dtype is not float32:
            raise RuntimeError(f"quantized::linear_dynamic: expected a float32 input, got {x._spec.dtype}")
        rows = rows_of("quantized::linear_dynamic", x, packed)
        quantized = ops.quantize_per_tensor_dynamic(rows, quint8, reduce_range)
        data = quantized._data
        out = numbers_from(
            product(data.ints, data.quantizer.zero_point, packed), data.quantizer.scale, packed
        )
        out = out.relu() if relu else out
        return out.reshape(*x._spec.sizes[:-1], packed.weight._spec.sizes[0])

    return forward


def linear_dynamic_fp16(relu: bool) -> Callable[..., Any]:
    """Return a linear layer in float32 with a weight of float16."""

    def forward(x: Any, packed: LinearPackedParamsFp16) -> Any:
        name = "quantized::linear_dynamic_fp16"
        if type(packed) is not LinearPackedParamsFp16:
            raise RuntimeError(
                f"{name}: expected a weight that linear_prepack_fp16 has packed, got {type(packed).__name__}"
            )
        if is_quantized(x) or x._spec.dtype is not float32:
            raise RuntimeError(f"{name}: expected a float32 input, got {x._spec.dtype}")
        inputs = packed.weight._spec.sizes[1]
        if not x._spec.ndim or x._spec.sizes[-1] != inputs:
            raise RuntimeError(f"{name}: expected an input of shape [*, {inputs}], got {list(x._spec.sizes)}")
        out = ops.linear(x, *packed.unpack())
        return out.relu() if relu else out

    return forward


def linear_prepack_fp16(weight: Any, bias: Any = None) -> LinearPackedParamsFp16:
    return LinearPackedParamsFp16(weight, bias)


def linear_prepack(weight: Any, bias: Any = None) -> LinearPackedParams:
    return LinearPackedParams(weight, bias)


def unpack(packed: PackedWeight) -> tuple[Any, Any]:
    return packed.unpack()


def conv_prepack(spatial: int, transposes: bool) -> Callable[..., ConvPackedParams]:
    """Return the packing of a convolution's filters; 1-D filters get a second dimension, as in PyTorch."""
    name = f"quantized::conv{'_transpose' if transposes else ''}{spatial}d_prepack"

    def pack(
        weight: Any,
        bias: Any,
        stride: Sequence[int],
        padding: Sequence[int],
        *rest: Any,
    ) -> ConvPackedParams:
        output_padding, dilation, groups = rest if transposes else ((0,) * spatial, *rest)
        if weight._spec.ndim != spatial + 2:
            raise RuntimeError(
                f"{name}: expected a weight of {spatial + 2} dimensions, got shape {list(weight._spec.sizes)}"
            )
        return ConvPackedParams(
            name, weight, bias, stride, padding, output_padding, dilation, groups, transposes
        )

    return pack


def convolved(name: str, x: Any, packed: ConvPackedParams) -> Any:
    """Return the exact sums of products of integers minus their zero points, in float64."""
    quantizer = check_activation(name, x)
    spatial = packed.weight._spec.ndim - 2
    if x._spec.ndim != spatial + 2:
        raise RuntimeError(f"Expected activation data to have {spatial + 2} dimensions, got {x._spec.ndim}")
    numbers = x._data.ints.to(float64) - quantizer.zero_point
    return ops.convolution(
        numbers,
        packed.shifted,
        None,
        packed.stride,
        packed.padding,
        packed.dilation,
        packed.transposes,
        packed.output_padding,
        packed.groups,
    )


def conv(name: str, relu: bool) -> Callable[..., Any]:
    """Return a convolution from quint8 to quint8."""

    def forward(x: Any, packed: ConvPackedParams, scale: float, zero_point: int) -> Any:
        sums = convolved(name, x, packed)
        grid = PerTensorAffine(float(scale), zero_point)
        return output_of(sums, x._data.quantizer.scale, packed, grid, 1, relu)

    return forward


def conv_at(name: str, relu: bool) -> Callable[..., Any]:
    """Return the older form, which also uses the geometry of the packed filters."""
    forward = conv(name, relu)

    def older(
        x: Any,
        packed: ConvPackedParams,
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        groups: int,
        scale: float,
        zero_point: int,
    ) -> Any:
        return forward(x, packed, scale, zero_point)

    return older


def conv_dynamic(name: str) -> Callable[..., Any]:
    """Return a convolution of a floating input, quantized by its range."""

    def forward(x: Any, packed: ConvPackedParams, reduce_range: bool = False) -> Any:
        if is_quantized(x) or x._spec.dtype is not float32:
            raise RuntimeError(f"{name}: expected a float32 input, got {x._spec.dtype}")
        quantized = ops.quantize_per_tensor_dynamic(x, quint8, reduce_range)
        sums = convolved(name, quantized, packed)
        scale = single(quantized._data.quantizer.scale)
        step = packed.scales
        if isinstance(step, float):
            out = sums.to(float32) * float(scale * single(step))
        else:
            out = sums.to(float32) * (along(step, 1, sums._spec.ndim) * float(scale))
        return out if packed.bias is None else out + along(packed.bias, 1, out._spec.ndim)

    return forward


def geometry(field: str) -> Callable[[ConvPackedParams], Any]:
    """Return a getter of one field of the geometry of packed filters."""
    return lambda packed: getattr(packed, field)

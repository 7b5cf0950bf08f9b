"""Normalization in `tt.ops.quantized`: statistics of the dequantized values, requantized results (qbatch_norm.cpp)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....runtime.quantized_data import PerTensorAffine
from ....runtime.scalar_type import float32, float64, int64, qint32
from ...composite.quantized import along, numbers_of, quantized_tensor
from ...generated import functions as ops
from .pointwise import LANES, check_uniform, requantized

single = np.float32


def batch_norm(spatial: int | None, relu: bool) -> Callable[..., Any]:
    """Return batch normalization with given statistics; `spatial` dimensions follow the channels, None for any
    number.
    """

    def normalize(
        qx: Any,
        weight: Any,
        bias: Any,
        mean: Any,
        var: Any,
        eps: float,
        scale: float,
        zero_point: int,
    ) -> Any:
        quantizer = check_uniform("batch_norm", qx)
        ndim = qx._spec.ndim
        expected = {None: (2, 3, 4, 5), 1: (2, 3), 2: (4,), 3: (5,)}[spatial]
        if ndim not in expected:
            raise RuntimeError(f"Expecting the input tensor of {expected[0]} dimensions, got {ndim}")
        channels = qx._spec.sizes[1]
        for name, each in (("weight", weight), ("bias", bias)):
            if each is not None and each._spec.numel != channels:
                raise RuntimeError(f"Expect {name} size to match C: {channels}, got {each._spec.numel}")
        grid = PerTensorAffine(float(scale), zero_point)
        inverse = ops.sqrt(var + float(single(eps))).reciprocal()
        weighted = inverse if weight is None else inverse * weight
        alpha = (weighted.to(float64) * (quantizer.scale / grid.scale)).to(float32)
        shift = mean * inverse if weight is None else mean * inverse * weight
        beta = ((shift.neg() if bias is None else bias - shift).to(float64) / grid.scale).to(float32)
        # Vectors of 32-bit integers are rounded before their zero point is subtracted, and after the other is added.
        rounds_first = qx._spec.dtype is qint32 and channels >= LANES
        if rounds_first:
            numbers = qx._data.ints.to(float32) - float(single(quantizer.zero_point))
        else:
            numbers = (qx._data.ints.to(int64) - quantizer.zero_point).to(float32)
        # Product and sum round once: products of float32 are exact in float64.
        sums = along(alpha, 1, ndim).to(float64) * numbers + along(beta, 1, ndim)
        quantize = ops._quantize_affine if rounds_first else ops._requantize
        ints = quantize(sums.to(float32), 1.0, zero_point, qx._spec.dtype)
        if relu:
            ints = ints.clamp(min=zero_point)
        return quantized_tensor(ints, grid, qx._spec.dtype)

    return normalize


def quantized_batch_norm(
    qx: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float, scale: float, zero_point: int
) -> Any:
    """Compute batch normalization with a weight and a bias, which the operator of `tt` requires."""
    for name, each in (("Weight", weight), ("Bias", bias)):
        if each is None:
            raise RuntimeError(f"{name} must be provided")
    return batch_norm(None, False)(qx, weight, bias, mean, var, eps, scale, zero_point)


KERNELS = {"quantized_batch_norm": quantized_batch_norm}


def _on(numbers: Any, qx: Any, scale: float, zero_point: int) -> Any:
    return requantized(numbers, PerTensorAffine(float(scale), zero_point), qx._spec.dtype)


def layer_norm(
    qx: Any,
    normalized_shape: Sequence[int],
    weight: Any,
    bias: Any,
    eps: float,
    scale: float,
    zero_point: int,
) -> Any:
    check_uniform("layer_norm", qx)
    return _on(ops.layer_norm(numbers_of(qx), normalized_shape, weight, bias, eps), qx, scale, zero_point)


def group_norm(
    qx: Any, num_groups: int, weight: Any, bias: Any, eps: float, scale: float, zero_point: int
) -> Any:
    check_uniform("group_norm", qx)
    return _on(ops.group_norm(numbers_of(qx), num_groups, weight, bias, eps), qx, scale, zero_point)


def instance_norm(qx: Any, weight: Any, bias: Any, eps: float, scale: float, zero_point: int) -> Any:
    """Normalize each channel of each sample by its own statistics."""
    return group_norm(qx, qx._spec.sizes[1], weight, bias, eps, scale, zero_point)

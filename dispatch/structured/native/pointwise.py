"""Meta functions of pointwise operators: each builds a TensorIterator, which broadcasts, promotes, orders."""

from __future__ import annotations

from typing import Any

from ....runtime.scalar_type import dtype_of_number
from ....runtime.tensor_spec import TensorSpec
from ...iterator.tensor_iterator import TensorIterator
from ..meta_base import MetaBase


def unary(meta: MetaBase, self: TensorSpec) -> None:
    """One input, an output of its dtype."""
    meta.build(TensorIterator.unary_op(meta.maybe_get_output(), self))


def add(meta: MetaBase, self: TensorSpec, other: Any, alpha: Any) -> None:
    """Two inputs promoted to a common dtype, and a scale for the second, checked against that dtype."""
    iterator = TensorIterator.binary_op(meta.maybe_get_output(), self, other)
    check_alpha(iterator, alpha)
    meta.build(iterator)


def check_alpha(iterator: TensorIterator, alpha: Any) -> None:
    """Refuse a scale that the common dtype cannot hold, as ATen's alpha_check does."""
    kind = alpha if isinstance(alpha, type) else alpha.__class__
    dtype = iterator.common_dtype
    if kind is bool and dtype.name != "bool":
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    alpha_dtype = dtype_of_number(kind)
    if alpha_dtype.is_floating_point and not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if alpha_dtype.is_complex and not dtype.is_complex:
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")


def threshold_backward(meta: MetaBase, grad_output: TensorSpec, self: TensorSpec, threshold: Any) -> None:
    """The gradient where `self` exceeds the threshold."""
    meta.build(TensorIterator.binary_op(meta.maybe_get_output(), grad_output, self))

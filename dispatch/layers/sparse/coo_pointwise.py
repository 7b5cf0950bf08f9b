"""Pointwise operators on tensors of coordinates: sums and products with sparse and dense ones, functions of values.

A function that keeps zero works on the values alone. One that is not linear adds up repeated coordinates first.
Source of which operators there are, and of what each refuses: aten/src/ATen/native/sparse/.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ....runtime.layout import sparse_coo, strided
from ....runtime.tensor_impl import TensorImpl
from ...composite.sparse_coo import coo_tensor, flattened
from ...generated import functions as ops
from ...iterator.broadcast import infer_size
from ...iterator.type_promotion import can_cast, result_type
from ...structured.meta.pointwise import refuse_bools
from .coo_shapes import broadcast_to
from .coo_structure import add_into, check_range, coalesced, parts_of, places_among
from .forms import become

LINEAR = ("neg",)
"""Additive functions: duplicate coordinates may stay."""

ZERO_PRESERVING = (
    *("abs", "asin", "asinh", "atan", "atanh", "ceil", "erf", "erfinv", "expm1", "floor", "frac", "isinf"),
    *("isnan", "isneginf", "isposinf", "log1p", "relu", "round", "sgn", "sign", "signbit", "sin", "sinh"),
    *("sqrt", "tan", "tanh", "trunc"),
)
"""Functions that are 0 at 0."""


def on_values(function: Callable[..., Any], linear: bool) -> Callable[..., Any]:
    """Return the function of a sparse tensor that changes its values."""

    def unary(self: Any, *rest: Any) -> Any:
        if not linear:
            self = coalesced(self)
        indices, values = parts_of(self)
        return coo_tensor(indices, function(values, *rest), self.shape, self._data.is_coalesced)

    unary.__module__ = __name__
    return unary


def _is_number(operand: Any) -> bool:
    """Return True if an operand is a Python number, or a strided 0-d tensor, which counts as one."""
    return not isinstance(operand, TensorImpl) or (operand._spec.layout is strided and not operand._spec.ndim)


def _refuse_number(name: str, self: Any, other: Any) -> None:
    if not isinstance(other, TensorImpl):
        raise RuntimeError(
            f"{name}(sparse, dense) is not supported. Use {name}(dense, sparse) instead. (The other operand is the "
            f"number {other}.)"
        )
    if not isinstance(self, TensorImpl):
        raise RuntimeError(f"{name}: a number and a sparse tensor have no sum of a sparse layout")


def add(self: Any, other: Any, alpha: Any) -> Any:
    """Concatenate the values of sparse tensors; into a dense tensor, add them."""
    _refuse_number("add", self, other)
    if self._spec.layout is strided:
        if other._spec.layout is not sparse_coo:
            raise RuntimeError(f"add: expected other of layout {sparse_coo}, got {other._spec.layout}")
        dtype = result_type(self, other)
        size = infer_size(self._spec.sizes, other._spec.sizes)
        if not self._spec.sizes == other._spec.sizes == size:
            raise RuntimeError(
                f"Expected 'self' and 'other' to have same size, but self has size {list(self._spec.sizes)} while "
                f"other has size {list(other._spec.sizes)} (FYI: dense-sparse addition does not currently support "
                "broadcasting)"
            )
        out = ops.empty(size, dtype=dtype, device=self._spec.device).copy_(self)
        indices, values = parts_of(other)
        return add_into(out, alpha, indices, values.to(dtype))
    if other._spec.layout is strided:
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if self._spec.sizes != other._spec.sizes:
        raise RuntimeError(
            f"add: expected sizes of 'self' and 'other' to match, but {list(self._spec.sizes)} != "
            f"{list(other._spec.sizes)}"
        )
    if self._data.sparse_dim != other._data.sparse_dim:
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same density, but 'self' has "
            f"{self._data.sparse_dim} sparse dimensions while 'other' has {other._data.sparse_dim} sparse dimensions"
        )
    dtype = result_type(self, other)
    indices, values = parts_of(self)
    more, other_values = parts_of(other)
    other_values = other_values.to(dtype)
    if alpha != 1:
        other_values = other_values * alpha
    out = coo_tensor(
        ops.cat((indices, more), 1), ops.cat((values.to(dtype), other_values), 0), self.shape, False
    )
    return coalesced(out) if self._data.is_coalesced and other._data.is_coalesced else out


def _check_in_place(name: str, self: Any, other: Any) -> Any:
    """Return the dtype of a result. Raises RuntimeError if it cannot be written to the first operand."""
    dtype = result_type(self, other)
    if not can_cast(dtype, self._spec.dtype):
        raise RuntimeError(
            f"Can't convert result type {dtype.scalar_name} to output {self._spec.dtype.scalar_name} in {name} "
            "operation"
        )
    return dtype


def add_(self: Any, other: Any, alpha: Any) -> Any:
    """Add in place; a dense tensor keeps its memory."""
    _refuse_number("add", self, other)
    if self._spec.layout is strided and other._spec.layout is sparse_coo and self._spec.is_contiguous:
        dtype = _check_in_place("add", self, other)
        if self._spec.sizes != other._spec.sizes:
            return become("add", self, add(self, other, alpha))
        indices, values = parts_of(other)
        add_into(self, alpha, indices, values.to(dtype))
        return self
    if self._spec.layout is strided or other._spec.layout is sparse_coo:
        _check_in_place("add", self, other)
    return become("add", self, add(self, other, alpha))


def _refuse_bools(self: Any, other: Any) -> None:
    refuse_bools(*(each._spec.dtype if isinstance(each, TensorImpl) else None for each in (self, other)))


def sub(self: Any, other: Any, alpha: Any) -> Any:
    _refuse_bools(self, other)
    return add(self, other, -alpha)


def sub_(self: Any, other: Any, alpha: Any) -> Any:
    _refuse_bools(self, other)
    return add_(self, other, -alpha)


def rsub(self: Any, other: Any, alpha: Any) -> Any:
    """Subtract a sparse tensor from another one."""
    _refuse_bools(self, other)
    return add(other, self, -alpha)


def in_place_on_values(name: str) -> Callable[..., Any]:
    """Return the in-place form of a nonlinear function, which refuses duplicate coordinates."""
    function = on_values(getattr(ops, name), linear=False)

    def inplace(self: Any, *rest: Any) -> Any:
        if not self._data.is_coalesced:
            raise RuntimeError(f"{name}_ requires coalesced input")
        return become(name, self, function(self, *rest))

    inplace.__module__ = __name__
    return inplace


def mul(self: Any, other: Any) -> Any:
    """Multiply at the indices that both operands specify; a dense operand broadcasts."""
    if _is_number(self) or self._spec.layout is strided:
        self, other = other, self
    if _is_number(other):
        indices, values = parts_of(self)
        return coo_tensor(indices, values * other, self.shape, self._data.is_coalesced)
    dtype = result_type(self, other)
    if other._spec.layout is strided:
        return _times_dense(self, other, dtype)
    if self._spec.sizes != other._spec.sizes:
        raise RuntimeError(
            "mul operands have incompatible sizes: sparse tensors do not broadcast with each other, got "
            f"{list(self._spec.sizes)} and {list(other._spec.sizes)}"
        )
    if self._data.sparse_dim != other._data.sparse_dim:
        raise RuntimeError(
            "mul: expected 'self' and 'other' to have the same number of sparse dimensions, got "
            f"{self._data.sparse_dim} and {other._data.sparse_dim}"
        )
    self, other = coalesced(self), coalesced(other)
    indices, values = parts_of(self)
    more, other_values = parts_of(other)
    size = self._spec.sizes
    if self._spec.is_meta:
        return coo_tensor(indices, values.to(dtype), self.shape, True)
    position, exists = places_among(flattened(more, size), flattened(indices, size))
    common_entries = exists.nonzero().reshape(-1)
    product = values.index_select(0, common_entries).to(dtype) * other_values.index_select(
        0, position.index_select(0, common_entries)
    )
    return coo_tensor(indices.index_select(1, common_entries), product.to(dtype), self.shape, True)


def mul_(self: Any, other: Any) -> Any:
    """Multiply in place."""
    if not _is_number(other) and other._spec.layout is sparse_coo:
        _check_in_place("mul", self, other)
    return become("mul_", self, mul(self, other))


def _times_dense(self: Any, other: Any, dtype: Any) -> Any:
    indices, values = parts_of(self)
    size, sparse_dim = self._spec.sizes, self._data.sparse_dim
    whole = infer_size(size, other._spec.sizes)
    if whole != size:
        return _times_dense(broadcast_to(self, whole), other, dtype)
    other = other.expand(size)
    check_range(indices, size)
    if other._spec.is_contiguous:
        rows = other.reshape((math.prod(size[:sparse_dim]), *size[sparse_dim:]))
        picked = rows.index_select(0, flattened(indices, size))
    else:
        picked = other[tuple(indices.unbind(0))] if sparse_dim else other.unsqueeze(0)
    return coo_tensor(indices, (values * picked).to(dtype), size, self._data.is_coalesced)


def _divisor(self: Any, other: Any, name: str) -> Any:
    """Return the divisor of the values. Raises RuntimeError for anything but a number."""
    if _is_number(other) and isinstance(self, TensorImpl) and self._spec.layout is sparse_coo:
        return other
    shape = list(other._spec.sizes) if isinstance(other, TensorImpl) else []
    raise RuntimeError(
        f"Sparse {name} requires a scalar or zero-dim dense tensor divisor (got shape {shape} for divisor)"
    )


def div(self: Any, other: Any) -> Any:
    """Divide by a number."""
    other = _divisor(self, other, "division")
    indices, values = parts_of(self)
    return coo_tensor(indices, values / other, self.shape, self._data.is_coalesced)


def div_mode(self: Any, other: Any, rounding_mode: str | None) -> Any:
    """Divide by a number with rounding, which is not linear."""
    return _divided(self, other, rounding_mode, "division")


def _divided(self: Any, other: Any, rounding_mode: str | None, name: str) -> Any:
    other = _divisor(self, other, name)
    if rounding_mode is not None:
        self = coalesced(self)
    indices, values = parts_of(self)
    quotient = ops.div(values, other, rounding_mode=rounding_mode)
    return coo_tensor(indices, quotient, self.shape, self._data.is_coalesced)


def floor_divide(self: Any, other: Any) -> Any:
    return _divided(self, other, "floor", "floor division")


def pow_scalar(self: Any, exponent: Any) -> Any:
    """Compute a positive power."""
    if exponent == 0:
        raise RuntimeError(
            "pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense"
        )
    self = coalesced(self)
    indices, values = parts_of(self)
    return coo_tensor(indices, values**exponent, self.shape, True)


def threshold_backward(grad_output: Any, self: Any, threshold: Any) -> Any:
    """Compute relu's gradient: the output's at indices where the input was above the threshold."""
    self = coalesced(self)
    indices, values = parts_of(self)
    grads = coalesced(grad_output).sparse_mask(self)._data.values
    return coo_tensor(indices, ops.threshold_backward(grads, values, threshold), self.shape, True)


KERNELS: dict[str, Callable[..., Any]] = {
    **{name: on_values(getattr(ops, name), linear=False) for name in ZERO_PRESERVING},
    **{name: on_values(getattr(ops, name), linear=True) for name in LINEAR},
    **{
        f"{name}_": in_place_on_values(name)
        for name in (*ZERO_PRESERVING, "nan_to_num")
        if hasattr(ops, f"{name}_")
    },
    "nan_to_num": on_values(ops.nan_to_num, linear=False),
    "_conj_physical": on_values(ops.conj_physical, linear=True),
    "add.Tensor": add,
    "add_.Tensor": add_,
    "rsub.Tensor": rsub,
    "sub.Tensor": sub,
    "sub_.Tensor": sub_,
    "mul.Tensor": mul,
    "mul_.Tensor": mul_,
    "div.Tensor": div,
    "div.Tensor_mode": div_mode,
    "floor_divide": floor_divide,
    "pow.Tensor_Scalar": pow_scalar,
    "threshold_backward": threshold_backward,
}

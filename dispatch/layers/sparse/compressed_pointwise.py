"""Pointwise operators on compressed tensors: functions of values, sums and products, in-place writes.

Indices are unique, so that a function that keeps zero works on the values alone. Source of the list of operators:
aten/src/ATen/native/sparse/SparseCsrTensorMath.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....runtime.layout import layout as Layout
from ....runtime.layout import sparse_coo, spoken, strided
from ....runtime.sparse_data import BLOCKED, COMPRESSED, blocksize_of
from ....runtime.tensor_impl import TensorImpl
from ...composite.sparse_compressed import begins_of, compressed_tensor
from ...generated import functions as ops
from ...iterator.broadcast import infer_size
from ...iterator.type_promotion import result_type
from .compressed_places import common, key_of, taken_at
from .compressed_structure import Lines, add_to_dense, over, same_places
from .coo_pointwise import LINEAR, ZERO_PRESERVING
from .coo_structure import added_at
from .forms import become


def on_values(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the form of a function on values that takes and returns a sparse tensor."""

    def unary(self: Any, *rest: Any) -> Any:
        return over(self, function(self._data.values, *rest))

    unary.__module__ = __name__
    return unary


def _is_number(operand: Any) -> bool:
    return not isinstance(operand, TensorImpl) or (operand._spec.layout is strided and not operand._spec.ndim)


def in_layout_of(self: Any, other: Any) -> Any:
    """Return another tensor in the layout, with the blocks and batches, of a compressed one."""
    kind, block = self._spec.layout, blocksize_of(self)
    if other._spec.layout is kind and blocksize_of(other) == block:
        return other
    if other._spec.layout in BLOCKED and kind not in BLOCKED:
        other = other.to_sparse()
    return other.to_sparse(layout=kind, blocksize=block)


def _check_sizes(name: str, self: Any, other: Any) -> None:
    if self._spec.sizes != other._spec.sizes:
        raise RuntimeError(
            f"torch.{name}: Expected input tensors to have the same shape, but got tensor `self` with shape "
            f"{list(self._spec.sizes)} and tensor `other` with shape {list(other._spec.sizes)}"
        )


def add(self: Any, other: Any, alpha: Any) -> Any:
    """Add sparse tensors at the union of their indices; with a strided operand the result is strided."""
    for operand in (self, other):
        if _is_number(operand):
            whole = (other if operand is self else self)._spec.sizes
            raise RuntimeError(
                f"add: expected 'self' and 'other' to have same size, but self has size [] while other has size "
                f"{list(whole)} (FYI: op2-sparse addition does not currently support broadcasting)"
            )
    dtype = result_type(self, other)
    if self._spec.layout is strided or other._spec.layout is strided:
        _check_sizes("add", self, other)
        if self._spec.layout is strided:
            out = ops.empty(self._spec.sizes, dtype=dtype, device=self._spec.device).copy_(self)
            return add_to_dense(out, alpha, over(other, other._data.values.to(dtype)))
        out = ops.mul(other, alpha).to(dtype).contiguous()
        out = out.clone() if out is other else out
        return add_to_dense(out, 1, over(self, self._data.values.to(dtype)))
    _check_sizes("add", self, other)
    if self._spec.layout is sparse_coo:
        return ops.add(self, other.to_sparse(), alpha=alpha)
    other = in_layout_of(self, other)
    values, other_values = self._data.values.to(dtype), other._data.values.to(dtype)
    if alpha != 1:
        other_values = other_values * alpha
    if same_places(self, other):
        return over(self, values + other_values)
    return united(over(self, values), over(other, other_values))


def united(self: Any, other: Any) -> Any:
    """Return the sum of two tensors of one layout and dtype, by sorting the indices of both."""
    own, theirs = Lines(self), Lines(other)
    spec, batch_sizes = self._spec, self._spec.sizes[: own.batch_dim]
    keys = ops.cat((key_of(own), key_of(theirs).to(own.plain.dtype)), 0)
    cell = own.values._spec.sizes[1:]
    if spec.is_meta:
        unique_keys, group = keys, keys
    else:
        unique_keys, group = ops._unique2(keys, sorted=True, return_inverse=True)[:2]
    count = unique_keys._spec.sizes[0]
    values = ops.cat((own.values, theirs.values), 0)
    summed = values if spec.is_meta else added_at(values, group, count)
    line = ops.floor_divide(unique_keys, max(own.length, 1))
    nnz = count // max(own.batch, 1)
    if own.batch > 1 and not spec.is_meta:
        ends = ops.searchsorted(line, ops.arange(own.batch + 1, device=spec.device) * own.lines)
        if count % own.batch or bool((ends[1:] - ends[:-1]).ne(nnz).any()):
            raise RuntimeError("torch.add: Expect the same number of specified elements per batch.")
    return compressed_tensor(
        begins_of(line, own.batch, own.lines, nnz).reshape((*batch_sizes, own.lines + 1)),
        (unique_keys - line * own.length).reshape((*batch_sizes, nnz)),
        summed.reshape((*batch_sizes, nnz, *cell)),
        spec.sizes,
        spec.layout,
    )


def add_(self: Any, other: Any, alpha: Any) -> Any:
    """Add in place; a contiguous strided tensor keeps its memory."""
    if self._spec.layout is strided and self._spec.is_contiguous and not _is_number(other):
        _check_sizes("add", self, other)
        if self._spec.dtype is result_type(self, other):
            return add_to_dense(self, alpha, over(other, other._data.values.to(self._spec.dtype)))
    return become("add", self, add(self, other, alpha))


def mul(self: Any, other: Any) -> Any:
    """Multiply at the indices that all sparse operands specify; a strided operand broadcasts."""
    if _is_number(self) or self._spec.layout is strided:
        self, other = other, self
    if _is_number(other):
        return over(self, self._data.values * other)
    dtype = result_type(self, other)
    if other._spec.layout is strided:
        if infer_size(self._spec.sizes, other._spec.sizes) != self._spec.sizes:
            raise RuntimeError(
                f"mul: a strided operand of size {list(other._spec.sizes)} does not broadcast to a sparse one of size "
                f"{list(self._spec.sizes)}"
            )
        picked = taken_at(other.expand(self._spec.sizes), self)
        return over(self, (self._data.values * picked._data.values).to(dtype))
    _check_sizes("mul", self, other)
    if self._spec.layout is sparse_coo:
        return mul(in_layout_of(other, self), other)
    other = in_layout_of(self, other)
    values, other_values = self._data.values, other._data.values
    if same_places(self, other):
        return over(self, (values * other_values).to(dtype))
    shared = None if self._spec.is_meta else common(self, other)
    if shared is None:
        return over(self, (values * taken_at(other, self)._data.values).to(dtype))
    common_positions, position, own = shared
    theirs = Lines(other)
    product = (own.values.index_select(0, common_positions) * theirs.values.index_select(0, position)).to(
        dtype
    )
    spec, batch_sizes = self._spec, self._spec.sizes[: own.batch_dim]
    nnz = common_positions._spec.sizes[0] // max(own.batch, 1)
    return compressed_tensor(
        begins_of(own.line.index_select(0, common_positions), own.batch, own.lines, nnz).reshape(
            (*batch_sizes, own.lines + 1)
        ),
        own.plain.index_select(0, common_positions).reshape((*batch_sizes, nnz)),
        product.reshape((*batch_sizes, nnz, *product._spec.sizes[1:])),
        spec.sizes,
        spec.layout,
    )


def threshold_backward(grad_output: Any, self: Any, threshold: Any) -> Any:
    """Compute relu's gradient, at the input's indices."""
    if self._spec.layout not in COMPRESSED:
        raise RuntimeError(
            f"threshold_backward: expected self of a compressed layout, got {spoken(self._spec.layout)}"
        )
    grads = taken_at(grad_output, self)._data.values
    return over(self, ops.threshold_backward(grads, self._data.values, threshold))


def fill_(self: Any, value: Any) -> Any:
    """Write to the specified elements."""
    self._data.values.fill_(value)
    return self


def normal_(self: Any, mean: float, std: float, generator: Any) -> Any:
    """Fill the specified elements with normal numbers."""
    self._data.values.normal_(mean, std, generator=generator)
    return self


def _drawn(name: str) -> Callable[..., Any]:
    """Return a factory that gives new values to the same indices."""
    make = getattr(ops, name)

    def like(self: Any, dtype: Any, layout: Layout | None, device: Any, *rest: Any) -> Any:
        if layout is not None and layout is not self._spec.layout:
            raise RuntimeError(
                f"{name} with different sparse layout is not supported (self is {spoken(self._spec.layout)} but you "
                f"requested {spoken(layout)})"
            )
        made = over(self, make(self._data.values, dtype=dtype, device=device))
        return made if device is None or device is self._spec.device else made.to(device)

    return like


KERNELS: dict[str, Callable[..., Any]] = {
    **{name: on_values(getattr(ops, name)) for name in (*ZERO_PRESERVING, *LINEAR, "angle")},
    "round.decimals": on_values(lambda values, decimals: ops.round(values, decimals=decimals)),
    "_conj_physical": on_values(ops.conj_physical),
    "add.Tensor": add,
    "add_.Tensor": add_,
    "mul.Tensor": mul,
    "threshold_backward": threshold_backward,
    "fill_.Scalar": fill_,
    "normal_": normal_,
    **{name: _drawn(name) for name in ("ones_like", "rand_like", "randn_like")},
}

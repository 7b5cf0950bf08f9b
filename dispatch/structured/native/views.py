"""Geometries of view operators (ATen/native/TensorShape.cpp)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....runtime.tensor_spec import TensorSpec
from ..detach import detach as detach
from ..embed import as_strided_backward as as_strided_backward
from ..embed import embedded
from ..view_kernel import Geometry
from .dims import wrap_dim


def infer_size(sizes: Sequence[int], numel: int) -> tuple[int, ...]:
    """The sizes with a -1 filled in. Raises RuntimeError where they do not hold `numel` elements."""
    given = list(sizes)
    unknown = [i for i, n in enumerate(given) if n == -1]
    if len(unknown) > 1:
        raise RuntimeError("only one dimension can be inferred")
    if any(n < -1 for n in given):
        raise RuntimeError(f"invalid shape dimension {min(given)}")
    known = math.prod(n for n in given if n != -1)
    if unknown:
        if known == 0:
            raise RuntimeError(
                f"cannot reshape tensor of {numel} elements into shape {given} because the unspecified dimension size "
                "-1 can be any value and is ambiguous"
            )
        if numel % known == 0:
            given[unknown[0]] = numel // known
            return tuple(given)
    elif known == numel:
        return tuple(given)
    raise RuntimeError(f"shape '{list(sizes)}' is invalid for input of size {numel}")


def view_strides(
    sizes: Sequence[int], strides: Sequence[int], shape: Sequence[int]
) -> tuple[int, ...] | None:
    """Strides that show the same elements in another shape, or None where only a copy can (ATen computeStride)."""
    numel = math.prod(sizes)
    if numel == 0:
        if tuple(sizes) == tuple(shape):
            return tuple(strides)
        out = [1] * len(shape)
        for d in range(len(shape) - 2, -1, -1):
            out[d] = max(shape[d + 1], 1) * out[d + 1]
        return tuple(out)
    if not sizes:
        return (1,) * len(shape)
    out = [0] * len(shape)
    view_d = len(shape) - 1
    chunk_base = strides[-1]
    tensor_numel = 1
    view_numel = 1
    for d in range(len(sizes) - 1, -1, -1):
        tensor_numel *= sizes[d]
        if d == 0 or (sizes[d - 1] != 1 and strides[d - 1] != tensor_numel * chunk_base):
            while view_d >= 0 and (view_numel < tensor_numel or shape[view_d] == 1):
                out[view_d] = view_numel * chunk_base
                view_numel *= shape[view_d]
                view_d -= 1
            if view_numel != tensor_numel:
                return None
            if d > 0:
                chunk_base = strides[d - 1]
                tensor_numel = view_numel = 1
    return tuple(out) if view_d == -1 else None


def view(self: TensorSpec, size: Sequence[int]) -> Geometry:
    """Another shape over the same elements."""
    shape = infer_size(size, self.numel)
    strides = view_strides(self.sizes, self.strides, shape)
    if strides is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        )
    return Geometry(shape, strides)


def as_strided(
    self: TensorSpec, size: Sequence[int], stride: Sequence[int], storage_offset: int | None
) -> Geometry:
    """Any sizes and strides over the storage; offsets count from its start unless left out."""
    if len(size) != len(stride):
        raise RuntimeError(f"mismatch in length of strides and shape: {len(stride)} and {len(size)}")
    if any(n < 0 for n in size):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {list(size)}")
    if any(s < 0 for s in stride):
        raise RuntimeError(
            f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}"
        )
    if storage_offset is not None and storage_offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {storage_offset}")
    if storage_offset is None:
        return Geometry(tuple(size), tuple(stride), 0)
    return Geometry(tuple(size), tuple(stride), storage_offset, absolute=True)


def expand(self: TensorSpec, size: Sequence[int], implicit: bool) -> Geometry:
    """Dimensions of size 1, and new leading ones, repeated without a copy."""
    if len(size) < self.ndim:
        raise RuntimeError(
            f"expand({list(self.sizes)}, size={list(size)}): the number of sizes provided ({len(size)}) must be "
            f"greater or equal to the number of dimensions in the tensor ({self.ndim})"
        )
    lead = len(size) - self.ndim
    sizes, strides = [], []
    for i, wanted in enumerate(size):
        have = self.sizes[i - lead] if i >= lead else 1
        stride = self.strides[i - lead] if i >= lead else 0
        if wanted == -1:
            if i < lead:
                raise RuntimeError(
                    f"The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {i}"
                )
            wanted = have
        if wanted < 0:
            raise RuntimeError(f"expand: sizes must be -1 or not negative, got {list(size)}")
        if have != wanted:
            if have != 1:
                raise RuntimeError(
                    f"The expanded size of the tensor ({wanted}) must match the existing size ({have}) at "
                    f"non-singleton dimension {i}.  Target sizes: {list(size)}.  Tensor sizes: {list(self.sizes)}"
                )
            stride = 0
        sizes.append(wanted)
        strides.append(stride)
    for i in range(lead - 1, -1, -1):
        if sizes[i] == 1:
            strides[i] = sizes[i + 1] * strides[i + 1] if i + 1 < len(sizes) else 1
    return Geometry(tuple(sizes), tuple(strides))


def permute(self: TensorSpec, dims: Sequence[int]) -> Geometry:
    """Dimensions in another order."""
    if len(dims) != self.ndim:
        raise RuntimeError(
            f"permute: number of dimensions in the tensor input ({self.ndim}) does not match the length of the "
            f"desired ordering of dimensions ({len(dims)})"
        )
    order = [wrap_dim(d, self.ndim) for d in dims]
    if len(set(order)) != len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return Geometry(tuple(self.sizes[d] for d in order), tuple(self.strides[d] for d in order))


def transpose(self: TensorSpec, dim0: int, dim1: int) -> Geometry:
    """Two dimensions swapped."""
    a, b = wrap_dim(dim0, self.ndim), wrap_dim(dim1, self.ndim)
    order = list(range(self.ndim))
    if order:
        order[a], order[b] = order[b], order[a]
    return Geometry(tuple(self.sizes[d] for d in order), tuple(self.strides[d] for d in order))


def t(self: TensorSpec) -> Geometry:
    """The transpose of a matrix; tensors of lower rank as they are."""
    if self.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {self.ndim}D")
    return Geometry(self.sizes[::-1], self.strides[::-1])


def select(self: TensorSpec, dim: int, index: int) -> Geometry:
    """One index of a dimension, which goes away."""
    if self.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d = wrap_dim(dim, self.ndim)
    size = self.sizes[d]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(self.sizes)} at dimension {d}"
        )
    index %= size
    return Geometry(
        self.sizes[:d] + self.sizes[d + 1 :],
        self.strides[:d] + self.strides[d + 1 :],
        index * self.strides[d],
        numpy_index=(slice(None),) * d + (index,),
    )


def slice_(self: TensorSpec, dim: int, start: int | None, end: int | None, step: int) -> Geometry:
    """A range of a dimension; bounds are clamped as Python's are."""
    if self.ndim == 0:
        raise RuntimeError("slice() cannot be applied to a 0-dim tensor.")
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    d = wrap_dim(dim, self.ndim)
    size = self.sizes[d]
    first = 0 if start is None else start
    last = size if end is None else end
    first = min(max(first + size if first < 0 else first, 0), size)
    last = min(max(last + size if last < 0 else last, first), size)
    length = (last - first + step - 1) // step
    sizes = (*self.sizes[:d], length, *self.sizes[d + 1 :])
    strides = (*self.strides[:d], self.strides[d] * step, *self.strides[d + 1 :])
    index = (slice(None),) * d + (slice(first, last, step),)
    return Geometry(sizes, strides, first * self.strides[d], numpy_index=index)


def slice_first(self: TensorSpec, start: int | None, end: int | None, step: int) -> Geometry:
    """``x[start:end:step]``: a slice whose step Python checks."""
    if not isinstance(step, int) or step <= 0:
        raise ValueError("step must be greater than zero")
    return slice_(self, 0, start, end, step)


def squeeze_all(self: TensorSpec) -> Geometry:
    """Without the dimensions of size 1."""
    kept = [i for i in range(self.ndim) if self.sizes[i] != 1]
    return Geometry(tuple(self.sizes[i] for i in kept), tuple(self.strides[i] for i in kept))


def squeeze_dim(self: TensorSpec, dim: int | Sequence[int]) -> Geometry:
    """Without the named dimensions that are of size 1."""
    named = {wrap_dim(d, self.ndim) for d in ((dim,) if isinstance(dim, int) else dim)}
    kept = [i for i in range(self.ndim) if i not in named or self.sizes[i] != 1]
    return Geometry(tuple(self.sizes[i] for i in kept), tuple(self.strides[i] for i in kept))


def unsqueeze(self: TensorSpec, dim: int) -> Geometry:
    """A new dimension of size 1 before `dim`."""
    d = wrap_dim(dim, self.ndim + 1)
    stride = self.sizes[d] * self.strides[d] if d < self.ndim else 1
    return Geometry((*self.sizes[:d], 1, *self.sizes[d:]), (*self.strides[:d], stride, *self.strides[d:]))


def alias(self: TensorSpec) -> Geometry:
    """The same geometry, another tensor."""
    return Geometry(self.sizes, self.strides)


select_backward = embedded(select)
slice_backward = embedded(slice_)

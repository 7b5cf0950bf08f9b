"""Meta functions of operators on slices along a dimension by an index vector: select, copy, add, reduce."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....runtime.memory_format import contiguous_strides
from ....runtime.scalar_type import bool_, int32, int64
from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase
from .dims import wrap_dim
from .linalg import check_same_device

if TYPE_CHECKING:
    from ..meta_base import NumberKind


def _check_rank(name: str, index: TensorSpec) -> None:
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim}")


def _check_index_vector(name: str, self: TensorSpec, index: TensorSpec) -> None:
    _check_rank(name, index)
    if index.dtype not in (int64, int32):
        raise RuntimeError(
            f"{name}(): Expected dtype int32 or int64 for index but got: {index.dtype.scalar_name}"
        )
    check_same_device(name, self, index)


def index_select(meta: MetaBase, self: TensorSpec, dim: int, index: TensorSpec) -> None:
    """Infer the slices along `dim` that an index vector selects."""
    d = wrap_dim(dim, self.ndim)
    _check_index_vector("index_select", self, index)
    meta.extra["dim"] = d
    meta.extra["apart_from"] = ("self", "index")
    if self.ndim == 0:
        if index.numel != 1:
            raise RuntimeError(
                f"index_select(): Index to scalar can have only 1 value, got {index.numel} value(s)"
            )
        meta.set_output_raw_strided(0, (), dtype=self.dtype)
        return
    if index.numel and not self.sizes[d]:
        raise RuntimeError("index_select(): self indexing axis dim should be positive")
    sizes = (*self.sizes[:d], index.numel, *self.sizes[d + 1 :])
    meta.set_output_raw_strided(0, sizes, contiguous_strides(sizes), dtype=self.dtype)


def _slices(name: str, self: TensorSpec, dim: int, index: TensorSpec, source: TensorSpec) -> int:
    """Run the checks that `index_add` and `index_reduce` share, and return the wrapped dimension."""
    d = wrap_dim(dim, self.ndim)
    _check_index_vector(name, self, index)
    if self.dtype is not source.dtype:
        raise RuntimeError(
            f"{name}(): self ({self.dtype.scalar_name}) and source ({source.dtype.scalar_name}) must have "
            "the same "
            "scalar type"
        )
    check_same_device(name, self, source)
    if d and d >= source.ndim:
        raise RuntimeError(
            f"{name}(): Indexing dim {d} is out of bounds of the source tensor with dim {source.ndim}"
        )
    if index.numel != (source.sizes[d] if source.ndim else 1):
        if not source.ndim:
            raise IndexError(f"{name}(): a source of no dimensions takes one index, got {index.numel}")
        raise RuntimeError(
            f"{name}(): Number of indices ({index.numel}) should be equal to source.size(dim): ({source.sizes[d]}), "
            f"for dim: {d}"
        )
    mine, theirs = self.sizes, source.sizes
    if self.ndim and source.ndim:
        mine, theirs = mine[:d] + mine[d + 1 :], theirs[:d] + theirs[d + 1 :]
    if mine != theirs:
        raise RuntimeError(
            f"{name}(): source tensor shape must match self tensor shape, excluding the specified "
            "dimension. Got "
            f"self.shape = {list(self.sizes)} source.shape = {list(source.sizes)}"
        )
    return d


def index_add(
    meta: MetaBase, self: TensorSpec, dim: int, index: TensorSpec, source: TensorSpec, alpha: NumberKind
) -> None:
    """Infer `self` with slices of `source`, times `alpha`, added at an index vector."""
    meta.extra["dim"] = _slices("index_add_", self, dim, index, source)
    meta.extra["apart_from"] = ("index", "source")
    meta.set_output_raw_strided(0, self.sizes, contiguous_strides(self.sizes), dtype=self.dtype)


REDUCED = ("prod", "mean", "amax", "amin")


def index_reduce(
    meta: MetaBase,
    self: TensorSpec,
    dim: int,
    index: TensorSpec,
    source: TensorSpec,
    reduce: str,
    include_self: bool,
) -> None:
    """Infer `self` with slices of `source` reduced at an index vector."""
    if reduce not in REDUCED:
        raise RuntimeError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}."
        )
    meta.extra["dim"] = _slices("index_reduce_", self, dim, index, source)
    if self.dtype is bool_ or self.dtype.is_complex:
        kernel = "index_func_" if include_self else "index_reduce_func_exclude_input_init"
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{self.dtype.scalar_name}'")
    meta.extra["apart_from"] = ("index", "source")
    meta.set_output_raw_strided(0, self.sizes, contiguous_strides(self.sizes), dtype=self.dtype)


def index_copy(meta: MetaBase, self: TensorSpec, dim: int, index: TensorSpec, source: TensorSpec) -> None:
    """Infer `self` with slices of `source` copied to an index vector."""
    d = meta.extra["dim"] = wrap_dim(dim, self.ndim)
    _check_rank("index_copy_", index)
    if not source.ndim and index.numel != 1:
        raise IndexError(
            f"index_copy_(): When source is scalar, index should have one element (got {index.numel})"
        )
    if self.ndim and source.ndim and self.ndim != source.ndim:
        raise IndexError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source "
            f"dimensionality ({source.ndim}), destination dimensionality ({self.ndim})"
        )
    if index.dtype is not int64:
        raise RuntimeError(
            f"index_copy_(): Expected a long tensor for index, but got {index.dtype.scalar_name}"
        )
    check_same_device("index_copy_", self, index)
    if self.dtype is not source.dtype:
        raise RuntimeError(
            f"index_copy_(): self and source expected to have the same dtype, but got (self) {self.dtype.scalar_name} "
            f"and (source) {source.dtype.scalar_name}"
        )
    check_same_device("index_copy_", self, source)
    mine, theirs = (sizes[:d] + sizes[d + 1 :] for sizes in (self.sizes, source.sizes))
    if mine != theirs:
        raise RuntimeError(
            "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: "
            f"{list(mine)} at dimension {d} and source slice shape: {list(theirs)} at dimension 0."
        )
    if source.ndim and index.numel != source.sizes[d]:
        raise IndexError(
            f"index_copy_(): Number of indices ({index.numel}) should be equal to source.size(dim) ({source.sizes[d]})"
        )
    meta.extra["apart_from"] = ("index", "source")
    meta.set_output_raw_strided(0, self.sizes, contiguous_strides(self.sizes), dtype=self.dtype)

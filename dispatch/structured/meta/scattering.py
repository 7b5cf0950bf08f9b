"""Meta functions of elementwise indexing along a dimension: gather, scatter, take."""

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


def _elementwise(name: str, self: TensorSpec, dim: int, index: TensorSpec, src: TensorSpec | None) -> int:
    """Run the checks of gather and scatter, and return the wrapped dimension. A number counts as a vector of one."""
    d = wrap_dim(dim, self.ndim)
    if index.numel and index.dtype not in (int64, int32):
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    check_same_device(name, self, index, src)
    if src is not None and src.dtype is not self.dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
    if index.numel == 0:
        return d
    mine, theirs = self.sizes or (1,), index.sizes or (1,)
    if len(mine) != len(theirs):
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    fits = all(n <= m for axis, (n, m) in enumerate(zip(theirs, mine, strict=True)) if axis != d)
    if src is None:
        if not fits:
            wrong = next(i for i, (n, m) in enumerate(zip(theirs, mine, strict=True)) if i != d and n > m)
            raise RuntimeError(
                f"Size does not match at dimension {wrong} expected index {list(index.sizes)} to be no "
                "larger than "
                f"self {list(self.sizes)} apart from dimension {d}"
            )
        return d
    src_sizes = src.sizes or (1,)
    if (
        src.ndim
        and len(src_sizes) < len(theirs)
        and fits
        and all(n <= m for n, m in zip(theirs, src_sizes, strict=False))
    ):
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-len(src_sizes)}, {len(src_sizes) - 1}], but got "
            f"{len(src_sizes)}): src has fewer dimensions than index"
        )
    if len(src_sizes) != len(theirs):
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    if not fits or any(n > m for n, m in zip(theirs, src_sizes, strict=True)):
        raise RuntimeError(
            f"Expected index {list(index.sizes)} to be no larger than self {list(self.sizes)} apart from "
            f"dimension {d} "
            f"and to be no larger size than src {list(src.sizes)}"
        )
    return d


def gather(meta: MetaBase, self: TensorSpec, dim: int, index: TensorSpec, sparse_grad: bool) -> None:
    """Infer the element of `self` at each index along `dim`."""
    meta.extra["dim"] = _elementwise("gather", self, dim, index, None)
    meta.extra["apart_from"] = ("self", "index")
    meta.set_output_raw_strided(0, index.sizes, contiguous_strides(index.sizes), dtype=self.dtype)


_REDUCTIONS = {None: None, "add": "add", "multiply": "multiply"}


def _scatter(
    name: str,
    meta: MetaBase,
    self: TensorSpec,
    dim: int,
    index: TensorSpec,
    src: TensorSpec | None,
    reduce: str | None,
) -> None:
    meta.extra["dim"] = _elementwise(name, self, dim, index, src)
    if reduce not in _REDUCTIONS:
        raise RuntimeError("reduce argument must be either add or multiply.")
    meta.extra["apart_from"] = ("index", "src")
    meta.extra["reduce"] = reduce
    meta.set_output_raw_strided(0, self.sizes, contiguous_strides(self.sizes), dtype=self.dtype)


def scatter(
    meta: MetaBase, self: TensorSpec, dim: int, index: TensorSpec, src: TensorSpec, reduce: str | None = None
) -> None:
    """Infer `self` with elements of `src` written at `index` along `dim`."""
    _scatter("scatter", meta, self, dim, index, src, reduce)


def scatter_value(
    meta: MetaBase,
    self: TensorSpec,
    dim: int,
    index: TensorSpec,
    value: NumberKind,
    reduce: str | None = None,
) -> None:
    """Infer `self` with a number written at `index` along `dim`."""
    _scatter("scatter", meta, self, dim, index, None, reduce)


def scatter_add(meta: MetaBase, self: TensorSpec, dim: int, index: TensorSpec, src: TensorSpec) -> None:
    """Infer `self` with elements of `src` added at `index` along `dim`."""
    _scatter("scatter", meta, self, dim, index, src, "add")


COMBINED = ("sum", "prod", "mean", "amax", "amin")
_SHORT = {"max": "amax", "min": "amin"}
"""Names that PyTorch takes, too, without a derivative."""


def scatter_reduce(
    meta: MetaBase,
    self: TensorSpec,
    dim: int,
    index: TensorSpec,
    src: TensorSpec,
    reduce: str,
    include_self: bool,
) -> None:
    """Infer `self` with elements of `src` reduced at `index` along `dim`."""
    reduce_name, reduce = reduce, _SHORT.get(reduce, reduce)
    if reduce not in COMBINED:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce_name}")
    _scatter("scatter", meta, self, dim, index, src, None)
    ordered = self.dtype.is_complex and reduce in ("amax", "amin")
    if ordered or (self.dtype is bool_ and reduce == "mean"):
        kernel = f"scatter_gather_tensor_{self.device.type}_reduce_{reduce}"
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{self.dtype.scalar_name}'")
    meta.extra["reduce"] = reduce


def take(meta: MetaBase, self: TensorSpec, index: TensorSpec) -> None:
    """Infer elements of the flattened tensor."""
    if index.dtype is not int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {index.dtype.scalar_name}")
    if self.numel == 0 and index.numel:
        raise IndexError("take(): tried to take from an empty tensor")
    check_same_device("take", self, index)
    meta.extra["apart_from"] = ("self", "index")
    meta.set_output_raw_strided(0, index.sizes, contiguous_strides(index.sizes), dtype=self.dtype)

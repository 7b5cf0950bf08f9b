"""Meta functions of sorting and of selection by rank (ATen/native/Sorting.cpp, TensorCompare.cpp).

Each leaves the wrapped dimension in ``extra["dim"]``, or None for everything.
"""

from __future__ import annotations

from ....runtime.memory_format import preserve_format, strides_for
from ....runtime.scalar_type import bool_, int64
from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase
from .dims import reduced_shape, wrap_dim
from .reduction import check_nonempty


def sort(meta: MetaBase, self: TensorSpec, dim: int, descending: bool) -> None:
    """Infer sorted elements along `dim` and their source indices; both keep the input's dense layout."""
    meta.extra["dim"] = wrap_dim(dim, self.ndim)
    if self.dtype.is_complex:
        raise RuntimeError(" Sort does not support complex dtypes on CPU")
    strides = strides_for(preserve_format, self.sizes, (self.sizes, self.strides))
    meta.set_output_raw_strided(0, self.sizes, strides, dtype=self.dtype)
    meta.set_output_raw_strided(1, self.sizes, strides, dtype=int64)


def sort_stable(meta: MetaBase, self: TensorSpec, stable: bool | None, dim: int, descending: bool) -> None:
    """Infer as `sort`: every sort is stable."""
    sort(meta, self, dim, descending)


def topk(meta: MetaBase, self: TensorSpec, k: int, dim: int, largest: bool, sorted: bool) -> None:
    """Infer the `k` largest or smallest along `dim`."""
    d = wrap_dim(dim, self.ndim)
    if not 0 <= k <= (self.sizes[d] if self.ndim else 1):
        raise RuntimeError("selected index k out of range")
    if self.dtype.is_complex or self.dtype is bool_:
        kind = "complex" if self.dtype.is_complex else "bool"
        raise RuntimeError(f"topk does not support {kind} dtypes on CPU")
    meta.extra["dim"] = d
    sizes = (*self.sizes[:d], k, *self.sizes[d + 1 :]) if self.ndim else ()
    meta.set_output_raw_strided(0, sizes, dtype=self.dtype)
    meta.set_output_raw_strided(1, sizes, dtype=int64)


def _refuse_unordered(meta: MetaBase, self: TensorSpec, kernel: str) -> None:
    if self.dtype.is_complex or self.dtype is bool_:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{self.dtype.scalar_name}'")


def _set_selected(meta: MetaBase, self: TensorSpec, d: int, keepdim: bool) -> None:
    sizes = reduced_shape(self.sizes, (d,), keepdim)
    meta.extra["dim"] = d
    meta.set_output_raw_strided(0, sizes, dtype=self.dtype)
    meta.set_output_raw_strided(1, sizes, dtype=int64)


def kthvalue(meta: MetaBase, self: TensorSpec, k: int, dim: int, keepdim: bool) -> None:
    """Infer the `k`-th smallest along `dim`, counted from 1."""
    d = wrap_dim(dim, self.ndim)
    check_nonempty("kthvalue", self, (d,))
    if not 1 <= k <= (self.sizes[d] if self.ndim else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {d}")
    _refuse_unordered(meta, self, f"kthvalue_{self.device.type}")
    meta.extra["apart_from"] = ("self",)
    _set_selected(meta, self, d, keepdim)


def median(meta: MetaBase, self: TensorSpec, dim: int, keepdim: bool) -> None:
    """Infer the lower median along `dim`; NaN if the row has a NaN."""
    d = wrap_dim(dim, self.ndim)
    check_nonempty("median", self, (d,))
    _refuse_unordered(meta, self, "median_out")
    meta.extra["ignores_nan"] = False
    _set_selected(meta, self, d, keepdim)


def nanmedian(meta: MetaBase, self: TensorSpec, dim: int, keepdim: bool) -> None:
    """Infer the median along `dim` without NaN; NaN if there is no other element."""
    median(meta, self, dim, keepdim)
    meta.extra["ignores_nan"] = True


def median_all(meta: MetaBase, self: TensorSpec) -> None:
    """Infer the median of all elements."""
    _refuse_unordered(meta, self, f"median_{self.device.type}")
    meta.extra["dim"] = None
    meta.extra["ignores_nan"] = False
    meta.set_output_raw_strided(0, (), dtype=self.dtype)


def nanmedian_all(meta: MetaBase, self: TensorSpec) -> None:
    """Infer the median of all elements without NaN."""
    median_all(meta, self)
    meta.extra["ignores_nan"] = True

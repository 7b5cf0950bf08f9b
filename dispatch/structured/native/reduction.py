"""Meta functions of reductions."""

from __future__ import annotations

from collections.abc import Sequence

from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.scalar_type import int64
from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase
from .dims import reduced_dims, reduced_shape


def sum_dtype(self: TensorSpec, dtype: ScalarType | None) -> ScalarType:
    """The dtype of a sum: as asked, else int64 for integral and bool inputs, else the input's."""
    if dtype is not None:
        return dtype
    floating = self.dtype.is_floating_point or self.dtype.is_complex
    return self.dtype if floating else int64


def sum_dim(
    meta: MetaBase, self: TensorSpec, dim: Sequence[int] | int | None, keepdim: bool, dtype: ScalarType | None
) -> None:
    """Sum over `dim`, over all dimensions if it is None or empty."""
    dims = reduced_dims(dim, self.ndim)
    given = meta.maybe_get_output()
    out = sum_dtype(self, dtype if dtype is not None or given is None else given.dtype)
    meta.extra["dims"] = dims
    meta.set_output_raw_strided(0, reduced_shape(self.sizes, dims, keepdim), dtype=out)


def sum_all(meta: MetaBase, self: TensorSpec, dtype: ScalarType | None) -> None:
    """Sum over everything."""
    sum_dim(meta, self, None, False, dtype)

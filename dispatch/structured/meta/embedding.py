"""Meta functions of embedding tables, whose rows are looked up by index (ATen/native/Embedding.cpp)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....runtime.memory_format import contiguous_strides
from ....runtime.scalar_type import int32, int64
from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase
from ..operand_checks import check_dtype, check_sizes_given
from .linalg import check_same_device

if TYPE_CHECKING:
    from ..meta_base import NumberKind


def embedding(
    meta: MetaBase,
    weight: TensorSpec,
    indices: TensorSpec,
    padding_idx: int,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> None:
    """Infer rows of a table, by index."""
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if indices.dtype not in (int64, int32):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "
            "Int; but got "
            f"{indices.dtype.scalar_name} instead (while checking arguments for embedding)"
        )
    if indices.numel and not weight.sizes[0]:
        raise RuntimeError(
            "embedding(): Expected a table of at least one row to look numbers up in, but got none"
        )
    check_same_device("embedding", weight, indices)
    sizes = (*indices.sizes, weight.sizes[1])
    meta.set_output_raw_strided(0, sizes, contiguous_strides(sizes), dtype=weight.dtype)


def embedding_renorm(
    meta: MetaBase, self: TensorSpec, indices: TensorSpec, max_norm: NumberKind, norm_type: NumberKind
) -> None:
    """Infer the in-place renormalization of the indexed rows to a maximum norm."""
    if self.ndim != 2:
        raise RuntimeError(
            f"Expected 2-dimensional tensor, but got {self.ndim}-dimensional tensor for argument #1 'self'"
        )
    if indices.dtype not in (int64, int32):
        raise RuntimeError("embedding_renorm_: expected tensor for argument #2 'indices' to be Long or Int")
    if indices.numel and not (self.dtype.is_floating_point or self.dtype.is_complex):
        raise RuntimeError(
            "embedding_renorm_: norm(): input dtype should be either floating point or complex. "
            f"Got {self.dtype.scalar_name} instead."
        )
    meta.set_output_raw_strided(0, self.sizes, self.strides, dtype=self.dtype)


def embedding_dense_backward(
    meta: MetaBase,
    grad_output: TensorSpec,
    indices: TensorSpec,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> None:
    """Infer the gradient of the table: rows of `grad_output` summed by index, in a fixed order."""
    check_same_device(meta.name, grad_output, indices)
    check_dtype(meta.name, "indices", indices, int64, int32)
    check_sizes_given(meta.name, "num_weights", (num_weights,))
    width = grad_output.sizes[-1] if grad_output.ndim else 1
    if grad_output.numel != indices.numel * width:
        raise RuntimeError(
            f"shape '[{indices.numel}, {width}]' is invalid for input of size {grad_output.numel}: grad_output of "
            f"embedding_dense_backward must have a row for each of the {indices.numel} indices"
        )
    sizes = (num_weights, width)
    meta.set_output_raw_strided(0, sizes, contiguous_strides(sizes), dtype=grad_output.dtype)

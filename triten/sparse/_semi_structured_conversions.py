"""Matrices of which two in four elements are kept, to their packed form and back.

The names are PyTorch's (`torch.sparse._semi_structured_conversions`), and the bits of both tensors are, too.
"""

from __future__ import annotations

from ..dispatch.composite.semi_structured import (
    _to_sparse_semi_structured,
    columns_of_four_bits,
    expanded,
    in_order_of_rows,
    kept_by,
    masks_of,
    matrix_of,
    tiles_of,
)
from ..dispatch.tensor import Tensor
from ..runtime.scalar_type import int16, int32


def sparse_semi_structured_from_dense_cutlass(dense: Tensor) -> tuple[Tensor, Tensor]:
    """Compress a 2:4 matrix: return the kept elements (M, K / 2) and interleaved metadata words.

    Args:
        dense: A matrix (M, K) of float16, bfloat16, float32 or int8. A word of int16 stands for 16 columns (8 of
            float32), one of int32 for 32 of int8; 32 divides M (16 of int8), and two words' columns divide K.

    Raises:
        RuntimeError: The dtype, number of dimensions or sizes are not these.

    Source: `torch.sparse._semi_structured_conversions.sparse_semi_structured_from_dense_cutlass`, which is why a matrix
    that has more than two elements of four loses some: see `tt._to_sparse_semi_structured`.

    Example:
        >>> import triten as tt
        >>> from triten.sparse._semi_structured_conversions import *
        >>> dense = tt.tensor([[0.0, 3.0, 0.0, 5.0] * 8] * 32).half()
        >>> values, meta = sparse_semi_structured_from_dense_cutlass(dense)
        >>> bool((sparse_semi_structured_to_dense_cutlass(values, meta) == dense).all())
        True
    """
    # Not the operator: these steps have a derivative, as PyTorch's have.
    return _to_sparse_semi_structured(dense)


def sparse_semi_structured_to_dense_cutlass(sparse: Tensor, meta_reordered: Tensor) -> Tensor:
    """Decompress kept elements (M, K / 2) and interleaved metadata words to the matrix (M, K).

    Raises:
        RuntimeError: The operands are not matrices of one device with matching sizes, or words are not int16 or int32.
    """
    for name, tensor in (("sparse", sparse), ("meta", meta_reordered)):
        if tensor.dim() != 2:
            raise RuntimeError(f"Expected 2-dimensional {name} tensor, got {tensor.dim()}-dimensional tensor")
    if meta_reordered.device != sparse.device:
        raise RuntimeError(
            f"Expected meta matrix to be on {sparse.device} device, got matrix on {meta_reordered.device} device"
        )
    if meta_reordered.dtype not in (int16, int32):
        raise RuntimeError(f"Invalid datatype {meta_reordered.dtype} of meta matrix")
    rows, half = sparse.shape
    lines, columns = meta_reordered.shape
    if lines != rows:
        raise RuntimeError(
            f"Number of rows of meta matrix {lines} must be equal to number of columns of sparse matrix {rows}"
        )
    expected_columns = columns * columns_of_four_bits(sparse.dtype) * meta_reordered.dtype.itemsize
    if expected_columns != half:
        raise RuntimeError(
            f"Number of columns of sparse matrix {half} different from the {expected_columns}, expected according to "
            "the number of columns of meta matrix"
        )
    group = 64 // meta_reordered.dtype.itemsize
    if rows % group or columns % 2:
        raise RuntimeError(
            f"Expected interleaved meta matrix with a multiple of {group} rows and 2 columns, got {lines}x{columns}"
        )
    return expanded(sparse, in_order_of_rows(meta_reordered))


def _sparse_semi_structured_tile(dense: Tensor) -> Tensor:
    """Prune `dense` in-place: keep the largest elements of each 4x4 tile, at most two of a row and of a column.

    Ties go to the earlier element, as in PyTorch's function of this name, and unlike
    `tt._sparse_semi_structured_tile`.
    """
    tiles = tiles_of(dense)
    # Flipping the tiles reverses the order of ties and keeps the limits of rows and columns.
    mask = kept_by("largest_values_greedy", tiles.flip((-2, -1))).flip((-2, -1))
    return dense.mul_(matrix_of(mask))


def _compute_compressed_swizzled_bitmask(dense: Tensor) -> Tensor:
    """Return the nonzero mask of a matrix as bytes (M / 8, K / 8, 4, 2): two bytes for each 4x4 tile."""
    masks = masks_of(dense != 0)
    return masks.reshape((*masks.shape[:2], 4, 2))

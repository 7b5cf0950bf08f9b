"""2:4 semi-structured sparse matrices, which keep two of every four elements of a row: packing, and matmuls.

The kept elements form a matrix of half as many columns. Four bits hold their positions among four columns: the lower
two bits for the first element, the upper two for the second. In float32, one of two elements is kept; four bits
describe it as if each element were two halves. Four of these fields make an int16 word of metadata, or eight make an
int32 word (for int8). Words are in the order of rows, or interleaved so that a thread of a sparse tensor core's warp
has its words next to each other.

Source: PyTorch, torch/sparse/_semi_structured_conversions.py and ATen/native/sparse/cuda/SparseSemiStructured*.cu.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...runtime.scalar_type import bfloat16, bool_, float16, float32, int8, int16, int32, int64, uint8
from ...runtime.scalar_type import dtype as ScalarType
from ..generated import functions as ops

if TYPE_CHECKING:
    from ...runtime.scalar_type import Number
    from ..tensor import Tensor

PACKED = (float16, bfloat16, float32, int8)
"""The dtypes of matrices that are packed."""
ACTIVATIONS = (None, "none", "relu", "silu")
OUTPUTS_OF_INT8 = (float16, bfloat16, int32)


def columns_of_four_bits(dtype: ScalarType) -> int:
    """Return the number of columns that four bits describe."""
    return 2 if dtype is float32 else 4


def word_of(dtype: ScalarType) -> ScalarType:
    """Return the dtype of interleaved metadata words of a matrix of this dtype."""
    return int32 if dtype is int8 else int16


def bits_of(mask: Tensor, dtype: ScalarType) -> tuple[Tensor, Tensor]:
    """Return the columns of the two kept elements of each four; `mask` (M, K) marks the candidates.

    Without candidates, the last two are kept. A single candidate is kept with the last or the third element. From
    three, the first two are kept if columns 0 and 1 are among them, otherwise the first and the last.
    """
    rows, columns = mask.shape
    each = columns_of_four_bits(dtype)
    parts = mask.reshape((rows, columns // each, each)).unbind(-1)
    bit0, bit1, bit3 = (parts[0], parts[0], parts[1]) if each == 2 else (parts[0], parts[1], parts[3])
    first = ops.where(bit0, 0, ops.where(bit1, 1, 2))
    second = ops.where(bit0 & bit1, 1, ops.where(bit3 | ~(bit0 | bit1), 3, 2))
    return first, second


def packed_by(dense: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return the kept elements (M, K / 2) of a matrix and their four bits (M, K / 4, or K / 2 of float32)."""
    rows, columns = dense.shape
    first, second = bits_of(mask, dense.dtype)
    if dense.dtype is float32:
        taken = (first // 2).unsqueeze(-1)
    else:
        taken = ops.stack([first, second], -1)
    each = columns_of_four_bits(dense.dtype)
    groups = dense.reshape((rows, columns // each, each))
    values = ops.gather(groups, -1, taken.to(int64)).reshape((rows, columns // 2))
    return values, first | second << 2


def words_of(bits: Tensor, word: ScalarType) -> Tensor:
    """Pack fields of four bits into words, the first one lowest."""
    count = 2 * word.itemsize
    shifts = ops.arange(0, 4 * count, 4, device=bits.device)
    rows, across = bits.shape
    wide = (bits.to(int64).reshape((rows, across // count, count)) << shifts).sum(-1)
    # Bit patterns in the upper half are negative numbers.
    wide = wide - ((wide >> (4 * count - 1)) << (4 * count))
    return wide.to(word)


def interleaved(words: Tensor) -> Tensor:
    """Interleave words in the order of rows as in CUTLASS (`ColumnMajorInterleaved<2>` after its `reorder_meta`).

    A group has 32 rows (16 of int32), and its rows that are 8 apart are adjacent. Two columns of words follow each
    other. If the row is the second of a pair and the column the first, the two words are swapped.
    """
    rows, columns = words.shape
    pairs = 4 // words.dtype.itemsize
    split = words.reshape((rows // (16 * pairs), pairs, 2, 8, columns // 2, 2))
    return split.permute((4, 0, 3, 1, 5, 2)).reshape((rows, columns))


def in_order_of_rows(words: Tensor) -> Tensor:
    """Return interleaved words in the order of rows."""
    rows, columns = words.shape
    pairs = 4 // words.dtype.itemsize
    split = words.reshape((columns // 2, rows // (16 * pairs), 8, pairs, 2, 2))
    return split.permute((1, 3, 5, 2, 0, 4)).reshape((rows, columns))


def expanded(values: Tensor, words: Tensor) -> Tensor:
    """Return the dense matrix of kept elements and words in the order of rows."""
    rows, half = values.shape
    each = columns_of_four_bits(values.dtype)
    shifts = ops.arange(0, 8 * words.dtype.itemsize, 4, device=words.device)
    bits = ((words.to(int64).unsqueeze(-1) >> shifts) & 15).reshape((rows, 2 * half // each))
    columns = ((bits & 3) // 2).unsqueeze(-1) if each == 2 else ops.stack([bits & 3, bits >> 2], -1)
    dense = ops.zeros((rows, 2 * half // each, each), dtype=values.dtype, device=values.device)
    return ops.scatter(dense, -1, columns, values.reshape((rows, 2 * half // each, each // 2))).reshape(
        (rows, 2 * half)
    )


def check_interleaved(rows: int, columns: int, dtype: ScalarType) -> None:
    """Raise RuntimeError if a dense matrix of these sizes has no interleaved words."""
    group = 64 // word_of(dtype).itemsize
    if rows % group:
        raise RuntimeError(f"Number of rows of dense matrix {rows} must be divisible by {group}")
    # Two columns of words are adjacent.
    across = 4 * columns_of_four_bits(dtype) * word_of(dtype).itemsize
    if columns % across:
        raise RuntimeError(f"Number of columns of dense matrix {columns} must be divisible by {across}")


def _to_sparse_semi_structured(dense: Tensor) -> tuple[Tensor, Tensor]:
    """Return the kept elements and interleaved words of nonzero elements."""
    if dense.dim() != 2:
        raise RuntimeError(f"Expected 2-dimensional dense tensor, got {dense.dim()}-dimensional tensor")
    if dense.dtype not in PACKED:
        raise RuntimeError(f"Invalid datatype {dense.dtype} of dense matrix")
    check_interleaved(dense.shape[0], dense.shape[1], dense.dtype)
    values, bits = packed_by(dense, dense != 0)
    return values, interleaved(words_of(bits, word_of(dense.dtype)))


def _sparse_semi_structured_mm(
    mat1: Tensor, mat1_meta: Tensor, mat2: Tensor, out_dtype: ScalarType | None
) -> Tensor:
    """Compute the kernel's matmul, with interleaved words."""
    return ops._semi_structured_mm(mat1, mat1_meta, mat2, None, out_dtype, True, False)


def _sparse_semi_structured_addmm(
    input: Tensor,
    mat1: Tensor,
    mat1_meta: Tensor,
    mat2: Tensor,
    alpha: Number,
    beta: Number,
    out_dtype: ScalarType | None,
) -> Tensor:
    """Compute the kernel's matmul with a per-row bias; scale factors other than 1 need an unrounded result."""
    if alpha == 1 and beta == 1:
        return ops._semi_structured_mm(mat1, mat1_meta, mat2, input, out_dtype, True, False)
    wide = int32 if mat1.dtype is int8 else float32
    made = ops._semi_structured_mm(mat1, mat1_meta, mat2, None, wide, True, False) * alpha
    if input.dim() != 1 or input.shape[0] != made.shape[0]:
        raise RuntimeError(
            f"_sparse_semi_structured_addmm: expected `input` to have shape ({made.shape[0]},), got "
            f"{list(input.shape)}"
        )
    if beta != 0:
        made = made + (input.to(wide) * beta)[:, None]
    return rounded(made, mat1.dtype if out_dtype is None else out_dtype)


def rounded(made: Tensor, dtype: ScalarType) -> Tensor:
    """Round a matmul result to its dtype; int8 saturates."""
    return (ops.clamp(made, -128, 127) if dtype is int8 else made).to(dtype)


def _sparse_semi_structured_linear(
    input: Tensor,
    weight: Tensor,
    meta: Tensor,
    bias: Tensor | None,
    activation: str | None,
    out_dtype: ScalarType | None,
) -> Tensor:
    """Compute the transposed matmul, which the kernel writes directly."""
    if activation not in ACTIVATIONS:
        raise RuntimeError(
            f'_sparse_semi_structured_linear: expected an activation of "none", "relu" or "silu", got {activation!r}'
        )
    if not input.dim():
        raise RuntimeError("_sparse_semi_structured_linear: expected an input with columns, but got a scalar")
    rows = input.reshape((input.numel() // max(input.shape[-1], 1), input.shape[-1]))
    made = ops._semi_structured_mm(weight, meta, rows.t(), bias, out_dtype, True, True)
    if activation in ("relu", "silu"):
        made = ops.relu(made) if activation == "relu" else ops.silu(made)
    return made.reshape((*input.shape[:-1], weight.shape[0]))


def _cslt_compress(input: Tensor) -> Tensor:
    """Return kept elements, then words in the order of rows, as bytes of one vector."""
    name = "_cslt_compress"
    if input.dtype not in PACKED:
        raise RuntimeError(f"{name}: Unsupported dtype for cuSPARSELt compressed matrix, got {input.dtype}")
    if input.dim() != 2 or input.shape[1] % 16:
        raise RuntimeError(
            f"{name}: expected `input` to be a matrix of a multiple of 16 columns, got {list(input.shape)}"
        )
    return joined(*packed_by(input, input != 0))


def joined(values: Tensor, bits: Tensor) -> Tensor:
    """Return kept elements and four bits each in one vector."""
    words = words_of(bits, int16).reshape((-1,)).view(values.dtype)
    return ops.cat([values.reshape((-1,)), words])


def split(packed: Tensor, columns: int) -> tuple[Tensor, Tensor]:
    """Return views of the kept elements and words of the result of `_cslt_compress`, for this number of columns."""
    flat = packed.reshape((-1,))
    sixteenths = 10 if packed.dtype is int8 else 9
    rows = flat.shape[0] * 16 // (sixteenths * columns) if columns else 0
    if not columns or columns % 16 or rows * columns * sixteenths != 16 * flat.shape[0]:
        raise RuntimeError(
            f"_cslt_sparse_mm: expected `compressed_A` to have {sixteenths} elements for each 16 of a matrix of "
            f"{columns} columns, got {flat.shape[0]}"
        )
    num_kept = rows * columns // 2
    values = flat[:num_kept].reshape((rows, columns // 2))
    across = columns // (4 * columns_of_four_bits(packed.dtype))
    return values, flat[num_kept:].view(int16).reshape((rows, across))


def _cslt_sparse_mm(
    compressed_A: Tensor,
    dense_B: Tensor,
    bias: Tensor | None,
    alpha: Tensor | None,
    out_dtype: ScalarType | None,
    transpose_result: bool,
    alg_id: int,
    split_k: int,
    split_k_mode: int,
) -> Tensor:
    """Compute the kernel's matmul, with words in the order of rows; a scale factor needs an unrounded result."""
    name = "_cslt_sparse_mm"
    if dense_B.dim() != 2:
        raise RuntimeError(f"{name}: expected `dense_B` to be a matrix, got {dense_B.dim()} dimensions")
    if out_dtype is not None:
        if compressed_A.dtype is not int8:
            raise RuntimeError(
                f"{name}: out_dtype support only available for int8 inputs, got {compressed_A.dtype}"
            )
        if out_dtype not in OUTPUTS_OF_INT8:
            raise RuntimeError(
                f"{name}: Unsupported out_dtype passed, must be one of {{fp16, bf16, int32}}, got {out_dtype}"
            )
    if compressed_A.dtype is not dense_B.dtype:
        raise RuntimeError(
            f"{name}: expected `dense_B` to have the dtype of `compressed_A`, {compressed_A.dtype}, got {dense_B.dtype}"
        )
    values, words = split(compressed_A, dense_B.shape[0])
    if alpha is None:
        return ops._semi_structured_mm(values, words, dense_B, bias, out_dtype, False, transpose_result)
    if alpha.numel() != 1:
        raise RuntimeError(f"{name}: expected `alpha` to be one number, got {list(alpha.shape)}")
    wide = int32 if compressed_A.dtype is int8 else float32
    made = ops._semi_structured_mm(values, words, dense_B, None, wide, False, transpose_result)
    made = made.to(float32) * alpha.reshape(()).to(float32)
    if bias is not None:
        made = made + (bias if transpose_result else bias[:, None])
    dtype = dense_B.dtype if out_dtype is None else out_dtype
    return rounded(made if dtype.is_floating_point else ops.round(made), dtype)


def _cslt_sparse_mm_search(
    compressed_A: Tensor,
    dense_B: Tensor,
    bias: Tensor | None,
    alpha: Tensor | None,
    out_dtype: ScalarType | None,
    transpose_result: bool,
) -> int:
    """Return 0: there is only one algorithm."""
    return 0


def tiles_of(matrix: Tensor) -> Tensor:
    """Return a matrix (M, K) as tiles of 4 x 4: (M / 4, K / 4, 4, 4)."""
    rows, columns = matrix.shape
    return matrix.reshape((rows // 4, 4, columns // 4, 4)).transpose(1, 2)


def matrix_of(tiles: Tensor) -> Tensor:
    """Return the matrix of 4 x 4 tiles."""
    down, across = tiles.shape[:2]
    return tiles.transpose(1, 2).reshape((4 * down, 4 * across))


def greedily_kept(values: Tensor, rooms: Sequence[int] = (2, 2, 2, 2), rows_in_order: bool = False) -> Tensor:
    """Return which elements of tiles are kept, in descending order, while their row and their column have room.

    Args:
        values: Tiles (..., 4, 4).
        rooms: How many elements a row has room for; a column has room for two.
        rows_in_order: If True, process all elements of a row before the next row.
    """
    count = values.shape[:-2]
    if rows_in_order:
        order = ops.argsort(values, stable=True).flip(-1)
        order = (order + 4 * ops.arange(4, device=values.device)[:, None]).reshape((*count, 16))
    else:
        order = ops.argsort(values.reshape((*count, 16)), stable=True).flip(-1)
    index = ops.arange(4, device=values.device)
    in_row = ops.zeros((*count, 4), dtype=int64, device=values.device)
    in_column = ops.zeros((*count, 4), dtype=int64, device=values.device)
    room = ops.zeros((4,), dtype=int64, device=values.device)
    for line, limit in enumerate(rooms):
        room = ops.where(index == line, limit, room)
    mask = ops.zeros((*count, 4, 4), dtype=bool_, device=values.device)
    for step in range(16):
        position = order.select(-1, step).unsqueeze(-1)
        row, column = position // 4 == index, position % 4 == index
        fits = (row & (in_row < room)).any(-1, True) & (column & (in_column < 2)).any(-1, True)
        row, column = row & fits, column & fits
        in_row, in_column = in_row + row, in_column + column
        mask = mask | row.unsqueeze(-1) & column.unsqueeze(-2)
    return mask


def kept_by(algorithm: str, tiles: Tensor) -> Tensor:
    """Return which elements of tiles an algorithm keeps."""
    if algorithm in ("", "largest_values_greedy"):
        return greedily_kept(tiles)
    if algorithm == "largest_abs_values_greedy":
        return greedily_kept(tiles.abs())
    if algorithm == "causal1122":
        return greedily_kept(tiles, (1, 1, 2, 2), True)
    raise RuntimeError(f'_sparse_semi_structured_tile: Unknown algorithm "{algorithm}"')


def masks_of(mask: Tensor) -> Tensor:
    """Pack kept positions (M, K) as 8 bytes for each 8 x 8 block.

    Each 4 x 4 tile has two bytes of two rows each, lowest bit first.
    """
    rows, columns = mask.shape
    bits = mask.reshape((rows // 8, 2, 2, 2, columns // 8, 2, 4)).permute((0, 4, 1, 5, 2, 3, 6))
    bits = bits.reshape((rows // 8, columns // 8, 8, 8)).to(int64)
    return (bits << ops.arange(8, device=mask.device)).sum(-1).to(uint8)


def places_of(masks: Tensor) -> Tensor:
    """Return the kept positions of mask bytes."""
    down, across = masks.shape[:2]
    bits = masks.to(int64).unsqueeze(-1) >> ops.arange(8, device=masks.device) & 1
    bits = bits.reshape((down, across, 2, 2, 2, 2, 4)).permute((0, 2, 4, 5, 1, 3, 6))
    return bits.reshape((8 * down, 8 * across)).to(bool_)


def check_tiles(name: str, input: Tensor, multiple: int) -> None:
    """Raise RuntimeError if a matrix does not divide into tiles."""
    if input.dtype not in (float16, bfloat16):
        raise RuntimeError(
            f"{name}: Unsupported dtype - only `float16` and `bfloat16` are supported currently, got {input.dtype}"
        )
    if input.dim() != 2:
        raise RuntimeError(f"{name}: Can only sparsify 2d tensors, got {input.dim()} dimensions")
    if input.shape[0] % multiple or input.shape[1] % multiple:
        raise RuntimeError(
            f"{name}: Number of rows and cols should be multiple of {multiple}, got {list(input.shape)}"
        )


def _sparse_semi_structured_tile(
    input: Tensor, algorithm: str, use_cutlass: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the kept elements of tiles, packed by rows and by columns."""
    name = "_sparse_semi_structured_tile"
    check_tiles(name, input, 32)
    if input.stride(1) != 1:
        raise RuntimeError(
            f"{name}: Can only sparsify contiguous tensors. Sparsify the transpose otherwise. Got strides "
            f"{list(input.stride())}"
        )
    mask = matrix_of(kept_by(algorithm, tiles_of(input)))
    pruned = ops.where(mask, input, 0)
    made: list[Tensor] = []
    for dense, part_mask in ((pruned, mask), (pruned.t(), mask.t())):
        values, bits = packed_by(dense, part_mask)
        if use_cutlass:
            made += [values, interleaved(words_of(bits, int16))]
        else:
            packed = joined(values, bits)
            made += [packed, split(packed, dense.shape[1])[1].clone()]
    return made[0], made[1], made[2], made[3], masks_of(mask)


def _check_masks(name: str, input: Tensor, thread_masks: Tensor) -> None:
    check_tiles(name, input, 8)
    expected = (input.shape[0] // 8, input.shape[1] // 8, 8)
    if thread_masks.dtype is not uint8 or tuple(thread_masks.shape) != expected:
        raise RuntimeError(
            f"{name}: expected `thread_masks` of uint8 and shape {list(expected)}, got {thread_masks.dtype} and "
            f"{list(thread_masks.shape)}"
        )


def _sparse_semi_structured_apply(input: Tensor, thread_masks: Tensor) -> tuple[Tensor, Tensor]:
    """Return the elements at kept positions, by rows and by columns."""
    _check_masks("_sparse_semi_structured_apply", input, thread_masks)
    mask = places_of(thread_masks)
    pruned = ops.where(mask, input, 0)
    return packed_by(pruned, mask)[0], packed_by(pruned.t(), mask.t())[0]


def _sparse_semi_structured_apply_dense(input: Tensor, thread_masks: Tensor) -> Tensor:
    """Set all other positions to 0."""
    _check_masks("_sparse_semi_structured_apply_dense", input, thread_masks)
    return ops.where(places_of(thread_masks), input, 0)

"""Products with scales and in groups as `torch.nn.functional` has them; `nn.functional` re-exports this."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from ..dispatch.core.tensor_function import overridable
from ..dispatch.generated import functions as ops
from ..runtime.scalar_type import bfloat16

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor
    from ..runtime.scalar_type import dtype as ScalarType

__all__ = ["ScalingType", "SwizzleType", "grouped_mm", "scaled_grouped_mm", "scaled_mm"]


class ScalingType(Enum):
    """How many elements of an operand share a scale (`torch.nn.functional.ScalingType`).

    BlockWise1x32 is that of MX formats, BlockWise1x16 that of NVFP4, which may have a TensorWise scale beside it.
    """

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(Enum):
    """In which order scales lie in memory (`torch.nn.functional.SwizzleType`).

    SWIZZLE_32_4_4 is that of cuBLAS for scales of blocks of 16 and 32, which `tt.quantization.to_blocked` makes.
    """

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


@overridable
def scaled_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Tensor | list[Tensor],
    scale_recipe_a: ScalingType | list[ScalingType],
    scale_b: Tensor | list[Tensor],
    scale_recipe_b: ScalingType | list[ScalingType],
    swizzle_a: SwizzleType | list[SwizzleType] | None = None,
    swizzle_b: SwizzleType | list[SwizzleType] | None = None,
    bias: Tensor | None = None,
    output_dtype: ScalarType | None = bfloat16,
    contraction_dim: list[int] | tuple[int, ...] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """Compute a matmul of scaled 8-bit or 4-bit float matrices (`torch.nn.functional.scaled_mm`).

    Args:
        mat_a: The first matrix, of shape (M, K) and dtype float8_e4m3fn or float8_e5m2, or (M, K / 2) and
            float4_e2m1fn_x2, two numbers in a byte.
        mat_b: The second matrix, of shape (K, N) and one of these dtypes, or (K / 2, N) and float4_e2m1fn_x2.
        scale_a: The scales of `mat_a`, float32, by its recipe: one number; (M, 1) by rows; (M, K / 128) by blocks of
            1x128; (L, M / 128) by blocks of 128x128, L being K / 128 rounded up to a multiple of 4. For BlockWise1x32
            float8_e8m0fnu, for BlockWise1x16 of 4-bit floats float8_e4m3fn, one for each 32 or 16 elements of a row,
            swizzled; [BlockWise1x16, TensorWise] takes a list of these and of a float32 number.
        scale_recipe_a: The recipe.
        scale_b: The scales of `mat_b`, float32: one number; (1, N); (N, K / 128); (L, N / 128).
        scale_recipe_b: The recipe. Both are TensorWise, or RowWise, or by blocks of 128, not both of 128x128, or by
            blocks of 32, or of 16.
        swizzle_a: SWIZZLE_32_4_4 for blocks of 32 and 16, [SWIZZLE_32_4_4, NO_SWIZZLE] for two levels; else None or
            NO_SWIZZLE.
        swizzle_b: As `swizzle_a`.
        bias: One number for each column of the result, of shape (N,).
        output_dtype: The dtype of the result; None for that of `mat_a`.
        contraction_dim: Empty, or the dimensions that are summed over.
        use_fast_accum: If True, tensor cores of compute capability 9.0 may add up products in the bits that they
            keep. Default: False.

    Returns:
        A tensor of shape (M, N) and dtype `output_dtype`.

    Raises:
        ValueError: The recipes do not go together, or scales have other shapes than theirs.
        RuntimeError: The matrices' shapes do not fit; see `tt._scaled_mm`.

    Example:
        >>> import triten as tt
        >>> from triten.nn.functional import ScalingType, scaled_mm
        >>> x = tt.eye(16).to(tt.float8_e4m3fn)
        >>> rows = tt.arange(16.0)[:, None]
        >>> row_wise = ScalingType.RowWise
        >>> scaled_mm(x, x.t(), rows, row_wise, tt.ones(1, 16), row_wise).diagonal()[:3]
        tensor([0., 1., 2.], dtype=triten.bfloat16)
    """
    return ops._scaled_mm_v2(
        mat_a,
        mat_b,
        in_list(scale_a),
        [option.value for option in in_list(scale_recipe_a)],
        [option.value for option in in_list(swizzle_a or [])],
        in_list(scale_b),
        [option.value for option in in_list(scale_recipe_b)],
        [option.value for option in in_list(swizzle_b or [])],
        bias,
        output_dtype,
        contraction_dim,
        use_fast_accum,
    )


@overridable
def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: ScalarType | None = None,
) -> Tensor:
    """Multiply groups of rows or columns by one matrix each (`torch.nn.functional.grouped_mm`).

    Args:
        mat_a: The left matrices, of shape (G, M, K), or one matrix that groups share rows or columns of.
        mat_b: The right matrices, of shape (G, K, N), or one matrix.
        offs: The end of each group along the grouped dimension, int32 of shape (G,), ascending.
        bias: Has to be None.
        out_dtype: None or the dtype of the operands.

    Returns:
        What `tt._grouped_mm` gives, which has all rules.

    Raises:
        RuntimeError: Dtypes, sizes, strides or offsets do not fit.

    Example:
        >>> import triten as tt
        >>> tokens, experts = tt.ones(3, 8), tt.stack([tt.eye(8), 2 * tt.eye(8)])
        >>> offs = tt.tensor([1, 3], dtype=tt.int32)
        >>> tt.nn.functional.grouped_mm(tokens, experts, offs=offs)[:, 0]
        tensor([1., 2., 2.])
    """
    return ops._grouped_mm(mat_a, mat_b, offs, bias, out_dtype)


@overridable
def scaled_grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Tensor | list[Tensor],
    scale_recipe_a: ScalingType | list[ScalingType],
    scale_b: Tensor | list[Tensor],
    scale_recipe_b: ScalingType | list[ScalingType],
    swizzle_a: SwizzleType | list[SwizzleType] | None = None,
    swizzle_b: SwizzleType | list[SwizzleType] | None = None,
    bias: Tensor | None = None,
    offs: Tensor | None = None,
    output_dtype: ScalarType | None = bfloat16,
    contraction_dim: list[int] | tuple[int, ...] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """Compute grouped matmuls of 8-bit floats with a scale for each row (`torch.nn.functional.scaled_grouped_mm`).

    Args:
        mat_a: The left matrices, as `grouped_mm` takes them, of dtype float8_e4m3fn and row-major.
        mat_b: The right matrices, of dtype float8_e4m3fn and column-major.
        scale_a: The scales of `mat_a`'s rows, float32, of the shape that `tt._scaled_grouped_mm` takes.
        scale_recipe_a: RowWise.
        scale_b: The scales of `mat_b`'s columns.
        scale_recipe_b: RowWise.
        swizzle_a: None or NO_SWIZZLE.
        swizzle_b: None or NO_SWIZZLE.
        bias: Has to be None.
        offs: The end of each group along the dimension that groups share, int32.
        output_dtype: bfloat16 or None.
        contraction_dim: Empty, or the dimensions that are summed over.
        use_fast_accum: If True, tensor cores of compute capability 9.0 accumulate in fewer bits. Default: False.

    Returns:
        A bfloat16 tensor of the shape that `grouped_mm` gives.

    Raises:
        NotImplementedError: A recipe is not RowWise, or scales are swizzled.
        RuntimeError: Dtypes, sizes, strides or offsets do not fit.

    Example:
        >>> import triten as tt
        >>> from triten.nn.functional import ScalingType, scaled_grouped_mm
        >>> x = tt.eye(16).to(tt.float8_e4m3fn)
        >>> w = tt.stack([x, x]).transpose(-2, -1)
        >>> by_row, offs = ScalingType.RowWise, tt.tensor([1, 16], dtype=tt.int32)
        >>> scales = tt.tensor([[2.0], [3.0]]).expand(2, 16).contiguous()
        >>> scaled_grouped_mm(x, w, tt.ones(16), by_row, scales, by_row, offs=offs).diagonal()[:3]
        tensor([2., 3., 3.], dtype=triten.bfloat16)
    """
    recipes = [*in_list(scale_recipe_a), *in_list(scale_recipe_b)]
    swizzles = [*in_list(swizzle_a or []), *in_list(swizzle_b or [])]
    if recipes != [ScalingType.RowWise] * 2 or any(each is not SwizzleType.NO_SWIZZLE for each in swizzles):
        raise NotImplementedError(
            "scaled_grouped_mm(): expected RowWise scales without swizzle for both operands, but got the recipes "
            f"{[each.name for each in recipes]} and swizzles {[each.name for each in swizzles]}"
        )
    dims = [int(each) % mat.ndim for each, mat in zip(contraction_dim, (mat_a, mat_b), strict=False)]
    if contraction_dim and dims != [mat_a.ndim - 1, mat_b.ndim - 2]:
        raise RuntimeError(
            "scaled_grouped_mm(): expected contraction_dim to be the last dimension of mat_a and the last but one of "
            f"mat_b, but got {list(contraction_dim)}"
        )
    (first,), (second,) = in_list(scale_a), in_list(scale_b)
    return ops._scaled_grouped_mm(mat_a, mat_b, first, second, offs, bias, None, output_dtype, use_fast_accum)


def in_list(value: Any) -> list[Any]:
    """Return a list or tuple as a list, any other value as a list of one."""
    return list(value) if isinstance(value, list | tuple) else [value]

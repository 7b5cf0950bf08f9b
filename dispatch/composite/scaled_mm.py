"""Scaled matmuls of 8-bit and 4-bit floats whose scales have a recipe.

Source: ATen/native/cuda/ScaledBlas.cpp, `_scaled_mm_cuda_v2`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...runtime.scalar_type import EXPONENTS, PACKED, float8_e4m3fn, float32
from ..generated import functions as ops

if TYPE_CHECKING:
    from ...runtime.scalar_type import dtype as ScalarType
    from ..tensor import Tensor

TENSOR, ROW, BY_16, BY_32, BY_LINE, BY_BLOCK = range(6)
"""Values of `tt.nn.functional.ScalingType`, in its order."""
NAMES = ("TensorWise", "RowWise", "BlockWise1x16", "BlockWise1x32", "BlockWise1x128", "BlockWise128x128")
TOGETHER = {(TENSOR, TENSOR), (ROW, ROW), (BY_LINE, BY_LINE), (BY_LINE, BY_BLOCK), (BY_BLOCK, BY_LINE)}
BLOCK = 128
VECTORS = {(BY_32,): 32, (BY_16,): 16, (BY_16, TENSOR): 16}
"""Number of K elements that share a scale, by recipe of the MX and NV formats; NV formats may also have a global
scale.
"""
SWIZZLED = 1
"""The value of `SwizzleType.SWIZZLE_32_4_4`."""


def _scaled_mm_v2(
    self: Tensor,
    mat2: Tensor,
    scale_a: Sequence[Tensor],
    recipe_a: Sequence[int],
    swizzle_a: Sequence[int],
    scale_b: Sequence[Tensor],
    recipe_b: Sequence[int],
    swizzle_b: Sequence[int],
    bias: Tensor | None,
    out_dtype: ScalarType | None,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """Run `_scaled_mm` with scales in its own format."""
    if self.ndim != 2 or mat2.ndim != 2:
        raise RuntimeError(
            f"_scaled_mm_v2: expected two matrices, got {self.ndim}-D and {mat2.ndim}-D tensors"
        )
    check_contraction(self, mat2, contraction_dim)
    if tuple(recipe_a) == tuple(recipe_b) and tuple(recipe_a) in VECTORS:
        for which, scales, swizzles in (("a", scale_a, swizzle_a), ("b", scale_b, swizzle_b)):
            check_block_scales(which, scales, recipe_a, swizzles)
        return block_scaled(self, mat2, scale_a, scale_b, bias, out_dtype, use_fast_accum)
    recipes = (one_recipe("a", scale_a, recipe_a, swizzle_a), one_recipe("b", scale_b, recipe_b, swizzle_b))
    if recipes not in TOGETHER:
        raise ValueError(
            f"Invalid scaling configuration: _scaled_mm_v2 has no products of {NAMES[recipes[0]]} and "
            f"{NAMES[recipes[1]]} scales, but of (TensorWise, TensorWise), (RowWise, RowWise), "
            "(BlockWise1x128, BlockWise1x128), (BlockWise1x128, BlockWise128x128), "
            "(BlockWise128x128, BlockWise1x128), (BlockWise1x32, BlockWise1x32), (BlockWise1x16, BlockWise1x16), "
            "and of [BlockWise1x16, TensorWise] on both sides"
        )
    (m, k), n = self.shape, mat2.shape[1]
    a = as_v1("scale_a", scale_a[0], recipes[0], m, k)
    b = as_v1("scale_b", scale_b[0], recipes[1], n, k)
    if recipes[1] != TENSOR:
        b = b.t()
    return ops._scaled_mm(self, mat2, a, b, bias, None, out_dtype, use_fast_accum)


def check_block_scales(
    which: str, scales: Sequence[Tensor], recipe: Sequence[int], swizzles: Sequence[int]
) -> None:
    """Raise an error for block scales that are not swizzled, and for a wrong number of scales."""
    if len(scales) != len(recipe):
        raise ValueError(
            f"Invalid scaling configuration: expected {len(recipe)} scale_{which} of "
            f"{' and '.join(NAMES[each] for each in recipe)}, got {len(scales)} (_scaled_mm_v2)"
        )
    if len(swizzles) != len(recipe):
        plural = "" if len(recipe) == 1 else "s"
        raise ValueError(
            f"swizzle_{which} must have {len(recipe)} value{plural}, got {len(swizzles)} (_scaled_mm_v2)"
        )
    if swizzles[0] != SWIZZLED:
        raise ValueError(f"scale_{which} must be swizzled to SWIZZLE_32_4_4 format (_scaled_mm_v2)")
    expected_dtype = EXPONENTS if recipe[0] == BY_32 else float8_e4m3fn
    if scales[0].dtype is not expected_dtype:
        raise ValueError(
            f"Invalid scaling configuration: {NAMES[recipe[0]]} scaling takes scales of {expected_dtype.scalar_name}, "
            f"got scale_{which} of {scales[0].dtype.scalar_name} (_scaled_mm_v2)"
        )
    if len(scales) == 2 and not (scales[1].numel() == 1 and scales[1].dtype is float32):
        raise ValueError(
            f"scale_{which}[1] of TensorWise scaling must be of float32 and 1 element, got {scales[1].dtype} and shape "
            f"{list(scales[1].shape)} (_scaled_mm_v2)"
        )


def block_scaled(
    self: Tensor,
    mat2: Tensor,
    scale_a: Sequence[Tensor],
    scale_b: Sequence[Tensor],
    bias: Tensor | None,
    out_dtype: ScalarType | None,
    use_fast_accum: bool,
) -> Tensor:
    """Compute a matmul with block scales; if both operands also have a global scale, apply it to the float32 sums."""
    if use_fast_accum and PACKED in (self._spec.dtype, mat2._spec.dtype):
        raise ValueError(
            "`use_fast_accum` is not supported when `mat_a` or `mat_b` tensors have the `Float4_e2m1fn_x2` dtype."
        )
    if len(scale_a) == 1:
        return ops._scaled_mm(self, mat2, scale_a[0], scale_b[0], bias, None, out_dtype, use_fast_accum)
    if out_dtype is None:
        raise ValueError(f"_scaled_mm_v2: expected an out_dtype, which products of {self._spec.dtype} need")
    made = ops._scaled_mm(self, mat2, scale_a[0], scale_b[0], None, None, float32, use_fast_accum)
    made = made * (scale_a[1].reshape(()) * scale_b[1].reshape(()))
    if bias is not None:
        made = made + bias.to(float32)
    return made.to(out_dtype)


def check_contraction(self: Tensor, mat2: Tensor, dims: Sequence[int]) -> None:
    """Raise an error for contractions over other dimensions than the last and the first."""
    if not dims:
        return
    if len(dims) != 2:
        raise ValueError(f"contraction_dim must have exactly 2 elements, got {len(dims)} (_scaled_mm_v2)")
    if (dims[0] % self.ndim, dims[1] % mat2.ndim) != (1, 0):
        raise ValueError(
            f"_scaled_mm_v2 sums over dimension 1 of mat_a and 0 of mat_b, got contraction_dim={list(dims)}"
        )


def one_recipe(which: str, scales: Sequence[Tensor], recipe: Sequence[int], swizzle: Sequence[int]) -> int:
    """Return the recipe of an operand with one level and no swizzle."""
    if len(scales) != 1 or len(recipe) != 1:
        raise ValueError(
            f"Invalid scaling configuration: expected one scale_{which} and one recipe_{which}, got {len(scales)} and "
            f"{len(recipe)} (_scaled_mm_v2)"
        )
    if not 0 <= recipe[0] < len(NAMES):
        raise ValueError(f"recipe_{which} must be a ScalingType, got {recipe[0]} (_scaled_mm_v2)")
    if any(swizzle):
        raise ValueError(
            f"scale_{which} of {NAMES[recipe[0]]} scaling cannot be swizzled, got {list(swizzle)}"
        )
    return recipe[0]


def as_v1(which: str, scale: Tensor, recipe: int, lines: int, k: int) -> Tensor:
    """Return the scales of lines and their blocks along k, in a recipe's shape, as (lines, blocks)."""
    blocks, padded = -(-k // BLOCK), -(-k // (4 * BLOCK)) * 4
    if recipe == TENSOR:
        expected: tuple[int, ...] | None = None
        fits = scale.numel() == 1
    elif recipe == ROW:
        expected = (lines, 1) if which == "scale_a" else (1, lines)
        fits = tuple(scale.shape) in (expected, (lines,))
    else:
        expected = (lines, blocks) if recipe == BY_LINE else (padded, -(-lines // BLOCK))
        fits = tuple(scale.shape) == expected
    if not fits or scale.dtype.name != "float32":
        shape = "1 element" if expected is None else f"shape {list(expected)}"
        raise ValueError(
            f"{which} of {NAMES[recipe]} scaling must be of float32 and {shape}, got {scale.dtype} and shape "
            f"{list(scale.shape)} (_scaled_mm_v2)"
        )
    if recipe == TENSOR:
        return scale
    if recipe == ROW:
        return scale.reshape(lines, 1)
    return scale if recipe == BY_LINE else scale[:blocks].t()

"""Meta function of scaled matmuls of 8-bit and 4-bit floats (ATen/native/cuda/ScaledBlas.cpp)."""

from __future__ import annotations

from ....runtime.scalar_type import PACKED
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase
from ..operand_checks import check_multiply
from .block_scales import FLOATS8, block_scaling, scale_count
from .linalg import check_same_device

BLOCK = 128
"""Side of a block that has its own scale, in elements."""
OUTPUTS = ("float32", "float16", "bfloat16", *FLOATS8)


def scaled_mm(
    meta: MetaBase,
    self: TensorSpec,
    mat2: TensorSpec,
    scale_a: TensorSpec,
    scale_b: TensorSpec,
    bias: TensorSpec | None,
    scale_result: TensorSpec | None,
    out_dtype: ScalarType | None,
    use_fast_accum: bool,
) -> None:
    """Infer (m, n) of `out_dtype`, or `self`'s dtype, from (m, k) and (k, n), each times its scales, plus a bias."""
    if self.ndim != 2:
        raise RuntimeError("mat1 must be a matrix")
    if mat2.ndim != 2:
        raise RuntimeError("mat2 must be a matrix")
    check_multiply(self.sizes, mat2.sizes, "mat_a", "mat_b")
    m, n = self.sizes[0], mat2.sizes[1]
    _check_scaling(self, mat2, scale_a, scale_b)
    if use_fast_accum and PACKED in (self.dtype, mat2.dtype):
        raise RuntimeError(
            "`use_fast_accum` is not supported when `mat1` or `mat2` tensors have the `Float4_e2m1fn_x2` dtype."
        )
    if bias is not None and bias.numel != n:
        raise RuntimeError(f"Bias must be size {n} but got {bias.numel}")
    if scale_result is not None and not (scale_result.numel == 1 and scale_result.dtype.name == "float32"):
        raise RuntimeError("scale_result must be a float scalar")
    if self.device.type == "cuda":
        _check_layouts(self, mat2)
    dtype = self.dtype if out_dtype is None else out_dtype
    if dtype.name not in OUTPUTS:
        raise RuntimeError(f"_scaled_mm: expected an out_dtype of {', '.join(OUTPUTS)}, got {dtype}")
    check_same_device("_scaled_mm", self, mat2, scale_a, scale_b, bias, scale_result)
    meta.set_output_raw_strided(0, (m, n), dtype=dtype)


def scaled_by_blocks(
    self: TensorSpec, mat2: TensorSpec, scale_a: TensorSpec, scale_b: TensorSpec
) -> tuple[int, int] | None:
    """Return how many rows of `self` and columns of `mat2` share a scale of 128 K elements; None for other scales."""
    (m, k), n = self.sizes, mat2.sizes[1]
    blocks = -(-k // BLOCK)
    specs = (self, mat2, scale_a, scale_b)
    dtypes = all(spec.dtype.name in FLOATS8 for spec in specs[:2])
    dtypes = dtypes and all(spec.dtype.name == "float32" for spec in specs[2:])
    single = scale_a.numel == scale_b.numel == 1
    if not dtypes or single or scale_a.ndim != 2 or scale_b.ndim != 2:
        return None
    if scale_a.sizes[1] != blocks or scale_b.sizes[0] != blocks:
        return None
    rows, columns = scale_a.sizes[0], scale_b.sizes[1]
    for shared in ((1, 1), (1, BLOCK), (BLOCK, 1)):
        if (rows, columns) == (-(-m // shared[0]), -(-n // shared[1])):
            # A single block along the K dimension is a row scale.
            return None if blocks == 1 and shared == (1, 1) else shared
    return None


def _check_scaling(self: TensorSpec, mat2: TensorSpec, scale_a: TensorSpec, scale_b: TensorSpec) -> None:
    m, n = self.sizes[0], mat2.sizes[1]
    scales = (scale_a, scale_b)
    if scaled_by_blocks(self, mat2, scale_a, scale_b) is not None:
        return
    if block_scaling(self, mat2, scale_a, scale_b) is not None:
        return
    floats = all(spec.dtype.name in FLOATS8 for spec in (self, mat2))
    floats = floats and all(spec.dtype.name == "float32" for spec in scales)
    single = scale_a.numel == 1 and scale_b.numel == 1
    by_row = (
        scale_a.sizes == (m, 1) and scale_b.sizes == (1, n) and all(spec.is_contiguous for spec in scales)
    )
    if floats and (single or by_row):
        return
    got = (
        f"{letter}.dtype()={spec.dtype.scalar_name}" + (
            f", {letter}.size()={list(spec.sizes)}, {letter}.stride()={list(spec.strides)}" if spec in scales else ""
        )
        for letter, spec in (("mat_a", self), ("scale_a", scale_a), ("mat_b", mat2), ("scale_b", scale_b))
    )  # fmt: skip
    blocks = -(-self.sizes[1] // BLOCK)
    raise ValueError(
        "Invalid scaling configuration.\n"
        "- For TensorWise scaling, a and b should be float8, scales should be float and singletons.\n"
        f"- For RowWise scaling, a and b should be float8, scales should be float, scale_a should be ({m}, 1) and "
        f"scale_b should be (1, {n}), and both should be contiguous.\n"
        f"- For BlockWise scaling, a and b should be float8, scales should be float, scale_a should be ({m}, {blocks}) "
        f"or ({-(-m // BLOCK)}, {blocks}), scale_b should be ({blocks}, {n}) or ({blocks}, {-(-n // BLOCK)}), and one "
        "of them for each row or column.\n"
        f"{_block_scales(self, mat2)}"
        f"Got {', '.join(got)}"
    )


def _block_scales(self: TensorSpec, mat2: TensorSpec) -> str:
    """Return the lines of the error message that state the requirements of MX and NV formats."""
    (m, k), n = self.sizes, mat2.sizes[1]
    lines = ""
    for vector, packed, operands, scales in (
        (32, 1, "float8", "float8_e8m0fnu"),
        (32, 2, "float4 (packed 2x)", "float8_e8m0fnu"),
        (16, 2, "float4 (packed 2x)", "float8_e4m3fn"),
    ):
        counts = [scale_count(size, packed * k, vector) for size in (m, n)]
        lines += (
            f"- For BlockWise1x{vector} scaling of {operands}, scales should be {scales}, scale_a should have "
            f"{counts[0]} elements and scale_b {counts[1]}, and both should be contiguous.\n"
        )
    return lines


def _check_layouts(self: TensorSpec, mat2: TensorSpec) -> None:
    """Check the layouts that CUDA's tensor-core library requires, on every device, so that programs run on both."""
    if self.numel and not (self.strides[0] > self.strides[1] == 1):
        raise RuntimeError(f"self must be row_major, got stride {self.strides}")
    if mat2.numel and not (mat2.strides[0] == 1 < mat2.strides[1]):
        raise RuntimeError(f"mat2 must be col_major, got stride {mat2.strides}")
    if self.sizes[1] % 16:
        raise RuntimeError(
            f"Expected self.size(1) to be divisible by 16, but got self.size(1)={self.sizes[1]}"
        )
    if mat2.sizes[0] % 16 or mat2.sizes[1] % 16:
        raise RuntimeError(
            f"Expected both dimensions of mat2 to be divisible by 16 but got {list(mat2.sizes)}"
        )

"""Meta functions of matmuls with 8-bit and 4-bit weights (ATen/native/LinearAlgebra.cpp)."""

from __future__ import annotations

from ....runtime.memory_format import contiguous_strides
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.scalar_type import float32, int8, uint8
from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase
from .linalg import check_same_device

ACTIVATIONS = ("float32", "float16", "bfloat16")
WEIGHTS8 = ("int8", "float8_e4m3fn", "float8_e5m2")
GROUP_SIZES = (32, 64, 128, 256)
INNER_TILES = (2, 4, 8)


def _weight_int8pack_mm(meta: MetaBase, self: TensorSpec, mat2: TensorSpec, scales: TensorSpec) -> None:
    """Infer (m, k) by (n, k) transposed, with a scale for each n."""
    name = "_weight_int8pack_mm"
    _check_matrix(name, "self", self)
    if self.sizes[1] > 1 and self.strides[1] != 1:
        raise RuntimeError(
            f"{name}: expected `self` to be contiguous on the last dimension, got {self.strides}"
        )
    _check_matrix(name, "mat2", mat2)
    _check_dtype(name, "mat2", mat2, *WEIGHTS8)
    _check_contiguous(name, "mat2", mat2)
    n, k = mat2.sizes
    if k != self.sizes[1]:
        raise RuntimeError(
            f"{name}: expected `mat2` to have {self.sizes[1]} columns, as `self` has, got sizes {list(mat2.sizes)}"
        )
    if scales.sizes != (n,):
        raise RuntimeError(
            f"{name}: expected `scales` to be a 1d tensor with size {n}, got sizes {list(scales.sizes)}"
        )
    _check_dtype(name, "self", self, *ACTIVATIONS)
    if scales.dtype is not self.dtype and scales.dtype.name != "float32":
        raise RuntimeError(
            f"{name}: expected `scales` to have scalar type {self.dtype.scalar_name} or Float, but found "
            f"{scales.dtype.scalar_name}"
        )
    check_same_device(name, self, mat2, scales)
    meta.set_output_raw_strided(0, (self.sizes[0], n), dtype=self.dtype)


def _quantize_rows(meta: MetaBase, self: TensorSpec, low: int, divisor: type[float]) -> None:
    """Infer (m, k) as 8-bit integers, and m scales."""
    name = "_quantize_rows"
    _check_matrix(name, "self", self)
    _check_dtype(name, "self", self, *ACTIVATIONS)
    if not -128 <= low <= 127:
        raise RuntimeError(f"{name}: expected `low` to be an integer of 8 bits, got {low}")
    meta.set_output_strided(0, self.sizes, contiguous_strides(self.sizes), dtype=int8)
    meta.set_output_strided(1, self.sizes[:1], (1,), dtype=float32)


def _scaled_int_mm(
    meta: MetaBase,
    self: TensorSpec,
    mat2: TensorSpec,
    scale_a: TensorSpec,
    scale_b: TensorSpec,
    out_dtype: ScalarType,
) -> None:
    """Infer (m, k) by (k, n) of 8-bit integers, times a scale for each row and for each column."""
    name = "_scaled_int_mm"
    m, n = _product_of_integers(name, self, mat2)
    _check_numbers(name, "scale_a", scale_a, m)
    _check_numbers(name, "scale_b", scale_b, n)
    if out_dtype.name not in ACTIVATIONS:
        raise RuntimeError(
            f"{name}: expected `out_dtype` to be one of {', '.join(ACTIVATIONS)}, got {out_dtype}"
        )
    check_same_device(name, self, mat2, scale_a, scale_b)
    meta.set_output_raw_strided(0, (m, n), dtype=out_dtype)


def _requantized_int_mm(
    meta: MetaBase,
    self: TensorSpec,
    mat2: TensorSpec,
    offsets: TensorSpec,
    bias: TensorSpec | None,
    multiplier: TensorSpec,
    zero_point: int,
    least: int,
) -> None:
    """Infer (m, k) by (k, n) of 8-bit integers, requantized to integers from `least` to 255."""
    name = "_requantized_int_mm"
    m, n = _product_of_integers(name, self, mat2)
    _check_numbers(name, "offsets", offsets, n, "int32")
    _check_numbers(name, "multiplier", multiplier, n)
    operands = [self, mat2, offsets, multiplier]
    if bias is not None:
        _check_numbers(name, "bias", bias, n)
        operands.append(bias)
    for argument, number in (("zero_point", zero_point), ("least", least)):
        if not 0 <= number <= 255:
            raise RuntimeError(f"{name}: expected `{argument}` to be an integer of 8 bits, got {number}")
    check_same_device(name, *operands)
    meta.set_output_raw_strided(0, (m, n), dtype=uint8)


def _product_of_integers(name: str, self: TensorSpec, mat2: TensorSpec) -> tuple[int, int]:
    """Check a matmul of int8 and return its sizes."""
    for argument, spec in (("self", self), ("mat2", mat2)):
        _check_matrix(name, argument, spec)
        _check_dtype(name, argument, spec, "int8")
    (m, k), n = self.sizes, mat2.sizes[1]
    if mat2.sizes[0] != k:
        raise RuntimeError(f"{name}: expected `mat2` to have {k} rows, got sizes {list(mat2.sizes)}")
    return m, n


def _check_numbers(name: str, argument: str, spec: TensorSpec, size: int, dtype: str = "float32") -> None:
    _check_dtype(name, argument, spec, dtype)
    if spec.sizes != (size,):
        raise RuntimeError(f"{name}: expected `{argument}` to have sizes [{size}], got {list(spec.sizes)}")
    _check_contiguous(name, argument, spec)


def _weight_int4pack_mm(
    meta: MetaBase, self: TensorSpec, mat2: TensorSpec, qGroupSize: int, qScaleAndZeros: TensorSpec
) -> None:
    """Infer (m, k) by a weight of n rows in tensor-core order."""
    name = "_weight_int4pack_mm"
    _check_dtype(name, "mat2", mat2, "int32")
    tiles = 2 * mat2.sizes[3] if mat2.ndim == 4 else 0
    if tiles not in INNER_TILES or mat2.sizes[2] != 32:
        raise RuntimeError(
            f"{name}: expected `mat2` to have sizes (N / 8, K / (16 * t), 32, t / 2) with t of 2, 4 or 8, got "
            f"{list(mat2.sizes)}"
        )
    n, k = 8 * mat2.sizes[0], 16 * tiles * mat2.sizes[1]
    _grouped_output(meta, name, self, mat2, qGroupSize, qScaleAndZeros, n, k)
    if self.device.type == "cuda":
        _check_dtype(name, "self", self, "bfloat16", "float16")


def _weight_int4pack_mm_for_cpu(
    meta: MetaBase, self: TensorSpec, mat2: TensorSpec, qGroupSize: int, qScaleAndZeros: TensorSpec
) -> None:
    """Infer (m, k) by a weight of n rows in pairs."""
    name = "_weight_int4pack_mm_for_cpu"
    _check_dtype(name, "mat2", mat2, "uint8")
    _check_matrix(name, "mat2", mat2)
    n, half = mat2.sizes
    if n % 16:
        raise RuntimeError(
            f"{name}: expected `mat2` to have a multiple of 16 rows, got sizes {list(mat2.sizes)}"
        )
    _grouped_output(meta, name, self, mat2, qGroupSize, qScaleAndZeros, n, 2 * half)


def _grouped_output(
    meta: MetaBase,
    name: str,
    self: TensorSpec,
    mat2: TensorSpec,
    group: int,
    scales: TensorSpec,
    n: int,
    k: int,
) -> None:
    """Run the checks of both int4 matmuls, and set their output."""
    _check_matrix(name, "self", self)
    _check_dtype(name, "self", self, *ACTIVATIONS)
    for argument, spec in (("self", self), ("mat2", mat2), ("qScaleAndZeros", scales)):
        _check_contiguous(name, argument, spec)
    if self.sizes[1] != k:
        raise RuntimeError(
            f"{name}: expected `self` to have {k} columns, as `mat2` has, got sizes {list(self.sizes)}"
        )
    if group not in GROUP_SIZES:
        raise RuntimeError(f"{name}: expect qGroupSize to be 32, 64, 128 or 256, got {group}")
    if k % group:
        raise RuntimeError(f"{name}: expected qGroupSize to divide {k} columns, got {group}")
    expected = (k // group, n, 2)
    if scales.sizes != expected:
        raise RuntimeError(
            f"{name}: expect qScaleAndZeros to be 3d tensor with sizes {list(expected)}, got {list(scales.sizes)}"
        )
    if scales.dtype is not self.dtype:
        raise RuntimeError(
            f"{name}: expected qScaleAndZeros to have scalar type {self.dtype.scalar_name} but found "
            f"{scales.dtype.scalar_name}"
        )
    check_same_device(name, self, mat2, scales)
    meta.set_output_raw_strided(0, (self.sizes[0], n), dtype=self.dtype)


def _check_matrix(name: str, argument: str, spec: TensorSpec) -> None:
    if spec.ndim != 2:
        raise RuntimeError(f"{name}: expected `{argument}` to be a 2D tensor, got {spec.ndim}D")


def _check_contiguous(name: str, argument: str, spec: TensorSpec) -> None:
    if not spec.is_contiguous:
        raise RuntimeError(
            f"{name}: expected `{argument}` to be contiguous, got strides {list(spec.strides)}"
        )


def _check_dtype(name: str, argument: str, spec: TensorSpec, *names: str) -> None:
    if spec.dtype.name not in names:
        raise RuntimeError(f"{name}: expected `{argument}` to be of {' or '.join(names)}, got {spec.dtype}")

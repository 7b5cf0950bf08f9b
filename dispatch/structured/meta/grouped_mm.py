"""The meta functions of products in groups (ATen/native/GroupedMMUtils.h, ATen/native/cuda/GroupedBlas.cpp)."""

from __future__ import annotations

from ....runtime.scalar_type import BY_NAME
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase
from .linalg import check_same_device

VECTOR = 16
"""Alignment of rows in bytes, including those of results."""

FLOATS = ("float32", "bfloat16", "float16")
BFLOAT16 = BY_NAME["bfloat16"]


def _grouped_mm(
    meta: MetaBase,
    self: TensorSpec,
    mat2: TensorSpec,
    offs: TensorSpec | None,
    bias: TensorSpec | None,
    out_dtype: ScalarType | None,
) -> None:
    """Infer matmuls of pairs; the result is jagged if exactly one operand is jagged, and a batch if both or none
    are.
    """
    for name, spec in (("mat_a", self), ("mat_b", mat2)):
        if spec.dtype.name not in FLOATS:
            raise RuntimeError(
                f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got {spec.dtype.scalar_name} "
                "(_grouped_mm)"
            )
    if self.dtype is not mat2.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {self.dtype} != {mat2.dtype} (_grouped_mm)"
        )
    _check_operands("_grouped_mm", self, mat2, offs)
    if bias is not None:
        raise RuntimeError("_grouped_mm: Bias not supported yet")
    if out_dtype is not None and out_dtype is not self.dtype:
        raise RuntimeError(
            f"Grouped gemm output dtype must match `mat_a` dtype: expected {self.dtype}, got {out_dtype}"
        )
    check_same_device("_grouped_mm", self, mat2, offs)
    _set_output(meta, self, mat2, offs, self.dtype)


def _scaled_grouped_mm(
    meta: MetaBase,
    self: TensorSpec,
    mat2: TensorSpec,
    scale_a: TensorSpec,
    scale_b: TensorSpec,
    offs: TensorSpec | None,
    bias: TensorSpec | None,
    scale_result: TensorSpec | None,
    out_dtype: ScalarType | None,
    use_fast_accum: bool,
) -> None:
    """Infer a grouped matmul of 8-bit floats, with a scale for each row of `self` and each column of `mat2`."""
    for name, spec in (("mat_a", self), ("mat_b", mat2)):
        if spec.dtype.name != "float8_e4m3fn":
            raise RuntimeError(
                f"Expected {name} to be Float8_e4m3 matrix got {spec.dtype.scalar_name} (_scaled_grouped_mm)"
            )
    _check_operands("_scaled_grouped_mm", self, mat2, offs)
    if self.strides[-1] != 1 or self.strides[-2] <= 1:
        raise RuntimeError(
            f"Expected mat_a tensor to be row major in the last two dimensions, got strides {self.strides[-2:]}"
        )
    if mat2.strides[-2] != 1 or mat2.strides[-1] <= 1:
        raise RuntimeError(
            f"Expected mat_b tensor to be column major in the last two dimensions, got strides {mat2.strides[-2:]}"
        )
    jagged_inside = offs is not None and self.ndim == mat2.ndim == 2
    groups = offs.sizes[0] if jagged_inside and offs is not None else 1
    _check_scale("scale_a", scale_a, self, 0, groups)
    _check_scale("scale_b", scale_b, mat2, 1, groups)
    for name, unsupported in (("Bias", bias), ("Scale result", scale_result)):
        if unsupported is not None:
            raise RuntimeError(f"_scaled_grouped_mm: {name} not supported yet")
    dtype = BFLOAT16 if out_dtype is None else out_dtype
    if dtype.name != "bfloat16":
        raise RuntimeError(
            f"Only bf16 high precision output types are supported for grouped gemm, got {dtype}"
        )
    check_same_device("_scaled_grouped_mm", self, mat2, scale_a, scale_b, offs)
    _set_output(meta, self, mat2, offs, dtype)


def _check_operands(name: str, self: TensorSpec, mat2: TensorSpec, offs: TensorSpec | None) -> None:
    """Check dimensions, K dimensions, offsets, and row strides of whole vectors."""
    for which, spec in (("mat_a", self), ("mat_b", mat2)):
        if spec.ndim not in (2, 3):
            raise RuntimeError(f"{which} has to be 2 or 3d, got {spec.ndim}d ({name})")
    jagged = self.ndim == 2 or mat2.ndim == 2
    if not (self.ndim == mat2.ndim == 2) and self.sizes[-1] != mat2.sizes[-2]:
        raise RuntimeError(
            f"contraction dimension of mat_a and mat_b must match, got {self.sizes[-1]} and {mat2.sizes[-2]} ({name})"
        )
    if self.ndim == mat2.ndim == 2 and self.sizes[1] != mat2.sizes[0]:
        raise RuntimeError(
            f"contraction dimension of mat_a and mat_b must match, got {self.sizes[1]} and {mat2.sizes[0]} ({name})"
        )
    if (offs is not None) != jagged:
        raise RuntimeError(
            "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d: "
            f"got {self.ndim}d by {mat2.ndim}d and {'no ' if offs is None else ''}offs ({name})"
        )
    if offs is not None:
        if offs.ndim != 1:
            raise RuntimeError(f"offs has to be 1D, got {offs.ndim}D ({name})")
        if offs.dtype.name != "int32":
            raise RuntimeError(f"Offsets have to be int32, got {offs.dtype} ({name})")
        for spec in (self, mat2):
            if spec.ndim == 3 and spec.sizes[0] != offs.sizes[0]:
                raise RuntimeError(
                    f"matrix batch sizes have to match: got {offs.sizes[0]} offsets and {spec.sizes[0]} matrices "
                    f"({name})"
                )
    elif self.sizes[0] != mat2.sizes[0]:
        raise RuntimeError(
            f"batched dimension has to match, got {self.sizes[0]} and {mat2.sizes[0]} ({name})"
        )
    for spec in (self, mat2):
        _check_lines(name, spec)


def _check_lines(name: str, spec: TensorSpec) -> None:
    rows, columns = spec.sizes[-2:]
    down, across = spec.strides[-2:]
    if down == 1 and across >= max(1, rows):
        pitch = across
    elif across == 1 and down >= max(1, columns):
        pitch = down
    else:
        raise RuntimeError(
            f"Invalid strides/sizes, got {list(spec.strides)} for strides and {list(spec.sizes)} for sizes ({name})"
        )
    if pitch * spec.itemsize % VECTOR:
        raise RuntimeError(
            f"strides should be multiple of {VECTOR} bytes, got {pitch} elements of {spec.itemsize} ({name})"
        )


def _check_scale(which: str, scale: TensorSpec, mat: TensorSpec, dim: int, groups: int) -> None:
    """Check for a scale for each line along `dim` of each matrix; `groups` scales if lines are split into groups."""
    if scale.dtype.name != "float32":
        raise RuntimeError(
            f"For FP8 scales must be float32, got {which}.dtype={scale.dtype} (_scaled_grouped_mm)"
        )
    expected = (mat.sizes[0], mat.sizes[1 + dim]) if mat.ndim == 3 else (mat.sizes[dim] * groups,)
    if scale.ndim != len(expected):
        raise RuntimeError(
            f"Expected {which} to be {len(expected)}D tensor, but got {scale.ndim}D tensor (_scaled_grouped_mm)"
        )
    if scale.sizes != expected:
        raise RuntimeError(
            f"Expected {which} to have sizes {list(expected)}, got {list(scale.sizes)} (_scaled_grouped_mm)"
        )
    if scale.numel and (scale.strides[-1] != 1 and scale.sizes[-1] != 1):
        raise RuntimeError(
            f"Expected {which} to be contiguous in the last dimension, got strides {list(scale.strides)} "
            "(_scaled_grouped_mm)"
        )


def _set_output(
    meta: MetaBase, self: TensorSpec, mat2: TensorSpec, offs: TensorSpec | None, dtype: ScalarType
) -> None:
    rows, columns = self.sizes[-2], mat2.sizes[-1]
    whole = VECTOR // dtype.itemsize
    pitch = -(-columns // whole) * whole
    if self.ndim != mat2.ndim:
        meta.set_output_strided(0, (rows, columns), (pitch, 1), dtype=dtype)
        return
    batch = self.sizes[0] if offs is None else offs.sizes[0]
    meta.set_output_strided(0, (batch, rows, columns), (rows * pitch, pitch, 1), dtype=dtype)

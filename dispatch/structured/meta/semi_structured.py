"""Meta function of matmuls with 2:4 sparse matrices (SparseSemiStructuredOps.cu)."""

from __future__ import annotations

from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase
from ..operand_checks import check_multiply
from .linalg import check_same_device

NAME = "_semi_structured_mm"
OUTPUTS = {
    "int8": ("int8", "int32", "float16", "bfloat16", "float32"),
    "float16": ("float16", "float32"),
    "bfloat16": ("bfloat16", "float32"),
    "float32": ("float32",),
}
"""The dtypes of results, by that of the matrices."""


def columns_of_word(values: TensorSpec, meta: TensorSpec) -> int:
    """Return the number of dense columns that a word describes: four bits for four columns, or for two of float32."""
    return 2 * meta.dtype.itemsize * (2 if values.dtype.name == "float32" else 4)


def _semi_structured_mm(
    meta: MetaBase,
    values: TensorSpec,
    meta_: TensorSpec,
    mat2: TensorSpec,
    bias: TensorSpec | None,
    out_dtype: ScalarType | None,
    interleaved: bool,
    transpose_result: bool,
) -> None:
    """Infer the matmul of (n, k), packed in (n, k / 2) and words, with (k, m): (n, m), or (m, n) transposed."""
    for argument, spec in (("values", values), ("meta", meta_), ("mat2", mat2)):
        if spec.ndim != 2:
            raise RuntimeError(f"{NAME}: expected `{argument}` to be a 2D tensor, got {spec.ndim}D")
    for argument, spec in (("values", values), ("meta", meta_)):
        if not spec.is_contiguous:
            raise RuntimeError(
                f"{NAME}: expected `{argument}` to be contiguous, got strides {list(spec.strides)}"
            )
    name = values.dtype.name
    if name not in OUTPUTS:
        raise RuntimeError(f"{NAME}: expected `values` to be of {', '.join(OUTPUTS)}, got {values.dtype}")
    if mat2.dtype is not values.dtype:
        raise RuntimeError(
            f"{NAME}: expected `mat2` to have the dtype of `values`, {values.dtype}, got {mat2.dtype}"
        )
    rows, k = values.sizes[0], 2 * values.sizes[1]
    word = "int32" if interleaved and name == "int8" else "int16"
    if meta_.dtype.name != word:
        raise RuntimeError(f"{NAME}: expected `meta` to be of {word}, got {meta_.dtype}")
    across = columns_of_word(values, meta_)
    if k % across or meta_.sizes != (rows, k // across):
        raise RuntimeError(
            f"{NAME}: expected `meta` to have a word for each {across} columns of the matrix, {[rows, k]}, got sizes "
            f"{list(meta_.sizes)}"
        )
    if interleaved and (rows % (64 // meta_.dtype.itemsize) or meta_.sizes[1] % 2):
        raise RuntimeError(
            f"{NAME}: expected interleaved words of a multiple of {64 // meta_.dtype.itemsize} rows and of 2 columns, "
            f"got sizes {list(meta_.sizes)}"
        )
    check_multiply((rows, k), mat2.sizes)
    dtype = values.dtype if out_dtype is None else out_dtype
    if dtype.name not in OUTPUTS[name]:
        raise RuntimeError(
            f"{NAME}: expected an out_dtype of {', '.join(OUTPUTS[name])} for {values.dtype}, got {dtype}"
        )
    if bias is not None and (bias.sizes != (rows,) or bias.dtype.name not in (name, dtype.name)):
        raise RuntimeError(
            f"{NAME}: expected `bias` of {values.dtype} or {dtype} and sizes {[rows]}, got {bias.dtype} and "
            f"{list(bias.sizes)}"
        )
    check_same_device(NAME, values, meta_, mat2, bias)
    m = mat2.sizes[1]
    meta.set_output_raw_strided(0, (m, rows) if transpose_result else (rows, m), dtype=dtype)

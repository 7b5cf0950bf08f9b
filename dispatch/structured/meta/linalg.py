"""Meta functions of matrix and vector products (ATen/native/LinearAlgebra.cpp, Blas.cpp)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....runtime.errors import two_devices
from ....runtime.scalar_type import BY_NAME
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.tensor_spec import TensorSpec
from ...iterator.broadcast import expand_geometry
from ..meta_base import MetaBase
from ..operand_checks import check_multiply
from .dims import wrap_dim

if TYPE_CHECKING:
    from ..meta_base import NumberKind


def check_same_device(name: str, *specs: TensorSpec | None) -> None:
    """Refuse operands on several devices."""
    devices = [spec.device for spec in specs if spec is not None]
    for device in devices[1:]:
        if device is not devices[0]:
            raise RuntimeError(two_devices(devices[0], device, f"arguments of {name}"))


def _cpp(spec: TensorSpec) -> str:
    """Return a dtype's name in PyTorch's BLAS messages, such as ``double``."""
    return spec.dtype.scalar_name.lower()


def _check_scales(dtype: ScalarType, *scales: NumberKind) -> None:
    """Raise an error for complex scales of real matmuls; others are cast to the dtype, as ``Scalar.to`` does."""
    for scale in scales:
        if (scale is complex or scale.__class__ is complex) and not dtype.is_complex:
            raise RuntimeError(
                f"value cannot be converted to type {dtype.scalar_name.lower()} without overflow"
            )


def _check_expandable(meta: MetaBase, self: TensorSpec, sizes: Sequence[int]) -> None:
    """Raise an error for an addend that does not broadcast to `sizes`; an in-place addend must have these sizes."""
    if meta.form == "inplace" and self.sizes != tuple(sizes):
        raise RuntimeError(
            f"Bad in-place call: input tensor size {list(self.sizes)} and output tensor size {list(sizes)} should match"
        )
    expand_geometry(self.sizes, self.strides, sizes)


def _check_matrices(self: TensorSpec, mat2: TensorSpec) -> tuple[int, int]:
    """Return the sizes of the product of two matrices."""
    if self.ndim != 2:
        raise RuntimeError(f"self must be a matrix, got {self.ndim}-D tensor in mm")
    if mat2.ndim != 2:
        raise RuntimeError(f"mat2 must be a matrix, got {mat2.ndim}-D tensor in mm")
    check_same_device("mm", self, mat2)
    check_multiply(self.sizes, mat2.sizes)
    if self.dtype is not mat2.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {_cpp(self)} != {_cpp(mat2)} (in mm)"
        )
    return self.sizes[0], mat2.sizes[1]


def mm(meta: MetaBase, self: TensorSpec, mat2: TensorSpec) -> None:
    """Infer (n, p) from (n, m) and (m, p)."""
    meta.set_output_raw_strided(0, _check_matrices(self, mat2), dtype=self.dtype)


def _check_out_dtype(operand: TensorSpec, out_dtype: ScalarType) -> None:
    """Raise an error for result dtypes other than the operands' dtype, and float32 for float16 and bfloat16."""
    is_wider = out_dtype.name == "float32" and operand.dtype.name in ("float16", "bfloat16")
    if out_dtype is not operand.dtype and not is_wider:
        raise RuntimeError(
            "out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs, but got "
            f"{out_dtype.scalar_name} for inputs of {operand.dtype.scalar_name}"
        )


def mm_dtype(meta: MetaBase, self: TensorSpec, mat2: TensorSpec, out_dtype: ScalarType) -> None:
    """Infer `mm` with a result of another dtype, without intermediate rounding."""
    sizes = _check_matrices(self, mat2)
    _check_out_dtype(self, out_dtype)
    meta.set_output_raw_strided(0, sizes, dtype=out_dtype)


def bmm_dtype(meta: MetaBase, self: TensorSpec, mat2: TensorSpec, out_dtype: ScalarType) -> None:
    """Infer `bmm` with a result of another dtype, without intermediate rounding."""
    sizes = _check_batches_of_bmm(self, mat2)
    _check_out_dtype(self, out_dtype)
    meta.set_output_raw_strided(0, sizes, dtype=out_dtype)


def _int_mm(meta: MetaBase, self: TensorSpec, mat2: TensorSpec) -> None:
    """Infer (n, p) of int32 from (n, m) and (m, p) of 8-bit integers."""
    for name, spec in (("self", self), ("mat2", mat2)):
        if spec.ndim != 2:
            raise RuntimeError(f"_int_mm: Expected {name} to be of dimension 2 but got {spec.ndim}")
    if self.sizes[1] != mat2.sizes[0]:
        raise RuntimeError(
            f"_int_mm: self.size(1) needs to match mat2.size(0) but got {self.sizes[1]} and {mat2.sizes[0]}"
        )
    if self.dtype.name not in ("int8", "uint8"):
        raise RuntimeError(f"_int_mm: Expected self dtype to be int8 or uint8 but got {self.dtype}")
    if mat2.dtype.name != "int8":
        raise RuntimeError(f"_int_mm: Expected mat2 dtype to be of type int8 but got {mat2.dtype}")
    if self.device.type == "cuda" and self.dtype.name != "int8":
        raise RuntimeError(f"_int_mm: Expected self dtype to be of type int8 on CUDA but got {self.dtype}")
    check_same_device("_int_mm", self, mat2)
    meta.set_output_raw_strided(0, (self.sizes[0], mat2.sizes[1]), dtype=BY_NAME["int32"])


def _check_batches(name: str, batch1: TensorSpec, batch2: TensorSpec) -> tuple[int, int, int]:
    """Check a batched matmul and return its sizes."""
    if batch1.ndim != 3:
        raise RuntimeError(f"batch1 must be a 3D tensor, got {batch1.ndim}-D in {name}")
    if batch2.ndim != 3:
        raise RuntimeError(f"batch2 must be a 3D tensor, got {batch2.ndim}-D in {name}")
    check_same_device(name, batch1, batch2)
    b, n, m = batch1.sizes
    if batch2.sizes[:2] != (b, m):
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{b}, {m}] but got: "
            f"[{batch2.sizes[0]}, {batch2.sizes[1]}]. (in {name})"
        )
    return b, n, batch2.sizes[2]


def _check_rows_and_columns(batch1: TensorSpec, batch2: TensorSpec) -> None:
    """Raise IndexError for a tensor of too low rank for the broadcast of an addend."""
    wrap_dim(1, batch1.ndim, scalar_ok=False)
    wrap_dim(2, batch2.ndim, scalar_ok=False)


def _check_batches_of_bmm(self: TensorSpec, mat2: TensorSpec) -> tuple[int, int, int]:
    """Return the sizes of a matmul of two batches of one dtype."""
    sizes = _check_batches("bmm", self, mat2)
    if self.dtype is not mat2.dtype:
        raise RuntimeError(
            f"expected scalar type {self.dtype.scalar_name} but found {mat2.dtype.scalar_name} (mat2 of bmm)"
        )
    return sizes


def bmm(meta: MetaBase, self: TensorSpec, mat2: TensorSpec) -> None:
    """Infer (b, n, p) from (b, n, m) and (b, m, p)."""
    meta.set_output_raw_strided(0, _check_batches_of_bmm(self, mat2), dtype=self.dtype)


def _check_matrix_vector(input: tuple[int, ...], mat: TensorSpec, vec: TensorSpec) -> None:
    if mat.ndim != 2 or vec.ndim != 1 or len(input) > 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {len(input)}, {mat.ndim}, {vec.ndim}")
    if mat.sizes[1] != vec.sizes[0] or (input and input[0] not in (1, mat.sizes[0])):
        raise RuntimeError(
            f"size mismatch, got input ({input[0] if input else 1}), mat ({mat.sizes[0]}x{mat.sizes[1]}), "
            f"vec ({vec.sizes[0]})"
        )


def _check_matrix_vector_dtype(input: TensorSpec, mat: TensorSpec, vec: TensorSpec) -> None:
    if not input.dtype is mat.dtype is vec.dtype:
        raise RuntimeError(
            f"addmv input tensors must have the same dtype, but got {input.dtype.scalar_name}, "
            f"{mat.dtype.scalar_name}, and {vec.dtype.scalar_name}"
        )


def mv(meta: MetaBase, self: TensorSpec, vec: TensorSpec) -> None:
    """Infer (n,) from (n, m) and (m,)."""
    if not self.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    _check_matrix_vector(self.sizes[:1], self, vec)
    check_same_device("mv", self, vec)
    _check_matrix_vector_dtype(vec, self, vec)
    meta.set_output_raw_strided(0, self.sizes[:1], dtype=vec.dtype)


def dot(meta: MetaBase, self: TensorSpec, tensor: TensorSpec) -> None:
    """Infer a scalar from (n,) and (n,)."""
    if self.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {self.ndim}D and {tensor.ndim}D tensors")
    if self.dtype is not tensor.dtype:
        raise RuntimeError(
            f"dot : expected both vectors to have same dtype, but found {self.dtype.scalar_name} and "
            f"{tensor.dtype.scalar_name}"
        )
    if self.sizes != tensor.sizes:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor {list(self.sizes)} and src {list(tensor.sizes)} to have the "
            f"same number of elements, but got {self.numel} and {tensor.numel} elements respectively"
        )
    check_same_device("dot", self, tensor)
    meta.set_output_raw_strided(0, (), dtype=self.dtype)


def vdot(meta: MetaBase, self: TensorSpec, other: TensorSpec) -> None:
    """Infer `dot` with the first vector conjugated."""
    dot(meta, self, other)


def addmm(
    meta: MetaBase, self: TensorSpec, mat1: TensorSpec, mat2: TensorSpec, beta: NumberKind, alpha: NumberKind
) -> None:
    """Infer beta * self + alpha * (mat1 @ mat2), with `self` broadcast to (n, p)."""
    if mat1.ndim != 2:
        raise RuntimeError(f"mat1 must be a matrix, got {mat1.ndim}-D tensor")
    if mat2.ndim != 2:
        raise RuntimeError(f"mat2 must be a matrix, got {mat2.ndim}-D tensor")
    check_multiply(mat1.sizes, mat2.sizes)
    sizes = (mat1.sizes[0], mat2.sizes[1])
    _check_product_sum("addmm", meta, self, mat1, mat2, sizes, beta, alpha)


def addmm_activation(
    meta: MetaBase,
    self: TensorSpec,
    mat1: TensorSpec,
    mat2: TensorSpec,
    beta: NumberKind,
    alpha: NumberKind,
    use_gelu: bool,
) -> None:
    """Infer `addmm`, then relu or gelu."""
    if mat2.dtype.is_complex and not use_gelu:
        raise NotImplementedError("clamp is not supported for complex types")
    if use_gelu and not mat2.dtype.is_floating_point:
        raise NotImplementedError(f"\"GeluKernelImpl\" not implemented for '{mat2.dtype.scalar_name}'")
    addmm(meta, self, mat1, mat2, beta, alpha)


def _check_product_sum(
    name: str,
    meta: MetaBase,
    self: TensorSpec,
    first: TensorSpec,
    second: TensorSpec,
    sizes: tuple[int, ...],
    beta: NumberKind,
    alpha: NumberKind,
) -> None:
    if self.dtype is not second.dtype:
        raise RuntimeError(
            f"self and mat2 must have the same dtype, but got {self.dtype.scalar_name} and {second.dtype.scalar_name}"
        )
    if first.dtype is not second.dtype:
        raise RuntimeError(
            f"mat1 and mat2 must have the same dtype, but got {first.dtype.scalar_name} and "
            f"{second.dtype.scalar_name}"
        )
    check_same_device(name, self, first, second)
    _check_expandable(meta, self, sizes)
    _check_scales(self.dtype, beta, alpha)
    meta.set_output_raw_strided(0, sizes, dtype=self.dtype)


def addmv(
    meta: MetaBase, self: TensorSpec, mat: TensorSpec, vec: TensorSpec, beta: NumberKind, alpha: NumberKind
) -> None:
    """Infer beta * self + alpha * (mat @ vec), with `self` broadcast to (n,)."""
    _check_matrix_vector(self.sizes, mat, vec)
    _check_matrix_vector_dtype(self, mat, vec)
    check_same_device("addmv", self, mat, vec)
    _check_expandable(meta, self, mat.sizes[:1])
    _check_scales(self.dtype, beta, alpha)
    meta.set_output_raw_strided(0, mat.sizes[:1], dtype=vec.dtype)


def baddbmm(
    meta: MetaBase,
    self: TensorSpec,
    batch1: TensorSpec,
    batch2: TensorSpec,
    beta: NumberKind,
    alpha: NumberKind,
) -> None:
    """Infer beta * self + alpha * bmm(batch1, batch2), with `self` broadcast to (b, n, p)."""
    _check_rows_and_columns(batch1, batch2)
    sizes = _check_batches("baddbmm", batch1, batch2)
    if not self.dtype is batch1.dtype is batch2.dtype:
        raise RuntimeError(
            f"Input dtypes must be the same, got: input {_cpp(self)}, batch1: {_cpp(batch1)}, batch2: {_cpp(batch2)}"
        )
    check_same_device("baddbmm", self, batch1)
    _check_expandable(meta, self, sizes)
    _check_scales(self.dtype, beta, alpha)
    meta.set_output_raw_strided(0, sizes, dtype=self.dtype)


def _check_product_sum_dtype(
    name: str,
    meta: MetaBase,
    self: TensorSpec,
    first: TensorSpec,
    second: TensorSpec,
    sizes: tuple[int, ...],
    scales: tuple[NumberKind, NumberKind],
    out_dtype: ScalarType,
) -> None:
    if first.dtype is not second.dtype:
        raise RuntimeError(
            f"mat1 and mat2 must have the same dtype, but got {first.dtype.scalar_name} and "
            f"{second.dtype.scalar_name}"
        )
    _check_out_dtype(first, out_dtype)
    if self.dtype is not out_dtype and self.dtype is not first.dtype:
        raise RuntimeError(
            f"self dtype must match either out_dtype or mat1 dtype, but got {self.dtype.scalar_name}, "
            f"{out_dtype.scalar_name} and {first.dtype.scalar_name} (in {name})"
        )
    check_same_device(name, self, first, second)
    _check_expandable(meta, self, sizes)
    _check_scales(out_dtype, *scales)
    meta.set_output_raw_strided(0, sizes, dtype=out_dtype)


def addmm_dtype(
    meta: MetaBase,
    self: TensorSpec,
    mat1: TensorSpec,
    mat2: TensorSpec,
    out_dtype: ScalarType,
    beta: NumberKind,
    alpha: NumberKind,
) -> None:
    """Infer `addmm` with a result of another dtype; `self` has that dtype or the matrices'."""
    if mat1.ndim != 2:
        raise RuntimeError(f"mat1 must be a matrix, got {mat1.ndim}-D tensor")
    if mat2.ndim != 2:
        raise RuntimeError(f"mat2 must be a matrix, got {mat2.ndim}-D tensor")
    check_multiply(mat1.sizes, mat2.sizes)
    sizes = (mat1.sizes[0], mat2.sizes[1])
    _check_product_sum_dtype("addmm", meta, self, mat1, mat2, sizes, (beta, alpha), out_dtype)


def baddbmm_dtype(
    meta: MetaBase,
    self: TensorSpec,
    batch1: TensorSpec,
    batch2: TensorSpec,
    out_dtype: ScalarType,
    beta: NumberKind,
    alpha: NumberKind,
) -> None:
    """Infer `baddbmm` with a result of another dtype; `self` has that dtype or the batches'."""
    _check_rows_and_columns(batch1, batch2)
    sizes = _check_batches("baddbmm", batch1, batch2)
    _check_product_sum_dtype("baddbmm", meta, self, batch1, batch2, sizes, (beta, alpha), out_dtype)


def addbmm(
    meta: MetaBase,
    self: TensorSpec,
    batch1: TensorSpec,
    batch2: TensorSpec,
    beta: NumberKind,
    alpha: NumberKind,
) -> None:
    """Infer beta * self + alpha * the sum of bmm(batch1, batch2) over the batch, with `self` broadcast to (n, p)."""
    _check_rows_and_columns(batch1, batch2)
    if batch1.ndim != 3:
        raise RuntimeError(f"batch1 must be a 3D tensor, got {batch1.ndim}-D in addbmm")
    if batch2.ndim != 3:
        raise RuntimeError(f"batch2 must be a 3D tensor, got {batch2.ndim}-D in addbmm")
    if batch1.sizes[0] != batch2.sizes[0]:
        raise RuntimeError(
            f"batch1 and batch2 must have same number of batches, got {batch1.sizes[0]} and {batch2.sizes[0]}"
        )
    if batch1.sizes[2] != batch2.sizes[1]:
        raise RuntimeError(
            f"Incompatible matrix sizes for bmm ({batch1.sizes[1]}x{batch1.sizes[2]} and "
            f"{batch2.sizes[1]}x{batch2.sizes[2]})"
        )
    sizes = (batch1.sizes[1], batch2.sizes[2])
    _check_product_sum("addbmm", meta, self, batch1, batch2, sizes, beta, alpha)

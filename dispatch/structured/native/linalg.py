"""Meta functions of matrix products."""

from __future__ import annotations

from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase


def check_same_dtype(name: str, self: TensorSpec, other: TensorSpec) -> None:
    """Refuse operands of two dtypes, as ATen's BLAS entry points do."""
    if self.dtype is not other.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {_cpp(self)} != {_cpp(other)} ({name})"
        )


def _cpp(spec: TensorSpec) -> str:
    return spec.dtype.scalar_name.lower()


def check_same_device(name: str, self: TensorSpec, other: TensorSpec) -> None:
    """Refuse operands on two devices."""
    if self.device is not other.device:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {self.device} and "
            f"{other.device}! (in {name})"
        )


def mm(meta: MetaBase, self: TensorSpec, mat2: TensorSpec) -> None:
    """(n, m) by (m, p) gives (n, p)."""
    if self.ndim != 2:
        raise RuntimeError(f"self must be a matrix, got {self.ndim}-D tensor in mm")
    if mat2.ndim != 2:
        raise RuntimeError(f"mat2 must be a matrix, got {mat2.ndim}-D tensor in mm")
    check_same_device("mm", self, mat2)
    if self.sizes[1] != mat2.sizes[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({self.sizes[0]}x{self.sizes[1]} and "
            f"{mat2.sizes[0]}x{mat2.sizes[1]})"
        )
    check_same_dtype("mm", self, mat2)
    meta.set_output_raw_strided(0, (self.sizes[0], mat2.sizes[1]), dtype=self.dtype)

"""Meta functions of softmax and log_softmax (ATen/native/SoftMax.cpp)."""

from __future__ import annotations

from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.scalar_type import float16, float32
from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase
from .dims import wrap_dim
from .linalg import check_same_device


def softmax(meta: MetaBase, self: TensorSpec, dim: int, half_to_float: bool) -> None:
    """Infer a contiguous output of the input's dtype; float32 from float16 with `half_to_float`."""
    meta.extra["dim"] = wrap_dim(dim, self.ndim)
    if half_to_float and self.dtype is not float16:
        raise RuntimeError(f"conversion is supported for Half type only, got {self.dtype.scalar_name}")
    dtype = float32 if half_to_float else self.dtype
    meta.set_output_raw_strided(0, self.sizes, dtype=dtype)
    meta.rule = lambda args: TensorSpec.contiguous(args[0].sizes, dtype, args[0].device)


def softmax_backward(
    meta: MetaBase, grad_output: TensorSpec, output: TensorSpec, dim: int, input_dtype: ScalarType
) -> None:
    """Infer the gradient of the input from the output and its gradient."""
    check_same_device(meta.name, grad_output, output)
    if grad_output.sizes != output.sizes:
        raise RuntimeError(
            f"{meta.name}: expected grad_output and output to have the same size, got "
            f"{list(grad_output.sizes)} and {list(output.sizes)}"
        )
    meta.extra["dim"] = wrap_dim(dim, output.ndim)
    if grad_output.dtype is not output.dtype and output.numel:
        actual, expected = output.dtype.scalar_name, grad_output.dtype.scalar_name
        if not grad_output.dtype.is_floating_point:
            raise NotImplementedError(f"\"{meta.name.strip('_')}\" not implemented for '{expected}'")
        raise RuntimeError(f"{meta.name}: expected scalar type {expected} but found {actual}")
    # Only a softmax that widened 16-bit floats has a gradient of another dtype than its output.
    widened = grad_output.dtype is float32 and input_dtype is float16
    meta.set_output_raw_strided(0, output.sizes, dtype=input_dtype if widened else grad_output.dtype)

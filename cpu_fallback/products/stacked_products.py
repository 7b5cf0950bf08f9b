"""Host kernels of batched matmuls: one function replaces views, a matmul and a view.

The results are bitwise identical to those of the composites in `dispatch/composite/linalg.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...dispatch.structured.meta.views import view_strides
from ...dispatch.structured.stub import HostKernel, by_arguments, register_stub
from ...runtime.blas_threads import is_small, on_one_thread
from ...runtime.device import CPU
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from ..widen import NARROW
from .products import is_blas_ready, stack_product, takes_out
from .row_addition import row_addition


def matmul(self: TensorSpec, other: TensorSpec) -> HostKernel | None:
    """Stacks of matrices by one matrix, or by a stack of the same shape; vectors and broadcast stacks are left."""
    if self.ndim < 2 or other.ndim < 2 or self.dtype is not other.dtype or not self.numel or not other.numel:
        return None
    *stack, rows, inner = self.sizes
    if other.sizes[-2] != inner or self.dtype in NARROW or not self.dtype.is_floating_point:
        return None
    out = TensorSpec.contiguous((*stack, rows, other.sizes[-1]), self.dtype, CPU)
    if other.ndim == 2:
        return _of_size(_by_one(out, (math.prod(stack) * rows, inner)), self.numel * other.sizes[-1])
    return _by_stack(self, other, out) if tuple(stack) == other.sizes[:-2] else None


def _of_size(kernel: HostKernel, multiplications: int) -> HostKernel:
    """Return a kernel of one matmul, with one BLAS thread if it is small."""
    if not is_small(multiplications):
        return kernel
    assert kernel.fresh is not None and kernel.into is not None
    return kernel._replace(fresh=on_one_thread(kernel.fresh), into=on_one_thread(kernel.into))


def _by_one(out: TensorSpec, flat: tuple[int, int]) -> HostKernel:
    """Return the kernel that flattens all rows of all matrices into one matmul."""
    sizes, columns = out.sizes, out.sizes[-1]

    def compute(x: Any, y: Any) -> Any:
        return x.reshape(flat).dot(y).reshape(sizes)

    def into(made: Any, x: Any, y: Any) -> None:
        x.reshape(flat).dot(y, made.reshape(flat[0], columns))

    return HostKernel((out,), compute, into, declines=False)


def _by_stack(self: TensorSpec, other: TensorSpec, out: TensorSpec) -> HostKernel:
    """Return the kernel with a matmul for each pair of matrices."""
    *stack, rows, inner = self.sizes
    columns = out.sizes[-1]
    count = math.prod(stack)
    multiply = stack_product(count, rows, inner, columns, _is_ready(self), _is_ready(other))
    if len(stack) == 1:
        return HostKernel((out,), multiply, _into(multiply), declines=False)
    sizes = out.sizes
    first, second, flat = (count, rows, inner), (count, inner, columns), (count, rows, columns)

    def compute(x: Any, y: Any) -> Any:
        return multiply(x.reshape(first), y.reshape(second)).reshape(sizes)

    write = _into(multiply)

    def into(made: Any, x: Any, y: Any) -> None:
        write(made.reshape(flat), x.reshape(first), y.reshape(second))

    return HostKernel((out,), compute, into, declines=False)


def _is_ready(spec: TensorSpec) -> bool:
    """Return True if BLAS takes the batched matrices in place once batch dimensions are flattened; copies are
    contiguous.
    """
    sizes = spec.sizes
    if len(sizes) == 3 or spec.is_contiguous:
        return is_blas_ready(spec)
    if view_strides(sizes[:-2], spec.strides[:-2], (math.prod(sizes[:-2]),)) is not None:
        return is_blas_ready(spec)
    return sizes[-1] > 1 and sizes[-2] > 1


def _into(multiply: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], None]:
    """Return a function that writes a matmul to an array."""
    if takes_out(multiply):
        return lambda out, x, y: multiply(x, y, out)
    return lambda out, x, y: np.copyto(out, multiply(x, y))


def linear(input: TensorSpec, weight: TensorSpec, bias: TensorSpec | None) -> HostKernel | None:
    """Multiply rows by a transposed matrix, and add a vector to each."""
    dtype = input.dtype
    if input.ndim < 2 or weight.ndim != 2 or not input.numel or not weight.numel or dtype in NARROW:
        return None
    columns, inner = weight.sizes
    if not dtype.is_floating_point or weight.dtype is not dtype or input.sizes[-1] != inner:
        return None
    if bias is not None and (bias.dtype is not dtype or bias.sizes != (columns,)):
        return None
    out = TensorSpec.contiguous((*input.sizes[:-1], columns), dtype, CPU)
    kernel = _linear_of_matrix(out, bias) if input.ndim == 2 else _linear_of_stack(out, inner, bias)
    return _of_size(kernel, input.numel * columns)


def _linear_of_matrix(out: TensorSpec, bias: TensorSpec | None) -> HostKernel:
    """Compute `linear` of a matrix, with or without a bias."""
    columns = out.sizes[-1]
    add = None if bias is None else row_addition(out.numel // columns, columns, bias)

    def product(x: Any, w: Any, _: Any) -> Any:
        return x.dot(w.T)

    def product_into(made: Any, x: Any, w: Any, _: Any) -> None:
        x.dot(w.T, made)

    def added(x: Any, w: Any, b: Any) -> Any:
        made = x.dot(w.T)
        add(made, b)
        return made

    def added_into(made: Any, x: Any, w: Any, b: Any) -> None:
        x.dot(w.T, made)
        add(made, b)

    fresh, into = (product, product_into) if add is None else (added, added_into)
    return HostKernel((out,), fresh, into, declines=False)


def _linear_of_stack(out: TensorSpec, inner: int, bias: TensorSpec | None) -> HostKernel:
    """Compute `linear` of batched matrices, flattened to one matmul."""
    kernel = _linear_of_matrix(out, bias)
    fresh, into = kernel.fresh, kernel.into
    assert fresh is not None and into is not None
    sizes, columns = out.sizes, out.sizes[-1]
    rows = out.numel // columns
    input_flat, made_flat = (rows, inner), (rows, columns)

    def compute(x: Any, w: Any, b: Any) -> Any:
        return fresh(x.reshape(input_flat), w, b).reshape(sizes)

    def write(made: Any, x: Any, w: Any, b: Any) -> None:
        into(made.reshape(made_flat), x.reshape(input_flat), w, b)

    return HostKernel((out,), compute, write, declines=False)


register_stub("linear_host_stub", "cpu", by_arguments(linear))
register_stub("matmul_host_stub", "cpu", by_arguments(matmul))

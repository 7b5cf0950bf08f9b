"""The host kernel of products of stacks of matrices: one function in the place of views, a product and a view.

`dispatch/composite/linalg.py` has the composite, which shares the product's kernel with this: the numbers are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...dispatch.structured.meta.views import view_strides
from ...dispatch.structured.stub import HostKernel, by_arguments, register_stub
from ...runtime.device import CPU
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from ..widen import NARROW
from .products import is_blas_ready, outer_products, stack_product


def matmul(self: TensorSpec, other: TensorSpec) -> HostKernel | None:
    """Stacks of matrices by one matrix, or by a stack of the same shape; vectors and broadcast stacks are left."""
    if self.ndim < 2 or other.ndim < 2 or self.dtype is not other.dtype or not self.numel or not other.numel:
        return None
    *stack, rows, inner = self.sizes
    if other.sizes[-2] != inner or self.dtype in NARROW or not self.dtype.is_floating_point:
        return None
    out = TensorSpec.contiguous((*stack, rows, other.sizes[-1]), self.dtype, CPU)
    if other.ndim == 2:
        return _by_one(out, (math.prod(stack) * rows, inner))
    return _by_stack(self, other, out) if tuple(stack) == other.sizes[:-2] else None


def _by_one(out: TensorSpec, flat: tuple[int, int]) -> HostKernel:
    """All rows of all matrices together make one product."""
    sizes, columns = out.sizes, out.sizes[-1]

    def compute(x: Any, y: Any) -> Any:
        return x.reshape(flat).dot(y).reshape(sizes)

    def into(made: Any, x: Any, y: Any) -> None:
        x.reshape(flat).dot(y, made.reshape(flat[0], columns))

    return HostKernel((out,), compute, into, declines=False)


def _by_stack(self: TensorSpec, other: TensorSpec, out: TensorSpec) -> HostKernel:
    """A product for each pair of matrices."""
    *stack, rows, inner = self.sizes
    columns = out.sizes[-1]
    multiply = stack_product(rows, inner, columns, _is_ready(self), _is_ready(other))
    if len(stack) == 1:
        return HostKernel((out,), multiply, _into(multiply), declines=False)
    sizes, count = out.sizes, math.prod(stack)
    first, second, flat = (count, rows, inner), (count, inner, columns), (count, rows, columns)

    def compute(x: Any, y: Any) -> Any:
        return multiply(x.reshape(first), y.reshape(second)).reshape(sizes)

    write = _into(multiply)

    def into(made: Any, x: Any, y: Any) -> None:
        write(made.reshape(flat), x.reshape(first), y.reshape(second))

    return HostKernel((out,), compute, into, declines=False)


def _is_ready(spec: TensorSpec) -> bool:
    """Whether BLAS takes a stack's matrices as they lie once its dimensions are one: a copy has no gaps."""
    sizes = spec.sizes
    if len(sizes) == 3 or spec.is_contiguous:
        return is_blas_ready(spec)
    if view_strides(sizes[:-2], spec.strides[:-2], (math.prod(sizes[:-2]),)) is not None:
        return is_blas_ready(spec)
    return sizes[-1] > 1 and sizes[-2] > 1


def _into(multiply: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], None]:
    """What writes a product to an array."""
    if multiply is np.matmul:
        return lambda out, x, y: np.matmul(x, y, out)
    if multiply is outer_products:
        return lambda out, x, y: outer_products(x, y, out)
    return lambda out, x, y: np.copyto(out, multiply(x, y))


register_stub("matmul_host_stub", "cpu", by_arguments(matmul))

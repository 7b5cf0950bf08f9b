"""Host kernels of products of few elements.

The composites are in `dispatch/composite/contraction.py` and `einsum.py`; dtypes other than float32 and float64 stay
with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...dispatch.composite.contraction import find_splits
from ...dispatch.composite.einsum import parse_equation
from ...dispatch.structured.stub import HostKernel, by_arguments, register_stub
from ...runtime.device import CPU
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from ..reduction.distances import SMALL, is_plain
from .pair_products import pair_product

SHORT = 512
"""Elements of lines up to which writing an operand out costs less than NumPy's loop over lines."""


def kron(self: TensorSpec, other: TensorSpec) -> HostKernel | None:
    """Compute the Kronecker product of two matrices."""
    if not is_plain(self, other) or self.ndim != 2 or other.ndim != 2:
        return None
    (m, n), (p, q) = self.sizes, other.sizes
    spec = TensorSpec.contiguous((m * p, n * q), self.dtype, CPU)
    sizes, lines = spec.sizes, (m, p, n * q)

    def compute(x: Any, y: Any) -> Any:
        return np.multiply(x[:, None, :, None], y[:, None, :]).reshape(sizes)

    def into(out: Any, x: Any, y: Any) -> None:
        if q > SHORT:
            np.multiply(x[:, None, :, None], y[:, None, :], out.reshape(m, p, n, q))
        else:
            # Both rows written out: lines of n * q instead of q elements.
            np.multiply(np.repeat(x, q, 1)[:, None], np.tile(y, n), out.reshape(lines))

    return HostKernel((spec,), compute if spec.numel <= SMALL else None, into)


def cross(self: TensorSpec, other: TensorSpec, dim: int | None) -> HostKernel | None:
    """Compute cross products of vectors of three along a dimension."""
    sizes = self.sizes
    if not is_plain(self, other) or sizes != other.sizes or self.numel > SMALL:
        return None
    axis = sizes.index(3) if dim is None and 3 in sizes else dim
    if axis is None or not -self.ndim <= axis < self.ndim or sizes[axis] != 3:
        return None
    after, before = np.array([1, 2, 0]), np.array([2, 0, 1])

    def compute(x: Any, y: Any) -> Any:
        made = x.take(after, axis)
        made *= y.take(before, axis)
        other = x.take(before, axis)
        other *= y.take(after, axis)
        made -= other
        return made

    return HostKernel((TensorSpec.contiguous(sizes, self.dtype, CPU),), compute)


def einsum(equation: str, tensors: Sequence[TensorSpec], path: Sequence[int] | None) -> HostKernel | None:
    """Compute a two-operand einsum: an outer product of few elements without a common label, or a contraction."""
    if path is not None or len(tensors) != 2 or not is_plain(*tensors):
        return None
    a, b = tensors
    parsed = parse_equation(equation, [a.ndim, b.ndim])
    left, right = parsed.operands
    labels = (*left, *right)
    if set(left) & set(right):
        return pair_product(a, b, parsed)
    if parsed.output != labels or len(set(labels)) != len(labels) or a.numel * b.numel > SMALL:
        return None
    spread = (...,) + (None,) * b.ndim
    spec = TensorSpec.contiguous((*a.sizes, *b.sizes), a.dtype, CPU)
    if not a.is_contiguous or not b.is_contiguous:
        return None
    return HostKernel((spec,), lambda value: np.multiply(value[0][spread], value[1]))


def multi_dot(tensors: Sequence[TensorSpec]) -> HostKernel | None:
    """Multiply a chain of small matrices."""
    if len(tensors) < 2 or not is_plain(*tensors) or any(x.ndim != 2 for x in tensors):
        return None
    extents = [tensors[0].sizes[0], *(x.sizes[1] for x in tensors)]
    if any(x.sizes[0] != rows for x, rows in zip(tensors, extents, strict=False)):
        return None
    if max(extents) ** 2 > SMALL:
        return None
    splits = find_splits(extents)

    def chain(matrices: Sequence[Any], i: int, j: int) -> Any:
        if i == j:
            return matrices[i]
        k = splits[i, j]
        return chain(matrices, i, k).dot(chain(matrices, k + 1, j))

    last = len(tensors) - 1
    spec = TensorSpec.contiguous((extents[0], extents[-1]), tensors[0].dtype, CPU)
    return HostKernel((spec,), lambda matrices: chain(matrices, 0, last))


def addr(self: TensorSpec, vec1: TensorSpec, vec2: TensorSpec, beta: Any, alpha: Any) -> HostKernel | None:
    """Compute ``self + outer(vec1, vec2)``."""
    if beta.__class__ is not int or alpha.__class__ is not int or beta != 1 or alpha != 1:
        return None
    sizes = (vec1.numel, vec2.numel)
    if not is_plain(self, vec1, vec2) or vec1.ndim != 1 or vec2.ndim != 1 or self.sizes != sizes:
        return None
    if not self.is_contiguous:
        return None
    spec = TensorSpec.contiguous(sizes, self.dtype, CPU)
    rows = max(1, 16384 // sizes[1])

    def into(out: Any, x: Any, a: Any, b: Any) -> None:
        column = a[:, None]
        for start in range(0, sizes[0], rows):
            part = out[start : start + rows]
            np.multiply(column[start : start + rows], b, part)
            part += x[start : start + rows]

    def compute(x: Any, a: Any, b: Any) -> Any:
        made = a[:, None] * b
        made += x
        return made

    return HostKernel((spec,), compute if spec.numel <= SMALL else None, into)


HOST_KERNELS = {
    "addr": addr,
    "cross": cross,
    "einsum": einsum,
    "kron": kron,
    "linalg_cross": cross,
    "linalg_multi_dot": multi_dot,
}

for _name, _factory in HOST_KERNELS.items():
    register_stub(f"{_name}_host_stub", "cpu", by_arguments(_factory))

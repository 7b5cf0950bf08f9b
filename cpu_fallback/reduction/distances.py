"""Host kernels of norms of all of a tensor and of distances between rows.

The composites are in `dispatch/composite/norm.py` and `distance.py`; what is neither float32 nor float64 stays with
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.composite.distance import USE_PRODUCTS_FROM
from ...dispatch.structured.meta.dims import reduced_dims
from ...dispatch.structured.stub import HostKernel, by_arguments, register_stub
from ...runtime.blas_threads import one_thread_if_small
from ...runtime.device import CPU
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from .compiled_distances import Array, RowLoops, filled
from .sums import pairwise_sum

SMALL = 4096
"""Elements up to which BLAS adds products in one thread."""
BLOCK = 1 << 18
"""Elements of a part of all pairs."""
FAR = 1e-8
"""Squares of distances, relative to those of both points, that float64 tells from products to float32's precision."""
NAMES = frozenset({"Float", "Double"})


def is_plain(*specs: TensorSpec) -> bool:
    """Return True if the specs are nonempty and share one dtype, float32 or float64."""
    first = specs[0].dtype
    return first.scalar_name in NAMES and all(spec.dtype is first and spec.numel for spec in specs)


def norm_of(x: Any, order: float) -> Any:
    """Return the norm of a contiguous vector as a number."""
    if x.size == 1 and order != 0:
        return abs(x[0])
    if order == 2:
        return math.sqrt(x.dot(x))
    if order == 0:
        return np.count_nonzero(x)
    sizes = np.abs(x)
    if order == 1:
        return np.add.reduce(sizes)
    if order == math.inf:
        return np.maximum.reduce(sizes)
    if order == -math.inf:
        return np.minimum.reduce(sizes)
    return np.add.reduce(np.power(sizes, order)) ** (1.0 / order)


def norms_of(x: Any, order: float) -> Any:
    """Return the norms along the last dimension."""
    if x.shape[-1] == 1 and order != 0:
        return np.abs(x[..., 0])
    if order == 2:
        return np.sqrt(np.add.reduce(x * x, -1))
    if order == 0:
        return np.add.reduce(x != 0, -1, x.dtype)
    sizes = np.abs(x)
    if order == 1:
        return np.add.reduce(sizes, -1)
    if order == math.inf:
        return np.maximum.reduce(sizes, -1)
    if order == -math.inf:
        return np.minimum.reduce(sizes, -1)
    return np.power(np.add.reduce(np.power(sizes, order), -1), 1.0 / order)


def distances_of(differences: Any, order: float) -> Any:
    """`norms_of` as distances have them: of order 0 a difference that is NaN makes the distance NaN."""
    if order == 0:
        return np.add.reduce(np.minimum(np.ceil(np.abs(differences)), 1), -1)
    return norms_of(differences, order)


def _whole(spec: TensorSpec, dims: Sequence[int] | None, keepdim: bool, dtype: Any) -> TensorSpec | None:
    """Return the spec of a norm over all elements, or None for calls that the composite serves."""
    if not is_plain(spec) or spec.numel > SMALL or dtype is not None:
        return None
    if len(reduced_dims(dims, spec.ndim)) < spec.ndim:
        return None
    return TensorSpec.contiguous((1,) * spec.ndim if keepdim else (), spec.dtype, CPU)


def vector_norm(
    self: TensorSpec, ord: Any, dim: Sequence[int] | None, keepdim: bool, dtype: ScalarType | None
) -> HostKernel | None:
    """Compute a vector norm of all elements, or the Euclidean norm of each line."""
    spec = _whole(self, dim, keepdim, dtype)
    if spec is None:
        return _norms_of_lines(self, dim, keepdim) if dtype is None else None
    np_dtype, rank = spec.np_dtype, spec.ndim

    def compute(x: Any, order: Any = 2) -> Any:
        if order.__class__ is complex:
            return None
        return np.array(norm_of(x.ravel(), 2 if order is None else order), np_dtype, ndmin=rank)

    return HostKernel((spec,), compute)


def _norms_of_lines(self: TensorSpec, dim: Sequence[int] | None, keepdim: bool) -> HostKernel | None:
    """Return the kernel of Euclidean norms along the last dimension; the composite serves other orders."""
    if not is_plain(self) or self.numel > SMALL or not self.is_contiguous or self.sizes[-1] == 1:
        return None
    if reduced_dims(dim, self.ndim) != (self.ndim - 1,):
        return None
    kept_sizes = (*self.sizes[:-1], 1)
    spec = TensorSpec.contiguous(kept_sizes if keepdim else kept_sizes[:-1], self.dtype, CPU)
    sizes, lines, np_dtype = spec.sizes, (self.ndim - 1,), spec.np_dtype

    def compute(x: Any, order: Any = 2) -> Any:
        if order != 2 and order is not None:
            return None
        # In the order of `vector_norm`: small lines, large ones and compiled code have the same bits.
        squares = pairwise_sum(np.square(x), lines, np_dtype)
        return np.sqrt(squares, squares).reshape(sizes)

    return HostKernel((spec,), compute)


def norm(self: TensorSpec, ord: Any, dim: Any, keepdim: bool, dtype: ScalarType | None) -> HostKernel | None:
    """Return the kernel of the norm of all elements if no order is given, since matrices have other norms."""
    if ord is None or (ord == "fro" and self.ndim == 2 and dim is None):
        return vector_norm(self, 2, dim, keepdim, dtype)
    return None


def matrix_norm(
    self: TensorSpec, ord: Any, dim: Sequence[int], keepdim: bool, dtype: ScalarType | None
) -> HostKernel | None:
    """Return the kernel of the Frobenius norms of matrices."""
    if ord == "fro" and self.ndim > 2 and self.is_contiguous and dtype is None and list(dim) == [-2, -1]:
        return _norms_of_matrices(self, keepdim)
    if ord != "fro" or self.ndim != 2 or sorted(d % 2 for d in dim if -2 <= d < 2) != [0, 1]:
        return None
    return vector_norm(self, 2, None, keepdim, dtype)


def _norms_of_matrices(self: TensorSpec, keepdim: bool) -> HostKernel | None:
    """Return the kernel of the Frobenius norms over the last two dimensions."""
    batch = self.sizes[:-2]
    lines = TensorSpec.contiguous((*batch, math.prod(self.sizes[-2:])), self.dtype, CPU)
    kernel = _norms_of_lines(lines, (-1,), False)
    if kernel is None or kernel.fresh is None:
        return None
    spec = TensorSpec.contiguous((*batch, 1, 1) if keepdim else batch, self.dtype, CPU)
    sizes, line_sizes, norms = spec.sizes, lines.sizes, kernel.fresh

    def compute(x: Any) -> Any:
        return norms(x.reshape(line_sizes)).reshape(sizes)

    return HostKernel((spec,), compute)


def dist(self: TensorSpec, other: TensorSpec, p: Any) -> HostKernel | None:
    """Compute the norm of the difference."""
    spec = _whole(self, None, False, None)
    if spec is None or other.dtype is not self.dtype or other.sizes != self.sizes:
        return None
    np_dtype = spec.np_dtype

    def compute(x: Any, y: Any, order: Any = 2) -> Any:
        if order.__class__ is complex:
            return None
        return np.array(norm_of((x - y).ravel(), order), np_dtype)

    return HostKernel((spec,), compute)


def pairwise_distance(x1: TensorSpec, x2: TensorSpec, p: Any, eps: Any, keepdim: bool) -> HostKernel | None:
    """Compute the norms of differences along the last dimension."""
    if not is_plain(x1, x2) or x1.sizes != x2.sizes or not x1.ndim or x1.numel > SMALL:
        return None
    spec = TensorSpec.contiguous((*x1.sizes[:-1], 1) if keepdim else x1.sizes[:-1], x1.dtype, CPU)
    if x1.ndim == 1:
        np_dtype, rank = spec.np_dtype, spec.ndim
        return HostKernel(
            (spec,), lambda x, y, p, eps: np.array(norm_of(x - y + eps, p), np_dtype, ndmin=rank)
        )
    if not (x1.is_contiguous and x2.is_contiguous):
        return None
    sizes = spec.sizes
    return HostKernel((spec,), lambda x, y, p, eps: norms_of(x - y + eps, p).reshape(sizes))


def renorm(self: TensorSpec, p: Any, dim: int, maxnorm: Any) -> HostKernel | None:
    """Scale entries along a dimension down to a maximum norm."""
    rank = self.ndim
    if not is_plain(self) or rank < 2 or not -rank <= dim < rank or self.numel > SMALL:
        return None
    if not self.is_contiguous:
        return None
    axis = dim % rank
    column = tuple(self.sizes[d] if d == axis else 1 for d in range(rank))
    rows = self.sizes[axis]

    def compute(x: Any, order: Any, max_norm: Any) -> Any:
        if order.__class__ is complex or max_norm.__class__ is complex or not order > 0 or max_norm < 0:
            return None
        lines = (x if axis == 0 else x.swapaxes(0, axis)).reshape(rows, -1)
        norms = norms_of(lines, order)
        scale = np.where(norms > max_norm, max_norm / (norms + 1e-7), norms.dtype.type(1))
        return x * scale.reshape(column)

    return HostKernel((TensorSpec.contiguous(self.sizes, self.dtype, CPU),), compute)


def cdist(x1: TensorSpec, x2: TensorSpec, p: Any, compute_mode: int | None) -> HostKernel | None:
    """Compute the distances of each row of one matrix from each of another's, also in batches."""
    if not is_plain(x1, x2) or x1.ndim < 2 or x1.ndim != x2.ndim or x1.sizes[:-2] != x2.sizes[:-2]:
        return None
    (m, columns), (n, other_columns) = x1.sizes[-2:], x2.sizes[-2:]
    if columns != other_columns or compute_mode not in (None, 0, 1, 2):
        return None
    spec = TensorSpec.contiguous((*x1.sizes[:-1], n), x1.dtype, CPU)
    is_large = m > USE_PRODUCTS_FROM or n > USE_PRODUCTS_FROM
    by_products = compute_mode == 1 or (compute_mode in (None, 0) and is_large)
    loops = RowLoops(x1, x2, is_pairs=False)
    if loops.is_served:

        def into(out: Array, x: Array, y: Array, order: float) -> bool:
            if by_products and order == 2:
                return x.ndim == 2 and _by_products(out, x, y, order)
            return loops.fill(out, order, x, y)

        return HostKernel((spec,), filled(into, spec), into)
    if spec.numel * columns > 4 * SMALL:
        return None if x1.ndim > 2 or not by_products else HostKernel((spec,), None, _by_products)

    def compute(x: Any, y: Any, order: Any) -> Any:
        if not order >= 0 or (by_products and order == 2):
            return None
        return distances_of(x[..., :, None, :] - y[..., None, :, :], order)

    return HostKernel((spec,), compute)


def cdist_backward(
    grad: TensorSpec, x1: TensorSpec, x2: TensorSpec, p: float, distances: TensorSpec
) -> HostKernel | None:
    """Compute the gradient of the rows of the first matrix, 0 where a distance is 0."""
    if not is_plain(x1, x2, grad, distances) or x1.ndim < 2 or x1.ndim != x2.ndim:
        return None
    sizes = (*x1.sizes[:-1], x2.sizes[-2])
    if (*x1.sizes[:-2], x1.sizes[-1]) != (*x2.sizes[:-2], x2.sizes[-1]):
        return None
    if grad.sizes != sizes or distances.sizes != sizes:
        return None
    return _gradients(x1, RowLoops(x1, x2, is_pairs=False))


def pdist_backward(grad: TensorSpec, self: TensorSpec, p: float, distances: TensorSpec) -> HostKernel | None:
    """Compute the gradient of the rows; each pair contributes to both of its rows."""
    if self.ndim != 2 or self.sizes[0] < 2 or not is_plain(self, grad, distances):
        return None
    n = self.sizes[0]
    if grad.sizes != (n * (n - 1) // 2,) or distances.sizes != grad.sizes:
        return None
    kernel = _gradients(self, RowLoops(self, self, is_pairs=True))
    if kernel is None or kernel.into is None:
        return None
    of_matrices = kernel.into

    def into(out: Array, grad: Array, x: Array, order: float, distances: Array) -> bool:
        return bool(of_matrices(out, grad, x, x, order, distances))

    return HostKernel(kernel.outputs, filled(into, kernel.outputs[0] or self), into)


def _gradients(x: TensorSpec, loops: RowLoops) -> HostKernel | None:
    """Return ``into(out, grad, x1, x2, order, distances)`` of loops that serve the call, or None."""
    if not loops.is_served:
        return None
    spec = TensorSpec.contiguous(x.sizes, x.dtype, CPU)

    def into(out: Array, grad: Array, x1: Array, x2: Array, order: float, distances: Array) -> bool:
        return loops.fill(out, order, x1, x2, grad, distances)

    return HostKernel((spec,), filled(into, spec), into)


def _by_products(out: Any, x: Any, y: Any, order: float) -> bool:
    """Euclidean distances of rows as one product: |a|^2 - 2 a b + |b|^2, at least zero before the root."""
    if order != 2:
        return False
    columns = x.shape[1]
    left, right = (np.empty((len(z), columns + 2), z.dtype) for z in (x, y))
    np.multiply(x, -2, left[:, :columns])
    np.add.reduce(x * x, 1, out=left[:, columns])
    left[:, columns + 1] = 1
    right[:, :columns] = y
    right[:, columns] = 1
    np.add.reduce(y * y, 1, out=right[:, columns + 1])
    one_thread_if_small(np.dot, len(left) * right.size)(left, right.T, out)
    np.maximum(out, 0, out=out)
    np.sqrt(out, out)
    return True


def _pairs_by_products(n: int, columns: int) -> Callable[[Any, Any, float], bool]:
    """``into(out, x, order)``: Euclidean distances of the pairs of `n` rows in float32, from products in float64.

    Those are as good as differences where the distance is not tiny beside the rows; other pairs, and those that are
    not finite, are done by differences.
    """

    rows, each = max(1, BLOCK // n), max(1, BLOCK // columns)

    def into(out: Any, x: Any, order: float) -> bool:
        if order != 2:
            return False
        wide = x.astype(np.float64)
        squares = np.add.reduce(wide * wide, 1)
        begin = 0
        for start in range(0, n - 1, rows):
            stop = min(start + rows, n - 1)
            both = squares[start:stop, None] + squares
            apart = np.dot(wide[start:stop], wide.T)
            apart *= -2
            apart += both
            both *= FAR
            near = np.greater(apart, both, out=np.empty(both.shape, bool))
            np.logical_not(near, near)
            np.sqrt(apart, apart)
            for i in range(start, stop):
                near[i - start, : i + 1] = False
                end = begin + n - 1 - i
                out[begin:end] = apart[i - start, i + 1 :]
                begin = end
            first, second = np.nonzero(near)
            first += start
            for part in range(0, len(first), each):
                i, j = first[part : part + each], second[part : part + each]
                out[i * (2 * n - i - 1) // 2 + j - i - 1] = norms_of(x[j] - x[i], 2)
        return True

    return into


def pdist(self: TensorSpec, p: Any) -> HostKernel | None:
    """Compute the distances between the rows of a matrix, each pair once."""
    if self.ndim != 2 or not is_plain(self) or self.sizes[0] < 2:
        return None
    n, columns = self.sizes
    count = n * (n - 1) // 2
    spec = TensorSpec.contiguous((count,), self.dtype, CPU)
    loops = RowLoops(self, self, is_pairs=True)
    if loops.is_served:

        def into(out: Array, x: Array, order: float) -> bool:
            return loops.fill(out, order, x, x)

        return HostKernel((spec,), filled(into, spec), into)
    if count * columns <= 4 * SMALL:
        first, second = np.triu_indices(n, 1)

        def compute(x: Any, order: Any) -> Any:
            return distances_of(x.take(first, 0) - x.take(second, 0), order) if order >= 0 else None

        return HostKernel((spec,), compute)
    return HostKernel((spec,), None, _pairs_by_products(n, columns)) if self.dtype.name == "float32" else None


def _with_loops(kernel_of: Callable[..., HostKernel | None]) -> Callable[..., HostKernel | None]:
    """Return only the kernels that are loops: smaller recorded calls keep the bits of the composite's operators."""

    def kernel(*specs: Any) -> HostKernel | None:
        made = kernel_of(*specs)
        return made if made is not None and made.fresh is not None and made.into is not None else None

    return kernel


HOST_KERNELS = {
    "_cdist_backward": cdist_backward,
    "_cdist_forward": _with_loops(cdist),
    "_pdist_backward": pdist_backward,
    "_pdist_forward": _with_loops(pdist),
    "cdist": cdist,
    "dist": dist,
    "linalg_matrix_norm": matrix_norm,
    "linalg_norm": norm,
    "linalg_vector_norm": vector_norm,
    "pairwise_distance": pairwise_distance,
    "pdist": pdist,
    "renorm": renorm,
}

for _name, _factory in HOST_KERNELS.items():
    register_stub(f"{_name}_host_stub", "cpu", by_arguments(_factory))

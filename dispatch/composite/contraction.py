"""Sums of products over chosen dimensions (ATen/native/Linear.cpp, LinearAlgebra.cpp, Correlation.cpp)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from operator import add
from typing import TYPE_CHECKING, Any

from ...runtime.scalar_type import bool_
from ..generated import functions as ops
from ..iterator.overlap import check_no_overlap, shares_memory
from ..iterator.type_promotion import promote_types
from ..plans.host_kernel import host_kernel
from ..structured.meta.dims import wrap_dim
from .einsum import einsum
from .forms import out_form, write_out

if TYPE_CHECKING:
    from ...runtime.scalar_type import Number
    from ..tensor import Tensor

__all__ = ["einsum"]


def tensordot(self: Tensor, other: Tensor, dims_self: Sequence[int], dims_other: Sequence[int]) -> Tensor:
    """Compute `torch.tensordot` as one matmul; dimensions of size 1 on one side are summed on the other."""
    if len(dims_self) != len(dims_other):
        raise RuntimeError("both dimension lists should have same length")
    if self.dtype is not other.dtype:
        raise RuntimeError(
            f"tensordot: both inputs should have same dtype, got {self.dtype} and {other.dtype}"
        )
    a, b = self, other
    ra, rb = a._spec.ndim, b._spec.ndim
    left, right = [], []
    sum_a, sum_b, inner = [], [], 1
    for dim_self, dim_other in zip(dims_self, dims_other, strict=True):
        i, j = wrap_dim(dim_self, ra, scalar_ok=False), wrap_dim(dim_other, rb, scalar_ok=False)
        left.append(i)
        right.append(j)
        n, m = a._spec.sizes[i], b._spec.sizes[j]
        if n == m:
            inner *= n
        elif m == 1:
            sum_a.append(i)
        elif n == 1:
            sum_b.append(j)
        else:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {n} in dim {i} and second has size {m} in "
                f"dim {j}"
            )
    for dims in (left, right):
        if len(set(dims)) != len(dims):
            raise RuntimeError("dim appears multiple times in the list of dims")
    if sum_a:
        a = ops.sum(a, sum_a, True, dtype=a.dtype)
    if sum_b:
        b = ops.sum(b, sum_b, True, dtype=b.dtype)
    rows = [d for d in range(ra) if d not in left]
    columns = [d for d in range(rb) if d not in right]
    row_sizes = [self._spec.sizes[d] for d in rows]
    column_sizes = [other._spec.sizes[d] for d in columns]
    first = a.permute([*rows, *left]).reshape((math.prod(row_sizes), inner))
    second = b.permute([*right, *columns]).reshape((inner, math.prod(column_sizes)))
    return ops.mm(first, second).reshape([*row_sizes, *column_sizes])


def inner(self: Tensor, other: Tensor) -> Tensor:
    """Compute `torch.inner`: the contraction of the last dimensions, or the product with a scalar."""
    a, b = self._spec.sizes, other._spec.sizes
    if not a or not b:
        return ops.mul(self, other)
    if a[-1] != b[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(a)} and {list(b)}"
        )
    return tensordot(self, other, [-1], [-1])


def inner_out(self: Tensor, other: Tensor, out: Tensor) -> Tensor:
    """Compute ``inner(out=)``: a product with a scalar is cast to the output's dtype, a contraction is not."""
    if not self._spec.ndim or not other._spec.ndim:
        return ops.mul(self, other, out=out)
    return out_form("inner", inner, exact=True)(self, other, out)


@host_kernel("kron", "mul.Tensor")
def kron(self: Tensor, other: Tensor) -> Tensor:
    """Compute `torch.kron`: the Kronecker product; the lower rank gets leading dimensions of size 1."""
    rank = max(self._spec.ndim, other._spec.ndim)
    a = (1,) * (rank - self._spec.ndim) + tuple(self._spec.sizes)
    b = (1,) * (rank - other._spec.ndim) + tuple(other._spec.sizes)
    left = _split(self, [n for size in a for n in (size, 1)])
    right = _split(other, [n for size in b for n in (1, size)])
    # The matmul of transposed operands produces their layout.
    product = ops.mul(left, right).contiguous()
    return ops._unsafe_view(product, [n * m for n, m in zip(a, b, strict=True)])


def _split(x: Tensor, sizes: Sequence[int]) -> Tensor:
    return ops._unsafe_view(x, sizes) if x._spec.is_contiguous else x.reshape(sizes)


@host_kernel("trace", "diagonal", "sum")
def trace(self: Tensor) -> Tensor:
    """Compute `torch.trace`: the sum of a matrix's diagonal."""
    if self._spec.ndim != 2:
        raise RuntimeError("trace: expected a matrix")
    if self.dtype is bool_:
        raise NotImplementedError("\"trace\" not implemented for 'Bool'")
    return ops.sum(ops.diagonal(self))


@host_kernel("addr", "mul.Tensor", "add.Tensor")
def addr(self: Tensor, vec1: Tensor, vec2: Tensor, beta: Number, alpha: Number) -> Tensor:
    """Compute `torch.addr`: beta * self + alpha * outer(vec1, vec2); a beta of 0 ignores `self`, including its NaN."""
    for name, x in (("vec1", vec1), ("vec2", vec2)):
        if x._spec.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {x._spec.ndim}-D")
    sizes = vec1._spec.sizes + vec2._spec.sizes
    if self._spec.sizes != sizes:
        self = self.expand(sizes)
    result_dtype = promote_types(promote_types(self.dtype, vec1.dtype), vec2.dtype)
    for name, scale in (("beta", beta), ("alpha", alpha)):
        if scale.__class__ is bool and result_dtype is not bool_:
            raise RuntimeError(f"addr: Boolean {name} only supported for Boolean results.")
        if (result_dtype is bool_ or result_dtype.is_integral) and isinstance(scale, float):
            raise RuntimeError(
                f"For integral input tensors, argument {name} must not be a floating point number."
            )
    if result_dtype is bool_:
        product = ops.logical_and(vec1.unsqueeze(1), vec2)
        product = product if alpha else ops.zeros_like(product)
        return ops.logical_or(self, product) if beta else product
    if result_dtype.itemsize == 2 and result_dtype.is_floating_point:  # PyTorch rounds the factors too
        beta, alpha = (
            scale if scale in (0, 1) else ops.full((), scale, dtype=result_dtype).item()
            for scale in (beta, alpha)
        )
    scaled = vec1 if alpha == 1 else ops.mul(vec1, alpha)
    product = ops.mul(scaled.unsqueeze(1), vec2)
    if beta == 0:
        return product.to(result_dtype)
    return ops.add(self if beta == 1 else ops.mul(self, beta), product)


def linalg_vecdot(x: Tensor, y: Tensor, dim: int) -> Tensor:
    """Compute `torch.linalg.vecdot`: the sum of conj(x) * y along `dim`."""
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        raise RuntimeError(
            f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {x.dtype.scalar_name}"
        )
    if x.dtype is not y.dtype:
        raise RuntimeError(
            f"linalg.vecdot: Expected x and y to have the same dtype, but found x of type {x.dtype.scalar_name} and y "
            f"of type {y.dtype.scalar_name} instead"
        )
    if x._spec.ndim == y._spec.ndim == 1:  # dimension 0, whichever name is given
        if x._spec.sizes != y._spec.sizes:
            (n,), (m,) = x._spec.sizes, y._spec.sizes
            raise RuntimeError(
                f"inconsistent tensor size, expected tensor [{n}] and src [{m}] to have the same number of elements, "
                f"but got {n} and {m} elements respectively"
            )
        dim = 0
    return ops.sum(ops.mul(x.conj() if x.dtype.is_complex else x, y), dim)


@host_kernel("linalg_multi_dot", "mm")
def linalg_multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """Compute `torch.linalg.multi_dot`: a matmul chain in the order with the fewest multiplications."""
    n = len(tensors)
    if n < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {n}")
    matrices = list(tensors)
    shape: list[int] = []
    first, last = matrices[0], matrices[-1]
    for which, x in (("first", first), ("last", last)):
        if not 1 <= x._spec.ndim <= 2:
            raise RuntimeError(f"multi_dot(): the {which} tensor must be 1D or 2D but got {x._spec.ndim}D")
    if first._spec.ndim == 1:
        matrices[0] = first.unsqueeze(0)
    else:
        shape.append(first._spec.sizes[0])
    if last._spec.ndim == 1:
        matrices[-1] = last.unsqueeze(-1)
    else:
        shape.append(last._spec.sizes[1])
    for i, x in enumerate(matrices[1:-1], 1):
        if x._spec.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {x._spec.ndim}D")
    for i, (a, b) in enumerate(itertools.pairwise(matrices)):
        if a._spec.sizes[1] != b._spec.sizes[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {i} and {i + 1} with shapes {list(tensors[i]._spec.sizes)} and "
                f"{list(tensors[i + 1]._spec.sizes)} cannot be multiplied"
            )
    for i, x in enumerate(tensors):
        if x.dtype is not first.dtype:
            raise RuntimeError(
                f"multi_dot(): all tensors must have be the same dtype but tensor 0 is {first.dtype} and tensor {i} is "
                f"{x.dtype}"
            )
    extents = [matrices[0]._spec.sizes[0], *(x._spec.sizes[1] for x in matrices)]
    return _chain(matrices, find_splits(extents)).reshape(shape)


def find_splits(extents: Sequence[int]) -> dict[tuple[int, int], int]:
    """Return the position at which to split each part of a matmul chain (Cormen et al., Introduction to Algorithms,
    15.2).
    """
    n = len(extents) - 1
    best: dict[tuple[int, int], int] = {}
    # By first and last matrix: `by_first[i]` ends at i, i + 1, ..., and `by_last[j]` begins at j, j - 1, ...
    by_first: list[list[int]] = [[0] for _ in range(n)]
    by_last: list[list[int]] = [[0] for _ in range(n)]
    for span in range(1, n):
        for i in range(n - span):
            j = i + span
            outer = extents[i] * extents[j + 1]
            inner = map(outer.__mul__, extents[i + 1 : j + 1])
            choices = list(map(add, map(add, by_first[i], reversed(by_last[j])), inner))
            cost = min(choices)
            best[i, j] = i + choices.index(cost)
            by_first[i].append(cost)
            by_last[j].append(cost)
    return best


def _chain(matrices: Sequence[Tensor], splits: dict[tuple[int, int], int]) -> Tensor:
    """Multiply a chain without recursion, since it may have more parts than Python has frames."""
    made: list[Tensor] = []
    parts: list[tuple[int, int, bool]] = [(0, len(matrices) - 1, False)]
    while parts:
        i, j, ready = parts.pop()
        if i == j:
            made.append(matrices[i])
        elif ready:
            right = made.pop()
            made.append(ops.mm(made.pop(), right))
        else:
            k = splits[i, j]
            parts += [(i, j, True), (k + 1, j, False), (i, k, False)]
    return made[0]


def chain_matmul(matrices: Sequence[Tensor]) -> Tensor:
    """Compute `torch.chain_matmul`."""
    for x in matrices:
        if x._spec.ndim != 2:
            raise RuntimeError(f"Tensor dimension is {x._spec.ndim}, expected 2 instead.")
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    return ops.clone(matrices[0]) if len(matrices) == 1 else linalg_multi_dot(matrices)


@host_kernel("linalg_cross", "mul.Tensor", "sub.Tensor")
def linalg_cross(self: Tensor, other: Tensor, dim: int) -> Tensor:
    """Compute `torch.linalg.cross`: the cross product of 3-vectors along `dim`."""
    if self._spec.ndim != other._spec.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    axis = wrap_dim(dim, self._spec.ndim)
    if self._spec.sizes[axis] != 3 or other._spec.sizes[axis] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {self._spec.sizes[axis]} and "
            f"{other._spec.sizes[axis]}"
        )
    if self.dtype is not other.dtype:
        raise RuntimeError(
            f"linalg.cross: expected scalar type {self.dtype.scalar_name} but found {other.dtype.scalar_name}"
        )
    if self.dtype is bool_:
        raise NotImplementedError("\"cross\" not implemented for 'Bool'")
    a, b = ops.unbind(self, axis), ops.unbind(other, axis)
    return ops.stack(
        [ops.sub(ops.mul(a[i], b[j]), ops.mul(a[j], b[i])) for i, j in ((1, 2), (2, 0), (0, 1))], axis
    )


@host_kernel("cross", "mul.Tensor", "sub.Tensor")
def cross(self: Tensor, other: Tensor, dim: int | None) -> Tensor:
    """Compute `torch.cross`: along the first dimension of size 3 if `dim` is None."""
    if dim is None:
        dim = next((d for d, n in enumerate(self._spec.sizes) if n == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    return ops.linalg_cross(self, other, dim=dim)


def linalg_cross_out(self: Tensor, other: Tensor, dim: int, out: Tensor) -> Tensor:
    """Compute ``linalg.cross(out=)``; the output shares no memory with the operands."""
    return _crossed_into("linalg_cross", linalg_cross, self, other, dim, out)


def cross_out(self: Tensor, other: Tensor, dim: int | None, out: Tensor) -> Tensor:
    """Compute ``cross(out=)``; the output shares no memory with the operands."""
    return _crossed_into("cross", cross, self, other, dim, out)


def _crossed_into(
    name: str, product: Callable[..., Tensor], self: Tensor, other: Tensor, dim: Any, out: Tensor
) -> Tensor:
    made = product(self, other, dim)
    for each in (self, other):
        if shares_memory(out, each):
            check_no_overlap(out, each)
    return write_out(name, out, made, exact=True)


def cov(self: Tensor, correction: int, fweights: Tensor | None, aweights: Tensor | None) -> Tensor:
    """Compute `torch.cov`: the weighted covariances of the rows, with observations in columns."""
    if self._spec.ndim > 2:
        raise RuntimeError(
            "cov(): expected input to have two or fewer dimensions but got an input with "
            f"{self._spec.ndim} dimensions"
        )
    if self.dtype is bool_:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = self if self._spec.ndim == 2 else self.reshape((1, -1))
    if 0 in x._spec.strides:
        ops.empty_like(x)  # refused where the differences have no room, before a sum reads each element
    observations = x._spec.sizes[1]
    weights = None
    if fweights is not None:
        _check_weights("fweights", fweights, observations)
        if fweights.dtype.is_floating_point or fweights.dtype.is_complex:
            raise RuntimeError(
                f"cov(): expected fweights to have integral dtype but got fweights with {fweights.dtype.scalar_name} "
                "dtype"
            )
        weights = fweights
    if aweights is not None:
        _check_weights("aweights", aweights, observations)
        if not aweights.dtype.is_floating_point:
            raise RuntimeError(
                "cov(): expected aweights to have floating point dtype but got aweights with "
                f"{aweights.dtype.scalar_name} dtype"
            )
        weights = aweights if weights is None else ops.mul(weights, aweights)
    if weights is None:
        centred = ops.sub(x, ops.div(ops.sum(x, 1, True), observations or 1))
        scaled = centred
        norm: Any = max(observations - correction, 0)
    else:
        total = ops.sum(weights)
        if not total.is_meta and not total.item():
            raise RuntimeError("cov(): weights sum to zero, can't be normalized")
        centred = ops.sub(x, ops.div(ops.sum(ops.mul(x, weights), 1, True), total))
        scaled = ops.mul(centred, weights)
        norm = ops.sub(total, correction)
        if aweights is not None and correction != 0:
            norm = ops.sub(total, ops.mul(ops.div(ops.sum(ops.mul(weights, aweights)), total), correction))
        norm = ops.clamp(norm, min=0)
    other = scaled.t().conj() if scaled.dtype.is_complex else scaled.t()
    return ops.div(ops.mm(centred, other.to(centred.dtype)), norm).squeeze()


def _check_weights(name: str, weights: Tensor, observations: int) -> None:
    if weights._spec.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with "
            f"{weights._spec.ndim} dimensions"
        )
    if weights.numel() != observations:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input but got "
            f"{weights.numel()} != {observations}"
        )
    if bool(ops.any(ops.lt(weights, 0)).item()):
        raise RuntimeError(f"cov(): {name} cannot be negative")


def corrcoef(self: Tensor) -> Tensor:
    """Compute `torch.corrcoef`: covariances over the product of standard deviations, clamped to [-1, 1]."""
    if self._spec.ndim > 2:
        raise RuntimeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{self._spec.ndim} dimensions"
        )
    c = cov(self, 1, None, None)
    if not c._spec.ndim:
        return ops.div(c, c)
    variance = ops.diagonal(c)
    deviation = ops.sqrt(ops.real(variance) if c.dtype.is_complex else variance)
    c = ops.div(ops.div(c, deviation.view((-1, 1))), deviation.view((1, -1)))
    if c.dtype.is_complex:
        return c
    return ops.clamp(c, -1, 1)

"""Batching rules of matmuls and dot products: one batched matmul, or one matmul over rows for a shared operand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...generated import functions as ops
from .layout import Batch, Dims, Rule, aligned, front, refuse_inplace, whole

if TYPE_CHECKING:
    from ....runtime.scalar_type import Number
    from ...tensor import Tensor


def _matrices(batch: Batch, a: Tensor, a_dim: int | None, b: Tensor, b_dim: int | None) -> Tensor:
    """Return (batch, n, m) from matrices, of which one operand may be shared by all examples."""
    if b_dim is None:
        rows = front(a, a_dim)
        size, n, k = rows._spec.sizes
        return rows.reshape((size * n, k)).mm(b).reshape((size, n, b._spec.sizes[1]))
    if a_dim is None:
        right = front(b, b_dim)
        size, k, m = right._spec.sizes
        columns = right.permute((1, 0, 2)).reshape((k, size * m))
        return a.mm(columns).reshape((a._spec.sizes[0], size, m)).permute((1, 0, 2))
    return front(a, a_dim).bmm(front(b, b_dim))


def mm(batch: Batch, dims: Dims, self: Tensor, mat2: Tensor) -> tuple[Any, Any]:
    """Multiply matrix by matrix."""
    return _matrices(batch, self, dims[0], mat2, dims[1]), 0


def mv(batch: Batch, dims: Dims, self: Tensor, vec: Tensor) -> tuple[Any, Any]:
    """Multiply matrix by vector; a shared matrix multiplies all vectors at once, as the rows of one matrix."""
    if dims[0] is None:
        return front(vec, dims[1]).mm(self.t()), 0
    matrix = front(self, dims[0])
    if dims[1] is None:
        size, n, k = matrix._spec.sizes
        return matrix.reshape((size * n, k)).mv(vec).reshape((size, n)), 0
    return matrix.bmm(front(vec, dims[1]).unsqueeze(2)).squeeze(2), 0


def dot(batch: Batch, dims: Dims, self: Tensor, tensor: Tensor) -> tuple[Any, Any]:
    """Multiply vector by vector."""
    if dims[0] is None:
        return front(tensor, dims[1]).mv(self), 0
    if dims[1] is None:
        return front(self, dims[0]).mv(tensor), 0
    left, right = front(self, dims[0]), front(tensor, dims[1])
    return left.unsqueeze(1).bmm(right.unsqueeze(2)).reshape((batch.size,)), 0


def vdot(batch: Batch, dims: Dims, self: Tensor, other: Tensor) -> tuple[Any, Any]:
    """Compute the dot product of a vector's conjugate with another vector."""
    left = ops.conj_physical(self) if self._spec.dtype.is_complex else self
    return dot(batch, dims, left, other)


def _batches(batch: Batch, a: Tensor, a_dim: int | None, b: Tensor, b_dim: int | None) -> Tensor:
    """Return (batch, p, n, m) from batches of matrices."""
    left, right = whole(a, a_dim, batch.size), whole(b, b_dim, batch.size)
    size, p, n, k = left._spec.sizes
    m = right._spec.sizes[3]
    return left.reshape((size * p, n, k)).bmm(right.reshape((size * p, k, m))).reshape((size, p, n, m))


def bmm(batch: Batch, dims: Dims, self: Tensor, mat2: Tensor) -> tuple[Any, Any]:
    """Compute batched matmuls."""
    return _batches(batch, self, dims[0], mat2, dims[1]), 0


def _plus(self: Tensor, dim: int | None, product: Tensor, beta: Number, alpha: Number) -> Any:
    """Compute beta * self + alpha * product; a beta of 0 ignores even NaN and infinities."""
    out = product if alpha == 1 else product * alpha
    if beta == 0:
        return out
    added = aligned(self, dim, product._spec.ndim - 1)
    return out + (added if beta == 1 else added * beta)


def addmm(
    batch: Batch, dims: Dims, self: Tensor, mat1: Tensor, mat2: Tensor, beta: Number, alpha: Number
) -> tuple[Any, Any]:
    """Run `addmm`; with a shared matrix and a shared row as addend, it is one `addmm` over all rows."""
    if dims[0] is None and dims[2] is None and self._spec.ndim == 1:
        rows = front(mat1, dims[1])
        size, n, k = rows._spec.sizes
        out = ops.addmm(self, rows.reshape((size * n, k)), mat2, beta=beta, alpha=alpha)
        return out.reshape((size, n, mat2._spec.sizes[1])), 0
    if dims[1] is None and dims[2] is None:
        return _plus(self, dims[0], mat1.mm(mat2).unsqueeze(0).expand((batch.size, -1, -1)), beta, alpha), 0
    return _plus(self, dims[0], _matrices(batch, mat1, dims[1], mat2, dims[2]), beta, alpha), 0


def addmm_activation(
    batch: Batch,
    dims: Dims,
    self: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    beta: Number,
    alpha: Number,
    use_gelu: bool,
) -> tuple[Any, Any]:
    """Run `_addmm_activation`: the activation of the result of `addmm`."""
    out, dim = addmm(batch, dims, self, mat1, mat2, beta, alpha)
    return (ops.gelu(out) if use_gelu else ops.relu(out)), dim


def addmv(
    batch: Batch, dims: Dims, self: Tensor, mat: Tensor, vec: Tensor, beta: Number, alpha: Number
) -> tuple[Any, Any]:
    """Run `addmv`."""
    if dims[1] is None and dims[2] is None:
        product = mat.mv(vec).unsqueeze(0).expand((batch.size, -1))
    else:
        product, _ = mv(batch, dims[1:3], mat, vec)
    return _plus(self, dims[0], product, beta, alpha), 0


def baddbmm(
    batch: Batch, dims: Dims, self: Tensor, batch1: Tensor, batch2: Tensor, beta: Number, alpha: Number
) -> tuple[Any, Any]:
    """Run `baddbmm`."""
    return _plus(self, dims[0], _batches(batch, batch1, dims[1], batch2, dims[2]), beta, alpha), 0


def addbmm(
    batch: Batch, dims: Dims, self: Tensor, batch1: Tensor, batch2: Tensor, beta: Number, alpha: Number
) -> tuple[Any, Any]:
    """Run `addbmm`: the sum of the matmuls of a batch."""
    product = _batches(batch, batch1, dims[1], batch2, dims[2]).sum(1)
    return _plus(self, dims[0], product, beta, alpha), 0


def written(rule: Rule) -> Rule:
    """Return the rule of an operator's in-place form, from the rule of the functional form."""

    def rule_(batch: Batch, dims: Dims, self: Tensor, *args: Any) -> tuple[Any, Any]:
        if dims[0] is None:
            refuse_inplace(batch)
        out, _ = rule(batch, dims, self, *args)
        front(self, dims[0]).copy_(out)
        return None, None

    return rule_


RULES: dict[str, Rule] = {
    "mm": mm,
    "mv": mv,
    "dot": dot,
    "vdot": vdot,
    "bmm": bmm,
    "addmm": addmm,
    "_addmm_activation": addmm_activation,
    "addmv": addmv,
    "baddbmm": baddbmm,
    "addbmm": addbmm,
    "addmm_": written(addmm),
    "addmv_": written(addmv),
    "baddbmm_": written(baddbmm),
    "addbmm_": written(addbmm),
}

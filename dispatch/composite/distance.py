"""Distances between all pairs of rows, and bilinear forms (ATen/native/Distance.cpp, Linear.cpp)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...runtime.grad_mode import is_grad_enabled
from ..autograd.tangents import FORWARD_BIT
from ..core.mode_stack import sees_whole
from ..core.overload_packet import packets
from ..generated import functions as ops
from ..iterator.broadcast import infer_size
from ..plans.host_kernel import host_kernel
from ..structured.meta.dims import wrap_dim
from ..structured.meta.linalg import check_same_device
from ..structured.operand_checks import check_dtype, check_ranks, check_sizes
from .forms import owned

if TYPE_CHECKING:
    from ...runtime.device import device as Device
    from ..tensor import Tensor

USE_PRODUCTS_FROM = 25
"""Number of rows above which Euclidean distances use matmuls unless the call says otherwise."""
DIFFERENCES = 1 << 24
"""Maximum number of difference elements in memory at a time; rows are processed in chunks."""


@host_kernel("cdist", "_cdist_forward", "sub.Tensor", "sum.dim_IntList")
def cdist(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Tensor:
    """Compute `torch.cdist`: the distances between the rows of two matrices; batches broadcast."""
    for name, x in (("X1", x1), ("X2", x2)):
        if x._spec.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x._spec.ndim}D")
    columns = x1._spec.sizes[-1]
    if columns != x2._spec.sizes[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {columns} X2: {x2._spec.sizes[-1]}"
        )
    for name, x in (("X1", x1), ("X2", x2)):
        if not x.dtype.is_floating_point:
            raise RuntimeError(
                f"cdist only supports floating-point dtypes, {name} got: {x.dtype.scalar_name}"
            )
    if not p >= 0:
        raise RuntimeError("cdist only supports non-negative p values")
    if x1.device != x2.device:
        raise RuntimeError(f"X1 and X2 must have the same device. X1: {x1.device} X2: {x2.device}")
    if compute_mode is not None and not 0 <= compute_mode <= 2:
        raise RuntimeError(f"possible modes: 0, 1, 2, but was: {compute_mode}")
    batch = infer_size(x1._spec.sizes[:-2], x2._spec.sizes[:-2])
    first, second = (
        x if x._spec.sizes[:-2] == batch else x.expand((*batch, *x._spec.sizes[-2:])) for x in (x1, x2)
    )
    result: Tensor = packets["_cdist_forward"].call(first, second, p, compute_mode)
    return result


def refuse_narrow(kernel: str, x: Tensor) -> None:
    """Refuse dtypes that PyTorch's kernels do not have."""
    if x.dtype.scalar_name not in ("Float", "Double"):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{x.dtype.scalar_name}'")


@host_kernel("_cdist_forward", "sub.Tensor", "sum.dim_IntList")
def _cdist_forward(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Tensor:
    """Compute distances by differences, or Euclidean ones by matmul; the modes are PyTorch's: 0 chooses by size."""
    refuse_narrow("cdist", x1)
    if min(x1._spec.ndim, x2._spec.ndim) < 2:
        raise RuntimeError(
            f"_cdist_forward: expected x1 and x2 of 2 or more dimensions, but got shapes {list(x1._spec.sizes)} and "
            f"{list(x2._spec.sizes)}"
        )
    rows, columns = x1._spec.sizes[-2], x2._spec.sizes[-2]
    is_large = rows > USE_PRODUCTS_FROM or columns > USE_PRODUCTS_FROM
    if p == 2 and (compute_mode == 1 or (compute_mode in (None, 0) and is_large)):
        return owned(_by_products(x1, x2))
    # A result that does not fit in memory raises an error before any chunk is computed.
    ops.empty((*x1._spec.sizes[:-1], columns), dtype=x1.dtype, device=x1.device)
    return owned(_over_parts(x1, x2, lambda part, _: _norms(_differences(part, x2), p)))


def _over_parts(x1: Tensor, x2: Tensor, distances: Callable[..., Tensor]) -> Tensor:
    """Compute `distances(rows, where)` for chunks of the first matrix's rows, and concatenate the results."""
    *batch, rows, columns = x1._spec.sizes
    each = math.prod(batch) * x2._spec.sizes[-2] * columns
    step = max(1, DIFFERENCES // max(each, 1))
    if rows <= step or x1.is_meta:
        return distances(x1, slice(0, rows))
    parts = [
        distances(ops.narrow(x1, -2, start, min(step, rows - start)), slice(start, min(rows, start + step)))
        for start in range(0, rows, step)
    ]
    return ops.cat(parts, -2)


def _differences(x1: Tensor, x2: Tensor) -> Tensor:
    return x1.unsqueeze(-2) - x2.unsqueeze(-3)


def _norms(differences: Tensor, p: float) -> Tensor:
    size = ops.abs(differences)
    if not differences._spec.sizes[-1]:
        return ops.sum(size, [-1])
    if p == 0:
        return ops.sum(ops.clamp(ops.ceil(size), max=1.0), [-1])  # NaN stays
    if p == 1:
        return ops.sum(size, [-1])
    if p == 2:
        return ops.sqrt(ops.sum(size * size, [-1]))
    if p == math.inf:
        return ops.amax(size, [-1])
    return ops.pow(ops.sum(ops.pow(size, p), [-1]), 1.0 / p)


def _by_products(x1: Tensor, x2: Tensor) -> Tensor:
    """Compute distances as |a|^2 - 2 a b + |b|^2 by one matmul, clamped to zero before the root."""
    squares1 = ops.sum(x1 * x1, [-1], True)
    squares2 = ops.sum(x2 * x2, [-1], True)
    left = ops.cat([x1 * -2.0, squares1, ops.ones_like(squares1)], -1)
    right = ops.cat([x2, ops.ones_like(squares2), squares2], -1)
    return ops.sqrt(ops.clamp(ops.matmul(left, right.transpose(-2, -1)), min=0.0))


@host_kernel("_cdist_backward", "sub.Tensor", "sign", "where.self", "sum.dim_IntList")
def _cdist_backward(grad: Tensor, x1: Tensor, x2: Tensor, p: float, cdist: Tensor) -> Tensor:
    """Compute the gradient of the first matrix; 0 where a distance is 0."""
    first, second = x1._spec, x2._spec
    for argument, spec in (("x1", first), ("x2", second)):
        if spec.ndim < 2 or spec.sizes[-1] != first.sizes[-1] or spec.sizes[:-2] != first.sizes[:-2]:
            raise RuntimeError(
                f"_cdist_backward: expected {argument} of matrices with as many columns as x1, but got x1 of "
                f"shape {list(first.sizes)} and x2 of shape {list(second.sizes)}"
            )
    _check_distances("_cdist_backward", x1, {"x2": x2, "grad": grad, "cdist": cdist})
    for argument, x in (("grad", grad), ("cdist", cdist)):
        check_sizes("_cdist_backward", argument, x._spec, (*first.sizes[:-1], second.sizes[-2]))
    if not x1.numel() or not x2.numel() or p == 0:
        return ops.zeros_like(x1)
    if _is_unrecorded(x1, x2, grad, cdist):
        x1, x2, grad, cdist = (ops.detach(x) for x in (x1, x2, grad, cdist))
        unrecorded: Tensor = packets["_cdist_backward"].call(grad, x1, x2, p, cdist)
        return unrecorded

    def part(rows: Tensor, where: slice) -> Tensor:
        count = where.stop - where.start
        own = [ops.narrow(x, -2, where.start, count).unsqueeze(-1) for x in (grad, cdist)]
        return ops.sum(_directions(_differences(rows, x2), p, own[1]) * own[0], [-2])

    return _over_parts(x1, x2, part)


def _is_unrecorded(*tensors: Tensor) -> bool:
    """Return True if a tensor requires grad that no graph records: detached tensors have the host kernel.

    Detached tensors have no tangents, so that forward mode takes the operators' formulas.
    """
    if is_grad_enabled() or any(x._spec.keys & FORWARD_BIT for x in tensors):
        return False
    return any(x._spec.requires_grad for x in tensors)


def _check_distances(name: str, x: Tensor, operands: dict[str, Tensor]) -> None:
    """Raise RuntimeError for operands on other devices or of other dtypes than the matrix."""
    check_same_device(name, x._spec, *[each._spec for each in operands.values()])
    for argument, each in operands.items():
        check_dtype(name, argument, each._spec, x._spec.dtype)


def _directions(differences: Tensor, p: float, distances: Tensor) -> Tensor:
    """Compute the derivative of each distance with respect to its differences."""
    if p == 1:
        return ops.sign(differences)
    apart = ops.ne(distances, 0)
    if p == 2:
        return ops.where(apart, differences / ops.where(apart, distances, 1.0), 0.0)
    if p == math.inf:
        return ops.sign(differences) * ops.eq(ops.abs(differences), distances).to(differences.dtype)
    size = ops.abs(differences)
    moved = ops.logical_and(apart, ops.ne(size, 0))
    powers = ops.pow(ops.where(moved, size, 1.0), p - 1) / ops.pow(ops.where(apart, distances, 1.0), p - 1)
    return ops.where(moved, ops.sign(differences) * powers, 0.0)


@host_kernel("pdist", "_pdist_forward", "sub.Tensor", "sum.dim_IntList")
def pdist(self: Tensor, p: float) -> Tensor:
    """Compute `torch.pdist`: the distance between each pair of rows of a matrix."""
    if self._spec.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {self._spec.ndim}D")
    if not self.dtype.is_floating_point:
        raise RuntimeError("pdist only supports floating-point dtypes")
    if not p >= 0:
        raise RuntimeError("pdist only supports non-negative p values")
    result: Tensor = packets["_pdist_forward"].call(self.contiguous(), p)
    return result


def _pairs(n: int, device: Device) -> Tensor:
    """Return the flat positions of the pairs i < j among all n * n pairs, in order."""
    row = ops.arange(n - 1, device=device)
    # Row i begins with its pair (i, i + 1); the rows before it have n - 1, n - 2, ... pairs.
    offset = row * (row + 3) // 2 + 1
    count = n * (n - 1) // 2
    wide = ops.repeat_interleave(offset, n - 1 - row, output_size=count)
    return wide + ops.arange(count, device=device)


@host_kernel("_pdist_forward", "_cdist_forward", "sub.Tensor", "sum.dim_IntList")
def _pdist_forward(self: Tensor, p: float) -> Tensor:
    """Compute the distances of the pairs i < j: the upper triangle of those of all pairs."""
    check_ranks("_pdist_forward", "self", self._spec, 2)
    n, columns = self._spec.sizes
    if n <= 1 or not columns:
        return ops.zeros((n * (n - 1) // 2,), dtype=self.dtype, device=self.device)
    refuse_narrow("pdist", self)
    whole = _cdist_forward(self, self, p, 2)
    return ops.index_select(whole.reshape((n * n,)), 0, _pairs(n, self.device))


@host_kernel("_pdist_backward", "_cdist_backward", "index_add", "sub.Tensor", "sum.dim_IntList")
def _pdist_backward(grad: Tensor, self: Tensor, p: float, pdist: Tensor) -> Tensor:
    """Compute the gradient of the rows; each pair contributes to both of its rows."""
    check_ranks("_pdist_backward", "self", self._spec, 2)
    n = self._spec.sizes[0]
    _check_distances("_pdist_backward", self, {"grad": grad, "pdist": pdist})
    for argument, x in (("grad", grad), ("pdist", pdist)):
        check_sizes("_pdist_backward", argument, x._spec, (n * (n - 1) // 2,))
    if n <= 1:
        return ops.zeros_like(self)
    if _is_unrecorded(self, grad, pdist):
        self, grad, pdist = (ops.detach(x) for x in (self, grad, pdist))
        unrecorded: Tensor = packets["_pdist_backward"].call(grad, self, p, pdist)
        return unrecorded
    flat_indices = _pairs(n, self.device)
    row = ops.floor_divide(flat_indices, n)
    flat_indices = ops.cat([flat_indices, (flat_indices - row * n) * n + row])
    wholes = [
        ops.index_add(ops.zeros((n * n,), dtype=x.dtype, device=x.device), 0, flat_indices, ops.cat([x, x]))
        for x in (grad, pdist)
    ]
    square, distances = (whole.reshape((n, n)) for whole in wholes)
    return _cdist_backward(square, self, self, p, distances)


def _trilinear(
    i1: Tensor,
    i2: Tensor,
    i3: Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int,
) -> Tensor:
    """Return the sum over `sumdim` of the product of three tensors, each with dimensions of size 1 inserted.

    `expand1` to `expand3` hold the positions of the inserted dimensions. The contraction never holds the whole
    product, so `unroll_dim` is only checked.
    """
    rank = i1._spec.ndim + len(expand1)
    if not 0 <= unroll_dim < rank:
        raise RuntimeError(f"unroll_dim must be in [0,{rank - 1}], got {unroll_dim}")
    expansions = ((i1, expand1), (i2, expand2), (i3, expand3))
    labels = [[d for d in range(rank) if d not in expand] for _, expand in expansions]
    for (x, _), dims in zip(expansions, labels, strict=True):
        if x._spec.ndim != len(dims):
            raise RuntimeError(
                f"_trilinear(): a tensor of {x._spec.ndim} dimensions does not have {rank} dimensions after expansion"
            )
    kept_dims = [d for d in range(rank) if d not in sumdim]
    present = {d for dims in labels for d in dims}
    inputs = ",".join("".join(chr(97 + d) for d in dims) for dims in labels)
    output = "".join(chr(97 + d) for d in kept_dims if d in present)
    result = ops.einsum(f"{inputs}->{output}", [i1, i2, i3])
    for position, d in enumerate(kept_dims):
        if d not in present:
            result = result.unsqueeze(position)
    return result


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute `torch.nn.functional.bilinear`: x1^T W_k x2 + b_k for each output k, over all leading dimensions."""
    first, second, form = input1._spec.sizes, input2._spec.sizes, weight._spec.sizes
    operands = {"input1": input1, "input2": input2, "weight": weight, "bias": bias}
    dtypes = {name: x._spec.dtype for name, x in operands.items() if x is not None}
    if len(set(dtypes.values())) > 1:
        named = ", ".join(f"{name}: {dtype.scalar_name.lower()}" for name, dtype in dtypes.items())
        raise RuntimeError(f"bilinear(): All tensors must have the same dtype, got {named}")
    if len(first) != len(second):
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {len(first)} and {len(second)}")
    for i, (a, b) in enumerate(zip(first[:-1], second[:-1], strict=True)):
        if a != b:
            raise RuntimeError(f"bilinear(): input batch dimensions do not match at dim {i}: got {a} and {b}")
    for dim, (number, sizes) in enumerate((("input1", first), ("input2", second)), 1):
        size = sizes[wrap_dim(-1, len(sizes), scalar_ok=False)]
        expected = form[wrap_dim(dim, len(form), scalar_ok=False)]
        if size != expected:
            raise RuntimeError(
                f"bilinear(): {number} size does not match weight size: got {size} but expected {expected}"
            )
    if len(form) != 3:
        raise RuntimeError(
            f"bilinear(): weight must have 3 dimensions (outputs, in1, in2), but has {len(form)}"
        )
    if bias is not None and bias._spec.sizes[wrap_dim(0, bias._spec.ndim, scalar_ok=False)] != form[0]:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias._spec.sizes[0]} but expected {form[0]}"
        )
    outputs, m, n = form
    rows = math.prod(first[:-1])
    x1, x2 = input1.reshape((rows, m)), input2.reshape((rows, n))
    if sees_whole():
        flat = ops._trilinear(x1, weight, x2, (1, 3), (0,), (1, 2), (2, 3))
    else:
        turned = weight.permute((1, 0, 2)).reshape((m, outputs * n))
        inner = ops.mm(x1, turned).reshape((rows, outputs, n))
        flat = ops.bmm(inner, x2.unsqueeze(2))
    result = flat.reshape((*first[:-1], outputs))
    return result if bias is None else result + bias

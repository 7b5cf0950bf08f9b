"""Norms and distances (ATen/native/LinearAlgebra.cpp, Distance.cpp)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.scalar_type import bfloat16, float16, float32
from ..autograd.grad_mode import no_grad
from ..generated import functions as ops
from ..iterator.type_promotion import promote_types, result_type_of
from ..plans.host_kernel import host_kernel
from ..structured.meta.dims import reduced_dims, reduced_shape, wrap_dim
from ..structured.meta.factorization import check_floating
from .forms import owned

if TYPE_CHECKING:
    from ...runtime.scalar_type import Number
    from ...runtime.scalar_type import dtype as ScalarType
    from ..tensor import Tensor

ONE_PASS = {0: "0", 1: "1", 2: "2", math.inf: "inf", -math.inf: "-inf"}
"""Orders of vector norms that one pass over real elements computes, with their kernel names."""


@host_kernel("linalg_vector_norm", "_vector_norm")
def linalg_vector_norm(
    self: Tensor, ord: float, dim: Sequence[int] | None, keepdim: bool, dtype: ScalarType | None
) -> Tensor:
    """Compute `torch.linalg.vector_norm`: sum(|x| ** ord) ** (1 / ord), in float32 for 16-bit floats."""
    name = "linalg.vector_norm"
    check_floating(name, self._spec)
    if isinstance(ord, complex):
        raise RuntimeError(f"{name}: Expected a non-complex scalar as the order of norm.")
    if dtype is not None:
        if not (dtype.is_floating_point or dtype.is_complex):
            raise RuntimeError(f"{name}: dtype should be floating point or complex. Got {dtype.scalar_name}")
        _check_conversion(name, self.dtype, dtype)
        self = self.to(dtype)
    real_dtype = self.dtype.to_real() if self.dtype.is_complex else self.dtype
    dims = reduced_dims(dim, self._spec.ndim)
    if not self.numel():
        if math.isnan(ord):
            ord = 1  # the norm of no elements is 0 for every order
        elif ord < 0 or ord == math.inf:
            _check_identity(name, self._spec.sizes, ord, dim, dims)
    x = ops.abs(self) if self.dtype.is_complex else self
    if ord != 0 and all(self._spec.sizes[d] == 1 for d in dims):
        # A single element is its own norm, even if its powers overflow.
        size = x if self.dtype.is_complex else ops.abs(x)
        return owned(size.reshape(reduced_shape(self._spec.sizes, dims, keepdim)))
    if ord in ONE_PASS:
        return ops._vector_norm(x, ONE_PASS[ord], dims, keepdim)
    x = ops.abs(x.to(float32) if real_dtype in (float16, bfloat16) else x)
    result = ops.pow(ops.sum(ops.pow(x, ord), dims, keepdim), 1.0 / ord)
    return result if result.dtype is real_dtype else result.to(real_dtype)


def _check_identity(
    name: str, sizes: Sequence[int], ord: float, dim: Sequence[int] | None, dims: Sequence[int]
) -> None:
    """Refuse a least or largest element of no elements."""
    prefix = f"{name} cannot compute the {ord:g} norm on"
    if dim is None or not dims or not sizes:
        raise RuntimeError(f"{prefix} an empty tensor because the operation does not have an identity")
    for given_dim, d in zip(dim, dims, strict=True):
        if sizes[d] == 0:
            raise RuntimeError(
                f"{prefix} the dimension {given_dim} because this dimension is empty and the operation does not have "
                "an identity"
            )


def _check_conversion(name: str, input_dtype: ScalarType, dtype: ScalarType) -> None:
    """Raise RuntimeError for a norm in a dtype of another category than the input's, or of lower precision."""
    if dtype.is_complex != input_dtype.is_complex:
        kind = "complex" if input_dtype.is_complex else "real"
        raise RuntimeError(f"{name}: dtype should be {kind} for {kind} inputs, but got {dtype.scalar_name}")
    if promote_types(input_dtype, dtype) is not dtype:
        raise RuntimeError(
            f"{name}: the dtype of the input ({input_dtype.scalar_name}) should be convertible without narrowing to "
            f"the specified dtype ({dtype.scalar_name})"
        )


@host_kernel("linalg_matrix_norm", "linalg_vector_norm", "_vector_norm")
def linalg_matrix_norm(
    self: Tensor, ord: Any, dim: Sequence[int], keepdim: bool, dtype: ScalarType | None
) -> Tensor:
    """Compute `torch.linalg.matrix_norm`: the Frobenius norm, or the largest or smallest sum of rows or columns."""
    name = "linalg.matrix_norm"
    by_singular_values = ord == "nuc" or (not isinstance(ord, str) and abs(ord) == 2)
    check_floating(name, self._spec, narrow=not by_singular_values)
    rank = self._spec.ndim
    if rank < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    if len(dim) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {', '.join(map(str, dim))}")
    rows, columns = wrap_dim(dim[0], rank), wrap_dim(dim[1], rank)
    if rows == columns:
        raise RuntimeError(f"{name}: dims must be different. Got ({dim[0]}, {dim[1]})")
    if ord == "fro":
        return ops.linalg_vector_norm(self, 2, [rows, columns], keepdim, dtype=dtype)
    if (isinstance(ord, str) and ord != "nuc") or (
        not isinstance(ord, str) and abs(ord) not in (1, 2, math.inf)
    ):
        raise RuntimeError(f"{name}: Order {ord if isinstance(ord, str) else f'{ord:g}'} not supported.")
    if by_singular_values:
        return _norm_of_singular_values(self, ord, rows, columns, keepdim, dtype)
    summed, chosen = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = ops.linalg_vector_norm(self, 1.0, [summed], keepdim, dtype=dtype)
    if not keepdim and chosen > summed:
        chosen -= 1
    if ord > 0 and sums._spec.sizes[chosen] == 0:
        return ops.sum(sums, [chosen], keepdim)
    return (ops.amax if ord > 0 else ops.amin)(sums, [chosen], keepdim)


def _norm_of_singular_values(
    self: Tensor, ord: Any, rows: int, columns: int, keepdim: bool, dtype: Any
) -> Tensor:
    """Return the sum, the maximum or the minimum of the singular values of matrices in two dimensions."""
    if dtype is not None:
        _check_conversion("linalg.matrix_norm", self.dtype, dtype)
    x = ops.movedim(self if dtype is None else self.to(dtype), [rows, columns], [-2, -1])
    values = ops.linalg_svdvals(x)
    if ord == "nuc":
        result = ops.sum(values, [-1])
    elif ord == 2 and not values._spec.sizes[-1]:
        result = ops.zeros(values._spec.sizes[:-1], dtype=values.dtype, device=values.device)
    else:
        result = (ops.amax if ord > 0 else ops.amin)(values, [-1])
    if keepdim:
        for d in sorted((rows, columns)):
            result = result.unsqueeze(d)
    return result


@host_kernel("linalg_norm", "linalg_vector_norm", "_vector_norm")
def linalg_norm(
    self: Tensor, ord: Number | str | None, dim: Sequence[int] | None, keepdim: bool, dtype: ScalarType | None
) -> Tensor:
    """Compute `torch.linalg.norm`: a matrix norm of two dimensions with an order, else a vector norm."""
    if ord is None:
        return ops.linalg_vector_norm(self, 2.0, dim, keepdim, dtype=dtype)
    dims = None if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if dims is not None and len(dims) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {dims}")
    if dims is None:
        if self._spec.ndim not in (1, 2):
            raise RuntimeError(
                "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
                f"{self._spec.ndim}D."
            )
        dims = list(range(self._spec.ndim))
    if len(dims) == 2:
        return linalg_matrix_norm(self, ord, dims, keepdim, dtype)
    if isinstance(ord, str):  # PyTorch hands a single dimension to matrix_norm, which refuses it
        return linalg_matrix_norm(self, ord, dims, keepdim, dtype)
    return ops.linalg_vector_norm(self, ord, dims, keepdim, dtype=dtype)


@host_kernel("dist", "sub.Tensor", "linalg_vector_norm", "_vector_norm")
def dist(self: Tensor, other: Tensor, p: Number) -> Tensor:
    """Compute `torch.dist`: the norm of the difference."""
    dtype = result_type_of([self._spec, other._spec])
    if dtype.is_integral:
        raise RuntimeError(
            f"norm(): input dtype should be either floating point or complex. Got {dtype.scalar_name} instead."
        )
    return ops.linalg_vector_norm(ops.sub(self, other), p)


@host_kernel("pairwise_distance", "sub.Tensor", "linalg_vector_norm", "_vector_norm")
def pairwise_distance(x1: Tensor, x2: Tensor, p: float, eps: float, keepdim: bool) -> Tensor:
    """Compute `torch.pairwise_distance`: the norm of x1 - x2 + eps along the last dimension."""
    last = max(x1._spec.ndim, x2._spec.ndim) - 1
    return ops.linalg_vector_norm(ops.add(ops.sub(x1, x2), eps), p, [last], keepdim)


@host_kernel("cosine_similarity", "linalg_vector_norm", "div.Tensor", "mul.Tensor", "sum.dim_IntList")
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int, eps: float) -> Tensor:
    """Compute `torch.cosine_similarity`: the dot product over both lengths, each at least `eps`."""
    common = promote_types(x1.dtype, x2.dtype)
    if not common.is_floating_point:
        raise RuntimeError(
            f"expected common dtype to be floating point, yet common dtype is {common.scalar_name}"
        )
    if not eps >= 0:
        raise RuntimeError(f"cosine_similarity: eps must be non-negative, got {eps}")
    a, b = ops.broadcast_tensors([x1.to(common), x2.to(common)])
    first, second = [ops.linalg_vector_norm(x, 2, [dim], True).clone() for x in (a, b)]
    least = ops.scalar_tensor(eps, dtype=common, device=a._spec.device)
    # The gradient passes through the bound, as in PyTorch.
    with no_grad():
        first.clamp_min_(least)
        second.clamp_min_(least)
    # Normalize each operand separately: the product of lengths could overflow where the quotient does not.
    return ops.sum(ops.mul(ops.div(a, first), ops.div(b, second)), [dim])


@host_kernel("renorm", "mul.Tensor", "linalg_vector_norm", "_vector_norm")
def renorm(self: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Compute `torch.renorm`: scale slices along a dimension down to a maximum norm."""
    spec = self._spec
    for name, value in (("p", p), ("maxnorm", maxnorm)):
        if isinstance(value, complex):
            raise RuntimeError(f"renorm: {name} must be real-valued")
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
    if spec.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {spec.ndim} dimensions")
    d = wrap_dim(dim, spec.ndim)
    other_dims = [i for i in range(spec.ndim) if i != d]
    narrow = spec.dtype.is_floating_point and spec.dtype.itemsize < 4
    norms = ops.linalg_vector_norm(self, p, other_dims, True, dtype=float32 if narrow else None)
    greater = ops.gt(norms, maxnorm)
    # No gradient flows from the norms that are not used, which may be 0 or nan.
    scale = ops.where(greater, maxnorm / (ops.where(greater, norms, 1.0) + 1e-7), 1.0)
    return (self * scale.to(spec.dtype)).contiguous()


def old_norm(
    input: Tensor,
    p: float | str | None,
    dim: Any,
    keepdim: bool,
    out: Any,
    dtype: ScalarType | None,
) -> Tensor:
    """Compute `torch.norm`: a vector norm over the dimensions (including Frobenius), or the nuclear norm."""
    order: Any = 2 if p is None else p
    if isinstance(p, str):
        if p == "fro" and (dim is None or isinstance(dim, int) or len(dim) <= 2):
            order = 2
        else:
            planes = list(range(input._spec.ndim)) if dim is None else [dim] if isinstance(dim, int) else dim
            if out is not None:
                return ops.linalg_matrix_norm(input, order, planes, keepdim, dtype=dtype, out=out)
            return ops.linalg_matrix_norm(input, order, planes, keepdim, dtype=dtype)
    if out is not None:
        return ops.linalg_vector_norm(input, order, dim, keepdim, dtype=dtype, out=out)
    return ops.linalg_vector_norm(input, order, dim, keepdim, dtype=dtype)


def frobenius_norm(self: Tensor, dim: Sequence[int], keepdim: bool) -> Tensor:
    """Compute `torch.frobenius_norm`: the 2-norm over up to two dimensions, by default all."""
    if len(dim) > 2:
        raise RuntimeError(f"Expected at most 2 dimensions, but got {len(dim)} dimensions instead.")
    return ops.linalg_vector_norm(self, 2, list(dim), keepdim)


def nuclear_norm(self: Tensor, keepdim: bool) -> Tensor:
    """Compute `torch.nuclear_norm`: the sum of the singular values of each matrix."""
    return ops.linalg_matrix_norm(self, "nuc", [-2, -1], keepdim)


def nuclear_norm_dim(self: Tensor, dim: Sequence[int], keepdim: bool) -> Tensor:
    """Compute `torch.nuclear_norm` of matrices over two dimensions."""
    return ops.linalg_matrix_norm(self, "nuc", list(dim), keepdim)


def norm_except_dim(v: Tensor, pow: int, dim: int) -> Tensor:
    """Compute `torch.norm_except_dim`: the norm over all dimensions but the first or the last; over all for -1."""
    if dim == -1:
        return ops.linalg_vector_norm(v, pow)
    sizes = v._spec.sizes
    wrap_dim(dim, len(sizes), False)
    if dim not in (0, len(sizes) - 1):
        return ops.transpose(norm_except_dim(ops.transpose(v, 0, dim), pow, 0), 0, dim)
    lines = ops.reshape(v, [sizes[0], -1] if dim == 0 else [-1, sizes[dim]])
    norms = ops.linalg_vector_norm(lines, pow, [1 if dim == 0 else 0])
    return ops.reshape(norms, [size if d == dim else 1 for d, size in enumerate(sizes)])


def _check_ends(v: Tensor, dim: int) -> None:
    """Raise RuntimeError unless the dimension is the first or the last one."""
    if dim not in (0, v._spec.ndim - 1):
        raise RuntimeError(
            f"_weight_norm_interface: fused kernels can only be applied for first or last dim, got dim={dim} of a "
            f"tensor of {v._spec.ndim} dimensions"
        )


def _weight_norm(v: Tensor, g: Tensor, dim: int) -> Tensor:
    """Return `g` times the direction of `v`, whose slices along `dim` have a norm each (Salimans & Kingma, 2016)."""
    norms = norm_except_dim(v, 2, dim)
    if g._spec.numel == norms._spec.numel:
        g = ops.reshape(g, norms._spec.sizes)
    return ops.mul(v, ops.div(g, norms))


def _weight_norm_interface(v: Tensor, g: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return `g` times the direction of `v`, and the norms in `g`'s shape, computed in float32 for float16 and
    bfloat16.
    """
    _check_ends(v, dim)
    narrow = v.dtype in (float16, bfloat16)
    norms = norm_except_dim(v.to(float32) if narrow else v, 2, dim)
    scale = ops.div(ops.reshape(g, norms._spec.sizes), norms)
    return ops.mul(v, scale).to(v.dtype), ops.reshape(norms, g._spec.sizes)


def _weight_norm_interface_backward(
    grad_w: Tensor, saved_v: Tensor, saved_g: Tensor, saved_norms: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    """Return the gradients of `_weight_norm_interface` by `v` and by `g`."""
    _check_ends(saved_v, dim)
    other_dims = [each for each in range(saved_v._spec.ndim) if each != dim]
    along = ops.sum(ops.mul(grad_w, saved_v), other_dims, keepdim=True)
    norms = ops.reshape(saved_norms, along._spec.sizes)
    scale = ops.div(ops.reshape(saved_g, along._spec.sizes), norms)
    by_v = ops.mul(scale, ops.sub(grad_w, ops.mul(saved_v, ops.div(along, ops.square(norms)))))
    return by_v.to(saved_v.dtype), ops.reshape(ops.div(along, norms), saved_g._spec.sizes).to(saved_g.dtype)

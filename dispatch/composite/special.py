"""Composite special functions, and their aliases (`torch.special`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...runtime.scalar_type import bool_
from ...runtime.tensor_spec import MAX_BYTES
from ..generated import functions as ops
from ..generated.functions import (
    digamma,
    erf,
    erfc,
    erfinv,
    exp2,
    expm1,
    i0,
    igamma,
    igammac,
    lgamma,
    log1p,
    logit,
    logsumexp,
    polygamma,
    sigmoid,
    sinc,
    special_chebyshev_polynomial_t,
    special_chebyshev_polynomial_u,
    special_chebyshev_polynomial_v,
    special_chebyshev_polynomial_w,
    special_hermite_polynomial_h,
    special_hermite_polynomial_he,
    special_laguerre_polynomial_l,
    special_legendre_polynomial_p,
    special_shifted_chebyshev_polynomial_t,
    special_shifted_chebyshev_polynomial_u,
    special_shifted_chebyshev_polynomial_v,
    special_shifted_chebyshev_polynomial_w,
    special_xlog1py,
    special_zeta,
    xlogy,
)
from ..generated.functions.softmax import log_softmax, softmax
from ..plans.host_kernel import host_kernel
from .forms import inplace_form

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = [
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "exp2",
    "expm1",
    "i0",
    "igamma",
    "igammac",
    "lgamma",
    "log1p",
    "log_softmax",
    "logit",
    "logsumexp",
    "polygamma",
    "sigmoid",
    "sinc",
    "softmax",
    "special_chebyshev_polynomial_t",
    "special_chebyshev_polynomial_u",
    "special_chebyshev_polynomial_v",
    "special_chebyshev_polynomial_w",
    "special_hermite_polynomial_h",
    "special_hermite_polynomial_he",
    "special_laguerre_polynomial_l",
    "special_legendre_polynomial_p",
    "special_shifted_chebyshev_polynomial_t",
    "special_shifted_chebyshev_polynomial_u",
    "special_shifted_chebyshev_polynomial_v",
    "special_shifted_chebyshev_polynomial_w",
    "special_xlog1py",
    "special_zeta",
    "xlogy",
]


_polygamma_into = inplace_form("polygamma", lambda self, n: ops.polygamma(n, self))


def polygamma_(self: Tensor, n: int) -> Tensor:
    """Compute `polygamma` in place."""
    return _polygamma_into(self, n)


@host_kernel("mvlgamma", "lgamma", "add.Tensor", "sum.dim_IntList")
def special_multigammaln(self: Tensor, p: int) -> Tensor:
    """Run `torch.special.multigammaln`: `mvlgamma`, which modes see."""
    return ops.mvlgamma(self, p)


def mvlgamma(self: Tensor, p: int) -> Tensor:
    """Compute the logarithm of the multivariate gamma function of dimension `p`.

    Raises RuntimeError for a dimension below 1; elements must exceed (p - 1) / 2, or the result is not a number's.
    """
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if p > MAX_BYTES // 8:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={[p]}")
    if self._spec.dtype is bool_:
        raise RuntimeError("The input tensor may not be a boolean tensor.")
    dtype = self._spec.dtype
    shifts = ops.mul(ops.arange(1 - p, 1, device=self._spec.device), 0.5)
    floating = self if dtype.is_floating_point else ops.mul(self, 1.0)
    terms = ops.lgamma(ops.add(ops.unsqueeze(floating, -1), shifts.to(floating._spec.dtype)))
    return ops.add(ops.sum(terms, -1), p * (p - 1) * math.log(math.pi) / 4)


@host_kernel("special_ndtr", "erf", "erfc", "mul.Tensor", "where.self")
def ndtr(self: Tensor) -> Tensor:
    """Compute the cumulative distribution function of the normal distribution, by `erfc` away from zero."""
    if not self._spec.dtype.is_floating_point:
        self = ops.mul(self, 1.0)
    scaled = ops.mul(self, math.sqrt(0.5))
    tail = ops.mul(ops.erfc(ops.abs(scaled)), 0.5)
    near = ops.add(ops.mul(ops.erf(scaled), 0.5), 0.5)
    far = ops.where(ops.gt(scaled, 0), ops.rsub(tail, 1.0), tail)
    return ops.where(ops.lt(ops.abs(scaled), 1.0), near, far)


def round_(self: Tensor, decimals: int) -> Tensor:
    """Compute `round` to decimal places."""
    return ops.round(self, decimals=decimals) if decimals else ops.round(self)

"""The multivariate normal distribution whose covariances are a low rank and a diagonal."""

from __future__ import annotations

from typing import Any, ClassVar

from ..dispatch.generated import functions as _ops
from ..dispatch.iterator.broadcast import broadcast_sizes
from ..dispatch.tensor import Tensor
from . import constraints
from .distribution import Distribution, Shape
from .multivariate_normal import _batch_mahalanobis, _batch_mv
from .utils import LOG_2_PI, _standard_normal, lazy_property

__all__ = ["LowRankMultivariateNormal"]


def _batch_capacitance_tril(W: Tensor, D: Tensor) -> Tensor:
    """Compute the lower Cholesky factor of I + W^T diag(D)^-1 W."""
    rank = W.shape[-1]
    eye = _ops.eye(rank, dtype=W.dtype, device=W.device)
    return _ops.linalg_cholesky(W.mT / D.unsqueeze(-2) @ W + eye)


def _batch_lowrank_logdet(W: Tensor, D: Tensor, capacitance_tril: Tensor) -> Tensor:
    """Compute the logarithm of the determinant of W W^T + diag(D)."""
    capacitance = 2 * capacitance_tril.diagonal(0, -2, -1).log().sum(-1)
    return capacitance + D.log().sum(-1)


def _batch_lowrank_mahalanobis(W: Tensor, D: Tensor, x: Tensor, capacitance_tril: Tensor) -> Tensor:
    """Compute x^T (W W^T + diag(D))^-1 x by Woodbury's identity."""
    scaled = x / D
    return (x * scaled).sum(-1) - _batch_mahalanobis(capacitance_tril, _batch_mv(W.mT, scaled))


class LowRankMultivariateNormal(Distribution):
    """The normal distribution of vectors with covariances W W^T + diag(d)
    (`torch.distributions.LowRankMultivariateNormal`).

    Inverse and determinant need no more than the R x R matrix I + W^T diag(d)^-1 W, by the identities of Woodbury and
    of Sylvester.

    Args:
        loc: The mean, real, of shape (..., D).
        cov_factor: W, real, of shape (..., D, R).
        cov_diag: d, positive, of shape (..., D).
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: Shapes do not match, or a parameter lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> d = tt.distributions.LowRankMultivariateNormal(tt.zeros(2), tt.tensor([[1.0], [0.0]]), tt.ones(2))
        >>> d.covariance_matrix
        tensor([[2., 0.],
                [0., 1.]])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _kept = ("_capacitance_tril", "_unbroadcasted_cov_diag", "_unbroadcasted_cov_factor")

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        events = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch dimensions"
            )
        if cov_factor.shape[-2:-1] != events:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {events[0]} x m")
        if cov_diag.shape[-1:] != events:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {events}")
        batch = broadcast_sizes(
            tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]), tuple(cov_diag.shape[:-1])
        )
        self.loc = loc.expand((*batch, *events))
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        self.cov_diag = cov_diag.expand((*batch, *events))
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)
        super().__init__(batch, events, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        """The diagonal of the covariances."""
        variance = self._unbroadcasted_cov_factor.square().sum(-1) + self._unbroadcasted_cov_diag
        return variance.expand(self._batch_shape + self._event_shape)

    def _of_whole_shape(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower factor of the covariances."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        eye = _ops.eye(self._event_shape[0], dtype=root.dtype, device=root.device)
        return self._of_whole_shape(root * _ops.linalg_cholesky(scaled @ scaled.mT + eye))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariances."""
        low_rank = self._unbroadcasted_cov_factor @ self._unbroadcasted_cov_factor.mT
        return self._of_whole_shape(low_rank + self._unbroadcasted_cov_diag.diag_embed())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariances."""
        inverse = self._unbroadcasted_cov_diag.reciprocal()
        scaled = self._unbroadcasted_cov_factor.mT * inverse.unsqueeze(-2)
        solved = _ops.linalg_solve_triangular(self._capacitance_tril, scaled, upper=False)
        return self._of_whole_shape(inverse.diag_embed() - solved.mT @ solved)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        rank = self.cov_factor.shape[-1]
        common = _standard_normal((*shape[:-1], rank), self.loc)
        own = _standard_normal(shape, self.loc)
        shared = _batch_mv(self._unbroadcasted_cov_factor, common)
        return self.loc + shared + self._unbroadcasted_cov_diag.sqrt() * own

    @property
    def _log_det(self) -> Tensor:
        return _batch_lowrank_logdet(
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril
        )

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = _batch_lowrank_mahalanobis(
            self._unbroadcasted_cov_factor,
            self._unbroadcasted_cov_diag,
            value - self.loc,
            self._capacitance_tril,
        )
        return -0.5 * (self._event_shape[0] * LOG_2_PI + self._log_det + distance)

    def entropy(self) -> Tensor:
        entropy = 0.5 * (self._event_shape[0] * (1.0 + LOG_2_PI) + self._log_det)
        return entropy if not self._batch_shape else entropy.expand(self._batch_shape)

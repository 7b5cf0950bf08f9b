"""The multivariate normal distribution whose covariances are a low rank and a diagonal."""

from __future__ import annotations

from typing import Any, ClassVar

from ..dispatch.generated import functions as _ops
from ..dispatch.iterator.broadcast import broadcast_shapes
from ..dispatch.tensor import Tensor
from . import constraints
from .distribution import Distribution, Shape
from .multivariate_normal import squared_distance
from .utils import LOG_2_PI, _standard_normal, lazy_property

__all__ = ["LowRankMultivariateNormal"]


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
    _kept = ("_capacitance_factor", "_unexpanded_diag", "_unexpanded_factor")

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
        batch = broadcast_shapes(
            tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]), tuple(cov_diag.shape[:-1])
        )
        self.loc = loc.expand((*batch, *events))
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        self.cov_diag = cov_diag.expand((*batch, *events))
        self._unexpanded_factor, self._unexpanded_diag = cov_factor, cov_diag
        scaled = cov_factor.mT / cov_diag.unsqueeze(-2)
        rank = cov_factor.shape[-1]
        eye = _ops.eye(rank, dtype=loc.dtype, device=loc.device)
        self._capacitance_factor = _ops.linalg_cholesky(scaled @ cov_factor + eye)
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
        variance = self._unexpanded_factor.square().sum(-1) + self._unexpanded_diag
        return variance.expand(self._batch_shape + self._event_shape)

    def _of_whole_shape(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower factor of the covariances."""
        root = self._unexpanded_diag.sqrt().unsqueeze(-1)
        scaled = self._unexpanded_factor / root
        eye = _ops.eye(self._event_shape[0], dtype=root.dtype, device=root.device)
        return self._of_whole_shape(root * _ops.linalg_cholesky(scaled @ scaled.mT + eye))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariances."""
        low_rank = self._unexpanded_factor @ self._unexpanded_factor.mT
        return self._of_whole_shape(low_rank + self._unexpanded_diag.diag_embed())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariances."""
        inverse = self._unexpanded_diag.reciprocal()
        scaled = self._unexpanded_factor.mT * inverse.unsqueeze(-2)
        solved = _ops.linalg_solve_triangular(self._capacitance_factor, scaled, upper=False)
        return self._of_whole_shape(inverse.diag_embed() - solved.mT @ solved)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        rank = self.cov_factor.shape[-1]
        common = _standard_normal((*shape[:-1], rank), self.loc)
        own = _standard_normal(shape, self.loc)
        shared = (self._unexpanded_factor @ common.unsqueeze(-1)).squeeze(-1)
        return self.loc + shared + self._unexpanded_diag.sqrt() * own

    @property
    def _log_det(self) -> Tensor:
        capacitance = 2 * self._capacitance_factor.diagonal(0, -2, -1).log().sum(-1)
        return capacitance + self._unexpanded_diag.log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        centred = value - self.loc
        scaled = centred / self._unexpanded_diag
        shared = (self._unexpanded_factor.mT @ scaled.unsqueeze(-1)).squeeze(-1)
        distance = (centred * scaled).sum(-1) - squared_distance(self._capacitance_factor, shared)
        return -0.5 * (self._event_shape[0] * LOG_2_PI + self._log_det + distance)

    def entropy(self) -> Tensor:
        entropy = 0.5 * (self._event_shape[0] * (1.0 + LOG_2_PI) + self._log_det)
        return entropy if not self._batch_shape else entropy.expand(self._batch_shape)

"""The multivariate normal distribution."""

from __future__ import annotations

from typing import Any, ClassVar

from ..dispatch.generated import functions as _ops
from ..dispatch.iterator.broadcast import broadcast_sizes
from ..dispatch.tensor import Tensor
from . import constraints
from .distribution import Distribution, Shape
from .utils import LOG_2_PI, _standard_normal, lazy_property

__all__ = ["MultivariateNormal"]


def _batch_mv(matrix: Tensor, vector: Tensor) -> Tensor:
    """Multiply matrices and vectors, whose batches broadcast."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(factor: Tensor, x: Tensor) -> Tensor:
    """Compute x^T (L L^T)^-1 x for triangular factors L and vectors x, whose batches broadcast."""
    size = x.shape[-1]
    batch = broadcast_sizes(tuple(factor.shape[:-2]), tuple(x.shape[:-1]))
    if factor.dim() == 2:
        # One factor for all: its system is solved once, with every vector as a right side.
        columns = x.reshape((-1, size)).t()
        solved = _ops.linalg_solve_triangular(factor, columns, upper=False)
        return solved.square().sum(0).reshape(x.shape[:-1])
    vectors = x.expand((*batch, size)).unsqueeze(-1)
    solved = _ops.linalg_solve_triangular(factor.expand((*batch, size, size)), vectors, upper=False)
    return solved.square().sum((-2, -1))


def _precision_to_scale_tril(precision: Tensor) -> Tensor:
    """Return the lower Cholesky factor L with L L^T = P^-1, from the factor of P with rows and columns reversed."""
    reversed_factor = _ops.linalg_cholesky(precision.flip(-2, -1))
    inverse = reversed_factor.flip(-2, -1).mT
    eye = _ops.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return _ops.linalg_solve_triangular(inverse, eye.expand(inverse.shape), upper=False)


def given_matrix(covariance: Any, precision: Any, factor: Any) -> str:
    """Return the name of the parameter that is given.

    Raises:
        ValueError: Not exactly one is given.
    """
    matrices = {"covariance_matrix": covariance, "precision_matrix": precision, "scale_tril": factor}
    names = [name for name, value in matrices.items() if value is not None]
    if len(names) != 1:
        raise ValueError(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
        )
    if matrices[names[0]].dim() < 2:
        raise ValueError(
            f"{names[0]} must be at least two-dimensional, with optional leading batch dimensions"
        )
    return names[0]


class MultivariateNormal(Distribution):
    """The normal distribution of vectors (`torch.distributions.MultivariateNormal`).

    Density exp(-(x - loc)^T C^-1 (x - loc) / 2) / sqrt((2 pi)^D det C). One of the three matrices is given.

    Args:
        loc: The mean, real, of shape (..., D).
        covariance_matrix: The covariances C, positive definite, of shape (..., D, D).
        precision_matrix: The inverse of C, positive definite.
        scale_tril: The lower factor L of C = L L^T, of positive diagonal.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: Not exactly one matrix is given, it has less than two dimensions, or a parameter lies outside its
            constraint.

    Example:
        >>> import triten as tt
        >>> d = tt.distributions.MultivariateNormal(tt.zeros(2), tt.eye(2))
        >>> d.log_prob(tt.zeros(2))
        tensor(-1.8379)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _kept = ("_unbroadcasted_scale_tril",)

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name = given_matrix(covariance_matrix, precision_matrix, scale_tril)
        matrix: Any = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }[name]
        batch = broadcast_sizes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]))
        setattr(self, name, matrix.expand((*batch, *matrix.shape[-2:])))
        self.loc = loc.expand((*batch, loc.shape[-1]))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = _ops.linalg_cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)

    def _of_whole_shape(self, matrix: Tensor) -> Tensor:
        size = self._event_shape[0]
        return matrix.expand((*self._batch_shape, size, size))

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower factor of the covariances."""
        return self._of_whole_shape(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariances."""
        return self._of_whole_shape(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariances."""
        return self._of_whole_shape(_ops.cholesky_inverse(self._unbroadcasted_scale_tril))

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        variance: Tensor = (
            self._unbroadcasted_scale_tril.square().sum(-1).expand(self._batch_shape + self._event_shape)
        )
        return variance

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, noise)

    @property
    def _half_log_det(self) -> Tensor:
        half_log_det: Tensor = self._unbroadcasted_scale_tril.diagonal(0, -2, -1).log().sum(-1)
        return half_log_det

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * LOG_2_PI + distance) - self._half_log_det

    def entropy(self) -> Tensor:
        entropy = 0.5 * self._event_shape[0] * (1.0 + LOG_2_PI) + self._half_log_det
        return entropy if not self._batch_shape else entropy.expand(self._batch_shape)

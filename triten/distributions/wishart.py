"""The Wishart distribution of positive definite matrices."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ..dispatch.generated import functions as _ops
from ..dispatch.iterator.broadcast import broadcast_sizes
from ..dispatch.tensor import Tensor
from ..runtime.scalar_type import finfo
from ..runtime.size import Size
from . import constraints
from .chi2 import Chi2
from .distribution import Shape
from .exp_family import ExponentialFamily
from .multivariate_normal import _precision_to_scale_tril, given_matrix
from .utils import _standard_normal, is_number, lazy_property

__all__ = ["Wishart"]


def multivariate_digamma(x: Tensor, p: int) -> Tensor:
    """Compute the derivative of the logarithm of the multivariate gamma function."""
    steps = _ops.arange(p, dtype=x.dtype, device=x.device)
    return (x.unsqueeze(-1) - steps / 2).digamma().sum(-1)


def log_det(factor: Tensor) -> Tensor:
    """Compute the log-determinant of triangular matrices."""
    return factor.diagonal(0, -2, -1).log().sum(-1)


class Wishart(ExponentialFamily):
    """The Wishart distribution (`torch.distributions.Wishart`).

    That of the sum of df products x x^T for normal vectors x of mean 0 and covariances C. One of the three matrices is
    given.

    Args:
        df: The degrees of freedom, greater than the matrices' size less 1.
        covariance_matrix: C, positive definite, of shape (..., D, D).
        precision_matrix: The inverse of C, positive definite.
        scale_tril: The lower factor of C, of positive diagonal.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: Not exactly one matrix is given, it has less than two dimensions, or a parameter lies outside its
            constraint.

    Example:
        >>> import triten as tt
        >>> tt.distributions.Wishart(tt.tensor(3.0), tt.eye(2)).mean
        tensor([[3., 0.],
                [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _kept = ("_unbroadcasted_scale_tril",)

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """The constraints; that of the degrees of freedom depends on the matrices' size."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Tensor | float,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name = given_matrix(covariance_matrix, precision_matrix, scale_tril)
        matrix: Any = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }[name]
        freedom: Tensor
        if isinstance(df, Tensor):
            freedom = df
        elif is_number(df):
            freedom = matrix.new_full((), df)
        batch = broadcast_sizes(tuple(matrix.shape[:-2]), tuple(freedom.shape))
        events = matrix.shape[-2:]
        if bool(freedom.le(events[-1] - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {events[-1] - 1}.")
        setattr(self, name, matrix.expand((*batch, *events)))
        self.df = freedom.expand(batch)
        if bool(self.df.lt(events[-1]).any()):
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        super().__init__(batch, events, validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = _ops.linalg_cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)
        self._dist_chi2 = self._chi2_of_rows()

    def _chi2_of_rows(self) -> Chi2:
        size = self._event_shape[-1]
        factor = self._unbroadcasted_scale_tril
        rows = _ops.arange(size, dtype=factor.dtype, device=factor.device)
        return Chi2(df=self.df.unsqueeze(-1) - rows, validate_args=False)

    def _expand_parts(self, new: Any, shape: Size) -> None:
        new._dist_chi2 = self._dist_chi2.expand((*shape, self._event_shape[-1]))

    def _of_whole_shape(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower factor of C."""
        return self._of_whole_shape(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """C."""
        return self._of_whole_shape(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of C."""
        return self._of_whole_shape(_ops.cholesky_inverse(self._unbroadcasted_scale_tril))

    def _freedom(self) -> Tensor:
        return self.df.reshape((*self._batch_shape, 1, 1))

    @property
    def mean(self) -> Tensor:
        mean: Tensor = self._freedom() * self.covariance_matrix
        return mean

    @property
    def mode(self) -> Tensor:
        factor = self._freedom() - self._event_shape[-1] - 1
        mode: Tensor = _ops.where(factor <= 0, math.nan, factor) * self.covariance_matrix
        return mode

    @property
    def variance(self) -> Tensor:
        matrix = self.covariance_matrix
        diagonal = matrix.diagonal(0, -2, -1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        variance: Tensor = self._freedom() * (matrix.square() + outer)
        return variance

    def rsample(self, sample_shape: Shape = (), max_try_correction: int | None = None) -> Tensor:
        """Generate samples by Bartlett's decomposition, with random elements of its triangular factor.

        Args:
            sample_shape: The shape of the samples.
            max_try_correction: How often matrices that rounding made singular are drawn again; None for 10 times of
                one, 3 of many.
        """
        if max_try_correction is None:
            max_try_correction = 3 if self._batch_shape.numel() > 1 or Size(sample_shape).numel() > 1 else 10
        drawn = self._bartlett_sampling(sample_shape)
        faulty = self.support.check(drawn).logical_not()
        for _ in range(max_try_correction):
            if not bool(faulty.any()):
                break
            again = self._bartlett_sampling(sample_shape)
            drawn = _ops.where(faulty[..., None, None], again, drawn)
            faulty = self.support.check(drawn).logical_not()
        return drawn

    def _bartlett_sampling(self, sample_shape: Shape) -> Tensor:
        size = self._event_shape[-1]
        factor = self._unbroadcasted_scale_tril
        diagonal = self._dist_chi2.rsample(sample_shape).clamp(min=finfo(factor.dtype).tiny).sqrt()
        below = _standard_normal((*diagonal.shape[:-1], size * (size - 1) // 2), factor)
        noise = diagonal.diag_embed()
        noise[(..., *_ops.tril_indices(size, size, -1, device=noise.device).unbind())] = below
        root = factor @ noise
        sample: Tensor = root @ root.mT
        return sample

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        df, p = self.df, self._event_shape[-1]
        trace = _ops.cholesky_solve(value, self._of_cholesky(value)).diagonal(0, -2, -1).sum(-1)
        root = p * math.log(2.0) / 2 + log_det(self._unbroadcasted_scale_tril)
        constant = df * root + _ops.mvlgamma(df / 2, p)
        return (df - p - 1) / 2 * _ops.linalg_slogdet(value)[1] - trace / 2 - constant

    def _of_cholesky(self, value: Tensor) -> Tensor:
        batch = broadcast_sizes(tuple(value.shape[:-2]), tuple(self._unbroadcasted_scale_tril.shape[:-2]))
        factor: Tensor = self._unbroadcasted_scale_tril.expand((*batch, *self._event_shape))
        return factor

    def entropy(self) -> Tensor:
        df, p = self.df, self._event_shape[-1]
        root = p * math.log(2.0) / 2 + log_det(self._unbroadcasted_scale_tril)
        spread = (df - p - 1) / 2 * multivariate_digamma(df / 2, p)
        return (p + 1) * root + _ops.mvlgamma(df / 2, p) - spread + df * p / 2

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        p = self._event_shape[-1]
        return -self.precision_matrix / 2, (self.df - p - 1) / 2

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        return half * (-_ops.linalg_slogdet(-2 * x)[1] + math.log(2.0) * p) + _ops.mvlgamma(half, p)

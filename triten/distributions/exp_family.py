"""`ExponentialFamily`: distributions whose entropy follows from the log normalizer's gradient."""

from __future__ import annotations

from typing import Any

from ..dispatch.autograd.grad_mode import enable_grad
from ..dispatch.tensor import Tensor
from .distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Distributions of density h(x) * exp(<t(x), theta> - F(theta)) (`torch.distributions.ExponentialFamily`).

    A subclass gives theta as `_natural_params`, F as `_log_normalizer`, and the mean of log h(x) as
    `_mean_carrier_measure`. The entropy is then F(theta) - <theta, grad F(theta)> less that mean. Source: F. Nielsen,
    R. Nock, "Entropies and cross-entropies of exponential families" (2010).

    Example:
        >>> import triten as tt
        >>> isinstance(tt.distributions.Gamma(1.0, 1.0), tt.distributions.ExponentialFamily)
        True
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        from ..autograd import grad

        carrier_term = -self._mean_carrier_measure
        params = [p.detach()._set_requires_grad() for p in self._natural_params]
        with enable_grad():
            normalizer = self._log_normalizer(*params)
            slopes = grad(normalizer.sum(), params, create_graph=True)
        entropy: Tensor = carrier_term + normalizer
        for param, slope in zip(params, slopes, strict=True):
            entropy = entropy - (param * slope).reshape((*self.batch_shape, -1)).sum(-1)
        return entropy

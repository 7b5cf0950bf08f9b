"""The von Mises distribution on the circle."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..dispatch.autograd.grad_mode import no_grad
from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..runtime.scalar_type import bool_, float64
from . import constraints
from .distribution import Distribution, Shape
from .utils import broadcast_all, lazy_property

__all__ = ["VonMises"]


class VonMises(Distribution):
    """The von Mises distribution of angles (`torch.distributions.VonMises`).

    Density exp(concentration * cos(x - loc)) / (2 pi * I_0(concentration)). Samples are in [-pi, pi). Source: D. J.
    Best, N. I. Fisher, "Efficient simulation of the von Mises distribution" (1979).

    Args:
        loc: The mean angle, real, in radians.
        concentration: The concentration, positive.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: A parameter lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> d = tt.distributions.VonMises(tt.tensor(1.0), tt.tensor(2.0))
        >>> d.mean
        tensor(1.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "loc": constraints.real,
        "concentration": constraints.positive,
    }
    support = constraints.real
    has_rsample = False

    def __init__(self, loc: Tensor, concentration: Tensor, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        # log I_0 = log(exp(-k) I_0(k)) + k: the cosine less 1 keeps all digits of large concentrations.
        turned = -2 * ((value - self.loc) / 2).sin().square()
        scaled = _ops.special_i0e(self.concentration).log()
        return self.concentration * turned - math.log(2 * math.pi) - scaled

    @lazy_property
    def _loc(self) -> Tensor:
        return self.loc.to(float64)

    @lazy_property
    def _concentration(self) -> Tensor:
        return self.concentration.to(float64)

    @lazy_property
    def _proposal_r(self) -> Tensor:
        """The parameter of the wrapped Cauchy distribution that proposals come from."""
        kappa = self._concentration
        tau = 1 + (1 + 4 * kappa.square()).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        r = (1 + rho.square()) / (2 * rho)
        # For tiny concentrations all of this cancels: the leading terms.
        return _ops.where(kappa < 1e-5, 1 / kappa + kappa, r)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            kappa = self._concentration.expand(shape)
            r = self._proposal_r.expand(shape)
            angle = _ops.zeros(shape, dtype=float64, device=self.loc.device)
            done = _ops.zeros(shape, dtype=bool_, device=self.loc.device)
            while not bool(done.all()):
                u = _ops.rand((3, *shape), dtype=float64, device=self.loc.device)
                z = (math.pi * u[0]).cos()
                f = (1 + r * z) / (r + z)
                c = kappa * (r - f)
                accepted = (c * (2 - c) > u[1]) | ((c / u[1]).log() + 1 >= c)
                proposal = (u[2] - 0.5).sign() * f.clamp(min=-1.0, max=1.0).acos()
                angle = _ops.where(accepted, proposal, angle)
                done = done | accepted
            turned = angle + math.pi + self._loc
            return (turned % (2 * math.pi) - math.pi).to(self.loc.dtype)

    @property
    def mean(self) -> Tensor:
        """The circular mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        """The circular variance, 1 - I_1(concentration) / I_0(concentration)."""
        return 1 - _ops.special_i1e(self.concentration) / _ops.special_i0e(self.concentration)

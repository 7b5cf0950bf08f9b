"""Kullback-Leibler divergences, by pairs of classes (`torch.distributions.kl`).

Pairs of one class have their own formulas. For pairs of different classes KL(p || q) = -H(p) - E_p[log q]: the
registered formula computes the expectation from moments of p. The ends of a uniform p may be ends of q's support.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import total_ordering
from typing import Any

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..nn.functional import softplus
from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .dirichlet import Dirichlet
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .laplace import Laplace
from .lowrank_multivariate_normal import LowRankMultivariateNormal, _batch_lowrank_mahalanobis
from .multivariate_normal import MultivariateNormal, _batch_mahalanobis
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import LOG_2_PI, _sum_rightmost, euler_constant

__all__ = ["kl_divergence", "register_kl"]

Formula = Callable[[Any, Any], Tensor]

_KL_REGISTRY: dict[tuple[type, type], Formula] = {}
_KL_MEMOIZE: dict[tuple[type, type], Any] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Formula], Formula]:
    """Register a formula for the divergence of two classes and their subclasses (`torch.distributions.register_kl`).

    A call uses the most specific matching pair, comparing `type_p` before `type_q`.

    Args:
        type_p: The class of the first distribution.
        type_q: The class of the second one.

    Returns:
        A decorator of a function of both distributions.

    Raises:
        TypeError: An argument is not a class of distributions.

    Example:
        >>> import triten as tt
        >>> class Mine(tt.distributions.Normal):
        ...     pass
        >>> @tt.distributions.register_kl(Mine, Mine)
        ... def divergence(p, q):
        ...     return p.loc - q.loc
        >>> tt.distributions.kl_divergence(Mine(2.0, 1.0), Mine(0.5, 1.0))
        tensor(1.5000)
    """
    for name, cls in (("type_p", type_p), ("type_q", type_q)):
        # Other packages' base classes of distributions pass, as in PyTorch.
        if not isinstance(cls, type):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {cls}")

    def decorate(function: Formula) -> Formula:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return decorate


@total_ordering
class _Match:
    """A pair of classes that fits, in the order of how specific it is."""

    __slots__ = ("types",)

    def __init__(self, *types: type) -> None:
        self.types = types

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Match) and self.types == other.types

    __hash__ = None  # type: ignore[assignment]

    def __le__(self, other: _Match) -> bool:
        for mine, theirs in zip(self.types, other.types, strict=True):
            if not issubclass(mine, theirs):
                return False
            if mine is not theirs:
                break
        return True


def _formula_of(type_p: type, type_q: type) -> Formula | None:
    """Return the most specific formula. Warns if the order of the arguments decides."""
    matches = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not matches:
        return None
    left_p, left_q = min(_Match(*pair) for pair in matches).types
    right_q, right_p = min(_Match(*reversed(pair)) for pair in matches).types
    left, right = _KL_REGISTRY[left_p, left_q], _KL_REGISTRY[right_p, right_q]
    if left is not right:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). "
            f"Please register_kl({left_p.__name__}, {right_q.__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return left


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Compute KL(p || q) = E_p[log p(X) - log q(X)] (`torch.distributions.kl_divergence`).

    Args:
        p: A distribution.
        q: A distribution. The divergence is infinite if p has values outside the support of q.

    Returns:
        A tensor of the batch's shape.

    Raises:
        NotImplementedError: No formula is registered for the two classes.

    Example:
        >>> import triten as tt
        >>> d = tt.distributions
        >>> d.kl_divergence(d.Normal(0.0, 1.0), d.Normal(1.0, 1.0))
        tensor(0.5000)
    """
    pair = type(p), type(q)
    if pair not in _KL_MEMOIZE:
        _KL_MEMOIZE[pair] = _formula_of(*pair)
    formula = _KL_MEMOIZE[pair]
    if formula is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    divergence: Tensor = formula(p, q)
    return divergence


def _infinite(p: Any, q: Any) -> Tensor:
    """Return an infinite divergence, for a p with values outside q's support."""
    divergence: Tensor = p.entropy() * 0.0 + math.inf if _has_entropy(p) else p.mean * 0.0 + math.inf
    return divergence


def _has_entropy(p: Distribution) -> bool:
    return not isinstance(p, Poisson)


def _expected(type_p: type, type_q: type) -> Callable[[Formula], Formula]:
    """Register a divergence by E_p[log q]."""

    def decorate(expectation: Formula) -> Formula:
        register_kl(type_p, type_q)(lambda p, q: -p.entropy() - expectation(p, q))
        return expectation

    return decorate


def _log_beta(a: Tensor, b: Tensor) -> Tensor:
    return a.lgamma() + b.lgamma() - (a + b).lgamma()


# Pairs of one class


@register_kl(Bernoulli, Bernoulli)
def _bernoulli_bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    # Softplus of both signs is -log P: nothing overflows, and what is impossible weighs nothing.
    one_terms = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    zero_terms = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    one_terms = _ops.where(q.probs == 0, math.inf, one_terms)
    zero_terms = _ops.where(q.probs == 1, math.inf, zero_terms)
    return _ops.where(p.probs == 0, 0.0, one_terms) + _ops.where(p.probs == 1, 0.0, zero_terms)


@register_kl(Beta, Beta)
def _beta_beta(p: Beta, q: Beta) -> Tensor:
    a, b = p.concentration1, p.concentration0
    c, d = q.concentration1, q.concentration0
    total = (a + b).digamma()
    slopes = (a - c) * (a.digamma() - total) + (b - d) * (b.digamma() - total)
    return _log_beta(c, d) - _log_beta(a, b) + slopes


@register_kl(Binomial, Binomial)
def _binomial_binomial(p: Binomial, q: Binomial) -> Tensor:
    # More trials than q has are impossible under q; fewer have no closed form.
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    divergence = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return _ops.where(p.total_count > q.total_count, math.inf, divergence)


@register_kl(Categorical, Categorical)
def _categorical_categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = _ops.where((q.probs == 0).expand_as(terms), math.inf, terms)
    return _ops.where((p.probs == 0).expand_as(terms), 0.0, terms).sum(-1)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli_continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    constants = p._cont_bern_log_norm() + (-p.probs).log1p() - q._cont_bern_log_norm() - (-q.probs).log1p()
    return p.mean * (p.logits - q.logits) + constants


@register_kl(Dirichlet, Dirichlet)
def _dirichlet_dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    constants = a.sum(-1).lgamma() - b.sum(-1).lgamma() + (b.lgamma() - a.lgamma()).sum(-1)
    logs = a.digamma() - a.sum(-1, True).digamma()
    return constants + ((a - b) * logs).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential_exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(ExponentialFamily, ExponentialFamily)
def _family_family(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """Compute the Bregman divergence of the log normalizer."""
    if type(p) is not type(q):
        raise NotImplementedError(
            f"The cross KL-divergence between different exponential families cannot be computed using "
            f"Bregman divergences: {type(p).__name__}, {type(q).__name__}"
        )
    from ..autograd import grad

    p_params = [x.detach()._set_requires_grad() for x in p._natural_params]
    q_params = q._natural_params
    normalizer = p._log_normalizer(*p_params)
    slopes = grad(normalizer.sum(), p_params, create_graph=True)
    divergence = q._log_normalizer(*q_params) - normalizer
    for p_param, q_param, slope in zip(p_params, q_params, slopes, strict=True):
        divergence = divergence - _sum_rightmost((q_param - p_param) * slope, len(q.event_shape))
    return divergence


@register_kl(Gamma, Gamma)
def _gamma_gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    rates = b * (p.rate / q.rate).log() + a * (q.rate / p.rate - 1)
    return rates + b.lgamma() - a.lgamma() + (a - b) * a.digamma()


@register_kl(Geometric, Geometric)
def _geometric_geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Gumbel, Gumbel)
def _gumbel_gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    power = ((1 + ratio).lgamma() - shift).exp()
    return -ratio.log() + shift + euler_constant * (ratio - 1) + power - 1


@register_kl(HalfNormal, HalfNormal)
def _half_normal_half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace_laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(Normal, Normal)
def _normal_normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot_one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical_categorical(p._categorical, q._categorical)


@register_kl(Pareto, Pareto)
def _pareto_pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    divergence = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return _ops.where(p.scale < q.scale, math.inf, divergence)


@register_kl(Poisson, Poisson)
def _poisson_poisson(p: Poisson, q: Poisson) -> Tensor:
    return _ops.xlogy(p.rate, p.rate / q.rate) - (p.rate - q.rate)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed_transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    """Return the divergence of the bases: a bijection does not change it."""
    if p.transforms != q.transforms:
        raise NotImplementedError
    if p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Uniform, Uniform)
def _uniform_uniform(p: Uniform, q: Uniform) -> Tensor:
    divergence = ((q.high - q.low) / (p.high - p.low)).log()
    return _ops.where((q.low > p.low) | (q.high < p.high), math.inf, divergence)


@register_kl(Independent, Independent)
def _independent_independent(p: Independent[Any], q: Independent[Any]) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(Cauchy, Cauchy)
def _cauchy_cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    """Source: F. Chyzak, F. Nielsen, "A closed-form formula for the Kullback-Leibler divergence between Cauchy
    distributions" (2019).
    """
    apart = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return (apart / (4 * p.scale * q.scale)).log()


def _squares(matrix: Tensor) -> Tensor:
    """Compute the sum of a matrix's squares, the trace of M M^T."""
    return matrix.square().sum((-2, -1))


def _between_normals(p: Any, q: Any, log_dets: Tensor, distance: Tensor, trace: Tensor) -> Tensor:
    divergence: Tensor = 0.5 * (log_dets + distance + trace - p.event_shape[0])
    return divergence


def _check_events(p: Distribution, q: Distribution) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two (Low Rank) Multivariate Normals with different event shapes "
            f"cannot be computed: {p.event_shape} and {q.event_shape}"
        )


@register_kl(MultivariateNormal, MultivariateNormal)
def _normals(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    _check_events(p, q)
    return _to_full(p, q, 2 * p._half_log_det, p._unbroadcasted_scale_tril)


def _to_full(p: Any, q: MultivariateNormal, log_det: Tensor, *factors: Tensor) -> Tensor:
    """Compute the divergence from a normal distribution whose covariances are a sum of matmuls M M^T."""
    size = q.event_shape[0]
    trace: Any = 0.0
    for factor in factors:
        batch = _broadcast(q._unbroadcasted_scale_tril.shape[:-2], factor.shape[:-2])
        wide = factor.expand((*batch, *factor.shape[-2:]))
        square = q._unbroadcasted_scale_tril.expand((*batch, size, size))
        trace = trace + _squares(_ops.linalg_solve_triangular(square, wide, upper=False))
    distance = _batch_mahalanobis(q._unbroadcasted_scale_tril, p.loc - q.loc)
    return _between_normals(p, q, 2 * q._half_log_det - log_det, distance, trace)


def _broadcast(*shapes: Any) -> tuple[int, ...]:
    from ..dispatch.iterator.broadcast import broadcast_sizes

    return tuple(broadcast_sizes(*(tuple(shape) for shape in shapes)))


def _to_low_rank(p: Any, q: LowRankMultivariateNormal, log_det: Tensor, *factors: Tensor) -> Tensor:
    """Compute `_to_full` by Woodbury's identity: C^-1 = D^-1 - D^-1 W K^-1 W^T D^-1 with K = I + W^T D^-1 W."""
    diagonal, low_rank, root = q._unbroadcasted_cov_diag, q._unbroadcasted_cov_factor, q._capacitance_tril
    scaled = low_rank.mT / diagonal.unsqueeze(-2)
    trace: Any = 0.0
    for factor in factors:
        projected = scaled @ factor
        batch = _broadcast(projected.shape[:-2], root.shape[:-2])
        solved = _ops.linalg_solve_triangular(
            root.expand((*batch, *root.shape[-2:])),
            projected.expand((*batch, *projected.shape[-2:])),
            upper=False,
        )
        trace = trace + _squares(factor / diagonal.sqrt().unsqueeze(-1)) - _squares(solved)
    distance = _batch_lowrank_mahalanobis(low_rank, diagonal, p.loc - q.loc, root)
    return _between_normals(p, q, q._log_det - log_det, distance, trace)


def _parts(p: LowRankMultivariateNormal) -> tuple[Tensor, Tensor]:
    """Return matrices M whose M M^T sum to the covariances."""
    return p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag.sqrt().diag_embed()


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_ranks(p: LowRankMultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    _check_events(p, q)
    return _to_low_rank(p, q, p._log_det, *_parts(p))


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _normal_low_rank(p: MultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    _check_events(p, q)
    return _to_low_rank(p, q, 2 * p._half_log_det, p._unbroadcasted_scale_tril)


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_rank_normal(p: LowRankMultivariateNormal, q: MultivariateNormal) -> Tensor:
    _check_events(p, q)
    return _to_full(p, q, p._log_det, *_parts(p))


# Pairs of different classes: a p that has values which q has not

for _type_p, _types_q in {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}.items():
    for _type_q in _types_q:
        register_kl(_type_p, _type_q)(_infinite)


# Pairs of different classes: E_p[log q] by moments of p


def _of_normal(q: Normal, mean: Tensor, variance: Tensor) -> Tensor:
    squares = (variance + (mean - q.loc).square()) / q.scale.square()
    return -0.5 * squares - q.scale.log() - 0.5 * LOG_2_PI


def _of_gamma(q: Gamma, mean: Tensor, mean_log: Tensor) -> Tensor:
    a = q.concentration
    return _ops.xlogy(a, q.rate) - a.lgamma() + (a - 1) * mean_log - q.rate * mean


def _of_exponential(q: Exponential, mean: Tensor) -> Tensor:
    return q.rate.log() - q.rate * mean


def _of_gumbel(q: Gumbel, mean: Tensor, mean_power: Tensor) -> Tensor:
    """Compute E log q(X) of a Gumbel distribution, given E X and `mean_power`, E exp(-X / scale)."""
    return (q.loc - mean) / q.scale - (q.loc / q.scale).exp() * mean_power - q.scale.log()


def _of_continuous_bernoulli(q: ContinuousBernoulli, mean: Tensor) -> Tensor:
    return mean * q.logits + (-q.probs).log1p() + q._cont_bern_log_norm()


def _beta_logs(p: Beta) -> tuple[Tensor, Tensor]:
    """Return E log X and E log(1 - X)."""
    total = (p.concentration1 + p.concentration0).digamma()
    return p.concentration1.digamma() - total, p.concentration0.digamma() - total


def _power(p: Any, slope: Tensor) -> Tensor:
    """Compute E exp(-slope X) of a gamma or exponential distribution."""
    a = p.concentration if isinstance(p, Gamma) else _ops.ones_like(p.rate)
    expectation: Tensor = (-a * (slope / p.rate).log1p()).exp()
    return expectation


@_expected(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return _ops.xlogy(p.probs, q.rate) - q.rate


@_expected(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p: Beta, q: ContinuousBernoulli) -> Tensor:
    return _of_continuous_bernoulli(q, p.mean)


@_expected(Beta, Exponential)
def _beta_exponential(p: Beta, q: Exponential) -> Tensor:
    return _of_exponential(q, p.mean)


@_expected(Beta, Gamma)
def _beta_gamma(p: Beta, q: Gamma) -> Tensor:
    return _of_gamma(q, p.mean, _beta_logs(p)[0])


@_expected(Beta, Normal)
def _beta_normal(p: Beta, q: Normal) -> Tensor:
    return _of_normal(q, p.mean, p.variance)


@_expected(Beta, Uniform)
def _beta_uniform(p: Beta, q: Uniform) -> Tensor:
    return _inside_unit(q, -(q.high - q.low).log())


def _inside_unit(q: Uniform, expectation: Tensor) -> Tensor:
    """Return `expectation` where q covers [0, 1], else -inf."""
    return _ops.where((q.low > 0) | (q.high < 1), -math.inf, expectation)


@_expected(ContinuousBernoulli, Exponential)
def _continuous_bernoulli_exponential(p: ContinuousBernoulli, q: Exponential) -> Tensor:
    return _of_exponential(q, p.mean)


@_expected(ContinuousBernoulli, Normal)
def _continuous_bernoulli_normal(p: ContinuousBernoulli, q: Normal) -> Tensor:
    return _of_normal(q, p.mean, p.variance)


@_expected(ContinuousBernoulli, Uniform)
def _continuous_bernoulli_uniform(p: ContinuousBernoulli, q: Uniform) -> Tensor:
    return _inside_unit(q, -(q.high - q.low).log())


@_expected(Exponential, Gamma)
def _exponential_gamma(p: Exponential, q: Gamma) -> Tensor:
    return _of_gamma(q, p.mean, -euler_constant - p.rate.log())


@_expected(Exponential, Gumbel)
def _exponential_gumbel(p: Exponential, q: Gumbel) -> Tensor:
    return _of_gumbel(q, p.mean, _power(p, q.scale.reciprocal()))


@_expected(Exponential, Normal)
def _exponential_normal(p: Exponential, q: Normal) -> Tensor:
    return _of_normal(q, p.mean, p.variance)


@_expected(Gamma, Exponential)
def _gamma_exponential(p: Gamma, q: Exponential) -> Tensor:
    return _of_exponential(q, p.mean)


@_expected(Gamma, Gumbel)
def _gamma_gumbel(p: Gamma, q: Gumbel) -> Tensor:
    return _of_gumbel(q, p.mean, _power(p, q.scale.reciprocal()))


@_expected(Gamma, Normal)
def _gamma_normal(p: Gamma, q: Normal) -> Tensor:
    return _of_normal(q, p.mean, p.variance)


@_expected(Gumbel, Normal)
def _gumbel_normal(p: Gumbel, q: Normal) -> Tensor:
    return _of_normal(q, p.mean, p.variance)


@_expected(Laplace, Normal)
def _laplace_normal(p: Laplace, q: Normal) -> Tensor:
    return _of_normal(q, p.mean, p.variance)


@_expected(Normal, Gumbel)
def _normal_gumbel(p: Normal, q: Gumbel) -> Tensor:
    power = (0.5 * (p.scale / q.scale).square() - p.loc / q.scale).exp()
    return _of_gumbel(q, p.mean, power)


@_expected(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    t = (p.loc - q.loc) / p.scale
    folded = math.sqrt(2 / math.pi) * (-0.5 * t.square()).exp() + t * _ops.erf(t / math.sqrt(2.0))
    return -(2 * q.scale).log() - p.scale * folded / q.scale


@_expected(Pareto, Exponential)
def _pareto_exponential(p: Pareto, q: Exponential) -> Tensor:
    return _of_exponential(q, p.mean)


@_expected(Pareto, Gamma)
def _pareto_gamma(p: Pareto, q: Gamma) -> Tensor:
    return _of_gamma(q, p.mean, p.scale.log() + p.alpha.reciprocal())


@_expected(Pareto, Normal)
def _pareto_normal(p: Pareto, q: Normal) -> Tensor:
    # Both moments are infinite where the mean is; their difference is not what is asked for.
    mean = _ops.where(p.alpha > 2, p.mean, 0.0)
    return _of_normal(q, mean, p.variance)


@_expected(Uniform, Beta)
def _uniform_beta(p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    logs = (a - 1) * _uniform_log(p.low, p.high) + (b - 1) * _uniform_log(1 - p.high, 1 - p.low)
    expectation = logs - _log_beta(a, b)
    return _ops.where((p.low < 0) | (p.high > 1), -math.inf, expectation)


def _uniform_log(low: Tensor, high: Tensor) -> Tensor:
    """Compute the mean logarithm of a uniform variable on [low, high]."""
    return (_ops.xlogy(high, high) - _ops.xlogy(low, low)) / (high - low) - 1


@_expected(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Uniform, q: ContinuousBernoulli) -> Tensor:
    expectation = _of_continuous_bernoulli(q, p.mean)
    return _ops.where((p.low < 0) | (p.high > 1), -math.inf, expectation)


@_expected(Uniform, Exponential)
def _uniform_exponential(p: Uniform, q: Exponential) -> Tensor:
    return _ops.where(p.low < 0, -math.inf, _of_exponential(q, p.mean))


@_expected(Uniform, Gamma)
def _uniform_gamma(p: Uniform, q: Gamma) -> Tensor:
    expectation = _of_gamma(q, p.mean, _uniform_log(p.low, p.high))
    return _ops.where(p.low < 0, -math.inf, expectation)


@_expected(Uniform, Gumbel)
def _uniform_gumbel(p: Uniform, q: Gumbel) -> Tensor:
    ends = (-p.low / q.scale).exp() - (-p.high / q.scale).exp()
    return _of_gumbel(q, p.mean, q.scale * ends / (p.high - p.low))


@_expected(Uniform, Normal)
def _uniform_normal(p: Uniform, q: Normal) -> Tensor:
    return _of_normal(q, p.mean, p.variance)


@_expected(Uniform, Pareto)
def _uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    expectation = q.alpha.log() + _ops.xlogy(q.alpha, q.scale) - (q.alpha + 1) * _uniform_log(p.low, p.high)
    return _ops.where(p.low < q.scale, -math.inf, expectation)

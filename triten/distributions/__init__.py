"""Probability distributions: parameters, samples, densities, divergences (`torch.distributions`).

Each distribution has its own file. The shared modules:

- `distribution.py`, `exp_family.py`: base classes; `probabilities.py`: base of distributions with probs or logits.
- `constraints.py`: regions of possible values; `transforms.py`: functions between such regions.
- `constraint_registry.py`: transforms to a constraint; `kl.py`: Kullback-Leibler divergences.

Computation belongs in operators. A name's module is imported at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy_import import lazy_names

_MODULES = {
    ".bernoulli": "Bernoulli",
    ".beta": "Beta",
    ".binomial": "Binomial",
    ".categorical": "Categorical",
    ".cauchy": "Cauchy",
    ".chi2": "Chi2",
    ".constraint_registry": "biject_to transform_to",
    ".continuous_bernoulli": "ContinuousBernoulli",
    ".dirichlet": "Dirichlet",
    ".distribution": "Distribution",
    ".exp_family": "ExponentialFamily",
    ".exponential": "Exponential",
    ".fishersnedecor": "FisherSnedecor",
    ".gamma": "Gamma",
    ".generalized_pareto": "GeneralizedPareto",
    ".geometric": "Geometric",
    ".gumbel": "Gumbel",
    ".half_cauchy": "HalfCauchy",
    ".half_normal": "HalfNormal",
    ".independent": "Independent",
    ".inverse_gamma": "InverseGamma",
    ".kl": "kl_divergence register_kl",
    ".kumaraswamy": "Kumaraswamy",
    ".laplace": "Laplace",
    ".lkj_cholesky": "LKJCholesky",
    ".log_normal": "LogNormal",
    ".logistic_normal": "LogisticNormal",
    ".lowrank_multivariate_normal": "LowRankMultivariateNormal",
    ".mixture_same_family": "MixtureSameFamily",
    ".multinomial": "Multinomial",
    ".multivariate_normal": "MultivariateNormal",
    ".negative_binomial": "NegativeBinomial",
    ".normal": "Normal",
    ".one_hot_categorical": "OneHotCategorical OneHotCategoricalStraightThrough",
    ".pareto": "Pareto",
    ".poisson": "Poisson",
    ".relaxed_bernoulli": "RelaxedBernoulli",
    ".relaxed_categorical": "RelaxedOneHotCategorical",
    ".studentT": "StudentT",
    ".transformed_distribution": "TransformedDistribution",
    ".transforms": (
        "AbsTransform AffineTransform CatTransform ComposeTransform CorrCholeskyTransform "
        "CumulativeDistributionTransform ExpTransform IndependentTransform LowerCholeskyTransform "
        "PositiveDefiniteTransform PowerTransform ReshapeTransform SigmoidTransform SoftmaxTransform "
        "SoftplusTransform StackTransform StickBreakingTransform TanhTransform Transform identity_transform"
    ),
    ".uniform": "Uniform",
    ".von_mises": "VonMises",
    ".weibull": "Weibull",
    ".wishart": "Wishart",
}
"""The names of each module."""

_SUBMODULES = [
    "bernoulli",
    "beta",
    "binomial",
    "categorical",
    "cauchy",
    "chi2",
    "constraint_registry",
    "constraints",
    "continuous_bernoulli",
    "dirichlet",
    "distribution",
    "exp_family",
    "exponential",
    "fishersnedecor",
    "gamma",
    "generalized_pareto",
    "geometric",
    "gumbel",
    "half_cauchy",
    "half_normal",
    "independent",
    "inverse_gamma",
    "kl",
    "kumaraswamy",
    "laplace",
    "lkj_cholesky",
    "log_normal",
    "logistic_normal",
    "lowrank_multivariate_normal",
    "mixture_same_family",
    "multinomial",
    "multivariate_normal",
    "negative_binomial",
    "normal",
    "one_hot_categorical",
    "pareto",
    "poisson",
    "relaxed_bernoulli",
    "relaxed_categorical",
    "studentT",
    "transformed_distribution",
    "transforms",
    "uniform",
    "utils",
    "von_mises",
    "weibull",
    "wishart",
]

if TYPE_CHECKING:
    from . import bernoulli as bernoulli
    from . import beta as beta
    from . import binomial as binomial
    from . import categorical as categorical
    from . import cauchy as cauchy
    from . import chi2 as chi2
    from . import constraint_registry as constraint_registry
    from . import constraints as constraints
    from . import continuous_bernoulli as continuous_bernoulli
    from . import dirichlet as dirichlet
    from . import distribution as distribution
    from . import exp_family as exp_family
    from . import exponential as exponential
    from . import fishersnedecor as fishersnedecor
    from . import gamma as gamma
    from . import generalized_pareto as generalized_pareto
    from . import geometric as geometric
    from . import gumbel as gumbel
    from . import half_cauchy as half_cauchy
    from . import half_normal as half_normal
    from . import independent as independent
    from . import inverse_gamma as inverse_gamma
    from . import kl as kl
    from . import kumaraswamy as kumaraswamy
    from . import laplace as laplace
    from . import lkj_cholesky as lkj_cholesky
    from . import log_normal as log_normal
    from . import logistic_normal as logistic_normal
    from . import lowrank_multivariate_normal as lowrank_multivariate_normal
    from . import mixture_same_family as mixture_same_family
    from . import multinomial as multinomial
    from . import multivariate_normal as multivariate_normal
    from . import negative_binomial as negative_binomial
    from . import normal as normal
    from . import one_hot_categorical as one_hot_categorical
    from . import pareto as pareto
    from . import poisson as poisson
    from . import relaxed_bernoulli as relaxed_bernoulli
    from . import relaxed_categorical as relaxed_categorical
    from . import studentT as studentT
    from . import transformed_distribution as transformed_distribution
    from . import transforms as transforms
    from . import uniform as uniform
    from . import utils as utils
    from . import von_mises as von_mises
    from . import weibull as weibull
    from . import wishart as wishart
    from .bernoulli import Bernoulli as Bernoulli
    from .beta import Beta as Beta
    from .binomial import Binomial as Binomial
    from .categorical import Categorical as Categorical
    from .cauchy import Cauchy as Cauchy
    from .chi2 import Chi2 as Chi2
    from .constraint_registry import biject_to as biject_to
    from .constraint_registry import transform_to as transform_to
    from .continuous_bernoulli import ContinuousBernoulli as ContinuousBernoulli
    from .dirichlet import Dirichlet as Dirichlet
    from .distribution import Distribution as Distribution
    from .exp_family import ExponentialFamily as ExponentialFamily
    from .exponential import Exponential as Exponential
    from .fishersnedecor import FisherSnedecor as FisherSnedecor
    from .gamma import Gamma as Gamma
    from .generalized_pareto import GeneralizedPareto as GeneralizedPareto
    from .geometric import Geometric as Geometric
    from .gumbel import Gumbel as Gumbel
    from .half_cauchy import HalfCauchy as HalfCauchy
    from .half_normal import HalfNormal as HalfNormal
    from .independent import Independent as Independent
    from .inverse_gamma import InverseGamma as InverseGamma
    from .kl import kl_divergence as kl_divergence
    from .kl import register_kl as register_kl
    from .kumaraswamy import Kumaraswamy as Kumaraswamy
    from .laplace import Laplace as Laplace
    from .lkj_cholesky import LKJCholesky as LKJCholesky
    from .log_normal import LogNormal as LogNormal
    from .logistic_normal import LogisticNormal as LogisticNormal
    from .lowrank_multivariate_normal import LowRankMultivariateNormal as LowRankMultivariateNormal
    from .mixture_same_family import MixtureSameFamily as MixtureSameFamily
    from .multinomial import Multinomial as Multinomial
    from .multivariate_normal import MultivariateNormal as MultivariateNormal
    from .negative_binomial import NegativeBinomial as NegativeBinomial
    from .normal import Normal as Normal
    from .one_hot_categorical import OneHotCategorical as OneHotCategorical
    from .one_hot_categorical import OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough
    from .pareto import Pareto as Pareto
    from .poisson import Poisson as Poisson
    from .relaxed_bernoulli import RelaxedBernoulli as RelaxedBernoulli
    from .relaxed_categorical import RelaxedOneHotCategorical as RelaxedOneHotCategorical
    from .studentT import StudentT as StudentT
    from .transformed_distribution import TransformedDistribution as TransformedDistribution
    from .transforms import AbsTransform as AbsTransform
    from .transforms import AffineTransform as AffineTransform
    from .transforms import CatTransform as CatTransform
    from .transforms import ComposeTransform as ComposeTransform
    from .transforms import CorrCholeskyTransform as CorrCholeskyTransform
    from .transforms import CumulativeDistributionTransform as CumulativeDistributionTransform
    from .transforms import ExpTransform as ExpTransform
    from .transforms import IndependentTransform as IndependentTransform
    from .transforms import LowerCholeskyTransform as LowerCholeskyTransform
    from .transforms import PositiveDefiniteTransform as PositiveDefiniteTransform
    from .transforms import PowerTransform as PowerTransform
    from .transforms import ReshapeTransform as ReshapeTransform
    from .transforms import SigmoidTransform as SigmoidTransform
    from .transforms import SoftmaxTransform as SoftmaxTransform
    from .transforms import SoftplusTransform as SoftplusTransform
    from .transforms import StackTransform as StackTransform
    from .transforms import StickBreakingTransform as StickBreakingTransform
    from .transforms import TanhTransform as TanhTransform
    from .transforms import Transform as Transform
    from .transforms import identity_transform as identity_transform
    from .uniform import Uniform as Uniform
    from .von_mises import VonMises as VonMises
    from .weibull import Weibull as Weibull
    from .wishart import Wishart as Wishart
else:
    __getattr__, __dir__, _listed = lazy_names(__name__, _MODULES, _SUBMODULES)
    __all__ = [name for name in _listed if name not in _SUBMODULES]

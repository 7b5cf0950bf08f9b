"""Constraints: which values a parameter or a sample may have (`torch.distributions.constraints`).

A constraint's `check` says elementwise, or for whole events, whether values satisfy it. Constraints without parameters
are objects (`real`, `positive`, `simplex`); those with parameters are classes (`greater_than`, `interval`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..runtime.scalar_type import bool_, finfo

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]

SYMMETRY_TOLERANCE = 1e-6
SIMPLEX_TOLERANCE = 1e-6


class Constraint:
    """A region of values (`torch.distributions.constraints.Constraint`).

    Attributes:
        is_discrete: If True, the region consists of separate values. Default: False.
        event_dim: The number of last dimensions that form one value.

    Example:
        >>> import triten as tt
        >>> tt.distributions.constraints.positive.check(tt.tensor([-1.0, 2.0]))
        tensor([False,  True])
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Tensor) -> Tensor:
        """Return whether each event of `value` satisfies the constraint. Every subclass overrides this method.

        Raises:
            NotImplementedError: The subclass does not override it.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__.removeprefix("_") + "()"


def _with_bounds(constraint: Constraint, **bounds: Any) -> str:
    named = ", ".join(f"{name}={bound}" for name, bound in bounds.items())
    return f"{type(constraint).__name__.removeprefix('_')}({named})"


class _Dependent(Constraint):
    """A region that depends on other values, and so cannot be checked by itself."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    @property
    def is_discrete(self) -> bool:
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return bool(self._is_discrete)

    @property
    def event_dim(self) -> int:
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return int(self._event_dim)

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        """Return a copy with `is_discrete` and `event_dim` set if given."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: object) -> bool:
    """Return whether a constraint depends on other values (`torch.distributions.constraints.is_dependent`).

    Example:
        >>> import triten as tt
        >>> c = tt.distributions.constraints
        >>> c.is_dependent(c.dependent), c.is_dependent(c.real)
        (True, False)
    """
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property of distributions that gives a constraint, and on the class itself is a dependent one.

    It decorates a method, bare or with what is known of the constraint.
    """

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        super().__init__(fn)
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def __call__(self, fn: Callable[..., Any]) -> _DependentProperty:  # type: ignore[override]
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _IndependentConstraint(Constraint):
    """A constraint whose last batch dimensions count as one event, that satisfies it where all of it does."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(
                f"base_constraint must be a Constraint instance, got {type(base_constraint).__name__}"
            )
        if not isinstance(reinterpreted_batch_ndims, int) or reinterpreted_batch_ndims < 0:
            raise AssertionError(
                f"reinterpreted_batch_ndims must be a non-negative integer, got {reinterpreted_batch_ndims}"
            )
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:
        return int(self.base_constraint.event_dim) + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        is_valid = self.base_constraint.check(value)
        if is_valid.dim() < self.reinterpreted_batch_ndims:
            expected = self.base_constraint.event_dim + self.reinterpreted_batch_ndims
            raise ValueError(f"Expected value.dim() >= {expected} but got {value.dim()}")
        num_kept_dims = is_valid.dim() - self.reinterpreted_batch_ndims
        return is_valid.reshape((*is_valid.shape[:num_kept_dims], -1)).all(-1)

    def __repr__(self) -> str:
        name = type(self).__name__.removeprefix("_")
        return f"{name}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The support of a mixture: that of its components, for a value without their dimension.

    Args:
        base_constraint: The support of the components.

    Example:
        >>> import triten as tt
        >>> c = tt.distributions.constraints
        >>> c.MixtureSameFamilyConstraint(c.real)
        MixtureSameFamilyConstraint(Real())
    """

    def __init__(self, base_constraint: Constraint) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(
                f"base_constraint must be a Constraint instance, got {type(base_constraint).__name__}"
            )
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:
        return int(self.base_constraint.event_dim)

    def check(self, value: Tensor) -> Tensor:
        batch_ndims = value.dim() - self.event_dim
        is_valid = self.base_constraint.check(value.unsqueeze(batch_ndims))
        return is_valid.reshape((*is_valid.shape[:batch_ndims], -1)).all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        truths = (value == 0) | (value == 1)
        return truths.all(-1) & value.sum(-1).eq(1)


class _IntegerInterval(Constraint):
    is_discrete = True

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        is_valid: Tensor = (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)
        return is_valid

    def __repr__(self) -> str:
        return _with_bounds(self, lower_bound=self.lower_bound, upper_bound=self.upper_bound)


class _IntegerGreaterThan(Constraint):
    is_discrete = True

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        is_valid: Tensor = (value % 1 == 0) & (value >= self.lower_bound)
        return is_valid

    def __repr__(self) -> str:
        return _with_bounds(self, lower_bound=self.lower_bound)


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return value == value


class _GreaterThan(Constraint):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        is_valid: Tensor = value > self.lower_bound
        return is_valid

    def __repr__(self) -> str:
        return _with_bounds(self, lower_bound=self.lower_bound)


class _GreaterThanEq(_GreaterThan):
    def check(self, value: Tensor) -> Tensor:
        is_valid: Tensor = value >= self.lower_bound
        return is_valid


class _LessThan(Constraint):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        is_valid: Tensor = value < self.upper_bound
        return is_valid

    def __repr__(self) -> str:
        return _with_bounds(self, upper_bound=self.upper_bound)


class _Interval(Constraint):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        is_valid: Tensor = (value >= self.lower_bound) & (value <= self.upper_bound)
        return is_valid

    def __repr__(self) -> str:
        return _with_bounds(self, lower_bound=self.lower_bound, upper_bound=self.upper_bound)


class _HalfOpenInterval(_Interval):
    def check(self, value: Tensor) -> Tensor:
        is_valid: Tensor = (value >= self.lower_bound) & (value < self.upper_bound)
        return is_valid


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < SIMPLEX_TOLERANCE)


class _Multinomial(Constraint):
    """Counts that are not negative and sum to at most the bound."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        is_valid: Tensor = (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)
        return is_valid


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value.diagonal(0, -2, -1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """Factors of correlation matrices: rows have norm 1."""

    def check(self, value: Tensor) -> Tensor:
        tolerance = finfo(value.dtype).eps * value.shape[-1] * 10
        norms = _ops.linalg_vector_norm(value.detach(), 2, -1)
        return super().check(value) & (norms - 1).abs().le(tolerance).all(-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        is_square = value.shape[-2] == value.shape[-1]
        return _ops.full(value.shape[:-2], is_square, dtype=bool_, device=value.device)


class _Symmetric(_Square):
    def check(self, value: Tensor) -> Tensor:
        squares = super().check(value)
        if not bool(squares.all()):
            return squares
        return _ops.isclose(value, value.mT, atol=SYMMETRY_TOLERANCE).all(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric_ones = super().check(value)
        if not bool(symmetric_ones.all()):
            return symmetric_ones
        return _ops.linalg_eigvalsh(value).ge(0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric_ones = super().check(value)
        if not bool(symmetric_ones.all()):
            return symmetric_ones
        return _ops.linalg_cholesky_ex(value)[1].eq(0)


class _Several(Constraint):
    """Constraints side by side along a dimension."""

    cseq: list[Constraint]
    dim: int

    @property
    def is_discrete(self) -> bool:
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:
        return max(int(c.event_dim) for c in self.cseq)

    def _check_dim(self, value: Tensor) -> None:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} out of range for value with {value.dim()} dimensions")


def _constraints(cseq: Sequence[Constraint]) -> list[Constraint]:
    if not all(isinstance(c, Constraint) for c in cseq):
        raise AssertionError("All elements of cseq must be Constraint instances")
    return list(cseq)


class _Cat(_Several):
    """Constraints of the pieces of a tensor along `dim`, of the given lengths."""

    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        self.cseq = _constraints(cseq)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(
                f"lengths must have same length as cseq, got {len(self.lengths)} vs {len(self.cseq)}"
            )
        self.dim = dim

    def check(self, value: Tensor) -> Tensor:
        self._check_dim(value)
        checks, start = [], 0
        for constraint, length in zip(self.cseq, self.lengths, strict=True):
            checks.append(constraint.check(value.narrow(self.dim, start, length)))
            start += length
        return _ops.cat(checks, self.dim)


class _Stack(_Several):
    """Constraints of the slices of a tensor along `dim`."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq = _constraints(cseq)
        self.dim = dim

    @property
    def event_dim(self) -> int:
        dims = super().event_dim
        # A dimension counted from the end may be an event dimension.
        return dims + 1 if self.dim + dims < 0 else dims

    def check(self, value: Tensor) -> Tensor:
        self._check_dim(value)
        slices = [value.select(self.dim, i) for i in range(value.size(self.dim))]
        checks = [c.check(v) for v, c in zip(slices, self.cseq, strict=False)]
        return _ops.stack(checks, self.dim)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack

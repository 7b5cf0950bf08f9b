"""Transforms: invertible functions with the logarithm of their Jacobian's determinant
(`torch.distributions.transforms`).
"""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..nn.functional import softplus
from ..runtime.scalar_type import finfo
from ..runtime.size import Size
from . import constraints
from .utils import (
    _sum_rightmost,
    broadcast_all,
    is_number,
    lazy_property,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)

if TYPE_CHECKING:
    from .distribution import Distribution

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]

Shape = Sequence[int]


class Transform:
    """A differentiable function y = f(x) between two regions (`torch.distributions.Transform`).

    A subclass writes `_call`, and if it is bijective `_inverse` and `log_abs_det_jacobian`. With a cache of one the
    last pair of x and y is kept, so that inverting what was just computed costs nothing and is exact.

    Args:
        cache_size: 0, or 1 to keep the last pair.

    Attributes:
        domain: The constraint of x.
        codomain: The constraint of y.
        bijective: If True, each y comes from one x.

    Raises:
        ValueError: `cache_size` is another number.

    Example:
        >>> import triten as tt
        >>> t = tt.distributions.ExpTransform()
        >>> y = t(tt.zeros(2))
        >>> y, t.inv(y), t.log_abs_det_jacobian(tt.zeros(2), y)
        (tensor([1., 1.]), tensor([0., 0.]), tensor([0., 0.]))
    """

    bijective: Any = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        self._cache_size = cache_size
        self._inv: weakref.ref[Transform] | None = None
        if cache_size == 1:
            self._cached_x_y: tuple[Any, Any] = None, None
        elif cache_size != 0:
            raise ValueError("cache_size must be 0 or 1")

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_inv"] = None
        return state

    @property
    def event_dim(self) -> int:
        """The number of event dimensions, if domain and codomain agree on it.

        Raises:
            ValueError: Domain and codomain have different numbers of event dimensions.
        """
        if self.domain.event_dim == self.codomain.event_dim:
            return int(self.domain.event_dim)
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Transform:
        """The inverse, whose inverse is this transform."""
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = _InverseTransform(self)
            self._inv = weakref.ref(inverse)
        return inverse

    @property
    def sign(self) -> Any:
        """The sign of the derivative of a monotonic scalar function, +1 or -1."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Any:
        """Return the same transform with a cache of this size.

        Raises:
            NotImplementedError: The class has its own constructor and does not override this method.
        """
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = object.__hash__

    def __call__(self, x: Tensor) -> Tensor:
        """Compute f(x)."""
        if self._cache_size == 0:
            return self._call(x)
        known_x, known_y = self._cached_x_y
        if x is known_x:
            cached_y: Tensor = known_y
            return cached_y
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._inverse(y)
        known_x, known_y = self._cached_x_y
        if y is known_y:
            cached_x: Tensor = known_x
            return cached_x
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Compute log |det dy / dx| from x and y.

        Raises:
            NotImplementedError: The transform does not implement it.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__ + "()"

    def forward_shape(self, shape: Shape) -> Size:
        """Return the shape of y for a shape of x."""
        return Size(shape)

    def inverse_shape(self, shape: Shape) -> Size:
        """Return the shape of x for a shape of y."""
        return Size(shape)


class _InverseTransform(Transform):
    """The inverse of a transform, which keeps the cache."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv: Any = transform

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return self._inv.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return self._inv.domain

    @property
    def bijective(self) -> Any:
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        forward: Transform = self._inv
        return forward

    def with_cache(self, cache_size: int = 1) -> Any:
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and bool(self._inv == other._inv)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x: Tensor) -> Tensor:
        return self.inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self.inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Shape) -> Size:
        return self.inv.inverse_shape(shape)

    def inverse_shape(self, shape: Shape) -> Size:
        return self.inv.forward_shape(shape)


class ComposeTransform(Transform):
    """Transforms one after another, the first one first (`torch.distributions.ComposeTransform`).

    Args:
        parts: The transforms.
        cache_size: 0, or 1 to keep the last pair of each of them.

    Example:
        >>> import triten as tt
        >>> d = tt.distributions
        >>> t = d.ComposeTransform([d.AffineTransform(0.0, 2.0), d.ExpTransform()])
        >>> t(tt.zeros(1))
        tensor([1.])
    """

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        if cache_size:
            parts = [part.with_cache(cache_size) for part in parts]
        super().__init__(cache_size=cache_size)
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    def _end(self, parts: Sequence[Transform], outer: str, inner: str) -> Any:
        """Return the constraint at one end, with as many event dimensions as the parts need."""
        if not parts:
            return constraints.real
        constraint = getattr(parts[0], outer)
        dims = int(getattr(parts[-1], inner).event_dim)
        for part in reversed(parts):
            first, last = int(getattr(part, outer).event_dim), int(getattr(part, inner).event_dim)
            dims = max(dims + first - last, first)
        if dims < constraint.event_dim:
            raise AssertionError(f"event_dim {dims} must be >= {outer}.event_dim {constraint.event_dim}")
        if dims > constraint.event_dim:
            return constraints.independent(constraint, dims - constraint.event_dim)
        return constraint

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return self._end(self.parts, "domain", "codomain")

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return self._end(self.parts[::-1], "codomain", "domain")

    @lazy_property
    def bijective(self) -> bool:
        return all(part.bijective for part in self.parts)

    @lazy_property
    def sign(self) -> Any:
        return reduce(operator.mul, (part.sign for part in self.parts), 1)

    @property
    def inv(self) -> Transform:
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv = weakref.ref(inverse)
            # The inverse holds this transform, as `_InverseTransform` does.
            inverse.__dict__["_forward"] = self
            inverse._inv = weakref.ref(self)
        return inverse

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return x.new_zeros(x.shape)
        ends = [x]
        for part in self.parts[:-1]:
            ends.append(part(ends[-1]))
        ends.append(y)
        terms: list[Tensor] = []
        dims = int(self.domain.event_dim)
        for part, before, after in zip(self.parts, ends[:-1], ends[1:], strict=True):
            terms.append(
                _sum_rightmost(part.log_abs_det_jacobian(before, after), dims - int(part.domain.event_dim))
            )
            dims += int(part.codomain.event_dim) - int(part.domain.event_dim)
        return reduce(operator.add, terms)

    def forward_shape(self, shape: Shape) -> Size:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return Size(shape)

    def inverse_shape(self, shape: Shape) -> Size:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return Size(shape)

    def __repr__(self) -> str:
        return type(self).__name__ + "(\n    " + ",\n    ".join(repr(part) for part in self.parts) + "\n)"


identity_transform = ComposeTransform([])
"""The transform that changes nothing (`torch.distributions.identity_transform`)."""


class IndependentTransform(Transform):
    """A transform whose last batch dimensions count as one event (`torch.distributions.IndependentTransform`).

    Args:
        base_transform: The transform.
        reinterpreted_batch_ndims: How many more dimensions an event has; the logarithms of determinants are summed
            over them.
        cache_size: 0, or 1 to keep the last pair.

    Example:
        >>> import triten as tt
        >>> t = tt.distributions.IndependentTransform(tt.distributions.ExpTransform(), 1)
        >>> x = tt.ones(2, 3)
        >>> t.log_abs_det_jacobian(x, t(x))
        tensor([3., 3.])
    """

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> Any:
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        if x.dim() < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        y: Tensor = self.base_transform(x)
        return y

    def _inverse(self, y: Tensor) -> Tensor:
        if y.dim() < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        x: Tensor = self.base_transform.inv(y)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Shape) -> Size:
        result: Size = self.base_transform.forward_shape(shape)
        return result

    def inverse_shape(self, shape: Shape) -> Size:
        result: Size = self.base_transform.inverse_shape(shape)
        return result


class ReshapeTransform(Transform):
    """Events of one shape as events of another (`torch.distributions.ReshapeTransform`).

    Args:
        in_shape: The shape of an event of x.
        out_shape: The shape of an event of y.
        cache_size: 0, or 1 to keep the last pair.

    Raises:
        ValueError: The shapes have different numbers of elements.

    Example:
        >>> import triten as tt
        >>> t = tt.distributions.ReshapeTransform((4,), (2, 2))
        >>> t(tt.zeros(3, 4)).shape
        triten.Size([3, 2, 2])
    """

    bijective = True

    def __init__(self, in_shape: Shape, out_shape: Shape, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape((*x.shape[: x.dim() - len(self.in_shape)], *self.out_shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape((*y.shape[: y.dim() - len(self.out_shape)], *self.in_shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def _other_shape(self, shape: Shape, old: Size, new: Size) -> Size:
        if len(shape) < len(old):
            raise ValueError("Too few dimensions on input")
        batch = len(shape) - len(old)
        if tuple(shape[batch:]) != tuple(old):
            raise ValueError(f"Shape mismatch: expected {Size(shape[batch:])} but got {old}")
        return Size((*shape[:batch], *new))

    def forward_shape(self, shape: Shape) -> Size:
        return self._other_shape(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Shape) -> Size:
        return self._other_shape(shape, self.out_shape, self.in_shape)


class _Plain(Transform):
    """A transform without parameters: two of a class are equal."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    __hash__ = object.__hash__


class ExpTransform(_Plain):
    """y = exp(x) (`torch.distributions.ExpTransform`).

    Example:
        >>> import triten as tt
        >>> tt.distributions.ExpTransform()(tt.zeros(1))
        tensor([1.])
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = +1

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """y = x ** exponent of positive numbers (`torch.distributions.PowerTransform`).

    Args:
        exponent: The exponent, which is not 0.
        cache_size: 0, or 1 to keep the last pair.

    Example:
        >>> import triten as tt
        >>> tt.distributions.PowerTransform(2.0)(tt.tensor([3.0]))
        tensor([9.])
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Tensor | float, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size)

    @lazy_property
    def sign(self) -> Tensor:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all())

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Shape) -> Size:
        return Size(_shape_with(shape, self.exponent))

    def inverse_shape(self, shape: Shape) -> Size:
        return Size(_shape_with(shape, self.exponent))


def _shape_with(shape: Shape, *params: Any) -> tuple[int, ...]:
    """Return the shape that `shape` broadcasts to with the parameters."""
    from ..dispatch.iterator.broadcast import broadcast_sizes

    return tuple(broadcast_sizes(tuple(shape), *(tuple(getattr(o, "shape", ())) for o in params)))


def _clipped_sigmoid(x: Tensor) -> Tensor:
    """Compute the sigmoid, strictly between 0 and 1."""
    limits = finfo(x.dtype)
    return x.sigmoid().clamp(min=limits.tiny, max=1.0 - limits.eps)


class SigmoidTransform(_Plain):
    """y = 1 / (1 + exp(-x)), kept from 0 and 1 by the dtype's precision (`torch.distributions.SigmoidTransform`).

    Example:
        >>> import triten as tt
        >>> tt.distributions.SigmoidTransform()(tt.zeros(1))
        tensor([0.5000])
    """

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = +1

    def _call(self, x: Tensor) -> Tensor:
        return _clipped_sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        limits = finfo(y.dtype)
        y = y.clamp(min=limits.tiny, max=1.0 - limits.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(_Plain):
    """y = log(1 + exp(x)) (`torch.distributions.SoftplusTransform`).

    Example:
        >>> import triten as tt
        >>> tt.distributions.SoftplusTransform()(tt.zeros(1))
        tensor([0.6931])
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = +1

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class TanhTransform(_Plain):
    """y = tanh(x) (`torch.distributions.TanhTransform`).

    Example:
        >>> import triten as tt
        >>> tt.distributions.TanhTransform()(tt.zeros(1))
        tensor([0.])
    """

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = +1

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # log(1 - tanh(x)^2), without the cancellation far from zero.
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(_Plain):
    """y = |x|, which has no inverse but itself (`torch.distributions.AbsTransform`).

    Example:
        >>> import triten as tt
        >>> tt.distributions.AbsTransform()(tt.tensor([-2.0]))
        tensor([2.])
    """

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """y = loc + scale * x, elementwise (`torch.distributions.AffineTransform`).

    Args:
        loc: The summand.
        scale: The factor.
        event_dim: The number of last dimensions that form one value.
        cache_size: 0, or 1 to keep the last pair.

    Example:
        >>> import triten as tt
        >>> tt.distributions.AffineTransform(1.0, 2.0)(tt.ones(2))
        tensor([3., 3.])
    """

    bijective = True

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, event_dim: int = 0, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    def _region(self) -> Any:
        if self.event_dim == 0:
            return constraints.real
        return constraints.independent(constraints.real, self.event_dim)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return self._region()

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return self._region()

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        pairs = ((self.loc, other.loc), (self.scale, other.scale))
        return all(
            a == b if is_number(a) and is_number(b) else bool(_ops.eq(*broadcast_all(a, b)).all())
            for a, b in pairs
        )

    __hash__ = object.__hash__

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return 1 if self.scale > 0 else -1 if self.scale < 0 else 0

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, Tensor):
            log_det = self.scale.abs().log()
        else:
            log_det = _ops.full_like(x, math.log(abs(self.scale)))
        shape = x.shape
        if self.event_dim:
            log_det = log_det.expand(_shape_with(shape, log_det))
            log_det = log_det.reshape((*log_det.shape[: -self.event_dim], -1)).sum(-1)
            shape = shape[: -self.event_dim]
        return log_det.expand(shape)

    def forward_shape(self, shape: Shape) -> Size:
        return Size(_shape_with(shape, self.loc, self.scale))

    def inverse_shape(self, shape: Shape) -> Size:
        return Size(_shape_with(shape, self.loc, self.scale))


class CorrCholeskyTransform(Transform):
    """A vector of D (D - 1) / 2 numbers as the Cholesky factor of a correlation matrix
    (`torch.distributions.CorrCholeskyTransform`).

    The hyperbolic tangents of the numbers are partial correlations, row by row: each takes its share of what is left
    of a row's norm of 1. Source: D. Lewandowski, D. Kurowicka, H. Joe, "Generating random correlation matrices based on
    vines and extended onion method" (2009).

    Example:
        >>> import triten as tt
        >>> tt.distributions.CorrCholeskyTransform()(tt.zeros(1))
        tensor([[1., 0.],
                [0., 1.]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - partial * partial).sqrt().cumprod(-1)
        whole = partial + _ops.eye(partial.shape[-1], dtype=x.dtype, device=x.device)
        first = left.new_ones((*left.shape[:-1], 1))
        return whole * _ops.cat([first, left[..., :-1]], -1)

    def _inverse(self, y: Tensor) -> Tensor:
        # The part of a row's squared norm that remains before each element.
        left = 1 - (y * y).cumsum(-1)
        before = _ops.cat([left.new_ones((*left.shape[:-1], 1)), left[..., :-1]], -1)
        entries, rest = tril_matrix_to_vec(y, diag=-1), tril_matrix_to_vec(before, diag=-1)
        partial = entries / rest.sqrt()
        return (partial.log1p() - (-partial).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = 1 - (y * y).cumsum(-1)
        of_rows = 0.5 * tril_matrix_to_vec(left, diag=-2).log().sum(-1)
        of_tanh = -2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)
        return of_rows + of_tanh

    def forward_shape(self, shape: Shape) -> Size:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        length = shape[-1]
        size = round((0.25 + 2 * length) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != length:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], size, size))

    def inverse_shape(self, shape: Shape) -> Size:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        size = shape[-1]
        return Size((*shape[:-2], size * (size - 1) // 2))


class SoftmaxTransform(_Plain):
    """y = softmax(x); the inverse is one of many (`torch.distributions.SoftmaxTransform`).

    Example:
        >>> import triten as tt
        >>> tt.distributions.SoftmaxTransform()(tt.zeros(2))
        tensor([0.5000, 0.5000])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return _ops.softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Shape) -> Size:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size(shape)

    def inverse_shape(self, shape: Shape) -> Size:
        return self.forward_shape(shape)


class StickBreakingTransform(_Plain):
    """K numbers as K + 1 that are positive and sum to 1 (`torch.distributions.StickBreakingTransform`).

    Each takes the share sigmoid(x - log(number of those still to come)) of what is left of 1.

    Example:
        >>> import triten as tt
        >>> tt.distributions.StickBreakingTransform()(tt.zeros(1))
        tensor([0.5000, 0.5000])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _offset(self, x: Tensor, size: int) -> Tensor:
        """Return the number of remaining pieces after each piece."""
        return _ops.arange(size, 0, -1, dtype=x.dtype, device=x.device)

    def _call(self, x: Tensor) -> Tensor:
        share = _clipped_sigmoid(x - self._offset(x, x.shape[-1]).log())
        remaining = (1 - share).cumprod(-1)
        unit = remaining.new_ones((*remaining.shape[:-1], 1))
        return _ops.cat([share, unit], -1) * _ops.cat([unit, remaining], -1)

    def _inverse(self, y: Tensor) -> Tensor:
        pieces = y[..., :-1]
        left = (1 - pieces.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return pieces.log() - left.log() + self._offset(y, pieces.shape[-1]).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        shifted = x - self._offset(x, x.shape[-1]).log()
        return (-shifted - softplus(-shifted) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Shape) -> Size:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Shape) -> Size:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(_Plain):
    """A square matrix as a lower triangular one of positive diagonal (`torch.distributions.LowerCholeskyTransform`).

    Example:
        >>> import triten as tt
        >>> tt.distributions.LowerCholeskyTransform()(tt.zeros(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(0, -2, -1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(0, -2, -1).log().diag_embed()


class PositiveDefiniteTransform(_Plain):
    """A square matrix as a positive definite one, by its Cholesky factor
    (`torch.distributions.PositiveDefiniteTransform`).

    Example:
        >>> import triten as tt
        >>> tt.distributions.PositiveDefiniteTransform()(tt.zeros(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(_ops.linalg_cholesky(y))


class CatTransform(Transform):
    """Transforms of the pieces of a tensor along a dimension (`torch.distributions.CatTransform`).

    Args:
        tseq: A transform for each piece.
        dim: The dimension.
        lengths: The sizes of the pieces, by default 1 each.
        cache_size: 0, or 1 to keep the last pairs.

    Example:
        >>> import triten as tt
        >>> d = tt.distributions
        >>> t = d.CatTransform([d.ExpTransform(), d.identity_transform], lengths=[1, 2])
        >>> t(tt.zeros(3))
        tensor([1., 0., 0.])
    """

    transforms: list[Transform]

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(
                f"lengths must have same length as tseq, got {len(self.lengths)} vs {len(self.transforms)}"
            )
        self.dim = dim

    @lazy_property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @lazy_property
    def length(self) -> int:
        """The size along the dimension."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _pieces(self, *values: Tensor) -> Iterator[tuple[Any, ...]]:
        """Yield each transform with its slice of each tensor."""
        for value in values:
            if not -value.dim() <= self.dim < value.dim():
                raise AssertionError(f"dim {self.dim} out of range for a tensor of {value.dim()} dimensions")
            if value.size(self.dim) != self.length:
                raise AssertionError(
                    f"size along dim {self.dim} must be {self.length}, got {value.size(self.dim)}"
                )
        start = 0
        for transform, length in zip(self.transforms, self.lengths, strict=True):
            yield (transform, *(value.narrow(self.dim, start, length) for value in values))
            start += length

    def _call(self, x: Tensor) -> Tensor:
        return _ops.cat([t(piece) for t, piece in self._pieces(x)], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return _ops.cat([t.inv(piece) for t, piece in self._pieces(y)], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        log_dets = []
        for transform, before, after in self._pieces(x, y):
            term = transform.log_abs_det_jacobian(before, after)
            log_dets.append(_sum_rightmost(term, self.event_dim - transform.event_dim))
        dim = self.dim if self.dim < 0 else self.dim - x.dim()
        dim += self.event_dim
        return _ops.cat(log_dets, dim) if dim < 0 else reduce(operator.add, log_dets)

    @property
    def bijective(self) -> bool:
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(Transform):
    """Transforms of the slices of a tensor along a dimension (`torch.distributions.StackTransform`).

    Args:
        tseq: A transform for each slice.
        dim: The dimension.
        cache_size: 0, or 1 to keep the last pairs.

    Example:
        >>> import triten as tt
        >>> d = tt.distributions
        >>> d.StackTransform([d.ExpTransform(), d.identity_transform])(tt.zeros(2))
        tensor([1., 0.])
    """

    transforms: list[Transform]

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _slices(self, value: Tensor) -> list[Tensor]:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} out of range for a tensor of {value.dim()} dimensions")
        if value.size(self.dim) != len(self.transforms):
            raise AssertionError(
                f"size along dim {self.dim} must be {len(self.transforms)}, got {value.size(self.dim)}"
            )
        return [value.select(self.dim, i) for i in range(len(self.transforms))]

    def _call(self, x: Tensor) -> Tensor:
        pairs = zip(self._slices(x), self.transforms, strict=True)
        return _ops.stack([t(piece) for piece, t in pairs], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        pairs = zip(self._slices(y), self.transforms, strict=True)
        return _ops.stack([t.inv(piece) for piece, t in pairs], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        triples = zip(self._slices(x), self._slices(y), self.transforms, strict=True)
        return _ops.stack([t.log_abs_det_jacobian(a, b) for a, b, t in triples], self.dim)

    @property
    def bijective(self) -> bool:
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)


class CumulativeDistributionTransform(Transform):
    """y = F(x) of a distribution's distribution function F (`torch.distributions.CumulativeDistributionTransform`).

    Args:
        distribution: The distribution, which has `cdf`, `icdf` and `log_prob`.
        cache_size: 0, or 1 to keep the last pair.

    Example:
        >>> import triten as tt
        >>> t = tt.distributions.CumulativeDistributionTransform(tt.distributions.Normal(0.0, 1.0))
        >>> t(tt.zeros(1))
        tensor([0.5000])
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = +1

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)

"""`Distribution`, the base class (`torch.distributions.Distribution`)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

from ..dispatch.autograd.grad_mode import no_grad
from ..dispatch.tensor import Tensor
from ..runtime.size import Size
from . import constraints
from .utils import lazy_property

__all__ = ["Distribution"]

Shape = Sequence[int]


class Distribution:
    """Base class of probability distributions (`torch.distributions.Distribution`).

    A distribution represents a batch. `batch_shape` is the broadcast shape of its parameters, `event_shape` the shape
    of one sample. Given values broadcast against ``batch_shape + event_shape``.

    Args:
        batch_shape: The shape of the batch.
        event_shape: The shape of a single sample.
        validate_args: If True, parameters and values are checked; None for the default, which is True unless Python
            runs with ``-O``.

    Raises:
        ValueError: A parameter lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> d = tt.distributions.Normal(tt.zeros(3), 1.0)
        >>> d.batch_shape, d.event_shape, d.sample((2,)).shape
        (triten.Size([3]), triten.Size([]), triten.Size([2, 3]))
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args = __debug__
    _kept: ClassVar[tuple[str, ...]] = ()
    """Attributes beside the parameters that an expanded distribution shares."""

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Check, or do not check, the arguments of distributions that are made from now on.

        Raises:
            ValueError: `value` is not a bool.
        """
        if value not in [True, False]:
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Shape = (),
        event_shape: Shape = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        try:
            arg_constraints = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. "
                "Please set `arg_constraints = {}` or initialize the distribution "
                "with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        for name, constraint in arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property):
                continue
            value = getattr(self, name)
            if not bool(constraint.check(value).all()):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) "
                    f"of distribution {self!r} to satisfy the constraint {constraint!r}, "
                    f"but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        """Expand the parameters to a batch shape, as views without validation.

        Args:
            batch_shape: The new shape, to which the current one broadcasts.
            _instance: For subclasses: the object that becomes the result. Default: a new object.
        """
        new = self._get_checked_instance(type(self), _instance)
        shape = Size(batch_shape)
        for name, constraint in self.arg_constraints.items():
            value = self.__dict__.get(name)
            if isinstance(value, Tensor):
                events = value.dim() - constraint.event_dim
                new.__dict__[name] = value.expand((*shape, *value.shape[events:]))
        for name in self._kept:
            if name in self.__dict__:
                new.__dict__[name] = self.__dict__[name]
        self._expand_parts(new, shape)
        Distribution.__init__(new, shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _expand_parts(self, new: Any, shape: Size) -> None:
        """Expand what is not a parameter, such as a distribution that this one is made of."""

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one sample."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """The constraint of each parameter."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """The constraint that samples satisfy."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The value of the greatest density."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Generate samples of shape ``sample_shape + batch_shape + event_shape``, without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Generate samples as a differentiable function of the parameters.

        Raises:
            NotImplementedError: The distribution has no such samples; `has_rsample` is False.
        """
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """Return `sample` of ``(n,)``. Deprecated."""
        warnings.warn(
            "sample_n(n) will be deprecated. Use .sample((n,)) instead", FutureWarning, stacklevel=2
        )
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """Compute the log-density, or log-probability, of `value`.

        Raises:
            NotImplementedError: The distribution does not implement it.
        """
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """Compute the cumulative distribution function at `value`.

        Raises:
            NotImplementedError: The distribution does not implement it.
        """
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """Compute the quantile: the point at which `cdf` equals `value`.

        Raises:
            NotImplementedError: The distribution does not implement it.
        """
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values of a discrete distribution, along a new first dimension.

        Args:
            expand: If True, expand the values over the batch; else batch dimensions have size 1. Default: True.

        Raises:
            NotImplementedError: The distribution does not implement it.
        """
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Compute the entropy, in nats.

        Raises:
            NotImplementedError: The distribution does not implement it.
        """
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """Compute the exponential of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Shape = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _values_of_support(self, values: Tensor, expand: bool) -> Tensor:
        """Reshape values along the first dimension, followed by the batch dimensions."""
        made = values.reshape((-1, *([1] * len(self._batch_shape))))
        return made.expand((-1, *self._batch_shape)) if expand else made

    def _validate_sample(self, value: Tensor) -> None:
        """Raise ValueError for a value of another shape, or outside the support."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        events = value.dim() - len(self._event_shape)
        if value.shape[events:] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.size()} vs {self._event_shape}."
            )
        expected = self._batch_shape + self._event_shape
        for size, expected_size in zip(reversed(value.shape), reversed(expected), strict=False):
            if size != 1 and expected_size != 1 and size != expected_size:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.size()} vs {expected}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. "
                "Please initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        if support is None:
            raise AssertionError("support must not be None")
        if not bool(support.check(value).all()):
            raise ValueError(
                "Expected value argument "
                f"({type(value).__name__} of shape {tuple(value.shape)}) "
                f"to be within the support ({support!r}) "
                f"of the distribution {self!r}, "
                f"but found invalid values:\n{value}"
            )

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        return type(self).__new__(type(self)) if _instance is None else _instance

    def __repr__(self) -> str:
        names = [name for name in self.arg_constraints if name in self.__dict__]
        shown = []
        for name in names:
            value = self.__dict__[name]
            shown.append(f"{name}: {value if value.numel() == 1 else value.size()}")
        return f"{type(self).__name__}({', '.join(shown)})"

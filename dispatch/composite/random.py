"""Random operators made of others: integers, ``out=`` forms, dropout."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ...runtime.device import device as Device
from ...runtime.generator import MersenneGenerator
from ...runtime.memory_format import contiguous_format
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import float64, int64
from ...runtime.tensor_impl import TensorImpl
from ..core.dispatcher import Dispatcher
from ..core.kernel_function import Plan
from ..core.mode_stack import sees_whole
from ..core.operator_entry import OperatorEntry
from ..generated.functions import (
    _sample_dirichlet,
    _standard_gamma,
    bernoulli,
    binomial,
    empty,
    empty_like,
    leaky_relu,
    leaky_relu_,
    leaky_relu_backward,
    multinomial,
    native_dropout,
    normal,
    ones_like,
    poisson,
    where,
)
from ..iterator.overlap import check_write_overlap, shares_memory
from ..plans.host_kernel import is_unseen
from ..plans.register import planned_by
from ..scalars import real
from ..structured.meta.draws import stream_of
from ..structured.meta.factories import like_spec, spec_from
from ..structured.meta.random import fresh_integers, fresh_normal
from ..structured.supported_dtypes import check_dtype
from .dimnames import named_factory
from .forms import check_out, out_form, write_out

if TYPE_CHECKING:
    from ...runtime.generator import Generator
    from ...runtime.layout import layout as Layout
    from ...runtime.memory_format import memory_format as MemoryFormat
    from ..plans.register import Composite
    from ..tensor import Tensor

Drawn = Callable[[Sequence[Any]], Plan]


def _filling_new_memory(made_of: Drawn) -> Callable[[Composite], Composite]:
    """Decorate a composite that fills new memory: for host tensors, `made_of` plans allocation and fill together."""

    def decorate(function: Composite) -> Composite:
        def plan(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
            names = ("aten::empty.memory_format", "aten::random_.from", "aten::normal_")
            numbers = all(not isinstance(value, TensorImpl) for value in args[1:])
            return made_of(args) if numbers and is_unseen(key_set, names) else None

        return planned_by(plan)(function)

    return decorate


def _integers(low: int | None, high: int, size: int, generator: int | None) -> Drawn:
    """Return the planner of random integers of a given size, by the positions of the arguments; the default `low` is
    0.
    """
    rest = size + 1 if generator is None else generator + 1

    def made_of(args: Sequence[Any]) -> Plan:
        dtype, layout, device, pin = args[rest : rest + 4]
        spec = spec_from("empty", args[size], dtype or int64, layout, device)
        return fresh_integers(spec, 0 if low is None else args[low], args[high], pin)

    return made_of


def _integers_like(low: int | None, high: int, generator: int | None) -> Drawn:
    """Return the planner of integers of another tensor's size, by the positions of the arguments."""
    rest = high + 1 if generator is None else generator + 1

    def made_of(args: Sequence[Any]) -> Plan:
        spec = like_spec((args[0], *args[rest : rest + 5]))
        _check_real(spec.dtype)
        bounds = 0 if low is None else args[low], int(args[high])
        return fresh_integers(spec, *bounds, args[rest + 3], num_unused=1)

    return made_of


def _normal_numbers(args: Sequence[Any]) -> Plan:
    return fresh_normal(spec_from("empty", args[2], *args[4:7]), args[7])


def _check_real(dtype: ScalarType) -> None:
    if dtype.is_complex:
        raise RuntimeError("check_random_bounds handles only integral, floating-point and boolean types")


@_filling_new_memory(_integers(0, 1, 2, 3))
def randint_low_generator(
    low: int,
    high: int,
    size: Sequence[int],
    generator: Generator | None,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin: bool | None,
) -> Tensor:
    """Return `torch.randint`: integers from `low` (inclusive) to `high` (exclusive)."""
    made = empty(tuple(size), dtype=dtype or int64, layout=layout, device=device, pin_memory=pin)
    return made.random_(low, high, generator=generator)


@_filling_new_memory(_integers(0, 1, 2, None))
def randint_low(low: int, high: int, size: Sequence[int], *options: Any) -> Tensor:
    """Return ``randint(low, high, size)``."""
    return randint_low_generator(low, high, size, None, *options)


@_filling_new_memory(_integers(None, 0, 1, 2))
def randint_generator(high: int, size: Sequence[int], generator: Generator | None, *options: Any) -> Tensor:
    """Return ``randint(high, size, generator=)``."""
    return randint_low_generator(0, high, size, generator, *options)


@_filling_new_memory(_integers(None, 0, 1, None))
def randint(high: int, size: Sequence[int], *options: Any) -> Tensor:
    """Return ``randint(high, size)``."""
    return randint_low_generator(0, high, size, None, *options)


def randint_low_generator_out(
    low: int, high: int, size: Sequence[int], generator: Generator | None, out: Tensor
) -> Tensor:
    """Run ``randint(low, high, size, out=)``."""
    return out.resize_(size).random_(low, high, generator=generator)


def randint_low_out(low: int, high: int, size: Sequence[int], out: Tensor) -> Tensor:
    """Run ``randint(low, high, size, out=)``."""
    return randint_low_generator_out(low, high, size, None, out)


def randint_generator_out(high: int, size: Sequence[int], generator: Generator | None, out: Tensor) -> Tensor:
    """Run ``randint(high, size, generator=, out=)``."""
    return randint_low_generator_out(0, high, size, generator, out)


def randint_out(high: int, size: Sequence[int], out: Tensor) -> Tensor:
    """Run ``randint(high, size, out=)``."""
    return randint_low_generator_out(0, high, size, None, out)


def _bound_of(high: Any) -> int:
    """Return the bound of random integers, which may be a 0-d tensor."""
    if isinstance(high, TensorImpl) and high._spec.ndim:
        raise RuntimeError(f"randint_like: high must be a scalar tensor, got sizes {list(high._spec.sizes)}")
    return int(high)


@_filling_new_memory(_integers_like(1, 2, 3))
def randint_like_low_generator(
    self: Tensor,
    low: int,
    high: int,
    generator: Generator | None,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin: bool | None,
    memory_format: MemoryFormat | None,
) -> Tensor:
    """Return `torch.randint_like`; sizes, dtype and device default to those of `self`."""
    _check_real(dtype or self.dtype)
    made = empty_like(
        self, dtype=dtype, layout=layout, device=device, pin_memory=pin, memory_format=memory_format
    )
    return made.random_(low, _bound_of(high), generator=generator)


@_filling_new_memory(_integers_like(1, 2, None))
def randint_like_low(self: Tensor, low: int, high: int, *options: Any) -> Tensor:
    """Return ``randint_like(self, low, high)``."""
    return randint_like_low_generator(self, low, high, None, *options)


@_filling_new_memory(_integers_like(None, 1, 2))
def randint_like_generator(self: Tensor, high: Any, generator: Generator | None, *options: Any) -> Tensor:
    """Return ``randint_like(self, high, generator=)``; `high` may be a 0-d tensor."""
    return randint_like_low_generator(self, 0, high, generator, *options)


@_filling_new_memory(_integers_like(None, 1, None))
def randint_like(self: Tensor, high: Any, *options: Any) -> Tensor:
    """Return ``randint_like(self, high)``."""
    return randint_like_low_generator(self, 0, high, None, *options)


def rand_generator_out(size: Sequence[int], generator: Generator | None, out: Tensor) -> Tensor:
    """Run ``rand(size, generator=, out=)``."""
    return out.resize_(size).uniform_(0.0, 1.0, generator=generator)


def rand_out(size: Sequence[int], out: Tensor) -> Tensor:
    """Run ``rand(size, out=)``."""
    return rand_generator_out(size, None, out)


def randn_generator_out(size: Sequence[int], generator: Generator | None, out: Tensor) -> Tensor:
    """Run ``randn(size, generator=, out=)``."""
    return out.resize_(size).normal_(0.0, 1.0, generator=generator)


def randn_out(size: Sequence[int], out: Tensor) -> Tensor:
    """Run ``randn(size, out=)``."""
    return randn_generator_out(size, None, out)


def randperm_generator_out(n: int, generator: Generator | None, out: Tensor) -> Tensor:
    """Run ``randperm(n, generator=, out=)``."""
    from ..generated.functions import randperm

    made = randperm(n, generator=generator, dtype=out.dtype, device=out.device)
    return out.resize_((n,)).copy_(made)


def randperm_out(n: int, out: Tensor) -> Tensor:
    """Run ``randperm(n, out=)``."""
    return randperm_generator_out(n, None, out)


def bernoulli_out(self: Tensor, generator: Generator | None, out: Tensor) -> Tensor:
    """Run ``bernoulli(self, out=)``."""
    if shares_memory(out, self):
        check_write_overlap(out, self)
    made = bernoulli(self, generator=generator)
    check_out("bernoulli", out, made.to(out.dtype))
    return out.resize_(self.shape).copy_(made)


def standard_gamma_out(self: Tensor, generator: Generator | None, out: Tensor) -> Tensor:
    """Run ``_standard_gamma(self, out=)``."""
    return out_form("_standard_gamma", partial(_standard_gamma, generator=generator))(self, out)


def sample_dirichlet_out(self: Tensor, generator: Generator | None, out: Tensor) -> Tensor:
    """Run ``_sample_dirichlet(self, out=)``."""
    return out_form("_sample_dirichlet", partial(_sample_dirichlet, generator=generator))(self, out)


def poisson_out(self: Tensor, generator: Generator | None, out: Tensor) -> Tensor:
    """Run ``poisson(self, out=)``."""
    return out_form("poisson", partial(poisson, generator=generator))(self, out)


def binomial_out(count: Tensor, prob: Tensor, generator: Generator | None, out: Tensor) -> Tensor:
    """Run ``binomial(count, prob, out=)``."""
    return out_form("binomial", partial(binomial, generator=generator))(count, prob, out)


@_filling_new_memory(_normal_numbers)
def normal_float_float(
    mean: float,
    std: float,
    size: Sequence[int],
    generator: Generator | None,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin: bool | None,
) -> Tensor:
    """Return ``normal(mean, std, size)``."""
    return empty(tuple(size), dtype=dtype, layout=layout, device=device, pin_memory=pin).normal_(
        mean, std, generator=generator
    )


def normal_float_float_out(
    mean: float, std: float, size: Sequence[int], generator: Generator | None, out: Tensor
) -> Tensor:
    """Run ``normal(mean, std, size, out=)``."""
    return out.resize_(size).normal_(mean, std, generator=generator)


def normal_out(mean: Tensor | float, std: Tensor | float, generator: Generator | None, out: Tensor) -> Tensor:
    """Run ``normal(mean, std, out=)`` with tensors."""
    if not out._spec.dtype.is_floating_point and not out._spec.dtype.is_complex:
        raise NotImplementedError(f"\"normal_kernel\" not implemented for '{out._spec.dtype.scalar_name}'")
    if isinstance(mean, TensorImpl) and mean._spec.dtype.is_integral:
        mean = mean.to(out._spec.dtype)  # generate numbers for the output's shape, not the mean's
    return out_form("normal", partial(normal, generator=generator))(mean, std, out)


def multinomial_out(
    self: Tensor, num_samples: int, replacement: bool, generator: Generator | None, out: Tensor
) -> Tensor:
    """Run ``multinomial(self, num_samples, replacement, out=)``."""
    made = multinomial(self, num_samples, replacement, generator=generator)
    if out.dtype is not int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {out.dtype.scalar_name}")
    check_out("multinomial", out, made)
    return out.resize_(made.shape).copy_(made)


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Compute `torch.dropout`: in training, zero elements with probability `p` and scale the others by 1 / (1 - p)."""
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    if p == 0 or not train or input.numel() == 0:
        return input
    dtype = input.dtype
    if p == 1:
        return input * input.new_zeros(())
    if dtype.is_complex:
        check_dtype("bernoulli", dtype, input.device)
    if not dtype.is_floating_point:
        raise RuntimeError(f"result type Float can't be cast to the desired output type {dtype.scalar_name}")
    if sees_whole() and input.device.type == "cpu":
        return input * empty_like(input).bernoulli_(1 - p).div_(1 - p)
    return native_dropout(input, p, train)[0]


def dropout_(self: Tensor, p: float, train: bool) -> Tensor:
    """Run `torch.dropout_`: `dropout` in place."""
    made = dropout(self, p, train)
    return self if made is self else self.copy_(made)


rand_named = named_factory("rand", 1)
rand_generator_named = named_factory("rand.generator", 2)
randn_named = named_factory("randn", 1)
randn_generator_named = named_factory("randn.generator", 2)


SELU_SHIFT = 1.7580993408473766
"""The value alpha * scale of `selu`, whose lower limit is its negative; `alpha_dropout` writes that limit."""


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Compute `torch.alpha_dropout`: set elements to the minimum of `selu`, and keep mean and variance."""
    return dropped(input, p, train, False, True)


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Compute `torch.feature_dropout`: `dropout` of whole channels (dimension 1)."""
    return dropped(input, p, train, True, False)


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Compute `torch.feature_alpha_dropout`: `alpha_dropout` of whole channels (dimension 1)."""
    return dropped(input, p, train, True, True)


def dropped(input: Tensor, p: float, train: bool, feature: bool, alpha: bool) -> Tensor:
    """Drop elements, or channels, with probability `p`; `alpha` is by Klambauer et al. (2017)."""
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    if p == 0 or not train or input.numel() == 0:
        return input
    if p == 1:
        return input * input.new_zeros(())
    sizes = input._spec.sizes
    if feature:
        if len(sizes) < 2:
            raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
        sizes = (*sizes[:2], *([1] * (len(sizes) - 2)))
    noise = (input.new_empty(sizes) if feature else empty_like(input)).bernoulli_(1 - p)
    if not alpha:
        return input * noise.div_(1 - p)
    a = 1.0 / math.sqrt((SELU_SHIFT * SELU_SHIFT * p + 1) * (1 - p))
    shift = (noise + -1).mul_(SELU_SHIFT * a).add_(SELU_SHIFT * a * p)
    return (input * noise.mul_(a)).add_(shift)


def alpha_dropout_(self: Tensor, p: float, train: bool) -> Tensor:
    """Run `alpha_dropout` in place."""
    return written(self, alpha_dropout(self, p, train))


def feature_dropout_(self: Tensor, p: float, train: bool) -> Tensor:
    """Run `feature_dropout` in place."""
    return written(self, feature_dropout(self, p, train))


def feature_alpha_dropout_(self: Tensor, p: float, train: bool) -> Tensor:
    """Run `feature_alpha_dropout` in place."""
    return written(self, feature_alpha_dropout(self, p, train))


def written(self: Tensor, made: Tensor) -> Tensor:
    """Copy a result to `self`, unless it is `self`."""
    return self if made is self else self.copy_(made)


def rrelu_with_noise(
    self: Tensor, noise: Tensor, lower: float, upper: float, training: bool, generator: Generator | None
) -> Tensor:
    """Compute `rrelu`, and in training write the factor of each element to `noise`."""
    if noise._spec.sizes != self._spec.sizes:
        raise RuntimeError(
            "noise tensor shape must match self tensor shape. Got self.shape = "
            f"{list(self._spec.sizes)} noise.shape = {list(noise._spec.sizes)}"
        )
    if not training:
        return leaky_relu(self, (real(lower) + real(upper)) / 2)
    if noise._spec.dtype is not self._spec.dtype:
        raise RuntimeError(
            f"expected scalar type {self._spec.dtype.scalar_name} but found {noise._spec.dtype.scalar_name}"
        )
    factor = _slopes(self, real(lower), real(upper), generator)
    noise.detach().copy_(factor)
    return self * factor


def rrelu_with_noise_(
    self: Tensor, noise: Tensor, lower: float, upper: float, training: bool, generator: Generator | None
) -> Tensor:
    """Run `rrelu_with_noise` in place."""
    return self.copy_(rrelu_with_noise(self, noise, lower, upper, training, generator))


def rrelu_with_noise_out(
    self: Tensor,
    noise: Tensor,
    lower: float,
    upper: float,
    training: bool,
    generator: Generator | None,
    out: Tensor,
) -> Tensor:
    """Run ``rrelu_with_noise(out=)``."""
    result = rrelu_with_noise(self, noise, lower, upper, training, generator)
    return write_out("rrelu_with_noise", out, result)


def rrelu_with_noise_backward(
    grad_output: Tensor,
    self: Tensor,
    noise: Tensor,
    lower: float,
    upper: float,
    training: bool,
    self_is_result: bool,
) -> Tensor:
    """Return the gradient of `rrelu_with_noise`: by the factors in training, else that of `leaky_relu`."""
    lower, upper = real(lower), real(upper)
    if training and upper - lower > 1e-6:
        return grad_output * noise
    return leaky_relu_backward(grad_output, self, (lower + upper) / 2, self_is_result)


def rrelu(self: Tensor, lower: float, upper: float, training: bool, generator: Generator | None) -> Tensor:
    """Compute `torch.rrelu`: `leaky_relu` with a slope sampled from [lower, upper] per element, or their mean."""
    lower, upper = real(lower), real(upper)
    for name, bound in (("lower", lower), ("upper", upper)):
        if not math.isfinite(bound):
            raise RuntimeError(f"rrelu: {name} bound must be finite, got {bound}")
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if sees_whole():
        noise = empty_like(self, memory_format=contiguous_format)
        operator = Dispatcher.singleton().find_schema_or_throw("aten::rrelu_with_noise")
        return operator.call(self, noise, lower, upper, training, generator)  # type: ignore[no-any-return]
    if not training:
        return leaky_relu(self, (lower + upper) / 2)
    return self * _slopes(self, lower, upper, generator)


def _slopes(self: Tensor, lower: float, upper: float, generator: Generator | None) -> Tensor:
    """Return the factor of each element in training: 1 if it is positive, else a number drawn from [lower, upper)."""
    check_dtype("rrelu", self._spec.dtype, self._spec.device)
    positive = self > 0
    if isinstance(stream_of(generator, self._spec.device), MersenneGenerator):
        # As in PyTorch, generate float64 numbers only for elements with a slope.
        lower, upper = self.new_tensor([lower, upper]).tolist()
        count = int((~positive).sum())
        drawn = empty((count,), dtype=float64).uniform_(lower, upper, generator=generator)
        return ones_like(self).masked_scatter_(~positive, drawn.to(self.dtype))
    drawn = empty(self._spec.sizes, dtype=self.dtype, device=self.device)
    drawn.uniform_(lower, upper, generator=generator)
    return where(positive, 1, drawn)


def rrelu_(self: Tensor, lower: float, upper: float, training: bool, generator: Generator | None) -> Tensor:
    """Run `rrelu` in place."""
    lower, upper = real(lower), real(upper)
    if not training and lower <= upper:
        return leaky_relu_(self, (lower + upper) / 2)
    return self.copy_(rrelu(self, lower, upper, training, generator))

"""Planners of random operators: argument checks and stub selection; `draws.py` has the contract of the stubs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ....runtime.generator import default_generator
from ....runtime.memory_format import contiguous_format, preserve_format, strides_for
from ....runtime.scalar_type import (
    bfloat16,
    bool_,
    dtype,
    finfo,
    float16,
    float32,
    float64,
    get_default_dtype,
    int64,
)
from ....runtime.tensor_impl import TensorImpl
from ....runtime.tensor_spec import TensorSpec
from ....runtime.user_frame import levels_to_user
from ...core.kernel_function import Plan
from ...core.operator_entry import OperatorEntry
from ...iterator.broadcast import expand_geometry, infer_size
from ...tensor import Tensor, blank_tensor
from ..allocation import allocator_of, pinned_allocator_of
from ..meta_base import MetaBase
from ..supported_dtypes import C_NAMES
from .draws import check_writable, counters, fresh, in_place, kernel_of, stream_of
from .factories import like_spec, spec_from
from .linalg import check_same_device
from .parametric_draws import (
    _dirichlet_grad as _dirichlet_grad,
)
from .parametric_draws import (
    _sample_dirichlet as _sample_dirichlet,
)
from .parametric_draws import (
    _standard_gamma as _standard_gamma,
)
from .parametric_draws import (
    _standard_gamma_grad as _standard_gamma_grad,
)
from .parametric_draws import (
    binomial as binomial,
)
from .parametric_draws import (
    poisson as poisson,
)

if TYPE_CHECKING:
    from ....runtime.generator import Generator
    from ..meta_base import NumberKind

SMALL_SPAN = 1 << 16
"""Integer ranges up to this size use 32-bit random numbers, with a bias below 2**-16; larger ones use 64 bits."""
MANTISSA = {float16: 11, bfloat16: 8, float32: 24, float64: 53}


def _uniform_check(kind: dtype) -> Callable[[float, float], None]:
    """Return a check that rejects bounds, or a range between them, that a dtype cannot represent."""
    limit = float(finfo(kind).max) if kind.is_floating_point else math.inf
    name = C_NAMES.get(kind.scalar_name, kind.scalar_name)

    def check(low: float, high: float) -> None:
        for bound, value in (("from", low), ("to", high)):
            if not -limit <= value <= limit:
                raise RuntimeError(f"{bound} is out of bounds for {name}: uniform_ got {bound}={value}")
        if not low <= high:
            raise RuntimeError(
                f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}"
            )
        if high - low > limit:
            raise RuntimeError(
                f"uniform_ expects to-from <= std::numeric_limits<{kind.scalar_name}>::max(), but found to={high} and "
                f"from={low} which result in to-from to exceed the limit"
            )

    return check


def _check_std(std: float, name: str = "normal") -> None:
    if not std >= 0:
        raise RuntimeError(f"{name} expects std >= 0.0, but found std {std}")


def _check_normal(mean: float, std: float) -> None:
    if not std >= 0:
        _check_std(std)


def uniform_(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``self.uniform_(from, to)``."""
    spec: TensorSpec = args[0]._spec
    return in_place("uniform_", "uniform_stub", spec, _uniform_check(spec.dtype))


def normal_(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``self.normal_(mean, std)``."""
    return in_place("normal_", "normal_stub", args[0]._spec, _check_normal)


def log_normal_(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``self.log_normal_(mean, std)``."""

    def check(mean: float, std: float) -> None:
        if not std > 0:
            raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")

    return in_place("log_normal_", "log_normal_stub", args[0]._spec, check)


def _check_continuous(name: str, spec: TensorSpec, names: Mapping[str, str]) -> None:
    """Raise an error for a distribution over integers; `names` maps dtypes to their names in messages."""
    if not spec.dtype.is_floating_point:
        dtype_name = names.get(spec.dtype.scalar_name, spec.dtype.scalar_name)
        raise RuntimeError(
            f"{name} distribution is a continuous probability distribution. "
            f"dtype must be a floating point but you specified {dtype_name}"
        )


def cauchy_(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``self.cauchy_(median, sigma)``."""

    def check(median: float, sigma: float) -> None:
        if not sigma > 0:
            raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")

    _check_continuous("Cauchy", args[0]._spec, C_NAMES)
    return in_place("cauchy_", "cauchy_stub", args[0]._spec, check)


def exponential_(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``self.exponential_(lambd)``."""

    def check(lambd: float) -> None:
        if not lambd > 0:
            raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")

    _check_continuous("Exponential", args[0]._spec, {})
    return in_place("exponential_", "exponential_stub", args[0]._spec, check, numbers=1)


def geometric_(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``self.geometric_(p)``."""

    def check(p: float) -> None:
        if not 0 < p < 1:
            raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")

    return in_place("geometric_", "geometric_stub", args[0]._spec, check, wide=False, numbers=1)


def _limits(d: dtype) -> tuple[int, int]:
    """Return the range of `random_`: all integers of an integral dtype, or those that a float represents exactly."""
    import numpy as np

    if d is bool_:
        return 0, 1
    if d in MANTISSA:
        return -(1 << MANTISSA[d]), 1 << MANTISSA[d]
    if d.is_integral:
        return int(np.iinfo(d.np).min), int(np.iinfo(d.np).max)
    raise NotImplementedError(f"\"random_\" not implemented for '{d.scalar_name}'")


def _integers(spec: TensorSpec, low: int, span: int, bounded: bool = True) -> Plan:
    extra = {"low": low, "span": span, "bounded": bounded}
    return in_place("random_", "random_stub", spec, None, span > SMALL_SPAN, extra, numbers=0)


def fresh_integers(spec: TensorSpec, low: int, high: int, pin: bool | None, num_unused: int = 0) -> Plan:
    """Return the plan ``(…, generator)`` that makes a tensor of integers in [low, high)."""
    first, end = _checked_range(spec, low, high)
    span = end - first
    extra = {"low": first, "span": span, "bounded": True}
    plan = fresh("random_", "random_stub", spec, (), pin, span > SMALL_SPAN, num_unused, extra)
    return _with_warnings(plan, spec, low, high)


def fresh_normal(spec: TensorSpec, pin: bool | None) -> Plan:
    """Return the plan ``(mean, std, generator)`` that makes a tensor of normal numbers."""
    allocate = pinned_allocator_of(spec, "normal") if pin else allocator_of(spec)
    draw = in_place("normal_", "normal_stub", spec, _check_normal)
    return lambda mean, std, generator=None: draw(Tensor.from_data(allocate(), spec), mean, std, generator)


def _within(name: str, value: int, d: dtype) -> None:
    min_value, max_value = _limits(d)
    if d.is_floating_point:
        import ml_dtypes

        max_value = int(float(ml_dtypes.finfo(d.np).max))  # type: ignore[no-untyped-call]  # ml_dtypes has no types here
        min_value = -max_value
    if not min_value <= value <= max_value:
        raise RuntimeError(
            f"{name} is out of bounds for {d.scalar_name}: {value} is not in [{min_value}, {max_value}]"
        )


def random_(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``self.random_()``: from 0 to the dtype's maximum."""
    spec: TensorSpec = args[0]._spec
    return _integers(spec, 0, _limits(spec.dtype)[1] + 1, bounded=False)


def random_to(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``self.random_(to)``."""
    return _random_between(args[0]._spec, 0, args[1])


def random_from(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``self.random_(from, to)``; without `to`, up to the dtype's maximum."""
    spec: TensorSpec = args[0]._spec
    low, high = args[1], args[2]
    if high is None:
        max_value = _limits(spec.dtype)[1]
        _within("from", low, spec.dtype)
        if low > max_value:
            raise RuntimeError(
                f"random_ expects 'from' to be at most the dtype's greatest integer {max_value}, got {low}"
            )
        return _integers(spec, low, max_value - low + 1)
    return _random_between(spec, low, high)


def _checked_range(spec: TensorSpec, low: int, high: int) -> tuple[int, int]:
    """Return the range of random integers, narrowed so that rounding to the dtype stays inside."""
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    _within("from", low, spec.dtype)
    _within("to - 1", high - 1, spec.dtype)
    bits = MANTISSA.get(spec.dtype)
    if bits is None:
        return low, high
    lower, upper = (int(spec.dtype.np.type(end)) for end in (low + 1, high - 1))
    first = lower + (1 << max(abs(low + 1).bit_length() - bits, 0)) if lower < low else low
    end = upper - (1 << max(abs(high - 1).bit_length() - bits, 0)) if upper >= high else high
    if first >= end:
        raise RuntimeError(
            f"random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got from={first} >= "
            f"to={end}"
        )
    return first, end


def _with_warnings(plan: Plan, spec: TensorSpec, low: int, high: int) -> Plan:
    """Return a plan whose every call warns of bounds beyond the integers that a float represents exactly."""
    bits = MANTISSA.get(spec.dtype, 64)
    kind = C_NAMES.get(spec.dtype.scalar_name, f"c10::{spec.dtype.scalar_name}")
    messages = [
        f"{name} is out of bounds [-(2^{bits}), 2^{bits}]. Due to precision limitations {kind} can support discrete "
        "uniform distribution only within this range."
        for name, bound in (("from", low), ("to - 1", high - 1))
        if abs(bound) > 1 << bits
    ]
    if not messages:
        return plan

    def warning(*args: Any) -> Tensor:
        for message in messages:
            warnings.warn(message, stacklevel=levels_to_user())
        out: Tensor = plan(*args)
        return out

    return warning


def _random_between(spec: TensorSpec, low: int, high: int) -> Plan:
    first, end = _checked_range(spec, low, high)
    return _with_warnings(_integers(spec, first, end - first), spec, low, high)


def _check_p(p: float) -> None:
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")


def bernoulli_float(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``self.bernoulli_(p)``."""
    return in_place("bernoulli_", "bernoulli_stub", args[0]._spec, _check_p, wide=False, numbers=1)


def bernoulli_p(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``bernoulli(self, p)``: `self` only gives the metadata."""
    spec = like_spec((args[0], None, None, None, None, None))
    allocate = allocator_of(spec)
    draw = in_place("bernoulli_", "bernoulli_stub", spec, _check_p, wide=False, numbers=1)

    def plan(self: Tensor, p: float, generator: Generator | None) -> Any:
        return draw(Tensor.from_data(allocate(), spec), p, generator)

    return plan


def _bernoulli_of(target: TensorSpec, p: TensorSpec) -> Callable[..., Any]:
    """Return ``draw(out, p, generator)``, which writes 1 with the probability in `p`."""
    if not (p.dtype.is_floating_point or p.dtype.is_complex or p.dtype is bool_):
        raise RuntimeError(f"expected probabilities tensor to have floating type, got {p.dtype.scalar_name}")
    into = None if target.is_meta else kernel_of("bernoulli", "bernoulli_tensor_stub", (target,), {"p": p})
    count = counters(target, False)

    def draw(out: Tensor, weights: Tensor, generator: Generator | None) -> Tensor:
        if into is not None and count:
            seed, first = stream_of(generator, target.device).reserve(count)
            into(out._data, weights._data, seed, first)
        return out

    return draw


def bernoulli(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``bernoulli(self)``: 1 with the probability in `self`."""
    probability_spec: TensorSpec = args[0]._spec.detached
    if not probability_spec.dtype.is_floating_point:
        raise NotImplementedError(
            f"\"bernoulli_tensor_cpu_p_\" not implemented for '{probability_spec.dtype.scalar_name}'"
        )
    spec = like_spec((args[0], None, None, None, None, contiguous_format))
    allocate, draw = allocator_of(spec), _bernoulli_of(spec, probability_spec)
    return lambda self, generator: draw(Tensor.from_data(allocate(), spec), self, generator)


def bernoulli_tensor(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``self.bernoulli_(p)`` with a tensor that broadcasts to `self`."""
    spec: TensorSpec = args[0]._spec
    check_writable("bernoulli_", spec)
    expand_geometry(args[1]._spec.sizes, args[1]._spec.strides, spec.sizes)
    draw = _bernoulli_of(spec, args[1]._spec)

    def plan(self: Tensor, p: Tensor, generator: Generator | None) -> Tensor:
        draw(self, p, generator)
        self.bump_version()
        return self

    return plan


def rand(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``rand(size, dtype, layout, device, pin_memory)``."""
    return fresh("rand", "uniform_stub", spec_from("rand", *args[:4]), (0.0, 1.0), args[4])


def rand_generator(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``rand(size, generator, ...)``."""
    return fresh("rand", "uniform_stub", spec_from("rand", args[0], *args[2:5]), (0.0, 1.0), args[5])


def randn(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``randn(size, dtype, layout, device, pin_memory)``."""
    return fresh("randn", "normal_stub", spec_from("randn", *args[:4]), (0.0, 1.0), args[4])


def randn_generator(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``randn(size, generator, ...)``."""
    return fresh("randn", "normal_stub", spec_from("randn", args[0], *args[2:5]), (0.0, 1.0), args[5])


def rand_like(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``rand_like(self, ...)``."""
    return fresh("rand", "uniform_stub", like_spec(args), (0.0, 1.0), args[4], num_unused=1)


def rand_like_generator(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``rand_like(self, generator, ...)``."""
    return fresh("rand", "uniform_stub", like_spec((args[0], *args[2:])), (0.0, 1.0), args[5], num_unused=1)


def randn_like(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``randn_like(self, ...)``."""
    return fresh("randn", "normal_stub", like_spec(args), (0.0, 1.0), args[4], num_unused=1)


def randn_like_generator(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``randn_like(self, generator, ...)``."""
    return fresh("randn", "normal_stub", like_spec((args[0], *args[2:])), (0.0, 1.0), args[5], num_unused=1)


def _randperm(n: int, options: Sequence[Any]) -> Plan:
    if n < 0:
        raise RuntimeError(f"n must be non-negative, got {n}")
    spec = spec_from("randperm", (n,), options[0] or int64, options[1], options[2])
    if n and n - 1 > _limits(spec.dtype)[1]:
        raise RuntimeError(f"n is too large for result tensor type: '{spec.dtype}' cannot hold {n - 1}")
    return fresh("randperm", "randperm_stub", spec, (), options[3], wide=True)


def randperm(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``randperm(n, ...)``."""
    return _randperm(args[0], args[1:])


def randperm_generator(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``randperm(n, generator, ...)``."""
    return _randperm(args[0], args[2:])


def normal(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``normal(mean, std)`` with at least one tensor; they broadcast."""
    specs = [a._spec.detached if isinstance(a, TensorImpl) else None for a in args[:2]]
    tensors = [s for s in specs if s is not None]
    sizes, common = infer_size(tensors[0].sizes, tensors[-1].sizes), tensors[0].dtype
    if not (common.is_floating_point or common.is_complex):
        kernel = f"normal_kernel_{tensors[0].device.type}"
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{common.scalar_name}'")
    if specs[1] is not None and specs[1].dtype.is_complex:
        raise RuntimeError("normal expects standard deviation to be non-complex")
    out = TensorSpec.contiguous(sizes, common, tensors[0].device)
    allocate, count = allocator_of(out), counters(out)
    names = {"mean": specs[0] or float, "std": specs[1] or float}
    into = None if out.is_meta else kernel_of("normal", "normal_tensor_stub", (out,), names)
    if into is not None and count and len(tensors) == 2:
        device = out.device

        def of_two(mean: Tensor, std: Tensor, generator: Generator | None) -> Tensor:
            made = blank_tensor()
            made._data = data = allocate()
            seed, first = stream_of(generator, device).reserve(count)
            into(data, mean._data, std._data, seed, first)
            made._spec = out
            made._version_cell = made._autograd = made._view_base = None
            return made

        return of_two

    def plan(mean: Tensor | float, std: Any, generator: Generator | None) -> Tensor:
        if specs[1] is None:
            _check_std(std)
        data = allocate()
        if into is not None and count:
            seed, first = stream_of(generator, out.device).reserve(count)
            parameters = [v._data if isinstance(v, TensorImpl) else v for v in (mean, std)]
            into(data, *parameters, seed, first)
        return Tensor.from_data(data, out)

    return plan


def multinomial(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``multinomial(self, num_samples, replacement)``: indices sampled by the weights of each row."""
    weights: TensorSpec = args[0]._spec.detached
    samples, replacement = args[1], args[2]
    if weights.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not weights.dtype.is_floating_point:
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {weights.dtype.scalar_name}"
        )
    if samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and samples > weights.sizes[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    out = TensorSpec.contiguous((*weights.sizes[:-1], samples), int64, weights.device)
    allocate = allocator_of(out)
    count = counters(out if replacement else weights, True)
    extra = {"replacement": replacement}
    into = (
        None
        if out.is_meta
        else kernel_of("multinomial", "multinomial_stub", (out,), {"weights": weights}, extra)
    )

    def plan(self: Tensor, generator: Generator | None) -> Tensor:
        data = allocate()
        if into is not None and out.numel:
            seed, first = stream_of(generator, out.device).reserve(count)
            into(data, self._data, seed, first)
        return Tensor.from_data(data, out)

    return plan


def native_dropout(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``native_dropout(input, p, train)``: (the scaled kept elements, the mask)."""
    spec: TensorSpec = args[0]._spec.detached
    train = args[2] is None or args[2]
    out = like_spec((args[0], None, None, None, None, None))
    mask = out.replace(dtype=bool_)
    allocate, allocate_mask, count = allocator_of(out), allocator_of(mask), counters(spec, False)
    names = {"input": spec, "p": float}
    into = None if spec.is_meta else kernel_of("native_dropout", "native_dropout_stub", (out, mask), names)

    def plan(input: Tensor, p: float) -> tuple[Tensor, Tensor]:
        if not 0 <= p <= 1:
            raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
        data, mask_data = allocate(), allocate_mask()
        if into is not None and count:
            seed, first = default_generator(spec.device).reserve(count) if train else (0, 0)
            into(data, mask_data, input._data, float(p) if train else 0.0, seed, first)
        return Tensor.from_data(data, out), Tensor.from_data(mask_data, mask)

    return plan


def native_dropout_backward(
    meta: MetaBase, grad_output: TensorSpec, mask: TensorSpec, scale: NumberKind
) -> None:
    """Infer ``native_dropout_backward``: scaled integers are floating-point numbers."""
    if mask.dtype is not bool_:
        raise RuntimeError(f"Mask should be Bool Scalar Type, got {mask.dtype.scalar_name}")
    check_same_device("native_dropout_backward", grad_output, mask)
    own, given_sizes = mask.sizes, grad_output.sizes
    apart = len(given_sizes) - len(own)
    if apart < 0 or any(n not in (1, given_sizes[d + apart]) for d, n in enumerate(own)):
        raise RuntimeError(
            f"native_dropout_backward: a mask of shape {list(own)} does not expand to the shape of grad_output, "
            f"{list(given_sizes)}"
        )
    strides = strides_for(preserve_format, grad_output.sizes, (grad_output.sizes, grad_output.strides))
    dtype = grad_output.dtype
    made = dtype if dtype.is_floating_point or dtype.is_complex else get_default_dtype()
    meta.extra["common_dtype"] = made
    meta.set_output_raw_strided(0, grad_output.sizes, strides, dtype=made)

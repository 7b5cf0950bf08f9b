"""Plans that fill tensors with random numbers, and the contract that every backend's kernels keep.

A plan reserves a block of counters of its generator: ``seed, first = generator.reserve(counters)``. A kernel is
called with ``(outputs..., inputs..., numbers..., seed, first)``. Philox 4x32-10 under the key (seed low, seed high)
turns counter c = (c low, c high, 0, 0) into four 32-bit words. Elements are numbered in the C order of their indices,
whatever the strides; complex elements are two reals, 2 i and 2 i + 1.

- The 32-bit random number of element i is word i % 4 of counter first + i // 4.
- The 64-bit random number is words 2 (i % 2) (low) and 2 (i % 2) + 1 (high) of counter first + i // 2.

The stubs map a random number w (32 bits) or q (64 bits) as follows; results are rounded once to the dtype unless said
otherwise:

- ``uniform_stub(out, low, high)``: u = (w >> 8) 2**-24 in float32; (w >> 21) 2**-11 for float16, (w >> 24)
  2**-8 for bfloat16 and float8; (q >> 11) 2**-53 for float64. The result is u * (high - low) + low in
  float32 (float64), product and sum each rounded; what rounds to `high` becomes `low`. With bounds 0 and 1
  it is u.
- ``normal_stub(out, mean, std)``: Box-Muller over the pair of elements 2 j and 2 j + 1, in float64:
  a = (w + 1) 2**-32 of the even one and b = w 2**-32 of the odd one, or ((q >> 11) + 1) 2**-53 and (q >> 11)
  2**-53 for float64; r = sqrt(-2 log a), t = 6.283185307179586 b; the elements are mean + std r cos t and
  mean + std r sin t. A complex element has std / sqrt(2) in each part. ``normal_tensor_stub(out, mean,
  std)`` has tensors in their place.
- ``exponential_stub(out, lambd)``: -log(v) / lambd in float64 with v = (w + 0.5) 2**-32, or ((q >> 12) +
  0.5) 2**-52.
- ``geometric_stub(out, p)``: ceil(log(v) / log1p(-p)) with the 32-bit v. ``cauchy_stub(out, median, sigma)``:
  median + sigma tan(pi (v - 0.5)). ``log_normal_stub(out, mean, std)``: exp of the normal.
- ``bernoulli_stub(out, p)`` and ``bernoulli_tensor_stub(out, p)``: whether w < p 2**32, exactly.
- ``random_stub(out)``: ``low + floor(d * span / 2**bits)`` where `low` and `span` stand in ``call.extra``; the random
  number d has 32 bits for a span up to 2**16, else 64. The sum wraps at 64 bits. `bounded` there says whether the
  caller named the range.
- ``randperm_stub(out)``: the order of the 64-bit random numbers, the smaller index first among equal ones.
- ``multinomial_stub(out, weights)``: without replacement the indices of the smallest -log(v) / weight (64-bit numbers,
  indexed by weight). With replacement the first index where the running sum of weights exceeds u times the whole sum
  (64-bit numbers, indexed by output element).
- ``native_dropout_stub(out, mask, input, p)``: the mask is w < (1 - p) 2**32; kept elements are multiplied by
  1 / (1 - p) in float32 (float64).

Rejection sampling needs an unknown number of random numbers. Element i has its own counter first + i. It takes numbers
from the blocks (c low, c high, k, 0), k = 1, 2, ..., which no other operator uses. A block is four 32-bit numbers v0 to
v3, or two of 52 bits. Everything is computed in float64 (the sources are in `cpu_fallback/random/rejection.py`):

- ``standard_gamma_stub(out, alpha)``: Marsaglia and Tsang's method, block k for the k-th attempt (two blocks each for
  float64): a normal number of v0 and v1, acceptance by v2; for a shape below 1, v3^(1 / alpha) scales the number of
  shape alpha + 1. The result is at least the dtype's least normal number. ``sample_dirichlet_stub(out, alpha)`` takes
  the logarithms of these numbers, and normalizes rows.
- ``poisson_stub(out, rate)``: below a rate of 10 the number at which running sums of probabilities exceed the first
  random number; from there Hörmann's transformed rejection, block k for the k-th attempt. ``binomial_stub(out, count,
  prob)``: likewise, by the mean of the smaller of prob and 1 - prob.

A generator of the CPU with the engine mt19937 reserves no counters: its seed is a `MersenneTwister`, from which a
kernel takes what PyTorch's CPU kernel takes (`cpu_fallback/random/engine.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....runtime.device import device as Device
from ....runtime.generator import Generator, default_generator
from ....runtime.scalar_type import float64
from ....runtime.tensor_spec import TensorSpec
from ...core.kernel_function import Plan
from ...tensor import Tensor, blank_tensor
from ..allocation import allocator_of, pinned_allocator_of
from ..stub import StructuredCall, find_kernel


def counters(spec: TensorSpec, wide: bool | None = None) -> int:
    """Return the number of counters for a tensor's random numbers: four 32-bit or two 64-bit numbers each."""
    real = spec.dtype.to_real()
    count = spec.numel * (2 if spec.dtype.is_complex else 1)
    wide = real is float64 if wide is None else wide
    return -(-count // (2 if wide else 4))


def stream_of(generator: Generator | None, device: Device) -> Generator:
    """Return the generator of a call. Raises RuntimeError for a generator of another device."""
    if generator is None:
        return default_generator(device)
    if generator.device.type != device.type:
        raise RuntimeError(
            f"Expected a '{device.type}' device type for generator but found '{generator.device.type}'"
        )
    return generator


def kernel_of(
    name: str,
    stub: str,
    outputs: tuple[TensorSpec, ...],
    args: dict[str, Any],
    extra: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    device = outputs[0].device
    call = StructuredCall(name, args, tuple(args), outputs, None, device, extra or {})
    return find_kernel(stub, device.type, name)(call).into


def check_writable(name: str, spec: TensorSpec) -> None:
    if spec.overlaps:
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory "
            "location. Please clone() the tensor before performing the operation."
        )
    if spec.read_only:
        raise RuntimeError(
            f"{name}(): the tensor to be written to is read-only; clone() it before writing to it"
        )


def in_place(
    name: str,
    stub: str,
    spec: TensorSpec,
    check: Callable[..., None] | None = None,
    wide: bool | None = None,
    extra: dict[str, Any] | None = None,
    numbers: int = 2,
) -> Plan:
    """Return a plan ``(self, numbers..., generator)`` that overwrites `self` with random numbers."""
    check_writable(name, spec)
    count, device = counters(spec, wide), spec.device
    names = {f"number{i}": float for i in range(numbers)}
    into = None if spec.is_meta else kernel_of(name, stub, (spec,), names, extra)
    if into is None or not count:

        def nothing(self: Tensor, *values: Any) -> Tensor:
            if check is not None:
                check(*values[:-1])
            self.bump_version()
            return self

        return nothing
    if numbers == 2 and check is not None:
        check_two = check

        def plan_two(
            self: Tensor, first_number: float, second_number: float, generator: Generator | None
        ) -> Tensor:
            check_two(first_number, second_number)
            if generator is None:
                generator = default_generator(device)
            else:
                stream_of(generator, device)
            seed, first = generator.reserve(count)
            into(self._data, first_number, second_number, seed, first)
            cell = self._version_cell
            if cell is None:
                self.bump_version()
            else:
                cell[0] += 1
            return self

        return plan_two
    if numbers == 1 and check is not None:
        check_one = check

        def plan_one(self: Tensor, number: float, generator: Generator | None) -> Tensor:
            check_one(number)
            if generator is None:
                generator = default_generator(device)
            else:
                stream_of(generator, device)
            seed, first = generator.reserve(count)
            into(self._data, number, seed, first)
            cell = self._version_cell
            if cell is None:
                self.bump_version()
            else:
                cell[0] += 1
            return self

        return plan_one

    def plan(self: Tensor, generator: Generator | None) -> Tensor:
        if generator is None:
            generator = default_generator(device)
        else:
            stream_of(generator, device)
        seed, first = generator.reserve(count)
        into(self._data, seed, first)
        self.bump_version()
        return self

    return plan


def fresh(
    name: str,
    stub: str,
    spec: TensorSpec,
    numbers: tuple[Any, ...],
    pin: bool | None,
    wide: bool | None = None,
    num_unused: int = 0,
    extra: dict[str, Any] | None = None,
) -> Plan:
    """Return a plan ``(…, generator)`` that makes a random tensor; the first `num_unused` values are unused."""
    allocate = pinned_allocator_of(spec, name) if pin else allocator_of(spec)
    count, device = counters(spec, wide), spec.device
    names = {f"number{i}": float for i in range(len(numbers))}
    into = None if spec.is_meta else kernel_of(name, stub, (spec,), names, extra)
    if into is None or not count:
        return lambda *_: Tensor.from_data(allocate(), spec)

    def drawn(generator: Generator | None = None) -> Tensor:
        if generator is None:
            generator = default_generator(device)
        else:
            stream_of(generator, device)
        seed, first = generator.reserve(count)
        out = blank_tensor()
        out._data = data = allocate()
        into(data, *numbers, seed, first)
        out._spec = spec
        out._version_cell = out._autograd = out._view_base = None
        return out

    if not num_unused:
        return drawn
    return lambda _, generator=None: drawn(generator)

"""Random numbers by distribution on the host; `random_choices.py` has what is chosen by probability.

The contract is in `dispatch/structured/meta/draws.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall
from ...runtime.float_errors import quietly
from ...runtime.parallel import parallel_for
from ...runtime.scalar_type import bfloat16, complex32, float16, float32, float64
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.constants import MAX_CONSTANTS
from ..plain_numpy import np
from . import mersenne_draws
from .box_muller import normal_pairs
from .engine import register_draws
from .philox import draws32, draws64

BLOCK = 1 << 15
"""Elements computed at a time: their random words and temporaries stay in the L2 cache."""
_BITS = {float32: 24, float16: 11, bfloat16: 8}

Base = Callable[[Any], Any]
Finish = Callable[..., Any]

RUN = 256
"""Counters of the run whose values are cached for small random ops."""

_kept: dict[tuple[Base, bool], tuple[int, int, Any]] = {}
"""Cached values of the last run for a base and width: (seed, number of the run, values)."""


def _kept_values(base: Base, wide: bool, seed: int, run: int) -> Any:
    """Return the cached values that `base` makes of a run of counters.

    A small random op slices them: a dozen array operations cost the same for one element as for a thousand.
    """
    entry = _kept.get((base, wide))
    if entry is not None and entry[0] == seed and entry[1] == run:
        return entry[2]
    draws = draws64(seed, run * RUN, 2 * RUN) if wide else draws32(seed, run * RUN, 4 * RUN)
    values = base(draws)
    values.flags.writeable = False
    _kept[base, wide] = (seed, run, values)
    return values


def by_blocks(spec: TensorSpec, wide: bool, base: Base | None, finish: Finish) -> PlannedKernel:
    """Return a kernel that fills `out` with ``finish(base(draws), scratch, *numbers)``, by blocks in C order, on
    threads.

    `base` is one of this module's functions, of random words alone; without `base`, `finish` gets the words
    themselves. `finish` may write to `scratch`, which is None if no array is free.
    """
    parts = 2 if spec.dtype.is_complex else 1
    count = spec.numel * parts
    real = spec.dtype.to_real().np
    draws, per = (draws64, 2) if wide else (draws32, 4)
    copyto = np.copyto

    def into(out: Any, *rest: Any) -> None:
        *numbers, seed, first = rest
        direct = out.flags.c_contiguous and out.flags.writeable
        flat = out.reshape(-1).view(real) if direct else np.empty(count, real)

        def part(begin: int, end: int) -> None:
            for start in range(begin * BLOCK, min(end * BLOCK, count), BLOCK):
                piece = flat[start : start + BLOCK]
                even = len(piece) + len(piece) % 2
                drawn = draws(seed, first + start // per, even)
                if base is None:
                    made = finish(drawn, None, *numbers)
                else:
                    values = base(drawn)
                    made = finish(values, values, *numbers)
                copyto(piece, made[: len(piece)], casting="unsafe")

        parallel_for(0, -(-count // BLOCK), 1, part)
        if not direct:
            copyto(out, flat.view(out.dtype).reshape(out.shape))

    if count > RUN or not spec.is_contiguous:
        return PlannedKernel(quietly(into))
    last = RUN * per - count

    @quietly
    def small(out: Any, *rest: Any) -> None:
        *numbers, seed, first = rest
        run = first // RUN
        start = (first - run * RUN) * per
        if start > last:
            into(out, *rest)
            return
        if base is None:
            made = finish(draws(seed, first, count), None, *numbers)
        else:
            made = finish(_kept_values(base, wide, seed, run)[start : start + count], None, *numbers)
        if parts == 2:
            copyto(out.reshape(-1).view(real), made, casting="unsafe")
        else:
            copyto(out, made.reshape(out.shape), casting="unsafe")

    return PlannedKernel(small)


def _floating(call: StructuredCall) -> TensorSpec:
    spec = call.outputs[0]
    if not spec.dtype.is_floating_point:
        raise call.refuse(spec)
    return spec


def uniform(call: StructuredCall) -> PlannedKernel:
    """Compute u * (high - low) + low."""
    spec = call.outputs[0]
    real = spec.dtype.to_real()
    if not real.is_floating_point:
        raise call.refuse(spec)
    wide = real is float64
    number: Any = np.float64 if wide else np.float32
    base, unit = _UNITS[64 if wide else _BITS.get(real, 8)]
    target = real.np
    largest = number(1.0) - number(unit)
    reaching: dict[tuple[float, float], bool] = {}

    def reaches(low: float, high: float) -> bool:
        """Return True if the largest value rounds to `high`; it suffices to test it, because rounding is
        monotonic.
        """
        if len(reaching) >= MAX_CONSTANTS:
            reaching.clear()
        value = largest * number(high - low) + number(low)
        result = reaching[low, high] = not value.astype(target) < target.type(high)
        return result

    def finish(u: Any, scratch: Any, low: float, high: float) -> Any:
        if low == 0 and high == 1:
            return u
        made = np.multiply(u, number(high - low), scratch)
        made += number(low)
        may_reach = reaching.get((low, high))
        if may_reach is None:
            may_reach = reaches(low, high)
        if may_reach:
            made = made.astype(target, copy=False)
            made[made == target.type(high)] = target.type(low)
        return made

    return by_blocks(spec, wide, base, finish)


def _unit_maker(number: Any, shift: Any, unit: float) -> Base:
    def base(draws: Any) -> Any:
        u = (draws >> shift).astype(number)
        u *= number(unit)
        return u

    return base


_UNITS = {
    bits: (_unit_maker(np.float32, np.uint32(32 - bits), 2.0**-bits), 2.0**-bits) for bits in (24, 11, 8)
} | {64: (_unit_maker(np.float64, np.uint64(11), 2.0**-53), 2.0**-53)}
"""Uniform numbers in [0, 1) from random words: a base and its unit by the bits that count, 64 for wide words."""


def normal(call: StructuredCall) -> PlannedKernel:
    """Compute mean + std * z; a complex number has its variance in equal parts."""
    spec = call.outputs[0]
    real = spec.dtype.to_real()
    if not real.is_floating_point:
        raise call.refuse(spec)
    wide, is_complex = real is float64, spec.dtype.is_complex

    def finish(z: Any, scratch: Any, mean: Any, std: float) -> Any:
        if is_complex:
            made = np.multiply(z, std * math.sqrt(0.5), scratch)
            if mean != 0:
                made[0::2] += complex(mean).real
                made[1::2] += complex(mean).imag
            return made
        if std != 1:
            z = scratch = np.multiply(z, std, scratch)
        return z if mean == 0 else np.add(z, mean, scratch)

    return by_blocks(spec, wide, normal_pairs, finish)


def normal_tensor(call: StructuredCall) -> PlannedKernel:
    """Compute mean + std * z with tensors that broadcast."""
    spec = call.outputs[0]
    real = spec.dtype.to_real()
    if not real.is_floating_point:
        raise call.refuse(spec)
    wide = real is float64
    base, draws, per = (normal_pairs, draws64, 2) if wide else (normal_pairs, draws32, 4)
    parts = 2 if spec.dtype.is_complex else 1
    count, sizes = spec.numel * parts, spec.sizes

    @quietly
    def into(out: Any, mean: Any, std: Any, seed: int, first: int) -> None:
        std = _wide(std)
        if std.__class__ is np.ndarray and not np.minimum.reduce(std, None) >= 0:
            raise RuntimeError("normal expects all elements of std >= 0.0")
        run = first // RUN
        start = (first - run * RUN) * per
        if start + count <= RUN * per:
            z = _kept_values(base, wide, seed, run)[start : start + count]
        else:
            z = base(draws(seed, first, count + count % 2))[:count]
        if parts == 2:
            z = (z * math.sqrt(0.5)).view(np.complex128)
        shaped = z.reshape(sizes) * std
        shaped += _wide(mean)
        np.copyto(out, shaped, casting="unsafe")

    return PlannedKernel(into)


def _wide(value: Any) -> Any:
    """Return a tensor's elements in the compute dtype, or a number unchanged."""
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind == "c" or value.dtype is complex32.np:
        return value.astype(np.complex128)
    return value.astype(np.float64)


def open_unit(draws: Any) -> Any:
    """Return random words as float64 strictly between 0 and 1."""
    if draws.dtype.itemsize == 8:
        v = (draws >> np.uint64(12)).astype(np.float64)
        v += 0.5
        v *= 2.0**-52
    else:
        v = draws.astype(np.float64)
        v += 0.5
        v *= 2.0**-32
    return v


def _log_unit(draws: Any) -> Any:
    v = open_unit(draws)
    return np.log(v, v)


def _standard_cauchy(draws: Any) -> Any:
    v = open_unit(draws)
    v -= 0.5
    v *= math.pi
    return np.tan(v, v)


def exponential(call: StructuredCall) -> PlannedKernel:
    """Compute -log(v) / lambd."""
    spec = _floating(call)

    def finish(logs: Any, scratch: Any, lambd: float) -> Any:
        return np.divide(logs, -np.float64(lambd), scratch)

    return by_blocks(spec, spec.dtype is float64, _log_unit, finish)


def log_normal(call: StructuredCall) -> PlannedKernel:
    """Compute exp(mean + std * z)."""
    spec = _floating(call)
    wide = spec.dtype is float64

    def finish(z: Any, scratch: Any, mean: float, std: float) -> Any:
        made = np.multiply(z, std, scratch)
        made += mean
        return np.exp(made, made)

    return by_blocks(spec, wide, normal_pairs, finish)


def cauchy(call: StructuredCall) -> PlannedKernel:
    """Compute median + sigma * tan(pi * (v - 0.5))."""
    spec = _floating(call)

    def finish(c: Any, scratch: Any, median: float, sigma: float) -> Any:
        made = np.multiply(c, sigma, scratch)
        made += median
        return made

    return by_blocks(spec, spec.dtype is float64, _standard_cauchy, finish)


def geometric(call: StructuredCall) -> PlannedKernel:
    """Return the number of trials up to the first success."""
    spec = call.outputs[0]
    if spec.dtype.is_complex or spec.dtype.name == "bool":
        raise call.refuse(spec)

    def finish(logs: Any, scratch: Any, p: float) -> Any:
        made = np.divide(logs, math.log1p(-p), scratch)
        return np.ceil(made, made)

    return by_blocks(spec, False, _log_unit, finish)


register_draws("uniform_stub", uniform, mersenne_draws.uniform)
register_draws("normal_stub", normal, mersenne_draws.normal)
register_draws("normal_tensor_stub", normal_tensor, mersenne_draws.normal_tensor)
register_draws("exponential_stub", exponential, mersenne_draws.exponential)
register_draws("log_normal_stub", log_normal, mersenne_draws.log_normal)
register_draws("cauchy_stub", cauchy, mersenne_draws.cauchy)
register_draws("geometric_stub", geometric, mersenne_draws.geometric)

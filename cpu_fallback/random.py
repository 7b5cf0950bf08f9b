"""Random numbers on the host; the contract is in `dispatch/structured/native/random.py`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..dispatch.iterator.parallel import parallel_for
from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..runtime.scalar_type import bfloat16, dtype, float16, float32, float64
from ..runtime.tensor_spec import TensorSpec
from .elementwise import MAX_CONSTANTS
from .error_state import IGNORE, reset_state, set_state
from .index_bounds import greatest
from .philox import draws32, draws64
from .undispatched import np
from .widen import compute_np

BLOCK = 1 << 15
"""Elements computed at a time: their draws and temporaries stay in the second-level cache."""
TWO_PI = 6.283185307179586
CERTAIN = np.float64(4294967296.0).view(np.uint64)
"""The level that all draws of 32 bits are below, read as a whole number."""
_HALF = np.uint64(32)
_BITS = {float32: 24, float16: 11, bfloat16: 8}

Base = Callable[[Any], Any]
Finish = Callable[..., Any]

RUN = 256
"""Counters of the run whose values are kept for small draws."""

_kept: dict[tuple[Base, bool], tuple[int, int, Any]] = {}
"""For a base and width (seed, number of the run, values), of the last run that a small draw came from."""


def _kept_values(base: Base, wide: bool, seed: int, run: int) -> Any:
    """The values that `base` makes of a run of counters.

    A small draw is a slice of them: a dozen array operations cost the same for one element as for a thousand.
    """
    kept = _kept.get((base, wide))
    if kept is not None and kept[0] == seed and kept[1] == run:
        return kept[2]
    draws = draws64(seed, run * RUN, 2 * RUN) if wide else draws32(seed, run * RUN, 4 * RUN)
    values = base(draws)
    values.flags.writeable = False
    _kept[base, wide] = (seed, run, values)
    return values


def _by_blocks(spec: TensorSpec, wide: bool, base: Base | None, finish: Finish) -> PlannedKernel:
    """A kernel that fills `out` with ``finish(base(draws), scratch, *numbers)``, block by block in C order, on threads.

    `base` is one of this module's functions, of draws alone; without one `finish` has the draws themselves. It may
    write to `scratch`, None where there is no array to spare.
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
        token = set_state(IGNORE)
        try:

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
        finally:
            reset_state(token)

    if count > RUN or not spec.is_contiguous:
        return PlannedKernel(into)
    last = RUN * per - count

    def small(out: Any, *rest: Any) -> None:
        *numbers, seed, first = rest
        run = first // RUN
        start = (first - run * RUN) * per
        if start > last:
            into(out, *rest)
            return
        token = set_state(IGNORE)
        try:
            if base is None:
                made = finish(draws(seed, first, count), None, *numbers)
            else:
                made = finish(_kept_values(base, wide, seed, run)[start : start + count], None, *numbers)
            if parts == 2:
                copyto(out.reshape(-1).view(real), made, casting="unsafe")
            else:
                copyto(out, made.reshape(out.shape), casting="unsafe")
        finally:
            reset_state(token)

    return PlannedKernel(small)


def _floating(call: StructuredCall) -> TensorSpec:
    spec = call.outputs[0]
    if not spec.dtype.is_floating_point:
        raise call.refuse(spec)
    return spec


def _real(d: dtype) -> dtype:
    return d.to_real()


def uniform(call: StructuredCall) -> PlannedKernel:
    """u * (high - low) + low."""
    spec = call.outputs[0]
    real = _real(spec.dtype)
    if not real.is_floating_point:
        raise call.refuse(spec)
    wide = real is float64
    number: Any = np.float64 if wide else np.float32
    base, unit = _UNITS[64 if wide else _BITS.get(real, 8)]
    target = real.np
    largest = number(1.0) - number(unit)
    reaching: dict[tuple[float, float], bool] = {}

    def reaches(low: float, high: float) -> bool:
        """Whether a value is rounded to `high`: the largest draw's is then, because rounding keeps the order."""
        if len(reaching) >= MAX_CONSTANTS:
            reaching.clear()
        value = largest * number(high - low) + number(low)
        found = reaching[low, high] = not value.astype(target) < target.type(high)
        return found

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

    return _by_blocks(spec, wide, base, finish)


def _unit_maker(number: Any, shift: Any, unit: float) -> Base:
    def base(draws: Any) -> Any:
        u = (draws >> shift).astype(number)
        u *= number(unit)
        return u

    return base


_UNITS = {
    bits: (_unit_maker(np.float32, np.uint32(32 - bits), 2.0**-bits), 2.0**-bits) for bits in (24, 11, 8)
} | {64: (_unit_maker(np.float64, np.uint64(11), 2.0**-53), 2.0**-53)}
"""Draws as numbers from 0 to, not including, 1: a base and its unit by the bits that count, 64 for wide draws."""


def _box_muller(even: Any, odd: Any, unit: float) -> Any:
    """Normal numbers of pairs of whole ones, in float64."""
    radius = even.astype(np.float64)
    radius += 1.0
    radius *= unit
    np.log(radius, radius)
    radius *= -2.0
    np.sqrt(radius, radius)
    angle = odd.astype(np.float64)
    angle *= unit
    angle *= TWO_PI
    out = np.empty(2 * len(radius))
    np.multiply(radius, np.cos(angle), out[0::2])
    np.multiply(radius, np.sin(angle), out[1::2])
    return out


def _normal32(draws: Any) -> Any:
    return _box_muller(draws[0::2], draws[1::2], 2.0**-32)


def _normal64(draws: Any) -> Any:
    return _box_muller(draws[0::2] >> np.uint64(11), draws[1::2] >> np.uint64(11), 2.0**-53)


def normal(call: StructuredCall) -> PlannedKernel:
    """mean + std * z; a complex number has its variance in equal parts."""
    spec = call.outputs[0]
    real = _real(spec.dtype)
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

    return _by_blocks(spec, wide, _normal64 if wide else _normal32, finish)


def normal_tensor(call: StructuredCall) -> PlannedKernel:
    """mean + std * z with tensors that broadcast."""
    spec = call.outputs[0]
    real = _real(spec.dtype)
    if not real.is_floating_point:
        raise call.refuse(spec)
    wide = real is float64
    base, draws, per = (_normal64, draws64, 2) if wide else (_normal32, draws32, 4)
    parts = 2 if spec.dtype.is_complex else 1
    count, sizes = spec.numel * parts, spec.sizes

    def into(out: Any, mean: Any, std: Any, seed: int, first: int) -> None:
        token = set_state(IGNORE)
        try:
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
        finally:
            reset_state(token)

    return PlannedKernel(into)


def _wide(value: Any) -> Any:
    """A tensor's elements in the dtype of the computation; a number as it is."""
    if not isinstance(value, np.ndarray):
        return value
    return value.astype(np.complex128 if value.dtype.kind == "c" else np.float64)


def _open_unit(draws: Any) -> Any:
    """Draws as float64 strictly between 0 and 1."""
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
    v = _open_unit(draws)
    return np.log(v, v)


def _standard_cauchy(draws: Any) -> Any:
    v = _open_unit(draws)
    v -= 0.5
    v *= math.pi
    return np.tan(v, v)


def exponential(call: StructuredCall) -> PlannedKernel:
    """-log(v) / lambd."""
    spec = _floating(call)

    def finish(logs: Any, scratch: Any, lambd: float) -> Any:
        return np.divide(logs, -np.float64(lambd), scratch)

    return _by_blocks(spec, spec.dtype is float64, _log_unit, finish)


def log_normal(call: StructuredCall) -> PlannedKernel:
    """exp(mean + std * z)."""
    spec = _floating(call)
    wide = spec.dtype is float64

    def finish(z: Any, scratch: Any, mean: float, std: float) -> Any:
        made = np.multiply(z, std, scratch)
        made += mean
        return np.exp(made, made)

    return _by_blocks(spec, wide, _normal64 if wide else _normal32, finish)


def cauchy(call: StructuredCall) -> PlannedKernel:
    """median + sigma * tan(pi * (v - 0.5))."""
    spec = _floating(call)

    def finish(c: Any, scratch: Any, median: float, sigma: float) -> Any:
        made = np.multiply(c, sigma, scratch)
        made += median
        return made

    return _by_blocks(spec, spec.dtype is float64, _standard_cauchy, finish)


def geometric(call: StructuredCall) -> PlannedKernel:
    """The number of trials up to the first success."""
    spec = call.outputs[0]
    if spec.dtype.is_complex or spec.dtype.name == "bool":
        raise call.refuse(spec)

    def finish(logs: Any, scratch: Any, p: float) -> Any:
        made = np.divide(logs, math.log1p(-p), scratch)
        return np.ceil(made, made)

    return _by_blocks(spec, False, _log_unit, finish)


def _below(draws: Any, p: float) -> Any:
    """Whether each 32-bit draw is below p * 2**32."""
    threshold = math.ceil(p * 4294967296.0)
    if threshold > 0xFFFFFFFF:
        return np.ones(draws.shape, np.bool_)
    return draws < np.uint32(threshold)


def bernoulli(call: StructuredCall) -> PlannedKernel:
    """1 with probability p."""
    spec = call.outputs[0]
    if spec.dtype.is_complex:
        raise call.refuse(spec)
    return _by_blocks(spec, False, None, lambda draws, _, p: _below(draws, p))


def bernoulli_tensor(call: StructuredCall) -> PlannedKernel:
    """1 with the probability of the element."""
    spec = call.outputs[0]
    count, sizes = spec.numel, spec.sizes
    same = call.args["p"].sizes == sizes

    def check(p: Any) -> None:
        if not ((p >= 0) & (p <= 1)).all():
            raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")

    def into(out: Any, p: Any, seed: int, first: int) -> None:
        token = set_state(IGNORE)
        try:
            if count <= BLOCK and same:
                levels = p.astype(np.float64)
                levels *= 4294967296.0
                # As whole numbers, those below zero and NaN are the largest; so is -0.0, which is allowed.
                if not greatest(levels.view(np.uint64), None) <= CERTAIN:
                    check(p)
                below = draws32(seed, first, count) < levels.reshape(-1)
                np.copyto(out, below.reshape(sizes), casting="unsafe")
                return
            check(p)
            chance = np.broadcast_to(p, sizes).reshape(-1)
            made = np.reshape(out, -1, copy=False) if out.flags.c_contiguous else np.empty(count, out.dtype)

            def part(begin: int, end: int) -> None:
                for start in range(begin * BLOCK, min(end * BLOCK, count), BLOCK):
                    piece = chance[start : start + BLOCK].astype(np.float64)
                    piece *= 4294967296.0
                    below = draws32(seed, first + start // 4, len(piece)) < piece
                    np.copyto(made[start : start + BLOCK], below, casting="unsafe")

            parallel_for(0, -(-count // BLOCK), 1, part)
            if not out.flags.c_contiguous:
                np.copyto(out, made.reshape(sizes))
        finally:
            reset_state(token)

    return PlannedKernel(into)


def random(call: StructuredCall) -> PlannedKernel:
    """low + floor(draw * span / 2**bits)."""
    spec = call.outputs[0]
    if spec.dtype.is_complex:
        raise call.refuse(spec)
    low, span = call.extra["low"], call.extra["span"]
    small = span <= 1 << 16
    base = np.array(low % (1 << 64), np.uint64)[()]
    unsigned = spec.dtype.name == "uint64"

    factor = np.uint64(span) if small else None

    def finish(draws: Any, _: Any) -> Any:
        if small:
            scaled = np.multiply(draws, factor)
            scaled >>= _HALF
        else:
            scaled = _high_product(draws, span)
        if base:
            scaled += base
        return scaled if unsigned else scaled.view(np.int64)

    return _by_blocks(spec, not small, None, finish)


def _high_product(draws: Any, span: int) -> Any:
    """The upper 64 bits of ``draws * span``, by four products of halves."""
    if span == 1 << 64:
        return draws.copy()  # the caller adds to it in place
    mask, half = np.uint64(0xFFFFFFFF), _HALF
    low, high = draws & mask, draws >> half
    span_low, span_high = np.uint64(span & 0xFFFFFFFF), np.uint64(span >> 32)
    carried = (low * span_low) >> half
    cross = high * span_low + carried
    if not span_high:
        return cross >> half
    middle = low * span_high + (cross & mask)
    return high * span_high + (cross >> half) + (middle >> half)


def randperm(call: StructuredCall) -> PlannedKernel:
    """The order of 64-bit draws."""
    spec = call.outputs[0]
    count = spec.numel

    def into(out: Any, seed: int, first: int) -> None:
        keys = draws64(seed, first, count)
        order = np.argsort(keys)
        ranked = keys[order]
        if (ranked[1:] == ranked[:-1]).any():
            order = np.argsort(keys, kind="stable")
        np.copyto(out, order, casting="unsafe")

    return PlannedKernel(into)


def multinomial(call: StructuredCall) -> PlannedKernel:
    """Indices by weight, row by row of the weights."""
    spec, weights = call.outputs[0], call.args["weights"]
    replacement = call.extra["replacement"]
    columns, samples = weights.sizes[-1], spec.sizes[-1]

    def into(out: Any, given: Any, seed: int, first: int) -> None:
        token = set_state(IGNORE)
        try:
            rows = given.reshape(-1, columns).astype(np.float64)
            if not (np.isfinite(rows) & (rows >= 0)).all():
                raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
            if not rows.any(axis=1).all():
                raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
            if replacement:
                sums = np.cumsum(rows, axis=1)
                u = (draws64(seed, first, len(rows) * samples) >> np.uint64(11)).astype(np.float64) * 2.0**-53
                levels = u.reshape(len(rows), samples) * sums[:, -1:]
                target = out.reshape(len(rows), samples)
                for row, (edges, wanted) in enumerate(zip(sums, levels, strict=True)):
                    found = np.searchsorted(edges, wanted, side="right")
                    target[row] = np.minimum(found, np.flatnonzero(rows[row])[-1])
                return
            # Weights of 0 arrive last, after infinite time, as in PyTorch.
            race = -np.log(_open_unit(draws64(seed, first, rows.size))).reshape(rows.shape) / rows
            np.copyto(out, np.argsort(race, axis=1, kind="stable")[:, :samples].reshape(out.shape))
        finally:
            reset_state(token)

    return PlannedKernel(into)


def native_dropout(call: StructuredCall) -> PlannedKernel:
    """(input * mask / (1 - p), mask)."""
    spec = call.outputs[0]
    if not (spec.dtype.is_floating_point or spec.dtype.is_complex):
        raise call.refuse(spec)
    count, sizes = spec.numel, spec.sizes
    wide = compute_np(spec.dtype)
    every = (*call.outputs, call.args["input"])
    large = count > BLOCK and all(each.is_contiguous and each.sizes == sizes for each in every)

    def into(out: Any, mask: Any, values: Any, p: float, seed: int, first: int) -> None:
        if p == 0:
            mask.fill(True)
            np.copyto(out, values)
            return
        token = set_state(IGNORE)
        try:
            scale = 0.0 if p == 1 else 1.0 / (1.0 - p)
            if not large:
                np.copyto(mask, _below(draws32(seed, first, count), 1.0 - p).reshape(sizes))
                np.copyto(out, _masked(values, mask, scale, wide), casting="unsafe")
                return
            lines = [np.reshape(array, -1, copy=False) for array in (out, mask, values)]

            def part(begin: int, end: int) -> None:
                for start in range(begin * BLOCK, min(end * BLOCK, count), BLOCK):
                    made, kept, given = (line[start : start + BLOCK] for line in lines)
                    np.copyto(kept, _below(draws32(seed, first + start // 4, len(kept)), 1.0 - p))
                    np.copyto(made, _masked(given, kept, scale, wide), casting="unsafe")

            parallel_for(0, -(-count // BLOCK), 1, part)
        finally:
            reset_state(token)

    return PlannedKernel(into)


def native_dropout_backward(call: StructuredCall) -> PlannedKernel:
    """grad * mask * scale."""
    wide = compute_np(call.outputs[0].dtype)

    def into(out: Any, grad: Any, mask: Any, scale: float) -> None:
        token = set_state(IGNORE)
        try:
            np.copyto(out, _masked(grad, mask, scale, wide), casting="unsafe")
        finally:
            reset_state(token)

    return PlannedKernel(into)


def _masked(values: Any, mask: Any, scale: float, wide: Any) -> Any:
    scaled = values.astype(wide)
    scaled *= wide.type(scale)
    scaled *= mask
    return scaled


register_stub("uniform_stub", "cpu", uniform)
register_stub("normal_stub", "cpu", normal)
register_stub("normal_tensor_stub", "cpu", normal_tensor)
register_stub("exponential_stub", "cpu", exponential)
register_stub("log_normal_stub", "cpu", log_normal)
register_stub("cauchy_stub", "cpu", cauchy)
register_stub("geometric_stub", "cpu", geometric)
register_stub("bernoulli_stub", "cpu", bernoulli)
register_stub("bernoulli_tensor_stub", "cpu", bernoulli_tensor)
register_stub("random_stub", "cpu", random)
register_stub("randperm_stub", "cpu", randperm)
register_stub("multinomial_stub", "cpu", multinomial)
register_stub("native_dropout_stub", "cpu", native_dropout)
register_stub("native_dropout_backward_stub", "cpu", native_dropout_backward)

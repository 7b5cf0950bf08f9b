"""Kernels of random operators that take a Mersenne Twister's words as PyTorch's CPU kernels take them.

Elements come in the order of the tensor's memory. A float64 number takes two words, others take one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import StructuredCall
from ...runtime.cpu.loop_requests import DeferredLoop
from ...runtime.mersenne_twister import BLOCK, MersenneTwister
from ...runtime.parallel import parallel_for
from ...runtime.scalar_type import float64
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from ..widen import compute_np
from .engine import Kernel
from .fused_multiply_add import fma32, fma64
from .mersenne_normal import libm, normal_numbers, one_by_one
from .race import firsts

Array = Any


def _shuffle_loop() -> Callable[..., None]:
    from .draw_loops import shuffle_loop

    return shuffle_loop()


SHUFFLE = DeferredLoop(_shuffle_loop, 1 << 18)
WIDE_SPAN = 1 << 28
"""The least span of integers that are drawn of two words each."""


def memory_order(spec: TensorSpec) -> tuple[int, ...]:
    """Return the dimensions from the longest stride to the shortest."""
    strides, sizes = spec.strides, spec.sizes
    return tuple(sorted(range(spec.ndim), key=lambda d: (sizes[d] != 1, -strides[d])))


def ordered(spec: TensorSpec) -> Callable[[Array], Array]:
    """Return a function from an array of a spec's sizes to its view whose C order is the order of the spec's memory."""
    if spec.is_contiguous:
        return lambda array: array
    order = memory_order(spec)
    return lambda array: array.transpose(order)


def writer(spec: TensorSpec) -> Callable[[Array, Array], None]:
    """Return ``write(out, values)``, which converts values, in the order of memory, to the output's dtype.

    A complex output takes real and imaginary parts in turn. A 16-bit float is rounded to float32 before, as by PyTorch.
    """
    view = ordered(spec)
    narrow = spec.dtype.to_real().is_floating_point and spec.dtype.to_real().np.itemsize == 2
    if spec.dtype.is_complex:
        real = spec.dtype.to_real().np

        def write_parts(out: Array, values: Array) -> None:
            target = view(out)
            parts = (values.astype(np.float32) if narrow else values).astype(real).view(target.dtype)
            np.copyto(target, parts.reshape(target.shape))

        return write_parts

    def write(out: Array, values: Array) -> None:
        target = view(out)
        if narrow:
            values = values.astype(np.float32)
        np.copyto(target, values.reshape(target.shape), casting="unsafe")

    return write


def _count(spec: TensorSpec) -> int:
    return spec.numel * (2 if spec.dtype.is_complex else 1)


def uniform(call: StructuredCall) -> Kernel:
    """Compute ``u * (high - low) + low``, rounded once; values that round to `high` become `low`."""
    spec = call.outputs[0]
    count, write, target = _count(spec), writer(spec), spec.dtype.to_real().np
    wide = target == np.float64
    exact = wide or target == np.float32

    def into(out: Array, low: float, high: float, twister: MersenneTwister) -> None:
        direct = exact and out.flags.c_contiguous and out.flags.writeable
        flat = out.reshape(-1).view(target) if direct else None
        with twister.lock:
            made = twister.doubles(count, flat) if wide else twister.singles(count, flat)
        if (low, high) != (0, 1):

            def scale(begin: int, end: int) -> None:
                part = made[begin * BLOCK : end * BLOCK]
                for start in range(0, len(part), BLOCK):
                    few = part[start : start + BLOCK]
                    if wide:
                        few[:] = fma64(few, float(high) - float(low), float(low))
                    else:
                        few[:] = fma32(few, np.float32(high) - np.float32(low), np.float32(low))
                    if exact:
                        few[few == target.type(high)] = target.type(low)

            parallel_for(0, -(-count // BLOCK), 1, scale)
        if not exact:
            made = made.astype(target, copy=False)
            made[made == target.type(high)] = target.type(low)
        if not direct:
            write(out, made)

    return into


def normal(call: StructuredCall) -> Kernel:
    """Sample normal numbers; a complex number has its variance in equal parts."""
    spec = call.outputs[0]
    count, write, target = _count(spec), writer(spec), spec.dtype.to_real().np
    is_complex, grouped = spec.dtype.is_complex, spec.is_contiguous

    def into(out: Array, mean: Any, std: float, twister: MersenneTwister) -> None:
        if is_complex:
            mean, std = complex(mean).real, std / math.sqrt(2.0)
        with twister.lock:
            made = normal_numbers(twister, count, target, grouped, float(mean), float(std))
        write(out, made)

    return into


def normal_tensor(call: StructuredCall) -> Kernel:
    """Compute ``mean + std * z``, each step rounded to the dtype."""
    spec = call.outputs[0]
    count, write, dtype = _count(spec), writer(spec), spec.dtype
    target, wide = dtype.to_real().np, compute_np(dtype)

    def into(out: Array, mean: Any, std: Any, twister: MersenneTwister) -> None:
        by_number = not isinstance(std, np.ndarray)
        if not by_number and not (std >= 0).all():
            raise RuntimeError("normal expects all elements of std >= 0.0")
        scale = float(std) if by_number else 1.0
        if dtype.is_complex:
            scale /= math.sqrt(2.0)
        with twister.lock:
            made = normal_numbers(twister, count, target, True, 0.0, scale)
        write(out, made)
        if not by_number:
            np.copyto(out, out.astype(wide) * std.astype(wide), casting="unsafe")
        other = mean.astype(wide) if isinstance(mean, np.ndarray) else wide.type(mean)
        np.copyto(out, out.astype(wide) + other, casting="unsafe")

    return into


def _of_doubles(function: Callable[..., Array]) -> Callable[[StructuredCall], Kernel]:
    """Return a factory of kernels that compute ``function(doubles, *numbers)`` in float64."""

    def factory(call: StructuredCall) -> Kernel:
        count, write = call.outputs[0].numel, writer(call.outputs[0])

        def into(out: Array, *rest: Any) -> None:
            *numbers, twister = rest
            with twister.lock:
                doubles = twister.doubles(count)
            write(out, function(doubles, *numbers))

        return into

    return factory


def exponential_numbers(doubles: Array, lambd: float) -> Array:
    """Compute ``-log(1 - u) / lambd``."""
    return (-1.0 / lambd) * libm(math.log1p, -doubles)


def _log(x: float) -> float:
    return math.log(x) if x else -math.inf


exponential = _of_doubles(exponential_numbers)
geometric = _of_doubles(lambda doubles, p: np.ceil(libm(_log, doubles) / math.log1p(-p)))
cauchy = _of_doubles(
    lambda doubles, median, sigma: fma64(libm(math.tan, math.pi * (doubles - 0.5)), sigma, median)
)
bernoulli = _of_doubles(lambda doubles, p: doubles < p)


def log_normal(call: StructuredCall) -> Kernel:
    """Compute exponentials of normal numbers that are generated one by one."""
    count, write = call.outputs[0].numel, writer(call.outputs[0])

    def into(out: Array, mean: float, std: float, twister: MersenneTwister) -> None:
        with twister.lock:
            logarithms = one_by_one(twister, count, mean, std)
        largest = math.log(np.finfo(np.float64).max)
        made = libm(math.exp, np.minimum(logarithms, largest))
        made[logarithms > largest] = np.inf
        write(out, made)

    return into


def bernoulli_tensor(call: StructuredCall) -> Kernel:
    """Sample 1 with the probability of the element, in float32 unless the probabilities are float64."""
    spec = call.outputs[0]
    count, write, view = spec.numel, writer(spec), ordered(spec)
    wide = call.args["p"].dtype is float64

    def into(out: Array, p: Array, twister: MersenneTwister) -> None:
        if not ((p >= 0) & (p <= 1)).all():
            raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
        chance = view(np.broadcast_to(p, spec.sizes)).astype(np.float64 if wide else np.float32).reshape(-1)
        with twister.lock:
            made = twister.doubles(count) if wide else twister.singles(count)
        write(out, made < chance)

    return into


def random(call: StructuredCall) -> Kernel:
    """Compute ``low + word % span``, from two words if the span, or the dtype of a full range, is wide."""
    spec = call.outputs[0]
    count, write = spec.numel, writer(spec)
    low, span = call.extra["low"], call.extra["span"]
    wide = span >= WIDE_SPAN if call.extra["bounded"] else spec.dtype.np.itemsize == 8
    base = np.uint64(low % (1 << 64))
    unsigned = spec.dtype.name == "uint64"

    def into(out: Array, twister: MersenneTwister) -> None:
        with twister.lock:
            made = twister.wide_words(count) if wide else twister.words(count)
        if span < 1 << 64:
            made %= np.uint64(span)
            made += base
        write(out, made if unsigned else made.view(np.int64))

    return into


def randperm(call: StructuredCall) -> Kernel:
    """Shuffle by the algorithm of Fisher and Yates."""
    spec = call.outputs[0]
    count = spec.numel

    def into(out: Array, twister: MersenneTwister) -> None:
        with twister.lock:
            words = twister.words(count - 1)
        positions = np.arange(count - 1, dtype=np.uint64)
        partners = words % (np.uint64(count) - positions) + positions
        loop = SHUFFLE.beside(count)
        if loop is not None and count > 1:
            numbers = np.arange(count)
            loop(np.array(count - 1), numbers, partners)
            np.copyto(out, numbers, casting="unsafe")
            return
        order = list(range(count))
        for index, partner in enumerate(partners.tolist()):
            order[index], order[partner] = order[partner], order[index]
        np.copyto(out, np.array(order), casting="unsafe")

    return into


def multinomial(call: StructuredCall) -> Kernel:
    """Sample indices by weight, row by row of the weights."""
    spec, weights = call.outputs[0], call.args["weights"]
    columns, samples = weights.sizes[-1], spec.sizes[-1]
    rows = spec.numel // samples
    wide = compute_np(weights.dtype)

    def check(value: Array) -> None:
        if not (np.isfinite(value) & (value >= 0)).all():
            raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
        if not value.any(axis=1).all():
            raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")

    def replacing(out: Array, value: Array, twister: MersenneTwister) -> None:
        chances = value.reshape(rows, columns).astype(wide)
        check(chances)
        sums = np.cumsum(chances, axis=1, dtype=wide)
        sums /= sums[:, -1:].copy()
        sums[:, -1] = 1.0
        with twister.lock:
            levels = twister.doubles(rows * samples).reshape(rows, samples)
        target = out.reshape(rows, samples)
        for row, (edges, level) in enumerate(zip(sums, levels, strict=True)):
            target[row] = np.searchsorted(edges.astype(np.float64), level)

    # The exponential numbers have the strides of the weights.
    dense = (
        weights if weights.is_dense else TensorSpec.contiguous(weights.sizes, weights.dtype, weights.device)
    )
    order = memory_order(dense)
    back = np.argsort(order)
    shape = [weights.sizes[d] for d in order]

    def racing(out: Array, value: Array, twister: MersenneTwister) -> None:
        check(value.reshape(rows, columns).astype(wide))
        with twister.lock:
            doubles = twister.doubles(rows * columns)
        race = exponential_numbers(doubles, 1.0).astype(value.dtype).reshape(shape).transpose(back)
        scores = (value.astype(wide) / race.astype(wide)).astype(value.dtype).astype(wide)
        np.copyto(out, firsts(-scores.reshape(rows, columns), samples).reshape(out.shape))

    # PyTorch samples a single index without replacement.
    return replacing if call.extra["replacement"] and samples > 1 else racing


def native_dropout(call: StructuredCall) -> Kernel:
    """``(input * noise, noise != 0)``, the noise being ``bernoulli(1 - p) / (1 - p)`` rounded to the dtype."""
    spec = call.outputs[0]
    count, write, target = spec.numel, writer(call.outputs[1]), spec.dtype.np
    wide = compute_np(spec.dtype)

    def into(out: Array, mask: Array, values: Array, p: float, twister: MersenneTwister) -> None:
        if p == 0:
            mask.fill(True)
            np.copyto(out, values)
            return
        with twister.lock:
            write(mask, twister.doubles(count) < 1.0 - p)
        scale = 0.0 if p == 1 else (wide.type(1.0) / wide.type(1.0 - p)).astype(target).astype(wide)
        np.copyto(out, values.astype(wide) * (mask * scale), casting="unsafe")

    return into

"""Discrete random ops on the host: Bernoulli, integers, permutations, weighted indices, masks.

The contract is in `dispatch/structured/meta/draws.py`.
"""

from __future__ import annotations

import math
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cpu.loop_requests import DeferredLoop, Loop
from ...runtime.float_errors import quietly
from ...runtime.parallel import parallel_for
from ..indexing.index_bounds import greatest
from ..plain_numpy import np
from ..widen import compute_np
from . import mersenne_draws
from .engine import register_draws
from .philox import draws32, draws64
from .race import firsts
from .random import BLOCK, by_blocks, open_unit

CERTAIN = np.float64(4294967296.0).view(np.uint64)
"""Threshold above all 32-bit random words, read as an integer."""
_HALF = np.uint64(32)


def _radix_pass() -> Loop:
    from .radix_loop import radix_loop

    return radix_loop()


RADIX_PASS = DeferredLoop(_radix_pass, 1 << 18)
"""A pass of radix sort, once NumPy has sorted this many keys."""


def _below(draws: Any, p: float) -> Any:
    """Return True for each 32-bit word below p * 2**32."""
    threshold = math.ceil(p * 4294967296.0)
    if threshold > 0xFFFFFFFF:
        return np.ones(draws.shape, np.bool_)
    return draws < np.uint32(threshold)


def bernoulli(call: StructuredCall) -> PlannedKernel:
    """Sample 1 with probability p."""
    spec = call.outputs[0]
    if spec.dtype.is_complex:
        raise call.refuse(spec)
    return by_blocks(spec, False, None, lambda draws, _, p: _below(draws, p))


def bernoulli_tensor(call: StructuredCall) -> PlannedKernel:
    """Sample 1 with the probability of the element."""
    spec = call.outputs[0]
    count, sizes = spec.numel, spec.sizes
    same = call.args["p"].sizes == sizes

    def check(p: Any) -> None:
        if not ((p >= 0) & (p <= 1)).all():
            raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")

    @quietly
    def into(out: Any, p: Any, seed: int, first: int) -> None:
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

    return PlannedKernel(into)


def random(call: StructuredCall) -> PlannedKernel:
    """Compute low + floor(draw * span / 2**bits)."""
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

    return by_blocks(spec, not small, None, finish)


def _high_product(draws: Any, span: int) -> Any:
    """Compute the upper 64 bits of ``draws * span``, from four products of halves."""
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
    """Return the argsort of 64-bit random words."""
    spec = call.outputs[0]
    count = spec.numel

    def into(out: Any, seed: int, first: int) -> None:
        keys = draws64(seed, first, count)
        order = order_of(keys)
        np.copyto(out, order, casting="unsafe")

    return PlannedKernel(into)


def order_of(keys: Any) -> Any:
    """Return the stable argsort of 64-bit keys.

    The upper halves are sorted first: NumPy radix-sorts 16-bit numbers, in a tenth of the time of longer
    ones. Elements with equal upper halves are then sorted among themselves, in the positions that they share.

    Example:
        >>> import numpy as np
        >>> order_of(np.array([3 << 40, 1 << 40, 2, 1, 1 << 40], np.uint64)).tolist()
        [3, 2, 1, 4, 0]
    """
    loop = RADIX_PASS.beside(len(keys))
    if loop is not None and len(keys) < 1 << 32:
        order, upper = _order_by_loop(loop, keys)
    else:
        digits = keys.view("<u2").reshape(-1, 4)
        order = np.argsort(np.ascontiguousarray(digits[:, 2]), kind="stable")
        order = order[np.argsort(digits[:, 3][order], kind="stable")]
        upper = keys.view("<u4").reshape(-1, 2)[:, 1][order]
    equal = upper[1:] == upper[:-1]
    if equal.any():
        positions = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
        together = order[positions]
        order[positions] = together[np.argsort(keys[together], kind="stable")]
    return order


def _order_by_loop(loop: Loop, keys: Any) -> tuple[Any, Any]:
    """Return the stable argsort of the upper halves of 64-bit keys, and these halves in order.

    Passes sort numbers whose upper half is the key's, and whose lower half is the position.
    """
    from .radix_loop import DIGIT_BITS

    numbers = keys & np.uint64(0xFFFFFFFF << 32)
    numbers |= np.arange(len(keys), dtype=np.uint64)
    other = np.empty_like(numbers)
    for shift in range(32, 64, DIGIT_BITS):
        loop(np.array((len(keys), shift)), other, np.zeros(1 << DIGIT_BITS, np.int64), numbers)
        numbers, other = other, numbers
    upper = np.right_shift(numbers, _HALF, other)
    numbers &= np.uint64(0xFFFFFFFF)
    return numbers.view(np.int64), upper


def multinomial(call: StructuredCall) -> PlannedKernel:
    """Sample indices by weight, row by row of the weights."""
    spec, weights = call.outputs[0], call.args["weights"]
    replacement = call.extra["replacement"]
    columns, samples = weights.sizes[-1], spec.sizes[-1]

    @quietly
    def into(out: Any, value: Any, seed: int, first: int) -> None:
        rows = value.reshape(spec.numel // samples, columns).astype(np.float64)
        if not (np.isfinite(rows) & (rows >= 0)).all():
            raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
        if not rows.any(axis=1).all():
            raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
        if replacement:
            sums = np.cumsum(rows, axis=1)
            u = (draws64(seed, first, len(rows) * samples) >> np.uint64(11)).astype(np.float64) * 2.0**-53
            levels = u.reshape(len(rows), samples) * sums[:, -1:]
            target = out.reshape(len(rows), samples)
            for row, (edges, level) in enumerate(zip(sums, levels, strict=True)):
                indices = np.searchsorted(edges, level, side="right")
                target[row] = np.minimum(indices, np.flatnonzero(rows[row])[-1])
            return
        # Weights of 0 arrive last, after infinite time, as in PyTorch.
        race = -np.log(open_unit(draws64(seed, first, rows.size))).reshape(rows.shape) / rows
        np.copyto(out, firsts(race, samples).reshape(out.shape))

    return PlannedKernel(into)


def native_dropout(call: StructuredCall) -> PlannedKernel:
    """Return (input * mask / (1 - p), mask)."""
    spec = call.outputs[0]
    if not (spec.dtype.is_floating_point or spec.dtype.is_complex):
        raise call.refuse(spec)
    count, sizes = spec.numel, spec.sizes
    wide = compute_np(spec.dtype)
    every = (*call.outputs, call.args["input"])
    large = count > BLOCK and all(each.is_contiguous and each.sizes == sizes for each in every)

    @quietly
    def into(out: Any, mask: Any, values: Any, p: float, seed: int, first: int) -> None:
        if p == 0:
            mask.fill(True)
            np.copyto(out, values)
            return
        scale = 0.0 if p == 1 else 1.0 / (1.0 - p)
        if not large:
            np.copyto(mask, _below(draws32(seed, first, count), 1.0 - p).reshape(sizes))
            np.copyto(out, _masked(values, mask, scale, wide), casting="unsafe")
            return
        lines = [np.reshape(array, -1, copy=False) for array in (out, mask, values)]

        def part(begin: int, end: int) -> None:
            for start in range(begin * BLOCK, min(end * BLOCK, count), BLOCK):
                made, mask_part, source = (line[start : start + BLOCK] for line in lines)
                np.copyto(mask_part, _below(draws32(seed, first + start // 4, len(mask_part)), 1.0 - p))
                np.copyto(made, _masked(source, mask_part, scale, wide), casting="unsafe")

        parallel_for(0, -(-count // BLOCK), 1, part)

    return PlannedKernel(into)


def native_dropout_backward(call: StructuredCall) -> PlannedKernel:
    """Compute grad * mask * scale."""
    wide = compute_np(call.outputs[0].dtype)

    @quietly
    def into(out: Any, grad: Any, mask: Any, scale: float) -> None:
        np.copyto(out, _masked(grad, mask, scale, wide), casting="unsafe")

    return PlannedKernel(into)


def _masked(values: Any, mask: Any, scale: float, wide: Any) -> Any:
    scaled = values.astype(wide)
    scaled *= wide.type(scale)
    scaled *= mask
    return scaled


register_draws("bernoulli_stub", bernoulli, mersenne_draws.bernoulli)
register_draws("bernoulli_tensor_stub", bernoulli_tensor, mersenne_draws.bernoulli_tensor)
register_draws("random_stub", random, mersenne_draws.random)
register_draws("randperm_stub", randperm, mersenne_draws.randperm)
register_draws("multinomial_stub", multinomial, mersenne_draws.multinomial)
register_draws("native_dropout_stub", native_dropout, mersenne_draws.native_dropout)
register_stub("native_dropout_backward_stub", "cpu", native_dropout_backward)

"""Optimizers' steps over lists of tensors: one pass over each row's memory, in blocks that stay in the cache.

dispatch/structured/meta/optimizers.py has what is computed, and in which order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ...runtime.parallel import parallel_for
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from ..widen import compute_np
from .compiled_steps import CompiledSteps

BLOCK = 1 << 16
"""Elements of a block: with all operands and intermediate results of AdamW in float32 a megabyte and a half."""
GRAIN = 1 << 17
"""Elements that a thread takes at least: a step over them takes longer than handing them over."""

Array = np.ndarray[Any, Any]
Row = Callable[[Sequence[Array]], list[Array]]


def memory_order(spec: TensorSpec) -> Row:
    """Return a function from a row's arrays to one-dimensional views, all in memory order."""
    if spec.is_contiguous:
        return lambda arrays: [array.reshape(-1) for array in arrays]
    kept = [d for d, size in enumerate(spec.sizes) if size != 1]
    order = (*sorted(kept, key=lambda d: -spec.strides[d]), *(d for d in range(spec.ndim) if d not in kept))
    return lambda arrays: [array.transpose(order).reshape(-1) for array in arrays]


def in_blocks(arrays: Sequence[Array], step: Callable[[list[Array]], None]) -> None:
    """Call `step` on blocks of all arrays, on several threads where there are many."""

    def part(first: int, last: int) -> None:
        for start in range(first, last, BLOCK):
            step([array[start : min(start + BLOCK, last)] for array in arrays])

    parallel_for(0, arrays[0].size, GRAIN, part)


def number_of(value: Any) -> float:
    """Return a number, or the element of a one-element array."""
    return value if isinstance(value, float | int) else float(value.item())


def is_found(found: Any) -> bool:
    """Return True if the step is to be skipped (`found_inf`)."""
    return found is not None and number_of(found) == 1.0


def scaled_back(gradient: Array, wide: Any, scale: Any) -> Array:
    """Return the unscaled gradient in the compute dtype, and store it if there is a scale."""
    g = gradient.astype(wide, copy=False)
    if scale is None:
        return g
    g = g / wide.type(number_of(scale))
    gradient[...] = g
    return g


def fused_sgd(call: StructuredCall) -> PlannedKernel:
    """Return ``into(parameters, gradients, buffers, weight_decay, momentum, lr, dampening, scale, found)``."""
    rows = [
        (memory_order(spec), compute_np(spec.dtype), spec.numel <= BLOCK and spec.ndim > 0)
        for spec in call.args["self"]
    ]
    kinds = {wide for _, wide, _ in rows}
    compiled = CompiledSteps("sgd", call.args["self"])
    nesterov, maximize, is_first = (call.extra[n] for n in ("nesterov", "maximize", "is_first_step"))

    def into(
        parameters: Sequence[Array],
        gradients: Sequence[Array],
        buffers: Sequence[Array],
        weight_decay: float,
        momentum: float,
        lr: float,
        dampening: float,
        scale: Any,
        found: Any,
    ) -> None:
        if is_found(found):
            return
        with_momentum = momentum != 0
        columns = (parameters, gradients, buffers) if with_momentum else (parameters, gradients)
        how = (maximize, weight_decay != 0, with_momentum, nesterov, is_first)
        numbers = {
            wide: [wide.type(n) for n in (lr, weight_decay, momentum, 1 - dampening)] for wide in kinds
        }
        if scale is None and len(kinds) == 1:
            flags = itertools.compress(("maximize", "decays", "momentum", "nesterov", "first"), how)
            ((wide, value),) = numbers.items()
            written = (parameters, buffers) if with_momentum else (parameters,)
            if compiled.run(tuple(flags), (*written, gradients), np.array([value], wide), [0] * len(rows)):
                return
        steps = {wide: sgd_step(wide, value, *how, scale) for wide, value in numbers.items()}
        for (flat, wide, is_block), arrays in zip(rows, zip(*columns, strict=True), strict=True):
            if is_block:
                steps[wide](arrays)
            else:
                in_blocks(flat(arrays), steps[wide])

    return PlannedKernel(quietly(into))


def sgd_step(
    wide: Any,
    numbers: Sequence[Any],
    maximize: bool,
    decays: bool,
    with_momentum: bool,
    nesterov: bool,
    is_first: bool,
    scale: Any,
) -> Callable[[Sequence[Array]], None]:
    """Return an SGD step over a block of parameters and gradients, and of momentum buffers if there are any."""
    rate, decay, keep, undamped = numbers
    is_damped = undamped != 1

    def step(blocks: Sequence[Array]) -> None:
        p = blocks[0]
        is_wide = p.dtype == wide
        g = blocks[1] if is_wide and scale is None else scaled_back(blocks[1], wide, scale)
        if maximize:
            g = -g
        if decays:
            decayed = p.astype(wide, copy=False) * decay
            g = np.add(g, decayed, out=decayed)
        if with_momentum:
            kept = blocks[2]
            if is_first:
                kept[...] = b = g
            elif is_wide:
                b = np.multiply(kept, keep, out=kept)
                b += g * undamped if is_damped else g
            else:
                b = kept.astype(wide) * keep
                b += g * undamped
                kept[...] = b
            g = g + b * keep if nesterov else b
        if is_wide:
            # Computed arrays change in place; the gradient itself and the buffer stay as they are.
            update = np.multiply(g, rate, out=g if decays and not with_momentum else None)
            p -= update
        else:
            p[...] = p.astype(wide) - g * rate

    return step


def fused_adam(call: StructuredCall) -> PlannedKernel:
    """``into(parameters, gradients, averages, squares, largest, counts, lr, ..., scale, found)``; both Adams."""
    rows = [(memory_order(spec), compute_np(spec.dtype)) for spec in call.args["self"]]
    kinds = {wide for _, wide in rows}
    compiled = CompiledSteps("adam", call.args["self"])
    amsgrad, maximize, decoupled = (call.extra[name] for name in ("amsgrad", "maximize", "decoupled"))

    def into(
        parameters: Sequence[Array],
        gradients: Sequence[Array],
        averages: Sequence[Array],
        squares: Sequence[Array],
        largest: Sequence[Array],
        counts: Sequence[Array],
        lr: float,
        beta1: float,
        beta2: float,
        weight_decay: float,
        eps: float,
        scale: Any,
        found: Any,
    ) -> None:
        if is_found(found):
            return
        states = (averages, squares, *((largest,) if amsgrad else ()))
        ages = [number_of(count) for count in counts]
        decays, near = weight_decay != 0, 1 - beta1
        decay = 1 - lr * weight_decay if decoupled else weight_decay

        def numbers(wide: Any, age: float) -> list[Any]:
            count, weight = np.float64(age), wide.type(near)
            rate = lr / (1 - np.power(np.float64(beta1), count))
            root = np.sqrt(1 - np.power(np.float64(beta2), count))
            toward = weight if is_near(weight) else weight - wide.type(1)
            return [wide.type(n) for n in (decay, rate, root, toward, beta2, 1 - beta2, eps)]

        if scale is None and len(kinds) == 1:
            (wide,) = kinds
            how = (decays, decoupled, is_near(wide.type(near)), amsgrad, maximize)
            flags = itertools.compress(("decays", "decoupled", "near", "amsgrad", "maximize"), how)
            places = {age: i for i, age in enumerate(dict.fromkeys(ages))}
            table = np.array([numbers(wide, age) for age in places], wide)
            lists = (parameters, *states, gradients)
            if compiled.run(tuple(flags), lists, table, [places[age] for age in ages]):
                return
        steps: dict[tuple[Any, float], Callable[[list[Array]], None]] = {}
        columns = (parameters, gradients, *states)
        for (flat, wide), age, arrays in zip(rows, ages, zip(*columns, strict=True), strict=True):
            step = steps.get((wide, age))
            if step is None:
                how = (is_near(wide.type(near)), decays, decoupled, maximize)
                step = steps[wide, age] = adam_step(wide, numbers(wide, age), *how, scale)
            in_blocks(flat(arrays), step)

    return PlannedKernel(quietly(into))


def is_near(weight: Any) -> bool:
    """Return True if the moving average interpolates from its own value, not from the gradient, as in `lerp`."""
    return bool(weight < 0.5)


def adam_step(
    wide: Any,
    numbers: Sequence[Any],
    is_near: bool,
    decays: bool,
    decoupled: bool,
    maximize: bool,
    scale: Any,
) -> Callable[[list[Array]], None]:
    """Return an Adam step over a block of parameters, gradients, both averages, and `amsgrad`'s maxima."""
    decay, step_size, root, toward, kept, rest, eps = numbers

    def step(blocks: list[Array]) -> None:
        is_wide = blocks[0].dtype == wide
        p, m, v = (block if is_wide else block.astype(wide) for block in (blocks[0], *blocks[2:4]))
        g = scaled_back(blocks[1], wide, scale)
        room = np.empty((2, p.size), wide)
        first, second = (part.reshape(p.shape) for part in room)
        if maximize:
            g = -g
        if decays and decoupled:
            np.multiply(p, decay, p)
        elif decays:
            np.multiply(p, decay, first)
            g = g + first
        np.subtract(g, m, first)
        np.multiply(first, toward, first)
        np.add(m if is_near else g, first, m)
        np.multiply(g, rest, first)
        np.multiply(first, g, first)
        np.multiply(v, kept, v)
        np.add(v, first, v)
        largest = v
        if len(blocks) == 5:
            largest = np.maximum(blocks[4].astype(wide, copy=False), v)
            blocks[4][...] = largest
        np.sqrt(largest, first)
        np.divide(first, root, first)
        np.add(first, eps, first)
        np.multiply(m, step_size, second)
        np.divide(second, first, second)
        np.subtract(p, second, p)
        if not is_wide:
            blocks[0][...], blocks[2][...], blocks[3][...] = p, m, v

    return step


def unscale_and_check(call: StructuredCall) -> PlannedKernel:
    """Return ``into(gradients, found, inverse)``."""
    rows = [(memory_order(spec), compute_np(spec.dtype)) for spec in call.args["self"]]

    def into(gradients: Sequence[Array], found: Array, inverse: Array) -> None:
        factor = number_of(inverse)
        for (flat, wide), gradient in zip(rows, gradients, strict=True):

            def step(blocks: list[Array], wide=wide) -> None:
                g = blocks[0].astype(wide, copy=False)
                # A sum is not finite if any part of it is not, but may overflow by itself.
                if not (math.isfinite(g.sum()) or np.isfinite(g).all()):
                    found[...] = 1
                if factor != 1:
                    blocks[0][...] = g * wide.type(factor)

            in_blocks(flat([gradient]), step)

    return PlannedKernel(quietly(into))


register_stub("fused_sgd_stub", "cpu", fused_sgd)
register_stub("fused_adam_stub", "cpu", fused_adam)
register_stub("unscale_and_check_stub", "cpu", unscale_and_check)

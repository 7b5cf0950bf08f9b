"""Times of single calls on this machine, by the functions and methods that programs call."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...autograd import enable_grad, no_grad
from ...dispatch.core.op_overload import OpOverload
from ...dispatch.generated import functions
from ...dispatch.generated.functions import ones
from ...dispatch.layers.python_key import split_arguments, without_modes
from ...dispatch.random import fork_rng
from ...dispatch.tensor import Tensor
from ...runtime.device import device as Device

SAMPLES, FEWEST = 15, 3
"""Calls that are timed, the median of which is the time; and of long ones the fewest."""
LONGEST = 0.005
"""Seconds after which the fewest are enough."""
TURNS = 3
"""Measurements of each of two things that are compared."""
OTHER_BYTES = 1 << 19
"""Bytes read, and bytes written, by the work between two timed calls."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """In no mode, without gradients, and the generators as they were afterwards."""
    with fork_rng(()), without_modes(), no_grad():
        yield


def seconds_of(run: Callable[[], object]) -> float:
    """Seconds of one call of `run` as a program makes it: after other work, which leaves the caches to others.

    Repeated by itself it would find its code, its operands and its result's memory where it left them.
    """
    other = _other_work()
    clock = time.perf_counter
    samples = []
    run()
    until = clock() + LONGEST
    while len(samples) < SAMPLES and (len(samples) < FEWEST or clock() < until):
        other()
        start = clock()
        run()
        samples.append(clock() - start)
    return max(0.0, statistics.median(samples) - _clock_seconds())


def seconds_of_call(func: OpOverload, arguments: Mapping[str, Any]) -> float:
    """Seconds of an operator, called as programs call it: by its function, in place by its method."""
    values = [arguments[argument.name] for argument in func._schema.arguments]
    args, kwargs = split_arguments(func._entry, values)
    name = func._opname
    public = getattr(functions, name, None) or getattr(Tensor, name, None) or func
    try:
        public(*args, **kwargs)
    except TypeError:  # the public form takes other arguments than this overload
        public = func
    return seconds_of(functools.partial(public, *args, **kwargs))


@functools.cache
def _other_work() -> Callable[[], None]:
    source, target = (ones((OTHER_BYTES // 4,)) for _ in range(2))
    square = ones((8, 8))

    def other() -> None:
        target.copy_(source)
        functions.sum(functions.mul(functions.mm(square, square), square))

    return other


@functools.cache
def _clock_seconds() -> float:
    clock = time.perf_counter
    return statistics.median(-(clock() - clock()) for _ in range(101))


CHAIN = 16


@functools.cache
def node_seconds(device: Device) -> float:
    """Measure autograd's time per node, from recording to visiting it, without the operators of its formula.

    A chain runs forward and backward, against the same calls without history. Both have the same cache state,
    unlike a single call. They are interleaved, so that other load on the machine affects both.
    """
    seed = ones((4, 4), device=device)
    leaf = seed.detach().requires_grad_()

    def recorded() -> None:
        value = leaf
        for _ in range(CHAIN):
            value = functions.neg(value)
        value.backward(seed)
        leaf.grad = None

    def plain() -> None:
        value = seed
        for _ in range(2 * CHAIN):
            value = functions.neg(value)

    with without_modes(), enable_grad():
        pairs = [(seconds_of(recorded), seconds_of(plain)) for _ in range(TURNS)]
    return max(0.0, statistics.median(recorded - plain for recorded, plain in pairs) / CHAIN)

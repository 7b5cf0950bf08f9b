"""Times of single calls on this machine, by the functions and methods that programs call."""

from __future__ import annotations

import functools
import statistics
import timeit
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...autograd import enable_grad, no_grad
from ...dispatch.core.op_overload import OpOverload, find_overload
from ...dispatch.functional.python_key import split_arguments, without_modes
from ...dispatch.generated import functions
from ...dispatch.generated.functions import ones
from ...dispatch.random import fork_rng
from ...dispatch.tensor import Tensor
from ...runtime.device import device as Device

BATCHES = 5
BATCH_SECONDS = 1e-4
"""A batch repeats a call for about so long; the median of the batches is the time."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """In no mode, without gradients, and the generators as they were afterwards."""
    with fork_rng(()), without_modes(), no_grad():
        yield


def seconds_of(run: Callable[[], object]) -> float:
    """Seconds of one call of `run`, without those of calling it, once it has run before."""
    timer = timeit.Timer("run()", globals={"run": run})
    once = min(timer.timeit(1), timer.timeit(1))
    count = max(1, round(BATCH_SECONDS / max(once, 1e-7)))
    return statistics.median(timer.timeit(count) for _ in range(BATCHES)) / count


def seconds_of_call(func: OpOverload, arguments: Mapping[str, Any]) -> float:
    """Seconds of an operator, called as programs call it: by its function, in place by its method."""
    args, kwargs = split_arguments(func._entry, [*arguments.values()])
    name = func._opname
    public = getattr(functions, name, None) or getattr(Tensor, name, None) or func
    timer = timeit.Timer("call(*args, **kwargs)", globals={"call": public, "args": args, "kwargs": kwargs})
    try:
        once = min(timer.timeit(1), timer.timeit(1))
    except TypeError:  # the public form takes other arguments than this overload
        timer = timeit.Timer("call(*args, **kwargs)", globals={"call": func, "args": args, "kwargs": kwargs})
        once = min(timer.timeit(1), timer.timeit(1))
    count = max(1, round(BATCH_SECONDS / max(once, 1e-7)))
    return statistics.median(timer.timeit(count) for _ in range(BATCHES)) / count


CHAIN = 16
_NEG = find_overload("aten::neg")


@functools.cache
def node_seconds(device: Device) -> float:
    """What autograd takes for one node, from recording it to visiting it, without the operators of its formula."""
    leaf = ones((4, 4), device=device)
    with undisturbed():
        plain = seconds_of_call(_NEG, {"self": leaf})
    seed, leaf = leaf, leaf.detach().requires_grad_()

    def run() -> None:
        value = leaf
        for _ in range(CHAIN):
            value = functions.neg(value)
        value.backward(seed)
        leaf.grad = None

    with without_modes(), enable_grad():
        run()
        return max(0.0, seconds_of(run) / CHAIN - 2 * plain)

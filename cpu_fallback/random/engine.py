"""Kernels of random operators by the engine of the generator: Philox's counters, or a Mersenne Twister's words.

The contract of the first is in `dispatch/structured/meta/draws.py`. The second gives PyTorch's numbers on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ...dispatch.structured.stub import KernelFactory, PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import is_taken, run_quiet, run_quiet_copy, unwrapped
from ...runtime.mersenne_twister import MersenneTwister
from ...runtime.written_code import defined

Kernel = Callable[..., None]


def register_draws(stub: str, philox: KernelFactory, mersenne: Callable[[StructuredCall], Kernel]) -> None:
    """Register the kernels of a stub on the host.

    Args:
        stub: its name.
        philox: a factory of kernels ``(outputs..., inputs..., numbers..., seed, first)``.
        mersenne: a factory of kernels ``(outputs..., inputs..., numbers..., twister)``, called like the first.
    """

    def factory(call: StructuredCall) -> PlannedKernel:
        count = len(call.outputs) + len(call.args)
        return PlannedKernel(_maker(count)(unwrapped(philox(call).into), mersenne(call)))

    register_stub(stub, "cpu", factory)


@cache
def _maker(count: int) -> Callable[[Kernel, Kernel], Kernel]:
    """Return a function that joins two kernels of so many arguments before the seed; they ignore floating-point errors.

    It takes the place of `quietly`'s wrapper, and is written out for the same reason.
    """
    parameters = ", ".join([f"v{i}" for i in range(count)])
    text = f"""
def make(philox, mersenne):
    def draw({parameters}, seed, first):
        try:
            if seed.__class__ is MersenneTwister:
                return run_quiet(mersenne, {parameters}, seed)
            return run_quiet(philox, {parameters}, seed, first)
        except RuntimeError as error:
            if not is_taken(error):
                raise
        if seed.__class__ is MersenneTwister:
            return run_quiet_copy(mersenne, {parameters}, seed)
        return run_quiet_copy(philox, {parameters}, seed, first)
    return draw
"""
    names = {
        "__name__": __name__,
        "MersenneTwister": MersenneTwister,
        "is_taken": is_taken,
        "run_quiet": run_quiet,
        "run_quiet_copy": run_quiet_copy,
    }
    made: Callable[[Kernel, Kernel], Kernel] = defined("make", text, f"draw {count}", names)
    return made

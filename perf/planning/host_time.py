"""Host time of a call on a GPU, as far as it can be measured without one.

Measured here is the call of each operator on Meta tensors: wrapper, dispatch, the result's shape and the
tensor object, as on CUDA. The launch is measured if a CUDA driver is available (a GPU's, or a stand-in that
runs no kernel, as `python -m triten.perf launch --standin` uses). Otherwise the launch is left out, and the
plan says so.
"""

from __future__ import annotations

import functools
import importlib
import statistics
from collections.abc import Callable
from types import ModuleType

from ...runtime.cuda.driver import is_available, is_simulated
from ...runtime.device import META
from .recording import RecordedCall, materialised
from .timing import node_seconds, seconds_of_call, undisturbed

ROUNDS, LAUNCHES = 7, 64
_measured: dict[str, float] = {}


def forget() -> None:
    """Measure anew when next asked."""
    _measured.clear()
    launch_seconds.cache_clear()


def call_seconds(key: str, call: RecordedCall) -> float:
    """Return the host's seconds for a call of this kind, without its launch."""
    seconds = _measured.get(key)
    if seconds is None:
        with undisturbed():
            arguments = {name: materialised(value, META) for name, value in call.arguments.items()}
            seconds = _measured[key] = seconds_of_call(call.func, arguments)
    return seconds


def backward_node_seconds() -> float:
    """Seconds of the host for a node of autograd."""
    return node_seconds(META)


@functools.cache
def launch_seconds() -> float | None:
    """Seconds from plan to driver of a kernel with three pointers and a number; None where no driver takes launches.

    Simulated devices have none: they compute where a driver enqueues.
    """
    if is_simulated() or not is_available():
        return None
    launch: ModuleType = importlib.import_module("..launch", __package__)
    work: Callable[[int], float] = launch.launch_slices(4)["plan to driver"]
    work(LAUNCHES)
    return statistics.median(work(LAUNCHES) for _ in range(ROUNDS)) / LAUNCHES

"""Times of this machine for a kind of work of any size, measured on probes once per process and cached."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..._public import get_num_threads
from ...dispatch.generated.functions import empty_strided
from ...dispatch.tensor import Tensor
from ...dispatch.tensor_data import from_numpy
from ...runtime.device import CPU, META
from ...runtime.scalar_type import bool_
from ..costs.watching import tensors_of, work_of
from .kinds import BYTES, Kind
from .recording import Operand, materialised
from .timing import seconds_of_call, undisturbed

OF_POSITIVE = frozenset(
    {"log", "log2", "log10", "sqrt", "rsqrt", "pow", "lgamma", "digamma", "xlogy", "acosh"}
)
"""Operators that have results for positive elements alone."""


class Unmeasurable(Exception):
    """Error of a kind without a working probe: its operator refuses the probes' operands."""


@dataclass
class Curve:
    """Seconds by work, straight between the points that were measured, and on from the last as between the last two."""

    points: list[tuple[float, float]] = field(default_factory=list)

    @property
    def overhead(self) -> float:
        """Time of the least work, which is hardly more than the call."""
        return self.points[0][1]

    def add(self, work: float, seconds: float) -> None:
        """Add a point of more work; it takes no less time."""
        self.points.append((work, max(seconds, self.points[-1][1]) if self.points else seconds))

    def seconds(self, work: float) -> float:
        """Interpolate the time of an amount of work.

        Example:
            >>> from triten.perf.planning.rates import Curve
            >>> curve = Curve([(0, 1.0), (10, 2.0), (20, 4.0)])
            >>> [curve.seconds(work) for work in (0, 5, 15, 30)]
            [1.0, 1.5, 3.0, 6.0]
        """
        if work <= self.points[0][0] or len(self.points) == 1:
            return self.overhead * (max(1.0, work / self.points[0][0]) if self.points[0][0] else 1.0)
        pairs = list(itertools.pairwise(self.points))
        (low, start), (high, end) = next((pair for pair in pairs if work <= pair[1][0]), pairs[-1])
        return start + (end - start) * (work - low) / (high - low) if high > low else end


_curves: dict[tuple[str, int], tuple[Curve, list[int]]] = {}
_measuring = threading.RLock()


def forget() -> None:
    """Measure anew when next asked: the machine may have changed."""
    with _measuring:
        _curves.clear()


def curve_of(kind: Kind, work: float) -> Curve:
    """Return the rates of a kind, measured at least up to the first probe with this much work, if there is
    one.

    Raise Unmeasurable if no probe runs.
    """
    with _measuring:
        key = (kind.name, get_num_threads())
        curve, pending = _curves.setdefault(key, (Curve(), list(kind.sizes)))
        refusal = ""
        while pending and (len(curve.points) < 2 or curve.points[-1][0] < work):
            try:
                curve.add(*_measured(kind, pending.pop(0)))
            except Unmeasurable as error:  # another size may do: what was cut too short
                refusal = str(error)
        if not curve.points:
            raise Unmeasurable(refusal or kind.name)
        return curve


def _measured(kind: Kind, size: int) -> tuple[float, float]:
    arguments = kind.probe(size)
    with undisturbed():
        try:
            work = _work(kind, arguments)
            filled = {name: _filled(kind, value) for name, value in arguments.items()}
            return work, seconds_of_call(kind.func, filled)
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            raise Unmeasurable(f"{kind.name}: {error}") from error


def _work(kind: Kind, arguments: Mapping[str, Any]) -> float:
    on_meta = {name: materialised(value, META) for name, value in arguments.items()}
    results: Sequence[Tensor] = list(tensors_of(kind.func(**on_meta)))
    work = work_of(kind.func, on_meta, results)
    return (work.bytes if kind.unit == BYTES else work.flops) / kind.items


def _filled(kind: Kind, value: Any) -> Any:
    """Create an operand with realistic elements, since kernels with branches are slower if the branches
    diverge.

    Floats are between -1 and 1, or positive if the operator requires it. The diagonal of a square matrix is
    large, so that it can be solved. Integers are zero, which is a valid index for any dimension.
    """
    if isinstance(value, tuple):
        return tuple(_filled(kind, element) for element in value)
    if not isinstance(value, Operand):
        return CPU if value is META else value
    made = empty_strided(value.shape, value.strides, dtype=value.dtype, device=CPU)
    is_float = value.dtype.is_floating_point or value.dtype.is_complex
    if not is_float and value.dtype is not bool_:
        return made.zero_()
    random = from_numpy(np.resize(_random_numbers(), value.shape))
    if not is_float:
        return made.copy_(random > 0)
    made.copy_(random.abs_() if kind.func._opname.removesuffix("_") in OF_POSITIVE else random)
    if len(value.shape) > 1 and value.shape[-1] == value.shape[-2] and value.dtype.itemsize > 1:
        made.diagonal(0, -2, -1).add_(float(value.shape[-1]))
    return made


@functools.cache
def _random_numbers() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).uniform(-1.0, 1.0, 1 << 20).astype(np.float32)

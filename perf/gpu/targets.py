"""Performance targets: for each row or group, the minimum that is accepted, and the aim.

A speed is the baseline's time over triten's: above 1, triten is faster. A row's own target takes precedence
over its group's. A row without a target is measured and marked as such.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

SPEED = "PyTorch's time over ours"
SPEED_OF_CUDNN = "cuDNN's time over ours"
SPEED_OF_EAGER = "eager's time over ours"
OF_COPY = "of the copy's bandwidth"
MICROSECONDS = "microseconds"


class Target(NamedTuple):
    """`least` must be reached, `aim` is wanted: lower bounds of `measure`, of microseconds upper ones."""

    measure: str
    least: float
    aim: float

    def verdict(self, value: float | None) -> str:
        """``aim met``, ``met``, ``MISSED``, or that the measure is not there.

        Example:
            >>> from triten.perf.gpu.targets import SPEED, Target
            >>> Target(SPEED, 0.75, 1.0).verdict(0.8)
            'met'
        """
        if value is None:
            return f"no {self.measure}"
        sign = -1 if self.measure == MICROSECONDS else 1
        return (
            "aim met" if sign * value >= sign * self.aim else
            "met" if sign * value >= sign * self.least else "MISSED"
        )  # fmt: skip


class Mean(NamedTuple):
    """A target of the geometric mean of the speeds of whole groups."""

    name: str
    groups: tuple[str, ...]
    target: Target


MOVES = (Target(OF_COPY, 0.9, 0.95), Target(SPEED, 1.0, 1.0))
ROWS_OF_NETWORKS = (Target(OF_COPY, 0.9, 0.9), Target(SPEED, 1.0, 1.3))

TARGETS: dict[str, tuple[Target, ...]] = {
    "a + b, 16 elements": (Target(SPEED, 1 / 1.4, 1.0),),
    "malloc + free of a cached size": (Target(MICROSECONDS, 1.0, 1.0),),
    "launch of 9 arguments": (Target(MICROSECONDS, 3.0, 3.0),),
    "digits step, captured": (Target(SPEED_OF_EAGER, 3.0, 3.0),),
    "matmul, cubes": (Target(SPEED, 0.75, 1.0),),
    "matmul, language models": (Target(SPEED, 0.75, 1.0),),
    "matmul, at most 64 rows": (Target(SPEED, 1.0, 1.15),),
    "matmul, tf32": (Target(SPEED, 0.75, 0.95),),
    "elementwise and copies": MOVES,
    "reductions": MOVES,
    "softmax": ROWS_OF_NETWORKS,
    "norms": ROWS_OF_NETWORKS,
    "conv2d, ResNet-50": (Target(SPEED, 0.7, 0.95),),
    "conv2d gradients, ResNet-50": (Target(SPEED, 0.7, 0.95),),
    "attention": (Target(SPEED, 0.95, 0.95), Target(SPEED_OF_CUDNN, 0.0, 1.0)),
}

MEANS = (
    Mean("matmul", ("matmul, cubes", "matmul, language models"), Target(SPEED, 0.92, 1.0)),
    Mean("matmul, at most 64 rows", ("matmul, at most 64 rows",), Target(SPEED, 1.0, 1.15)),
    Mean("matmul, tf32", ("matmul, tf32",), Target(SPEED, 0.75, 0.95)),
    Mean("elementwise and copies", ("elementwise and copies",), Target(SPEED, 1.0, 1.0)),
    Mean("reductions", ("reductions",), Target(SPEED, 1.0, 1.0)),
    Mean("softmax", ("softmax",), Target(SPEED, 1.0, 1.3)),
    Mean("norms", ("norms",), Target(SPEED, 1.0, 1.3)),
    Mean("conv2d, ResNet-50", ("conv2d, ResNet-50",), Target(SPEED, 0.7, 0.95)),
    Mean("conv2d gradients, ResNet-50", ("conv2d gradients, ResNet-50",), Target(SPEED, 0.7, 0.95)),
    Mean("attention", ("attention",), Target(SPEED, 0.95, 0.95)),
)
"""Targets of group means."""


def targets_of(group: str, name: str) -> tuple[Target, ...]:
    """Return the targets of a row.

    Example:
        >>> from triten.perf.gpu.targets import targets_of
        >>> targets_of("norms", "layer_norm 16384x4096 float32")[0].least
        0.9
    """
    return TARGETS.get(name) or TARGETS.get(group, ())


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean, in which 2 and 1/2 average to 1."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))

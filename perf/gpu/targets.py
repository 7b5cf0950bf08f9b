"""What would be good: the least and the aim for each row or group, as ratios of triten's time to the yardstick's.

A row's own name comes before its group's. A row without a target is measured and says so.
"""

from __future__ import annotations

from typing import NamedTuple


class Target(NamedTuple):
    """`least` must be reached, `aim` is wanted; both are upper bounds of `measure`."""

    measure: str
    least: float
    aim: float


RATIO = "time over PyTorch's"
OF_EAGER = "time over eager's"
MICROSECONDS = "microseconds"

TARGETS: dict[str, Target] = {
    "a + b, 16 elements": Target(RATIO, 1.4, 1.0),
    "malloc + free of a cached size": Target(MICROSECONDS, 1.0, 1.0),
    "launch of 9 arguments": Target(MICROSECONDS, 3.0, 3.0),
    "digits step, captured": Target(OF_EAGER, 1 / 3, 1 / 3),
    "matmul, cubes": Target(RATIO, 1 / 0.75, 1.0),
    "matmul, language models": Target(RATIO, 1 / 0.75, 1.0),
    "matmul, at most 64 rows": Target(RATIO, 1.0, 1 / 1.15),
    "elementwise and copies": Target(RATIO, 1.0, 0.95),
    "reductions": Target(RATIO, 1.0, 0.95),
    "softmax": Target(RATIO, 1.0, 1 / 1.3),
    "norms": Target(RATIO, 1.0, 1 / 1.3),
    "conv2d, ResNet-50": Target(RATIO, 1 / 0.7, 1 / 0.95),
    "attention": Target(RATIO, 1 / 0.95, 1.0),
}


def target_of(group: str, name: str) -> Target | None:
    """The target of a row.

    Example:
        >>> from triten.perf.gpu.targets import target_of
        >>> target_of("host time", "a + b, 16 elements").least
        1.4
    """
    return TARGETS.get(name) or TARGETS.get(group)

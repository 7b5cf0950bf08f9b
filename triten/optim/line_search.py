"""A line search for the strong Wolfe conditions (Nocedal and Wright, Numerical Optimization, 2006, chapter 3.5).

Its safeguards are those of Mark Schmidt's minFunc (2005), which PyTorch follows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

DECREASE, CURVATURE = 1e-4, 0.9
"""How much of the decrease that the slope promises is asked for, and how much of the slope may be left."""


class Point(NamedTuple):
    """Point on the search line: the step, the loss, the gradient, and the slope along the line."""

    step: float
    loss: float
    gradient: Tensor
    slope: float


def _quotient(a: float, b: float) -> float:
    """Divide as tensors do: by zero to infinity or NaN. Without a tolerance, a bracket shrinks to one point."""
    if b:
        return a / b
    return math.nan if not a or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)


def cubic_minimum(a: Point, b: Point, bounds: tuple[float, float] | None = None) -> float:
    """Return the minimizer of the cubic through two losses and slopes, clamped to bounds.

    Without a minimizer return the midpoint of the bounds.
    """
    low, high = bounds or (min(a.step, b.step), max(a.step, b.step))
    if a.step > b.step:
        a, b = b, a
    first = a.slope + b.slope - _quotient(3 * (a.loss - b.loss), a.step - b.step)
    square = first**2 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2.0
    second: float = square**0.5
    share = _quotient(b.slope + second - first, b.slope - a.slope + 2 * second)
    least = b.step - (b.step - a.step) * share
    return min(max(least, low), high)


def strong_wolfe(
    evaluate: Callable[[float], Point],
    start: Point,
    step: float,
    length: float,
    tolerance: float,
    max_evaluations: int,
) -> tuple[Point, int]:
    """Search for a point that satisfies the strong Wolfe conditions.

    Args:
        evaluate: Returns the point of a step.
        start: The point of step 0.
        step: The first step to try.
        length: The direction's largest component.
        tolerance: The bracket size below which the search stops.
        max_evaluations: The maximum number of points after the first.

    Returns:
        The best point found, and the number of loss evaluations.
    """

    def falls(point: Point) -> bool:
        return point.loss <= start.loss + DECREASE * point.step * start.slope

    def is_flat(point: Point) -> bool:
        return abs(point.slope) <= -CURVATURE * start.slope

    before, point, tried = start, evaluate(step), 0
    bracket: list[Point] = []
    while tried < max_evaluations:
        if not falls(point) or (tried > 1 and point.loss >= before.loss):
            bracket = [before, point]
            break
        if is_flat(point):
            return point, tried + 1
        if point.slope >= 0:
            bracket = [before, point]
            break
        bounds = point.step + 0.01 * (point.step - before.step), point.step * 10
        step = cubic_minimum(before, point, bounds)
        before, point = point, evaluate(step)
        tried += 1
    if not bracket:
        bracket = [start, point]
    low, high = sorted(bracket, key=lambda each: each.loss)
    stalled = False
    while tried < max_evaluations and abs(high.step - low.step) * length >= tolerance:
        step = cubic_minimum(low, high)
        least, greatest = min(low.step, high.step), max(low.step, high.step)
        margin = 0.1 * (greatest - least)
        near = min(greatest - step, step - least) < margin
        if near and (stalled or step >= greatest or step <= least):
            # The step was near an end of the bracket twice: move it away from that end.
            step = greatest - margin if abs(step - greatest) < abs(step - least) else least + margin
            near = False
        stalled = near
        point = evaluate(step)
        tried += 1
        if not falls(point) or point.loss >= low.loss:
            high = point
            if high.loss < low.loss:
                low, high = high, low
            continue
        if is_flat(point):
            return point, tried + 1
        if point.slope * (high.step - low.step) >= 0:
            high = low
        low = point
    return low, tried + 1

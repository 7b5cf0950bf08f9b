"""Pipelines: units divided into stages, and the schedule of microbatches on each stage.

Sources: Huang et al., "GPipe: efficient training of giant neural networks using pipeline parallelism" (2019);
Narayanan et al., "Efficient large-scale language model training on GPU clusters using Megatron-LM" (2021),
for 1F1B with flushes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

FORWARD, BACKWARD = "F", "B"
Task = tuple[str, int]


class PipelineRun(NamedTuple):
    """When the last task has ended, and the share of the stages' time in which they wait."""

    seconds: float
    bubble: float


def divide(seconds: Sequence[float], stages: int) -> list[range]:
    """Neighbouring units in so many groups, of which the slowest is as fast as it can be; none is empty.

    Raises ValueError for fewer units than stages.

    Example:
        >>> from triten.perf.planning.parallel.pipeline import divide
        >>> divide([1, 1, 1, 3], 2)
        [range(0, 3), range(3, 4)]
    """
    count = len(seconds)
    if count < stages:
        raise ValueError(
            f"plan(): a pipeline of {stages} ranks needs as many units (modules of a ModuleList or a Sequential), and "
            f"the program has {count}"
        )
    sums = [0.0]
    for value in seconds:
        sums.append(sums[-1] + value)
    # slowest[k][n]: the least time of the slowest of k groups of the first n units.
    slowest = [[float("inf")] * (count + 1) for _ in range(stages + 1)]
    cut = [[0] * (count + 1) for _ in range(stages + 1)]
    slowest[0][0] = 0.0
    for group in range(1, stages + 1):
        for end in range(group, count - (stages - group) + 1):
            for start in range(group - 1, end):
                value = max(slowest[group - 1][start], sums[end] - sums[start])
                if value < slowest[group][end]:
                    slowest[group][end], cut[group][end] = value, start
    groups: list[range] = []
    end = count
    for group in range(stages, 0, -1):
        groups.append(range(cut[group][end], end))
        end = cut[group][end]
    return groups[::-1]


def tasks(schedule: str, stage: int, stages: int, microbatches: int) -> list[Task]:
    """Return the tasks of a stage, in order.

    Example:
        >>> from triten.perf.planning.parallel.pipeline import tasks
        >>> ["".join(map(str, task)) for task in tasks("1f1b", 0, 2, 3)]
        ['F0', 'F1', 'B0', 'F2', 'B1', 'B2']
        >>> ["".join(map(str, task)) for task in tasks("gpipe", 0, 2, 3)]
        ['F0', 'F1', 'F2', 'B0', 'B1', 'B2']
    """
    held = held_microbatches(schedule, stage, stages, microbatches)
    ordered: list[Task] = [(FORWARD, number) for number in range(held)]
    for number in range(microbatches):
        ordered.append((BACKWARD, number))
        if held + number < microbatches:
            ordered.append((FORWARD, held + number))
    return ordered


def held_microbatches(schedule: str, stage: int, stages: int, microbatches: int) -> int:
    """Return the maximum number of microbatches whose activations a stage holds at once."""
    return microbatches if schedule == "gpipe" else min(microbatches, stages - stage)


def run(
    schedule: str,
    forward: Sequence[float],
    backward: Sequence[float],
    messages: Sequence[float],
    microbatches: int,
) -> PipelineRun:
    """Let the stages do their tasks, each as soon as the stage is free and what it needs has come.

    Args:
        schedule: ``"1f1b"`` or ``"gpipe"``.
        forward, backward: seconds of a microbatch, by stage.
        messages: seconds in which activations go from a stage to the next one, and their gradients back.
        microbatches: Number of microbatches.

    Example:
        >>> from triten.perf.planning.parallel.pipeline import run
        >>> run("gpipe", [1, 1], [2, 2], [0], 3)
        PipelineRun(seconds=12.0, bubble=0.25)
    """
    stages = len(forward)
    plans = [tasks(schedule, stage, stages, microbatches) for stage in range(stages)]
    pointers, free = [0] * stages, [0.0] * stages
    ended: dict[tuple[int, str, int], float] = {}
    left = sum(map(len, plans))
    while left:
        before = left
        for stage in range(stages):
            while pointers[stage] < len(plans[stage]):
                kind, number = plans[stage][pointers[stage]]
                ready = _ready(ended, kind, stage, stages, number, messages)
                if ready is None:
                    break
                free[stage] = max(free[stage], ready) + (
                    forward[stage] if kind == FORWARD else backward[stage]
                )
                ended[stage, kind, number] = free[stage]
                pointers[stage] += 1
                left -= 1
        if left == before:
            raise RuntimeError(f"the schedule {schedule!r} of {stages} stages does not end")
    seconds = max(free)
    busy = microbatches * (sum(forward) + sum(backward))
    return PipelineRun(seconds, 1 - busy / (stages * seconds) if seconds else 0.0)


def _ready(
    ended: dict[tuple[int, str, int], float],
    kind: str,
    stage: int,
    stages: int,
    number: int,
    messages: Sequence[float],
) -> float | None:
    """Return the time at which a task's inputs are available; None if it is not yet known."""
    if kind == FORWARD:
        if stage == 0:
            return 0.0
        before = ended.get((stage - 1, FORWARD, number))
        return None if before is None else before + messages[stage - 1]
    own = ended.get((stage, FORWARD, number))
    if own is None or stage == stages - 1:
        return own
    after = ended.get((stage + 1, BACKWARD, number))
    return None if after is None else max(own, after + messages[stage])

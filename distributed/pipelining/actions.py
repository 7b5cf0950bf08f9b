"""In which order the ranks of a pipeline go forwards and backwards through microbatches."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

__all__ = ["Action", "Computation", "gpipe_order", "interleaved_1f1b_order", "one_forward_one_backward_order"]


class Computation(Enum):
    """Computation on a microbatch."""

    FORWARD = "F"
    BACKWARD = "B"


class Action(NamedTuple):
    """A step of a rank; printed as PyTorch does, ``1F0``: stage 1, forward, microbatch 0."""

    stage: int
    computation: Computation
    microbatch: int

    def __repr__(self) -> str:
        return f"{self.stage}{self.computation.value}{self.microbatch}"


def _forward(stage: int, microbatch: int) -> Action:
    return Action(stage, Computation.FORWARD, microbatch)


def _backward(stage: int, microbatch: int) -> Action:
    return Action(stage, Computation.BACKWARD, microbatch)


def gpipe_order(rank: int, microbatches: int) -> list[Action]:
    """Return all forwards, then all backwards.

    Source: Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism", 2019, with
    the backwards in the order of the forwards, as PyTorch has them.

    Example:
        >>> from triten.distributed.pipelining.actions import gpipe_order
        >>> gpipe_order(1, 2)
        [1F0, 1F1, 1B0, 1B1]
    """
    numbers = range(microbatches)
    return [_forward(rank, number) for number in numbers] + [_backward(rank, number) for number in numbers]


def one_forward_one_backward_order(rank: int, size: int, microbatches: int) -> list[Action]:
    """Return the 1F1B order: warm-up forwards, one per later rank, then alternating forwards and backwards,
    then backwards.

    Source: Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training", 2019, with the flush of
    "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", 2021, figure 4, top.

    Example:
        >>> from triten.distributed.pipelining.actions import one_forward_one_backward_order
        >>> one_forward_one_backward_order(0, 2, 3)
        [0F0, 0F1, 0B0, 0F2, 0B1, 0B2]
    """
    return _in_turn(
        [_forward(rank, number) for number in range(microbatches)],
        [_backward(rank, number) for number in range(microbatches)],
        min(microbatches, size - 1 - rank),
    )


def interleaved_1f1b_order(rank: int, size: int, stages: int, microbatches: int) -> list[Action]:
    """Return the interleaved 1F1B order over several stages of each rank.

    A rank runs one microbatch per rank through its first stage, then the same microbatches through its second
    stage. Unlike in the paper, the number of microbatches need not be a multiple of the number of ranks. It
    must be a multiple of the number of rounds.

    Args:
        rank: This rank.
        size: Number of ranks.
        stages: Number of stages of each rank.
        microbatches: Number of microbatches.

    Raises:
        ValueError: the microbatches cannot be divided into rounds.

    Source: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
    Megatron-LM", 2021, figure 4, bottom.
    """
    rounds = max(1, microbatches // size)
    if microbatches % rounds:
        raise ValueError(
            "Interleaved 1F1B requires the number of microbatches to be a multiple of the number of rounds "
            f"({rounds}), but got {microbatches}."
        )
    round_size = microbatches // rounds
    steps = [
        (turn, number * round_size + index)
        for number in range(rounds)
        for turn in range(stages)
        for index in range(round_size)
    ]
    return _in_turn(
        [_forward(turn * size + rank, microbatch) for turn, microbatch in steps],
        [_backward((stages - 1 - turn) * size + rank, microbatch) for turn, microbatch in steps],
        min((stages - 1) * round_size + 2 * (size - 1 - rank), len(steps)),
    )


def _in_turn(forwards: list[Action], backwards: list[Action], warmup: int) -> list[Action]:
    """Return warm-up forwards, then forwards each followed by a backward, then the remaining backwards."""
    order = forwards[:warmup]
    steady = len(forwards) - warmup
    for forward, backward in zip(forwards[warmup:], backwards[:steady], strict=True):
        order += [forward, backward]
    return order + backwards[steady:]

"""Timetable of a pipeline: the step of each rank's actions, and the messages after each step.

In a step, each rank runs one action. Every rank computes the same table, and exchanges the results after each
step. Two ranks therefore agree on the order of their messages, for any orders of actions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .actions import Action, Computation

__all__ = ["Timetable", "timetable"]

Timetable = list[list[Action | None]]
"""For each step each rank's action; None where it has to wait."""


def timetable(orders: Sequence[Sequence[Action]], rank_of: Mapping[int, int]) -> Timetable:
    """Return the steps in which ranks run their actions, each as early as possible.

    Args:
        orders: Actions of each rank.
        rank_of: Rank of each stage.

    Raises:
        ValueError: actions wait for each other, or for one that is missing, or are another rank's.

    Example:
        >>> from triten.distributed.pipelining.actions import gpipe_order
        >>> from triten.distributed.pipelining.timetable import timetable
        >>> for step in timetable([gpipe_order(rank, 1) for rank in range(2)], {0: 0, 1: 1}): print(step)
        [0F0, None]
        [None, 1F0]
        [None, 1B0]
        [0B0, None]
    """
    for rank, order in enumerate(orders):
        for action in order:
            if rank_of.get(action.stage) != rank:
                raise ValueError(f"rank {rank} has no stage {action.stage}, but its order contains {action}")
    last = len(rank_of) - 1
    done: set[Action] = set()
    positions = [0] * len(orders)
    table: Timetable = []
    while any(position < len(order) for position, order in zip(positions, orders, strict=True)):
        step = [
            order[position] if position < len(order) and needs(order[position], last) <= done else None
            for position, order in zip(positions, orders, strict=True)
        ]
        if not any(step):
            waiting = [
                order[position]
                for position, order in zip(positions, orders, strict=True)
                if position < len(order)
            ]
            raise ValueError(f"the schedule deadlocks: {waiting} wait for results that no action computes")
        for rank, taken in enumerate(step):
            if taken is not None:
                positions[rank] += 1
                done.add(taken)
        table.append(step)
    return table


def needs(action: Action, last: int) -> set[Action]:
    """Return the actions that must precede an action; `last` is the index of the last stage."""
    stage, computation, microbatch = action
    if computation is Computation.FORWARD:
        return {Action(stage - 1, computation, microbatch)} if stage else set()
    required = {Action(stage, Computation.FORWARD, microbatch)}
    return required if stage == last else required | {Action(stage + 1, computation, microbatch)}


def receiver(action: Action, last: int) -> int | None:
    """Return the stage that receives an action's result; None if there is none."""
    if action.computation is Computation.FORWARD:
        return action.stage + 1 if action.stage < last else None
    return action.stage - 1 if action.stage else None

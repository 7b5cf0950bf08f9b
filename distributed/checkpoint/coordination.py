"""Steps that all processes carry out together: an error of one is raised in each, and none waits for it in vain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..groups import Group, get_global_rank, group_or_default
from ..object_collectives import all_gather_object, broadcast_object_list, gather_object, scatter_object_list
from .api import CheckpointException, WrappedException, wrapped

__all__ = ["Coordination"]

T = TypeVar("T")
R = TypeVar("R")


class _Failure:
    """Error sent instead of a result."""

    def __init__(self, error: BaseException) -> None:
        self.error = wrapped(error)


def _tried(step: Callable[[], Any]) -> Any:
    try:
        return step()
    except Exception as error:
        # The others wait for this process: it goes on, and all of them raise.
        return _Failure(error)


class Coordination:
    """The processes that save or load, and the one that decides for them.

    Args:
        group: The group. Default: all ranks.
        is_distributed: True if there are other ranks.
        coordinator_rank: Rank in the group that decides.
    """

    def __init__(self, group: Group = None, is_distributed: bool = True, coordinator_rank: int = 0) -> None:
        self.is_distributed = is_distributed
        self.coordinator_rank = coordinator_rank
        self._group = group_or_default(group) if is_distributed else None
        self.rank = 0 if self._group is None else self._group.rank()
        self.size = 1 if self._group is None else self._group.size()
        self.is_coordinator = self.rank == coordinator_rank

    def reduce_scatter(self, name: str, local: Callable[[], T], decide: Callable[[list[T]], list[R]]) -> R:
        """Run a step on each rank, decide on all results on one rank, and return each rank's own decision.

        Raises:
            CheckpointException: a step, or the decision, failed.
        """
        results = self._gathered(_tried(local))
        decisions: list[Any] = []
        if results is not None:
            failures = self._failures(results)
            if not failures:
                made = _tried(lambda: decide(results))
                if isinstance(made, _Failure):
                    failures = {self._world_rank(self.coordinator_rank): made.error}
                else:
                    decisions = list(made)
            if failures:
                decisions = [CheckpointException(name, failures)] * self.size
        return self._given(self._scattered(decisions))  # type: ignore[no-any-return]

    def all_reduce(self, name: str, local: Callable[[], T], decide: Callable[[list[T]], R]) -> R:
        """Run a step on each rank, decide on all results on one rank, and return the decision on all ranks.

        Raises:
            CheckpointException: a step, or the decision, failed.
        """
        results = self._gathered(_tried(local))
        decision: Any = None
        if results is not None:
            failures = self._failures(results)
            if not failures:
                decision = _tried(lambda: decide(results))
                if isinstance(decision, _Failure):
                    failures = {self._world_rank(self.coordinator_rank): decision.error}
            if failures:
                decision = CheckpointException(name, failures)
        if self._group is not None:
            several = [decision]
            broadcast_object_list(several, group=self._group, group_src=self.coordinator_rank)
            decision = several[0]
        return self._given(decision)  # type: ignore[no-any-return]

    def all_gather(self, name: str, local: Callable[[], T]) -> list[T]:
        """Run a step on each rank, and return all results on every rank.

        Raises:
            CheckpointException: a step failed.
        """
        result = _tried(local)
        results: list[Any] = [result]
        if self._group is not None:
            results = [None] * self.size
            all_gather_object(results, result, self._group)
        failures = self._failures(results)
        if failures:
            raise CheckpointException(name, failures)
        return results

    def _gathered(self, result: Any) -> list[Any] | None:
        if self._group is None:
            return [result]
        room: list[Any] | None = [None] * self.size if self.is_coordinator else None
        gather_object(result, room, group=self._group, group_dst=self.coordinator_rank)
        return room

    def _scattered(self, decisions: list[Any]) -> Any:
        if self._group is None:
            return decisions[0]
        room: list[Any] = [None]
        to_scatter = decisions if self.is_coordinator else None
        scatter_object_list(room, to_scatter, group=self._group, group_src=self.coordinator_rank)
        return room[0]

    def _failures(self, results: list[Any]) -> dict[int, WrappedException]:
        return {
            self._world_rank(rank): each.error
            for rank, each in enumerate(results)
            if isinstance(each, _Failure)
        }

    def _world_rank(self, rank: int) -> int:
        return rank if self._group is None else get_global_rank(self._group, rank)

    @staticmethod
    def _given(decision: Any) -> Any:
        if isinstance(decision, CheckpointException):
            raise decision
        return decision

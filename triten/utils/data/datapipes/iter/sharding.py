"""Pipes that share their samples with copies in other processes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from ..datapipe import functional_datapipe
from .wrapper import Pipe, length_of

__all__ = ["SHARDING_PRIORITIES", "ShardingFilterIterDataPipe"]


class SHARDING_PRIORITIES(IntEnum):
    """Group of copies of a pipe: the ranks, or the workers of a loader; `DEFAULT` does not mix with the others."""

    DEFAULT = 1
    DISTRIBUTED = 2
    MULTIPROCESSING = 3


class _ShardingIterDataPipe(Pipe):
    """A pipe that yields a share of its samples."""

    def apply_sharding(self, num_of_instances: int, instance_id: int, sharding_group: int) -> None:
        """Set the share of this copy."""
        raise NotImplementedError


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(_ShardingIterDataPipe):
    """Every n-th sample, so that n copies share the samples; all of them until `apply_sharding`.

    Args:
        source_datapipe: The source.
        sharding_group_filter: The only group that counts. Default: None, all groups.
    """

    def __init__(self, source_datapipe: Pipe, sharding_group_filter: int | None = None) -> None:
        self.source_datapipe = source_datapipe
        self.sharding_group_filter = sharding_group_filter
        self.groups: dict[int, tuple[int, int]] = {}
        self.num_of_instances, self.instance_id = 1, 0

    def apply_sharding(
        self,
        num_of_instances: int,
        instance_id: int,
        sharding_group: int = SHARDING_PRIORITIES.DEFAULT,
    ) -> None:
        """Set the share of this copy in a group. Groups multiply: each worker of each rank has a share.

        Raises:
            ValueError: `instance_id` is out of range.
            RuntimeError: The default group and another one are set.
        """
        if not 0 <= instance_id < num_of_instances:
            raise ValueError(
                f"instance_id({instance_id}) should be smaller than num_of_instances({num_of_instances})"
            )
        is_default = sharding_group == SHARDING_PRIORITIES.DEFAULT
        if self.groups and is_default != (SHARDING_PRIORITIES.DEFAULT in self.groups):
            raise RuntimeError("ShardingFilter cannot mix DEFAULT and non DEFAULT groups")
        self.groups[sharding_group] = (num_of_instances, instance_id)
        self.num_of_instances, self.instance_id = 1, 0
        for group in sorted(self.groups, reverse=True):
            if self.sharding_group_filter in (None, group):
                count, rank = self.groups[group]
                self.instance_id += self.num_of_instances * rank
                self.num_of_instances *= count

    def __iter__(self) -> Iterator[Any]:
        yield from itertools.islice(self.source_datapipe, self.instance_id, None, self.num_of_instances)

    def __len__(self) -> int:
        return len(range(self.instance_id, length_of(self, self.source_datapipe), self.num_of_instances))

"""Sampler for one process of a distributed job."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized

from ...dispatch.generated import functions as _ops
from ...dispatch.random import Generator
from ...distributed import get_rank, get_world_size
from .sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Sampler of every `num_replicas`-th index, starting at `rank` (`torch.utils.data.DistributedSampler`).

    All processes get equally many samples: the sampler repeats indices from the start, or leaves out the last ones.

    Args:
        dataset: The data set to sample from.
        num_replicas: The number of processes. Default: the size of the process group.
        rank: The rank of this process. Default: its rank in the process group.
        shuffle: If True, shuffle, with the same order in all processes. Default: True.
        seed: The seed of the order, together with the epoch. Default: 0.
        drop_last: If True, drop the samples that do not divide evenly; else repeat some. Default: False.

    Raises:
        ValueError: `rank` is out of range, or is missing without a process group.

    Example:
        >>> from triten.utils.data import DistributedSampler
        >>> list(DistributedSampler(range(7), num_replicas=2, rank=1, shuffle=False))
        [1, 3, 5, 0]
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        replicas: int = get_world_size() if num_replicas is None else num_replicas
        number: int = get_rank() if rank is None else rank
        if number >= replicas or number < 0:
            raise ValueError(f"Invalid rank {number}, rank should be in the interval [0, {replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = replicas
        self.rank = number
        self.epoch = 0
        self.drop_last = drop_last
        count = len(dataset)
        short = drop_last and count % replicas != 0
        self.num_samples = math.ceil((count - replicas) / replicas if short else count / replicas)
        self.total_size = self.num_samples * replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        if self.shuffle:
            generator = Generator()
            generator.manual_seed(self.seed + self.epoch)
            order: list[int] = _ops.randperm(count, generator=generator).tolist()
        else:
            order = list(range(count))
        if not self.drop_last and order:
            order = (order * math.ceil(self.total_size / count))[: self.total_size]
        return iter(order[self.rank : max(self.total_size, 0) : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; each epoch has its own order."""
        self.epoch = epoch

"""The share of a data set that one of several processes draws."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized

from ...dispatch.generated import functions as _ops
from ...dispatch.random import Generator
from ...distributed import get_rank, get_world_size
from .sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index, from `rank` on (`torch.utils.data.DistributedSampler`).

    All processes draw equally many: indices from the beginning come again at the end, or the last are left out.

    Args:
        dataset: what is drawn from.
        num_replicas: how many processes there are; by default those of the process group.
        rank: the number of this one; by default that in the process group.
        shuffle: whether in an order of chance, the same in all processes.
        seed: of the order, together with the epoch.
        drop_last: whether to leave out what cannot be divided evenly.

    Raises:
        ValueError: `rank` is not one of the processes, or is not given where there is no process group.

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
        """Which epoch it is: each has an order of its own."""
        self.epoch = epoch

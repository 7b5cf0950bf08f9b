"""Data pipes in a `DataLoader`: their seeds, and their shares for ranks and workers.

Programs without pipes do not import `datapipes`.
"""

from __future__ import annotations

import sys
from typing import Any

from ...dispatch.generated import functions as _ops
from ...dispatch.random import Generator
from ...runtime.scalar_type import int64

_PIPES = f"{__package__}.datapipes.datapipe"
_DISTRIBUTED = f"{__package__.split('.')[0]}.distributed"


def is_pipe(dataset: object, iterable: bool = False) -> bool:
    """Return whether a data set is a pipe.

    Args:
        dataset: The data set.
        iterable: If True, ask for an iterable-style pipe. Default: False.
    """
    loaded = sys.modules.get(_PIPES)
    if loaded is None:
        return False
    return isinstance(dataset, loaded.IterDataPipe if iterable else loaded.IterDataPipe | loaded.MapDataPipe)


def _group() -> Any:
    """Return `tt.distributed` if there is a process group, else None."""
    loaded = sys.modules.get(_DISTRIBUTED)
    return loaded if loaded is not None and loaded.is_initialized() else None


def draw_shared_seed(dataset: object, generator: Generator | None) -> int | None:
    """Return the seed of an iterable-style pipe for a loop, the same on all ranks; None for other data sets.

    Args:
        dataset: The data set.
        generator: The loader's generator, which rank 0 draws the seed from.
    """
    if not is_pipe(dataset, iterable=True):
        return None
    seed = int(_ops.empty((), dtype=int64).random_(generator=generator).item())
    group = _group()
    if group is not None:
        seeds = [seed]
        group.broadcast_object_list(seeds, src=0)
        seed = seeds[0]
    return seed


def seed_pipe(dataset: Any, seed: int | None) -> None:
    """Set the seeds of the pipes that a pipe reads from, for a loop; nothing without a seed."""
    if seed is not None:
        from .graph_settings import apply_random_seed

        apply_random_seed(dataset, Generator().manual_seed(seed))


def share_of_process(dataset: object) -> tuple[int, int] | None:
    """Return the number of ranks and this process's rank for a pipe; None for other data sets."""
    if not is_pipe(dataset):
        return None
    group = _group()
    return (1, 0) if group is None else (group.get_world_size(), group.get_rank())


def share_pipe(dataset: Any, ranks: tuple[int, int] | None, workers: int = 1, worker: int = 0) -> None:
    """Set the share of a worker of a rank at the pipes that shard; nothing without ranks.

    Args:
        dataset: The pipe.
        ranks: The number of ranks and the rank, as `share_of_process` returns them.
        workers: The number of workers of each rank. Default: 1.
        worker: The number of the worker. Default: 0.
    """
    if ranks is not None:
        from .graph_settings import apply_sharding

        count, rank = ranks
        apply_sharding(dataset, workers * count, worker * count + rank)

"""Collectives of two ranks on this machine: over MPI, beside PyTorch's gloo.

The ranks are processes of their own, one thread each, that stay from row to row and sleep while the other library's are
timed. A time is that of the slowest rank.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from functools import partial

from ...interleaved import Slice
from ...ranks import Ranks
from ..libraries import Library, tt
from ..results import OURS
from ..workload import Scale, Workload

RANKS = 2
BACKENDS = {OURS: "mpi", "torch": "gloo"}
EXPECTED_RANGES = {
    "all_reduce": (3.0, 3.0),
    "all_gather": (1.0, 2.0),
    "reduce_scatter": (2.0, 2.0),
    "broadcast": (1.0, 1.0),
    "all_to_all": (1.0, 2.0),
}
"""Minimum and maximum of each result. Ranks contribute 1 and 2; for reduce_scatter 1 and 1, for broadcast 1 and 0."""
KIBI, MEBI = 1 << 10, 1 << 20


class RankPool:
    """The ranks of each library, started with the first row that needs them and ended with the last one."""

    def __init__(self) -> None:
        self._started: dict[str, Ranks] = {}
        weakref.finalize(self, _close, self._started)

    def of(self, library: str) -> Ranks:
        """Return the ranks of a library. Raise RuntimeError if they do not find each other."""
        if library not in self._started:
            self._started[library] = Ranks(library, BACKENDS[library], RANKS)
        return self._started[library]


def _close(started: dict[str, Ranks]) -> None:
    for ranks in started.values():
        ranks.close()


def workloads(scale: Scale) -> Iterator[Workload]:
    """Yield each collective at three sizes of the whole tensor, at two for a quick run."""
    sizes = (
        {"4 B": 4, "4 KiB": 4 * KIBI}
        if scale.rehearsal
        else {"4 B": 4, "4 MiB": 4 * MEBI, "64 MiB": 64 * MEBI}
    )
    if scale.quick:
        del sizes["64 MiB"]
    pool = RankPool()
    for collective in EXPECTED_RANGES:
        for size, nbytes in sizes.items():
            yield Workload(
                "distributed", collective, f"{collective}, {RANKS} ranks", size, "float32", threads=1, host=True,
                processes=True, compared=False, counted=False, prepare=partial(_prepare, pool, collective, nbytes),
            )  # fmt: skip


def _prepare(pool: RankPool, collective: str, nbytes: int, library: Library) -> Slice | None:
    if library.name not in BACKENDS:
        return None
    if library.name == OURS and not tt.distributed.is_mpi_available():
        raise NotImplementedError("MPI (pip install 'triten[mpi]')")
    ranks = pool.of(library.name)
    for rank, value_range in enumerate(ranks.tell("prepare", collective=collective, nbytes=nbytes)):
        if tuple(value_range) != EXPECTED_RANGES[collective]:
            raise RuntimeError(
                f"{collective} of {nbytes} bytes gave {value_range} on rank {rank}, expected "
                f"{EXPECTED_RANGES[collective]}"
            )
    return lambda count: max(ranks.tell("repeat", count=count))

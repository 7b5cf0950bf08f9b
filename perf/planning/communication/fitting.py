"""Latency, bandwidth and reductions fitted to timed collectives of the ranks that run."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .... import distributed
from ....dispatch.generated.functions import empty, ones
from ....runtime.scalar_type import float64
from .algorithms import MPI, NCCL, algorithms_of
from .interconnect import Interconnect, Link

DEFAULT_SIZES = (4, 1 << 16, 1 << 20, 1 << 23, 1 << 26)
"""Bytes of the tensors that are timed: of the result for all_gather."""
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")
WARM_UP = 2
SHORT = 1e-3
"""Seconds that a slice of repeated calls takes at least, so that a clock's resolution and barriers do not count."""
LEAST_BYTES_PER_SECOND = 1.0


class Timed(NamedTuple):
    """A collective as it was measured."""

    collective: str
    nbytes: int
    seconds: float


def fit_running_ranks(sizes: Sequence[int], rounds: int) -> Interconnect:
    """Time collectives of the default process group and fit an interconnect to them (`Interconnect.measured`)."""
    if not distributed.is_initialized():
        raise ValueError(
            "Interconnect.measured(): there is no process group; call tt.distributed.init_process_group first"
        )
    ranks = distributed.get_world_size()
    if ranks < 2:
        raise ValueError(f"Interconnect.measured(): needs at least 2 ranks, got {ranks}")
    if rounds < 1:
        raise ValueError(f"Interconnect.measured(): rounds must be at least 1, got {rounds}")
    timed = [
        Timed(collective, nbytes, seconds_of(_call(collective, nbytes, ranks), rounds))
        for collective in COLLECTIVES
        for nbytes in sizes
    ]
    return fitted(timed, ranks, distributed.get_backend())


def fitted(timed: Sequence[Timed], ranks: int, backend: str) -> Interconnect:
    """The interconnect whose predictions are nearest to what was measured, by their relative errors.

    Which algorithm a library takes depends on what is fitted, so that choice and fit take turns.
    """
    library = NCCL if backend == NCCL else MPI
    link = Link("", 1e-6, 1e9)
    for _ in range(8):
        better = _fit_once(timed, ranks, library, link)
        if better == link:
            break
        link = better
    worst = max(
        abs(np.log(Interconnect("", link, library=library).collective(name, nbytes, ranks).seconds / seconds))
        for name, nbytes, seconds in timed
    )
    return Interconnect(
        "measured", link, library=library, overlaps=library == NCCL,
        source=f"fitted to collectives of {ranks} ranks over {backend} on this machine ({os.cpu_count()} processors), "
        f"measured; off by a factor of {np.exp(worst):.2f} at most",
    )  # fmt: skip


def _fit_once(timed: Sequence[Timed], ranks: int, library: str, link: Link) -> Link:
    from scipy.optimize import nnls  # takes as long to import as everything else here

    rows = []
    for collective, nbytes, seconds in timed:
        counts = [way.count(ranks, nbytes) for way in algorithms_of(collective, library, ranks)]
        rows.append(np.array(min(counts, key=link.seconds)) / seconds)
    matrix = np.array(rows)
    # Columns of one size: seconds of messages and of bytes differ by orders of magnitude.
    scale = np.maximum(np.abs(matrix).max(axis=0), 1e-30)
    (latency, per_byte, per_reduced), _ = nnls(matrix / scale, np.ones(len(rows)))
    latency, per_byte, per_reduced = (
        float(value) for value in np.array([latency, per_byte, per_reduced]) / scale
    )
    fastest = max(nbytes / seconds for _, nbytes, seconds in timed)
    return Link(
        "this machine's ranks", latency, 1 / per_byte if per_byte else 1e3 * max(fastest, LEAST_BYTES_PER_SECOND),
        per_reduced,
    )  # fmt: skip


def seconds_of(run: Callable[[], object], rounds: int) -> float:
    """Seconds of a collective: the median over rounds, of the slowest rank in each; the same on all ranks."""
    for _ in range(WARM_UP):
        run()
    start = time.perf_counter()
    run()
    count = max(1, int(_slowest(SHORT / max(time.perf_counter() - start, 1e-9))))
    samples = []
    for _ in range(rounds):
        distributed.barrier()
        start = time.perf_counter()
        for _ in range(count):
            run()
        samples.append(_slowest((time.perf_counter() - start) / count))
    return statistics.median(samples)


def _slowest(number: float) -> float:
    """The largest number of all ranks."""
    device = _device()
    largest = ones((1,), dtype=float64, device=device) * number
    distributed.all_reduce(largest, op=distributed.ReduceOp.MAX)
    return float(largest.item())


def _call(collective: str, nbytes: int, ranks: int) -> Callable[[], Any]:
    """A collective of float32 tensors of so many bytes, at least an element for each rank where they are divided."""
    device = _device()
    elements = max(1, nbytes // 4)
    part = max(1, elements // ranks)
    if collective == "all_gather":
        gathered, own = empty((part * ranks,), device=device), ones((part,), device=device)
        return lambda: distributed.all_gather_into_tensor(gathered, own)
    if collective == "reduce_scatter":
        own, whole = empty((part,), device=device), ones((part * ranks,), device=device)
        return lambda: distributed.reduce_scatter_tensor(own, whole)
    tensor = ones((elements,), device=device) * 0.0
    if collective == "broadcast":
        return lambda: distributed.broadcast(tensor, 0)
    return lambda: distributed.all_reduce(tensor)


def _device() -> str:
    return "cuda" if distributed.get_backend() == NCCL else "cpu"

"""Latency, bandwidth and reductions fitted to timed collectives of the ranks that run."""

from __future__ import annotations

import math
import os
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
WARM_UP = 5
SHORT = 2e-4
"""Seconds of repeated calls, so that neither the clock's resolution nor the barrier before them counts."""
LEAST_SECONDS, MORE_ROUNDS = 0.05, 10
"""What short collectives are timed for at least: in one of so many times the rounds nothing else may have run."""
OUTLIER = 1.5
RESTARTS = 3
PRECISION = {"xatol": 1e-7, "fatol": 1e-12, "maxiter": 2000}


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
    """The interconnect whose predictions are nearest to what was measured, by the logarithms of their ratios.

    A ratio beyond `OUTLIER` counts by its logarithm, a smaller one by the square of that (pseudo-Huber): one time that
    another process has spoilt does not move all.
    """
    from scipy.optimize import minimize  # takes as long to import as everything else here

    library = NCCL if backend == NCCL else MPI
    ways = [
        [way.count(ranks, nbytes) for way in algorithms_of(name, library, ranks)] for name, nbytes, _ in timed
    ]
    most = max(map(len, ways))
    counts = np.array(
        [[*counted, *counted[:1] * (most - len(counted))] for counted in ways]
    )  # time, way, figure
    measured = np.log([seconds for _, _, seconds in timed])

    def errors(logarithms: Any) -> Any:
        return np.log((counts @ np.exp(logarithms)).min(axis=1)) - measured

    def distance(logarithms: Any) -> float:
        return float(np.sum(np.hypot(1.0, errors(logarithms) / math.log(OUTLIER)) - 1.0))

    per_byte = min(seconds / nbytes for _, nbytes, seconds in timed)
    logarithms = np.log([min(seconds for _, _, seconds in timed), per_byte, per_byte / 4])
    for _ in range(RESTARTS):  # the simplex shrinks where an algorithm takes another's place
        logarithms = minimize(distance, logarithms, method="Nelder-Mead", options=PRECISION).x
    worst = math.exp(np.abs(errors(logarithms)).max())
    latency, per_byte, per_reduced = map(float, np.exp(logarithms))
    return Interconnect(
        "measured", Link("this machine's ranks", latency, 1 / per_byte, per_reduced), library=library,
        overlaps=library == NCCL,
        source=f"fitted to collectives of {ranks} ranks over {backend} on this machine ({os.cpu_count()} processors), "
        f"measured; off by a factor of {worst:.2f} at most",
    )  # fmt: skip


def seconds_of(run: Callable[[], object], rounds: int) -> float:
    """Seconds of a collective in the fastest of the rounds, of the slowest rank in it; the same on all ranks.

    Whatever else the machine does makes a collective slower, and never faster.
    """
    first = min(_timed(run, 1) for _ in range(WARM_UP))
    count = max(1, int(_slowest(SHORT / max(first, 1e-9))))
    samples: list[float] = []
    while len(samples) < rounds or (
        sum(samples) * count < LEAST_SECONDS and len(samples) < MORE_ROUNDS * rounds
    ):
        samples.append(_slowest(_timed(run, count) / count))
    return min(samples)


def _timed(run: Callable[[], object], count: int) -> float:
    distributed.barrier()
    start = time.perf_counter()
    for _ in range(count):
        run()
    return time.perf_counter() - start


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

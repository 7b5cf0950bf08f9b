"""Latency, bandwidth and reductions fitted to timed collectives of the ranks that run."""

from __future__ import annotations

import itertools
import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .... import distributed
from ....cuda import synchronize
from ....dispatch.generated.functions import ones, zeros
from ....dispatch.tensor import Tensor
from ....runtime.scalar_type import float64
from .algorithms import MPI, NCCL, algorithms_of
from .interconnect import Interconnect, Link

DEFAULT_SIZES = (4, 1 << 12, 1 << 16, 1 << 20, 1 << 22, 1 << 24, 1 << 26)
"""Bytes of the tensors that are timed: of the result for all_gather."""
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")
WARM_UP = 3
SHORT = 2e-4
"""Seconds of repeated calls, so that neither the clock's resolution nor the barrier before them counts."""
MIN_SECONDS, MORE_TURNS = 0.005, 10
"""Short collectives have some more turns in each round: in one of them nothing else may have run."""
OUTLIER = 1.5
"""The ratio of predicted to measured times from which on it counts by its logarithm."""
RESTARTS = 3
MIN_SIZES = 2
"""To how many sizes the link of small tensors is fitted, at least."""
SEPARATE_LINK_RATIO, NOISE = 0.7, 0.01
"""Fit a separate link for large tensors if that reduces errors above `NOISE` to this ratio."""
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
    if not sizes or min(sizes) < 1:
        raise ValueError(f"Interconnect.measured(): sizes must be numbers of bytes from 1 on, got {sizes}")
    buffers = buffers_of(max(sizes), ranks)
    cases = [(collective, nbytes) for collective in COLLECTIVES for nbytes in sizes]
    seconds = fastest([collective_run(*case, buffers) for case in cases], rounds)
    timed = [Timed(*case, each) for case, each in zip(cases, seconds, strict=True)]
    return fitted(timed, ranks, distributed.get_backend())


def fitted(timed: Sequence[Timed], ranks: int, backend: str) -> Interconnect:
    """Fit the interconnect whose predictions are closest to the measured times.

    Large tensors get a separate link if that fits much better: memory is slower than caches, and libraries
    use another protocol for them.
    """
    library = NCCL if backend == NCCL else MPI
    sizes = sorted({nbytes for _, nbytes, _ in timed})
    best = _fit_link(timed, ranks, library)
    for small, large in itertools.pairwise(sizes):
        start = math.sqrt(small * large)
        parts = (
            [case for case in timed if case.nbytes < start],
            [case for case in timed if case.nbytes >= start],
        )
        if len({case.nbytes for case in parts[0]}) < MIN_SIZES:
            continue
        below = _fit_link(parts[0], ranks, library)
        above = _fit_link(parts[1], ranks, library, below.link.latency)  # what large tensors do not show
        distance = below.distance + above.distance
        if distance < SEPARATE_LINK_RATIO * best.distance and best.distance > NOISE * len(timed):
            link = replace(below.link, large=above.link, large_from=start)
            best = _Fit(link, distance, [*below.errors, *above.errors])
    worst, usual = (
        math.exp(statistic(list(map(abs, best.errors)))) for statistic in (max, statistics.median)
    )
    return Interconnect(
        "measured", best.link, library=library, overlaps=library == NCCL,
        source=f"fitted to collectives of {ranks} ranks over {backend} on this machine ({os.cpu_count()} processors), "
        f"measured; off by a factor of {usual:.2f} in the median, {worst:.2f} at most",
    )  # fmt: skip


class _Fit(NamedTuple):
    link: Link
    distance: float
    errors: list[float]


def _fit_link(timed: Sequence[Timed], ranks: int, library: str, latency: float | None = None) -> _Fit:
    """Fit a link, with an optional fixed latency, to the log ratios of predicted to measured times.

    A log ratio beyond `OUTLIER` counts linearly, a smaller one by its square (pseudo-Huber loss). A time
    disturbed by another process therefore does not dominate the fit.
    """
    from scipy.optimize import minimize  # takes as long to import as everything else here

    counts_by_time = [
        [algorithm.count(ranks, nbytes) for algorithm in algorithms_of(name, library, ranks)]
        for name, nbytes, _ in timed
    ]
    max_algorithms = max(map(len, counts_by_time))
    counts = np.array(
        [[*counted, *counted[:1] * (max_algorithms - len(counted))] for counted in counts_by_time]
    )  # time, way, figure
    measured = np.log([seconds for _, _, seconds in timed])

    def figures(logarithms: Any) -> Any:
        values = np.exp(logarithms)
        return values if latency is None else np.concatenate(([latency], values))

    def errors(logarithms: Any) -> Any:
        return np.log((counts @ figures(logarithms)).min(axis=1)) - measured

    def distance(logarithms: Any) -> float:
        return float(np.sum(np.hypot(1.0, errors(logarithms) / math.log(OUTLIER)) - 1.0))

    per_byte = min(seconds / nbytes for _, nbytes, seconds in timed)
    start = (
        [per_byte, per_byte / 4]
        if latency is not None
        else [min(seconds for _, _, seconds in timed), per_byte, per_byte / 4]
    )
    logarithms = np.log(start)
    for _ in range(RESTARTS):  # the simplex shrinks where an algorithm takes another's place
        logarithms = minimize(distance, logarithms, method="Nelder-Mead", options=PRECISION).x
    latency_seconds, per_byte, per_reduced = map(float, figures(logarithms))
    link = Link("this machine's ranks", latency_seconds, 1 / per_byte, per_reduced)
    return _Fit(link, distance(logarithms), errors(logarithms).tolist())


def fastest(runs: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Return the seconds of each run in its fastest round, for the slowest rank; equal on all ranks.

    Other load only makes a collective slower, so the minimum is the estimate. Runs are interleaved in each round, so
    that a busy moment affects all of them.
    """
    counts = [max(1, int(_slowest(SHORT / min(_timed(run, 1) for _ in range(WARM_UP))))) for run in runs]
    minima = [math.inf] * len(runs)
    for _ in range(rounds):
        for number, (run, count) in enumerate(zip(runs, counts, strict=True)):
            spent = 0.0
            for _ in range(MORE_TURNS):
                seconds = _slowest(_timed(run, count))
                minima[number] = min(minima[number], seconds / count)
                spent += seconds
                if spent >= MIN_SECONDS:
                    break
    return minima


def _timed(run: Callable[[], object], count: int) -> float:
    distributed.barrier()
    start = time.perf_counter()
    for _ in range(count):
        run()
    if _device() == "cuda":
        synchronize()  # NCCL only enqueues
    return max(time.perf_counter() - start, 1e-9)


def _slowest(number: float) -> float:
    """Return the maximum of a value over all ranks."""
    largest = ones((1,), dtype=float64, device=_device()) * number
    distributed.all_reduce(largest, op=distributed.ReduceOp.MAX)
    return float(largest.item())


def buffers_of(nbytes: int, ranks: int) -> tuple[Tensor, Tensor]:
    """Return send and receive buffers for collectives of this size: zeros, whose sums do not grow."""
    count = max(1, nbytes // 4, ranks)
    return zeros((count,), device=_device()), zeros((count,), device=_device())


def collective_run(collective: str, nbytes: int, buffers: tuple[Tensor, Tensor]) -> Callable[[], Any]:
    """Return a float32 collective of this size, with at least one element per rank if ranks have parts."""
    ranks = distributed.get_world_size()
    count = max(1, nbytes // 4)
    part = max(1, count // ranks)
    source, received = buffers
    if collective == "all_gather":
        own, gathered = source[:part], received[: part * ranks]
        return lambda: distributed.all_gather_into_tensor(gathered, own)
    if collective == "reduce_scatter":
        whole, own = source[: part * ranks], received[:part]
        return lambda: distributed.reduce_scatter_tensor(own, whole)
    tensor = source[:count]
    if collective == "broadcast":
        return lambda: distributed.broadcast(tensor, 0)
    return lambda: distributed.all_reduce(tensor)


def _device() -> str:
    return "cuda" if distributed.get_backend() == NCCL else "cpu"

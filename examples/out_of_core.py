"""Process an array that does not fit into memory by Dask over tensors: its mean, a matmul with itself, and
k-means.

The array is created in pieces and stored in a Zarr file. One process, with less memory than the array needs,
processes it chunk by chunk. Another process, without a limit, holds it in memory as one tensor. The script
prints results, times and peak memory side by side.

    python examples/out_of_core.py --megabytes 1024 --limit 512
    python examples/out_of_core.py --workers 2          # a cluster of two processes of this machine
    python examples/out_of_core.py --device cuda        # chunks are copied to the GPU one by one

It needs triten with the extra `ecosystem`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import zarr

import triten as tt

COLUMNS = 64
CLUSTERS = 8
MEGABYTE = 1 << 20


@dataclass
class Task:
    """Task of a process: the array's path, the device, and the numbers of rounds, megabytes and workers."""

    path: str
    device: str
    rounds: int
    limit: int | None
    workers: int


@dataclass
class Report:
    """Result of a process, with its seconds and its peak memory in megabytes."""

    mean: np.ndarray
    product: np.ndarray
    centres: np.ndarray
    seconds: float
    peak: float


def make_array(path: str, megabytes: int) -> None:
    """Write clouds of points around random centres, a chunk at a time."""
    rows = megabytes * MEGABYTE // (4 * COLUMNS)
    chunk = max(1, min(rows, 4 * MEGABYTE // (4 * COLUMNS)))
    array = zarr.create_array(
        path, shape=(rows, COLUMNS), chunks=(chunk, COLUMNS), dtype="float32", compressors=None
    )
    tt.manual_seed(0)
    centres = tt.randn(CLUSTERS, COLUMNS) * 4
    for start in range(0, rows, chunk):
        stop = min(start + chunk, rows)
        array[start:stop] = (
            centres[tt.randint(CLUSTERS, (stop - start,))] + tt.randn(stop - start, COLUMNS)
        ).numpy()


def totals(rows: tt.Tensor, centres: tt.Tensor) -> tt.Tensor:
    """Return the sum and the number of rows nearest to each center, as a tensor (clusters, columns + 1)."""
    centres = centres.to(rows.device)
    nearest = tt.cdist(rows, centres).argmin(1)
    members = tt.nn.functional.one_hot(nearest, CLUSTERS).to(rows.dtype)
    return tt.cat([members.T @ rows, members.sum(0).unsqueeze(1)], 1).double()


def k_means(first: tt.Tensor, rounds: int, sums_of: Callable[[tt.Tensor], tt.Tensor]) -> tt.Tensor:
    """Lloyd's algorithm from the first rows on."""
    centres = first
    for _ in range(rounds):
        sums = sums_of(centres).to(centres.device)
        counts = sums[:, COLUMNS:].clamp(min=1)
        centres = (sums[:, :COLUMNS] / counts).to(centres.dtype)
    return centres


def by_chunks(task: Task) -> Report:
    """Everything by Dask, chunk by chunk."""
    import dask.array as da
    from dask.diagnostics import ProgressBar

    if task.workers:
        from dask.distributed import Client, LocalCluster

        client = Client(LocalCluster(n_workers=task.workers, threads_per_worker=1, dashboard_address=None))
    stored = da.from_zarr(task.path)
    x = stored.map_blocks(partial(tt.as_tensor, device=task.device), meta=tt.empty(0, 0))
    first = x[:CLUSTERS].compute()  # threads are there now, and their stacks
    if task.limit is not None:
        limit_memory(task.limit)
    started = time.perf_counter()
    with ProgressBar():
        mean = x.mean(axis=0).compute()
        product = (x.T @ x).compute()

        def sums_of(centres: tt.Tensor) -> tt.Tensor:
            chunks = (CLUSTERS,) * x.numblocks[0], (COLUMNS + 1,)
            parts = x.map_blocks(totals, centres, chunks=chunks, meta=tt.empty(0, 0, dtype=tt.float64))
            return parts.compute().view(-1, CLUSTERS, COLUMNS + 1).sum(0)

        centres = k_means(first, task.rounds, sums_of)
    report = Report(*map(to_array, (mean, product, centres)), time.perf_counter() - started, peak_megabytes())
    if task.workers:
        client.shutdown()
    return report


def in_memory(task: Task) -> Report:
    """Compute the same results with the array as one tensor."""
    started = time.perf_counter()
    x = tt.as_tensor(zarr.open_array(task.path, mode="r")[:], device=task.device)
    centres = k_means(x[:CLUSTERS], task.rounds, lambda centres: totals(x, centres))
    results = map(to_array, (x.mean(0), x.T @ x, centres))
    return Report(*results, time.perf_counter() - started, peak_megabytes())


def to_array(x: tt.Tensor) -> np.ndarray:
    """Convert a tensor to an array."""
    return x.cpu().numpy()


def limit_memory(megabytes: int) -> None:
    """Have the system refuse this process more memory than that beside what it has already."""
    status = Path("/proc/self/status").read_text()
    own = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, ((own << 10) + megabytes * MEGABYTE,) * 2)


def peak_megabytes() -> float:
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_a_process(function: Callable[[Task], Report], task: Task) -> Report:
    """Run a function in a separate process and return its result."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, task).result()


def main() -> None:
    """Make the array, go through it both ways, and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=512, help="the array's size")
    parser.add_argument("--limit", type=int, default=256, help="megabytes that the process may take for it")
    parser.add_argument("--workers", type=int, default=0, help="processes of a cluster; 0 for threads alone")
    parser.add_argument("--rounds", type=int, default=4, help="of k-means")
    parser.add_argument("--device", default="cpu", help="where chunks are computed with")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/array.zarr"
        make_array(path, options.megabytes)
        limit = None if options.workers else options.limit
        chunked = in_a_process(by_chunks, Task(path, options.device, options.rounds, limit, options.workers))
        whole = in_a_process(in_memory, Task(path, options.device, options.rounds, None, 0))
    print(f"{'':>12} {'by chunks':>12} {'in memory':>12}")
    print(f"{'seconds':>12} {chunked.seconds:12.2f} {whole.seconds:12.2f}")
    print(f"{'peak, MB':>12} {chunked.peak:12.0f} {whole.peak:12.0f}")
    for name in ("mean", "product", "centres"):
        chunked_value, whole_value = getattr(chunked, name), getattr(whole, name)
        difference = float(np.max(np.abs(chunked_value - whole_value)) / np.max(np.abs(whole_value)))
        print(f"{name:>12} differ by {difference:.1e} of the largest number")


if __name__ == "__main__":
    main()

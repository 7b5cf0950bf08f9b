"""Ranks as tasks of Dask: the cluster's scheduler places the ranks, which communicate directly.

    pip install "dask[distributed]"
    python examples/distributed/dask_cluster.py --ranks=4                        # on this machine
    python examples/distributed/dask_cluster.py --scheduler=tcp://node0:8786     # on a cluster that runs

Each worker runs one task, which is a rank. The first rank reports its address. Then each rank gets RANK,
WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as from torchrun, and calls the same function.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import cloudpickle
from dask.distributed import Client, LocalCluster


def train() -> float:
    """Run the work of each rank. Replace it with your own."""
    import triten as tt
    from triten import distributed as dist

    dist.init_process_group("mpi")
    total = tt.tensor([float(dist.get_rank())])
    dist.all_reduce(total)
    dist.destroy_process_group()
    return total.item()


def free_port() -> int:
    """Return a free port of the worker that runs this function."""
    with socket.socket() as free:
        free.bind(("", 0))
        return free.getsockname()[1]


RANK_PROGRAM = """
import sys, cloudpickle
function = cloudpickle.load(sys.stdin.buffer)
with open(sys.argv[1], "wb") as file:
    cloudpickle.dump(function(), file)
"""


def as_rank(function: Callable[[], Any], variables: dict[str, str]) -> Any:
    """Call a function in a process of its own, with the place of a rank.

    A worker stays for other tasks, while MPI is started once in a process: hence a new one for each rank.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "result")
        ended = subprocess.run(
            [sys.executable, "-c", RANK_PROGRAM, path],
            input=cloudpickle.dumps(function),
            env={**os.environ, **variables},
        )
        if ended.returncode:
            raise RuntimeError(f"rank {variables['RANK']} ended with exit code {ended.returncode}")
        with open(path, "rb") as file:
            return cloudpickle.load(file)


def run_on_dask(client: Client, function: Callable[[], Any], ranks: int) -> list[Any]:
    """Call a function in each rank, and return the results.

    Args:
        client: The cluster's client.
        function: The function, without arguments.
        ranks: Number of ranks, at most the number of the cluster's workers.

    Raises:
        ValueError: The cluster has fewer workers than ranks.
    """
    workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
    if len(workers) < ranks:
        raise ValueError(f"{ranks} ranks need as many workers, but the cluster has {len(workers)}")
    host = urlsplit(workers[0]).hostname
    port = client.submit(free_port, workers=[workers[0]], pure=False).result()
    environment = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": str(host), "MASTER_PORT": str(port)}
    tasks = [
        client.submit(
            as_rank, function, environment | {"RANK": str(rank)}, workers=[worker], pure=False, retries=0
        )
        for rank, worker in enumerate(workers[:ranks])
    ]
    return client.gather(tasks)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scheduler", help="the cluster's, tcp://host:8786; none for this machine")
    parser.add_argument("--ranks", type=int, default=2)
    args = parser.parse_args()
    cluster = args.scheduler or LocalCluster(
        n_workers=args.ranks, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
    )
    with Client(cluster) as client:
        totals = run_on_dask(client, train, args.ranks)
    if not args.scheduler:
        cluster.close()
    print(f"{args.ranks} ranks of Dask, whose numbers are {totals[0]:g} in all")
    assert totals == [args.ranks * (args.ranks - 1) / 2] * args.ranks


if __name__ == "__main__":
    main()

"""Ranks as tasks of Ray: the cluster's scheduler starts the ranks, which communicate directly.

    pip install ray
    python examples/distributed/ray_cluster.py --ranks=4             # on this machine
    python examples/distributed/ray_cluster.py --address=auto --ranks=64   # on a cluster that runs

Each rank is an actor. The first rank reports its address. Then each rank gets RANK, WORLD_SIZE, MASTER_ADDR
and MASTER_PORT, as from torchrun, and calls the same function.
"""

import argparse
import os
import socket
from collections.abc import Callable
from typing import Any

import ray


def train() -> float:
    """Run the work of each rank. Replace it with your own."""
    import triten as tt
    from triten import distributed as dist

    dist.init_process_group("mpi")
    total = tt.tensor([float(dist.get_rank())])
    dist.all_reduce(total)
    dist.destroy_process_group()
    return total.item()


@ray.remote
class Rank:
    """A process of the cluster."""

    def address(self) -> tuple[str, int]:
        """Return this node's address and a free port."""
        with socket.socket() as free:
            free.bind(("", 0))
            return ray.util.get_node_ip_address(), free.getsockname()[1]

    def run(self, function: Callable[[], Any], variables: dict[str, str]) -> Any:
        """Call a function with the place of this rank."""
        os.environ.update(variables)
        return function()


def run_on_ray(function: Callable[[], Any], ranks: int, **resources: Any) -> list[Any]:
    """Call a function in each rank, and return the results.

    Args:
        function: The function, without arguments.
        ranks: Number of ranks.
        resources: Resources of each rank: ``num_cpus``, ``num_gpus``.
    """
    actors = [Rank.options(**resources).remote() for _ in range(ranks)]
    try:
        host, port = ray.get(actors[0].address.remote())
        environment = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": host, "MASTER_PORT": str(port)}
        # `get` raises as soon as one fails; the others are ended below.
        return ray.get(
            [
                actor.run.remote(function, environment | {"RANK": str(rank)})
                for rank, actor in enumerate(actors)
            ]
        )
    finally:
        for actor in actors:
            ray.kill(actor)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", help="the cluster: auto, or ray://host:10001; none for this machine")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--gpus", type=float, default=0, help="GPUs of each rank")
    args = parser.parse_args()
    local_options = (
        {}
        if args.address
        else {"num_cpus": args.ranks, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    )
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray sends no statistics of its own
    ray.init(address=args.address, **local_options)
    totals = run_on_ray(train, args.ranks, num_cpus=1, num_gpus=args.gpus)
    print(f"{args.ranks} ranks of Ray, whose numbers are {totals[0]:g} in all")
    assert totals == [args.ranks * (args.ranks - 1) / 2] * args.ranks


if __name__ == "__main__":
    main()

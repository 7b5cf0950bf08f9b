"""The variables by which a worker knows its rank."""

from __future__ import annotations

import os

from .rendezvous.handler import RendezvousInfo

__all__ = ["first_rank", "needs_one_thread", "worker_environment"]


def first_rank(info: RendezvousInfo) -> int:
    """Return the rank of a node's first worker."""
    return sum(node.workers for node in info.nodes[: info.rank])


def needs_one_thread(workers: int) -> bool:
    """Return True if each worker should use one thread: with several workers and no OMP_NUM_THREADS."""
    return workers > 1 and "OMP_NUM_THREADS" not in os.environ


def worker_environment(info: RendezvousInfo, local_rank: int) -> dict[str, str]:
    """Return the environment variables that torchrun sets.

    Args:
        info: Result of the rendezvous.
        local_rank: Local rank of the worker.
    """
    node = info.nodes[info.rank]
    alike = [other for other in info.nodes if other.role == node.role]
    first_of_role = sum(other.workers for other in info.nodes[: info.rank] if other.role == node.role)
    values = {
        "RANK": first_rank(info) + local_rank,
        "LOCAL_RANK": local_rank,
        "GROUP_RANK": info.rank,
        "ROLE_RANK": first_of_role + local_rank,
        "ROLE_NAME": node.role,
        "LOCAL_WORLD_SIZE": node.workers,
        "WORLD_SIZE": sum(other.workers for other in info.nodes),
        "GROUP_WORLD_SIZE": len(info.nodes),
        "ROLE_WORLD_SIZE": sum(other.workers for other in alike),
        "MASTER_ADDR": info.master_addr,
        "MASTER_PORT": info.master_port,
        "TORCHELASTIC_RESTART_COUNT": info.restarts,
        "TORCHELASTIC_USE_AGENT_STORE": True,
    }
    if needs_one_thread(node.workers):
        values["OMP_NUM_THREADS"] = 1
    return {name: str(value) for name, value in values.items()}

"""Ranks and sizes that a cluster scheduler or an MPI launcher passes to a process."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

__all__ = ["ClusterEnvironment", "cluster_environment", "hosts_of"]

FIRST_PORT, PORTS = 15000, 10000
"""Range of ports for SLURM jobs, below the system's ephemeral ports."""


@dataclass(frozen=True)
class ClusterEnvironment:
    """Rank of a process, and the size of its cluster.

    Attributes:
        launcher: Launcher of the process: ``"mpich"`` (also Intel MPI and others with Hydra), ``"openmpi"``,
            ``"pmix"`` or ``"slurm"``.
        rank: Global rank.
        world_size: Number of processes.
        local_rank: Rank on its node. None if it is unknown.
        local_world_size: Number of processes on its node. None if it is unknown.
        master_addr: Name of rank 0's node in the scheduler. None if it is unknown.
        master_port: Port derived from the job's number. None without a scheduler.
        starts_mpi: True if MPI can start in these processes with the launcher's environment.
    """

    launcher: str
    rank: int
    world_size: int
    local_rank: int | None
    local_world_size: int | None
    master_addr: str | None = None
    master_port: int | None = None
    starts_mpi: bool = False

    def variables(self) -> dict[str, str]:
        """Return torchrun's environment variables for the known values: RANK, LOCAL_RANK, MASTER_ADDR..."""
        values = {
            "RANK": self.rank,
            "WORLD_SIZE": self.world_size,
            "LOCAL_RANK": self.local_rank,
            "LOCAL_WORLD_SIZE": self.local_world_size,
            "MASTER_ADDR": self.master_addr,
            "MASTER_PORT": self.master_port,
        }
        return {name: str(value) for name, value in values.items() if value is not None}


_MPI = (
    ("mpich", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    (
        *("openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        *("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ),
    ("pmix", "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""),
    ("pmix", "PMIX_RANK", "SLURM_NTASKS", "SLURM_LOCALID", ""),
)
"""Launchers of MPI, with the variables by which they tell a process its number, how many there are, and these on its
node."""


def cluster_environment(environment: Mapping[str, str] | None = None) -> ClusterEnvironment | None:
    """Return this process's rank and cluster, from the variables of `mpiexec` or `srun`.

    A process that SLURM runs by itself, as a batch script or in a shell of `salloc`, is none of several.

    Args:
        environment: Environment variables. Default: those of this process.

    Returns:
        The environment; None if no launcher has started the process.

    Raises:
        ValueError: A variable is not a number.

    Example:
        >>> from triten.distributed.cluster_environment import cluster_environment
        >>> variables = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}
        >>> cluster_environment(variables).variables()
        {'RANK': '1', 'WORLD_SIZE': '4'}
    """
    variables = os.environ if environment is None else environment
    scheduled = _of_slurm(variables)
    for launcher, rank, size, local_rank, local_size in _MPI:
        if rank in variables and size in variables:
            from_mpi = ClusterEnvironment(
                launcher,
                _number(variables, rank),
                _number(variables, size),
                _number(variables, local_rank) if local_rank in variables else None,
                _number(variables, local_size) if local_size in variables else None,
                starts_mpi=True,
            )
            return from_mpi if scheduled is None else _completed(from_mpi, scheduled)
    return scheduled


def _completed(from_mpi: ClusterEnvironment, scheduled: ClusterEnvironment) -> ClusterEnvironment:
    """Complete the values of MPI's launcher with those of the scheduler."""
    local_rank, local_size = from_mpi.local_rank, from_mpi.local_world_size
    return replace(
        from_mpi,
        local_rank=scheduled.local_rank if local_rank is None else local_rank,
        local_world_size=scheduled.local_world_size if local_size is None else local_size,
        master_addr=scheduled.master_addr,
        master_port=scheduled.master_port,
    )


def _of_slurm(variables: Mapping[str, str]) -> ClusterEnvironment | None:
    """Read the environment of a SLURM job step, started by `srun`."""
    if "SLURM_PROCID" not in variables or "SLURM_STEP_NUM_TASKS" not in variables:
        return None
    nodes = variables.get("SLURM_STEP_NODELIST") or variables.get("SLURM_JOB_NODELIST") or ""
    first = next(hosts_of(nodes), None)
    job, step = (
        _number(variables, name) if name in variables else 0 for name in ("SLURM_JOB_ID", "SLURM_STEP_ID")
    )
    node = _number(variables, "SLURM_NODEID") if "SLURM_NODEID" in variables else 0
    counts = list(_counts(variables.get("SLURM_STEP_TASKS_PER_NODE", "")))
    return ClusterEnvironment(
        "slurm",
        _number(variables, "SLURM_PROCID"),
        _number(variables, "SLURM_STEP_NUM_TASKS"),
        _number(variables, "SLURM_LOCALID") if "SLURM_LOCALID" in variables else None,
        counts[node] if node < len(counts) else None,
        first,
        None if first is None else FIRST_PORT + (job + step) % PORTS,
    )


def _number(variables: Mapping[str, str], name: str) -> int:
    if not variables[name].isdecimal():
        raise ValueError(f"{name}: expected a number, but the environment has {variables[name]!r}")
    return int(variables[name])


def _counts(text: str) -> Iterator[int]:
    """Yield the numbers of ``"2(x3),1"``, which is SLURM for 2, 2, 2, 1."""
    for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text):
        yield from [int(count)] * int(times or 1)


def hosts_of(nodes: str) -> Iterator[str]:
    """Yield the hosts of a list in SLURM's notation.

    Args:
        nodes: Names separated by commas; ranges of numbers may stand in brackets.

    Raises:
        ValueError: it is no such list.

    Example:
        >>> from triten.distributed.cluster_environment import hosts_of
        >>> list(hosts_of("login,node[08-10,12]-ib"))
        ['login', 'node08-ib', 'node09-ib', 'node10-ib', 'node12-ib']
    """
    for name in re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+", nodes):
        yield from _expanded(name.strip(), nodes)


def _expanded(name: str, nodes: str) -> Iterator[str]:
    head, bracket, rest = name.partition("[")
    if not bracket:
        yield head
        return
    inside, _, tail = rest.partition("]")
    for span in inside.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", span.strip())
        if match is None:
            raise ValueError(f"expected a list of hosts such as node[01-03,7], but got {nodes!r}")
        first, last = match[1], match[2] or match[1]
        for number in range(int(first), int(last) + 1):
            for end in _expanded(tail, nodes):
                yield f"{head}{number:0{len(first)}d}{end}"

"""Counts of collective algorithms: steps, bytes that a rank sends, and bytes that it reduces.

The counts are for p ranks and n bytes, with n as in `BYTES_OF`. Sources:

- Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH" (2005).
- Sanders, Speck and Traff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan" (2009), for
  NCCL's double binary trees.
- NCCL tests, "Performance reported by NCCL tests", for the bytes on the wire of rings.
- Klenk et al., "An in-network architecture for accelerating shared-memory multiprocessor collectives" (2020),
  for switches that reduce.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

MPI, NCCL = "mpi", "nccl"
BYTES_OF = {
    "all_reduce": "the tensor",
    "all_gather": "the gathered result",
    "reduce_scatter": "the input of a rank",
    "broadcast": "the tensor",
    "reduce": "the tensor",
    "all_to_all": "the input of a rank",
    "gather": "the gathered result",
    "scatter": "the scattered input",
    "send": "the tensor",
    "barrier": "nothing",
}
"""Meaning of the number of bytes of a collective."""


class Count(NamedTuple):
    """Work of a rank on the critical path: sequential messages, bytes sent, bytes reduced."""

    steps: float
    sent: float
    reduced: float = 0.0


@dataclass(frozen=True)
class Algorithm:
    """Algorithm of a collective: name, libraries, counts, and the conditions: p a power of 2, or a reducing
    switch.
    """

    name: str
    libraries: tuple[str, ...]
    count: Callable[[int, float], Count]
    powers_of_two: bool = False
    in_switch: bool = False


def floor_log2(p: int) -> int:
    """Return the largest k with 2^k at most p.

    Example:
        >>> from triten.perf.planning.communication.algorithms import floor_log2
        >>> [floor_log2(p) for p in (1, 2, 3, 4, 7, 8)]
        [0, 1, 1, 2, 2, 3]
    """
    return p.bit_length() - 1


def ceil_log2(p: int) -> int:
    """Return the smallest k with 2^k at least p.

    Example:
        >>> from triten.perf.planning.communication.algorithms import ceil_log2
        >>> [ceil_log2(p) for p in (1, 2, 3, 4, 7, 8)]
        [0, 1, 2, 2, 3, 3]
    """
    return (p - 1).bit_length()


def _doubling_all_reduce(p: int, n: float) -> Count:
    # Ranks beyond the power of 2 hand their tensors to others first, and get the result at the end.
    folded = p != 1 << floor_log2(p)
    steps = floor_log2(p) + 2 * folded
    return Count(steps, steps * n, (floor_log2(p) + folded) * n)


def _share(p: int, n: float) -> float:
    return (p - 1) / p * n


BOTH = (MPI, NCCL)
ALGORITHMS: Mapping[str, tuple[Algorithm, ...]] = {
    "all_reduce": (
        Algorithm("ring", BOTH, lambda p, n: Count(2 * (p - 1), 2 * _share(p, n), _share(p, n))),
        # Each half of the bytes goes up a tree and down again, and every rank is an inner node of one tree.
        Algorithm("tree", (NCCL,), lambda p, n: Count(2 * ceil_log2(p), 2 * n, n)),
        # NVLink SHARP: a tensor goes to the switch once, and the part of the sum that its rank has read is multicast.
        Algorithm("in the switch", (NCCL,), lambda p, n: Count(2, n + n / p), in_switch=True),
        Algorithm("recursive doubling", (MPI,), _doubling_all_reduce),
        Algorithm(
            "recursive halving and doubling", (MPI,),
            lambda p, n: Count(2 * ceil_log2(p), 2 * _share(p, n), _share(p, n)), True,
        ),
    ),
    "all_gather": (
        Algorithm("ring", BOTH, lambda p, n: Count(p - 1, _share(p, n))),
        Algorithm("recursive doubling", (MPI,), lambda p, n: Count(ceil_log2(p), _share(p, n)), True),
        Algorithm("Bruck", (MPI,), lambda p, n: Count(ceil_log2(p), _share(p, n))),
    ),
    "reduce_scatter": (
        Algorithm("ring", BOTH, lambda p, n: Count(p - 1, _share(p, n), _share(p, n))),
        Algorithm(
            "recursive halving", (MPI,), lambda p, n: Count(ceil_log2(p), _share(p, n), _share(p, n)), True
        ),
    ),
    "broadcast": (
        Algorithm("ring", (NCCL,), lambda p, n: Count(p - 1, n)),
        Algorithm("binomial tree", (MPI,), lambda p, n: Count(ceil_log2(p), ceil_log2(p) * n)),
        Algorithm(
            "scatter and ring", (MPI,), lambda p, n: Count(ceil_log2(p) + p - 1, 2 * _share(p, n))
        ),
    ),
    "reduce": (
        Algorithm("ring", (NCCL,), lambda p, n: Count(p - 1, n, n)),
        Algorithm("binomial tree", (MPI,), lambda p, n: Count(ceil_log2(p), ceil_log2(p) * n, ceil_log2(p) * n)),
        Algorithm(
            "recursive halving and gather", (MPI,),
            lambda p, n: Count(2 * ceil_log2(p), 2 * _share(p, n), _share(p, n)), True,
        ),
    ),
    "all_to_all": (
        Algorithm("pairwise", BOTH, lambda p, n: Count(p - 1, _share(p, n))),
        Algorithm("Bruck", (MPI,), lambda p, n: Count(ceil_log2(p), ceil_log2(p) * n / 2)),
    ),
    "gather": (
        Algorithm("pairwise", (NCCL,), lambda p, n: Count(p - 1, _share(p, n))),
        Algorithm("binomial tree", (MPI,), lambda p, n: Count(ceil_log2(p), _share(p, n))),
    ),
    "scatter": (
        Algorithm("pairwise", (NCCL,), lambda p, n: Count(p - 1, _share(p, n))),
        Algorithm("binomial tree", (MPI,), lambda p, n: Count(ceil_log2(p), _share(p, n))),
    ),
    "send": (Algorithm("message", BOTH, lambda p, n: Count(1, n)),),
    "barrier": (Algorithm("dissemination", BOTH, lambda p, n: Count(ceil_log2(p), 0.0)),),
}  # fmt: skip
"""The ways of each collective."""


def algorithms_of(collective: str, library: str, p: int, *, in_switch: bool = False) -> list[Algorithm]:
    """Return a library's algorithms for `p` ranks, with in-switch reductions if a switch supports them.

    Raise ValueError for an unknown collective.

    Example:
        >>> from triten.perf.planning.communication.algorithms import algorithms_of
        >>> [algorithm.name for algorithm in algorithms_of("all_reduce", "mpi", 3)]
        ['ring', 'recursive doubling']
    """
    if collective not in ALGORITHMS:
        raise ValueError(f"collective must be one of {', '.join(ALGORITHMS)}, got {collective!r}")
    return [
        algorithm
        for algorithm in ALGORITHMS[collective]
        if library in algorithm.libraries
        and not (algorithm.powers_of_two and p != 1 << floor_log2(p))
        and (in_switch or not algorithm.in_switch)
    ]

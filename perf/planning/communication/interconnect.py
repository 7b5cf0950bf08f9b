"""`Interconnect`: the links between ranks, inside a node and between nodes, and the cost of collectives on
them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from .algorithms import MPI, NCCL, Count, algorithms_of


@dataclass(frozen=True)
class Link:
    """Link between devices: the alpha-beta model, with gamma for reductions.

    Attributes:
        name: Name in tables.
        latency: alpha, the seconds of an empty message.
        bytes_per_second: Bandwidth of one device in one direction.
        seconds_per_reduced_byte: gamma. 0 if the reduction is no slower than the link.
        sustained: Share of `bytes_per_second` that messages reach.
        reduces: True if a switch of the link reduces and multicasts (NVLink SHARP).
        large: Link for tensors of at least `large_from` bytes, which exceed caches or use another protocol of
            the library. None if all sizes behave the same.
        large_from: Minimum bytes of a collective's tensor for `large`.
    """

    name: str
    latency: float
    bytes_per_second: float
    seconds_per_reduced_byte: float = 0.0
    sustained: float = 1.0
    reduces: bool = False
    large: Link | None = None
    large_from: float = math.inf

    def __post_init__(self) -> None:
        for field in ("bytes_per_second", "sustained"):
            if not getattr(self, field) > 0:
                raise ValueError(f"Link: {field} must be greater than 0, got {getattr(self, field)}")
        for field in ("latency", "seconds_per_reduced_byte"):
            if not getattr(self, field) >= 0:
                raise ValueError(f"Link: {field} must not be negative, got {getattr(self, field)}")

    def slowed(self, share: float) -> Link:
        """Return the link with a share of its bandwidth."""
        large = None if self.large is None else self.large.slowed(share)
        return replace(self, bytes_per_second=share * self.bytes_per_second, large=large)

    def of(self, nbytes: float) -> Link:
        """Return the link for a tensor of this size."""
        return self.large if self.large is not None and nbytes >= self.large_from else self

    def seconds(self, count: Count) -> float:
        """Return the seconds of these steps, bytes sent and bytes reduced.

        Example:
            >>> from triten.perf.planning.communication.algorithms import Count
            >>> from triten.perf.planning.communication.interconnect import Link
            >>> Link("slow", 1.0, 10.0, 0.5).seconds(Count(2, 30, 4))
            7.0
        """
        moving = count.sent / (self.sustained * self.bytes_per_second)
        return count.steps * self.latency + moving + count.reduced * self.seconds_per_reduced_byte


class Group(NamedTuple):
    """Ranks that communicate: how many there are on each node, and on how many nodes."""

    inside: int
    nodes: int = 1

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.inside * self.nodes


class CollectiveCost(NamedTuple):
    """Cost of one collective: the algorithm, seconds, and the bytes that a rank sends."""

    algorithm: str
    seconds: float
    sent: float


FREE = CollectiveCost("none", 0.0, 0.0)


@dataclass(frozen=True)
class Interconnect:
    """Interconnect of the ranks.

    Attributes:
        name: Name in tables.
        inside: Link between devices of one node.
        between: Link between nodes. None if there is one node.
        devices_per_node: Number of devices (ranks) of a node. None means all.
        adapters_per_node: Number of network adapters that they share. None means one per device.
        library: ``"nccl"`` or ``"mpi"``, whose algorithms are used.
        startup: Seconds of a collective before its first message.
        overlaps: True if communication overlaps with computation. False if the computing processor also
            communicates.
        source: Source of the figures.

    Example:
        >>> import triten as tt
        >>> nic = tt.perf.Link("10GbE", latency=20e-6, bytes_per_second=1.25e9)
        >>> office = tt.perf.Interconnect("office", nic, library="mpi", overlaps=False)
        >>> cost = office.collective("all_reduce", 1 << 20, 4)
        >>> cost.algorithm, round(1e3 * cost.seconds, 2)
        ('recursive halving and doubling', 1.34)
    """

    name: str
    inside: Link
    between: Link | None = None
    devices_per_node: int | None = None
    adapters_per_node: int | None = None
    library: str = NCCL
    startup: float = 0.0
    overlaps: bool = True
    source: str = "given by the caller"

    def __post_init__(self) -> None:
        if self.library not in (MPI, NCCL):
            raise ValueError(f"Interconnect: library must be 'mpi' or 'nccl', got {self.library!r}")
        for field in ("devices_per_node", "adapters_per_node"):
            number = getattr(self, field)
            if number is not None and number < 1:
                raise ValueError(f"Interconnect: {field} must be at least 1, got {number}")
        if self.between is not None and self.devices_per_node is None:
            raise ValueError(
                "Interconnect: devices_per_node must be given where there is a link between nodes"
            )

    @staticmethod
    def measured(sizes: Sequence[int] | None = None, *, rounds: int = 7) -> Interconnect:
        """Latency, bandwidth and reductions of the ranks that run, by timing their collectives.

        All ranks of the default process group call it, and all get the same. They are taken for ranks of one node: to
        measure a network, start one rank on each node.

        Args:
            sizes: bytes of the tensors that are sent; None: 4 B to 64 MiB.
            rounds: how often each collective is timed; the fastest counts.

        Raises:
            ValueError: `tt.distributed.init_process_group` was not called, there is one rank alone, or a size or
                `rounds` is below 1.
        """
        from .fitting import DEFAULT_SIZES, fit_running_ranks  # ours imports this module

        return fit_running_ranks(DEFAULT_SIZES if sizes is None else sizes, rounds)

    def group(self, ranks: Sequence[int]) -> Group:
        """Return the group of these ranks by node, where consecutive ranks share a node.

        Example:
            >>> import triten as tt
            >>> from triten.perf.planning.communication.data_sheets import interconnect_of
            >>> interconnect_of("dgx_h100").group(range(0, 32, 2))
            Group(inside=4, nodes=4)
        """
        if self.devices_per_node is None:
            return Group(len(ranks))
        nodes = len({rank // self.devices_per_node for rank in ranks})
        return Group(-(-len(ranks) // nodes), nodes)

    def collective(self, name: str, nbytes: float, group: Group | int) -> CollectiveCost:
        """Predict the cost of a collective with the library's fastest algorithm.

        Args:
            name: ``"all_reduce"``, ``"all_gather"``, ``"reduce_scatter"``, ``"broadcast"``, ``"reduce"``,
                ``"all_to_all"``, ``"gather"``, ``"scatter"``, ``"send"`` or ``"barrier"``.
            nbytes: Bytes of the whole tensor: the result for all_gather and gather, a rank's input for all
                others.
            group: Ranks by node, or a number of ranks on one node.

        Raises:
            ValueError: for another name; for several nodes without a link between them.
        """
        group = Group(group) if isinstance(group, int) else group
        costs = [self._flat(name, nbytes, group)]
        if group.size == 1:
            return FREE
        if group.nodes > 1 and group.inside > 1 and name in HIERARCHICAL:
            costs.append(self._hierarchical(name, nbytes, group))
        cheapest = min(costs, key=lambda cost: cost.seconds)
        return cheapest._replace(seconds=cheapest.seconds + self.startup)

    def _link_between(self) -> Link:
        if self.between is None:
            raise ValueError(
                f"Interconnect {self.name!r}: the ranks are on several nodes, and it has no link between nodes"
            )
        shared = min(
            1.0, (self.adapters_per_node or self.devices_per_node or 1) / (self.devices_per_node or 1)
        )
        return self.between.slowed(shared)

    def _flat(self, name: str, nbytes: float, group: Group) -> CollectiveCost:
        link = self.inside if group.nodes == 1 else self._link_between()
        return self._over(link, name, nbytes, group.size)

    def _over(self, link: Link, name: str, nbytes: float, ranks: int) -> CollectiveCost:
        link = link.of(nbytes)
        counts = [
            (algorithm.name, algorithm.count(ranks, nbytes))
            for algorithm in algorithms_of(name, self.library, ranks, in_switch=link.reduces)
        ]
        costs = [CollectiveCost(algorithm, link.seconds(count), count.sent) for algorithm, count in counts]
        return min(costs, key=lambda cost: cost.seconds)

    def _hierarchical(self, name: str, nbytes: float, group: Group) -> CollectiveCost:
        """Inside each node and between nodes: where it can be, each rank of a node carries its part of the bytes."""
        between = self._link_between()
        parts = [
            self._over(
                self.inside if where == "inside" else between, part,
                nbytes / group.inside if where == "between" and HIERARCHICAL[name].is_split else nbytes,
                group.inside if where == "inside" else group.nodes,
            )
            for where, part in HIERARCHICAL[name].parts
        ]  # fmt: skip
        return CollectiveCost(
            "hierarchical", sum(part.seconds for part in parts), sum(part.sent for part in parts)
        )


class Hierarchy(NamedTuple):
    """The parts of a collective over nodes, and whether the ranks of a node share the bytes between nodes."""

    parts: tuple[tuple[str, str], ...]
    is_split: bool = True


HIERARCHICAL = {
    "all_reduce": Hierarchy((("inside", "reduce_scatter"), ("between", "all_reduce"), ("inside", "all_gather"))),
    "all_gather": Hierarchy((("between", "all_gather"), ("inside", "all_gather"))),
    "reduce_scatter": Hierarchy((("inside", "reduce_scatter"), ("between", "reduce_scatter"))),
    "broadcast": Hierarchy((("between", "broadcast"), ("inside", "broadcast")), False),
    "reduce": Hierarchy((("inside", "reduce"), ("between", "reduce")), False),
    "barrier": Hierarchy((("inside", "barrier"), ("between", "barrier")), False),
}  # fmt: skip

"""Partitions of a graph that a backend supports (torch/fx/passes/infra/partitioner.py)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...graph_module import GraphModule
from ...node import Node
from ...qualified_names import qualified_name, root_name
from ..operator_support import OperatorSupportBase
from ..utils.fuser_utils import fuse_by_partitions

__all__ = ["CapabilityBasedPartitioner", "Partition"]


class Partition:
    """A set of nodes.

    Attributes:
        id: A number, or None.
        nodes: A dict whose keys are the nodes; the values order them.
    """

    def __init__(
        self,
        id: int | None = None,
        nodes: Iterable[Node] | None = None,
        node_orders: Iterable[int] | None = None,
    ) -> None:
        self.id = id
        each = list(nodes or ())
        orders: list[int | None] = [None] * len(each) if node_orders is None else list(node_orders)
        if len(each) != len(orders):
            raise AssertionError("nodes and node_orders must have the same length")
        self.nodes: dict[Node, int | None] = dict(zip(each, orders, strict=True))

    def __repr__(self) -> str:
        return str(self.nodes)

    def add_node(self, node: Node, node_order: int | None = None) -> None:
        """Add a node."""
        self.nodes[node] = node_order

    def remove_node(self, node: Node) -> None:
        """Remove a node."""
        del self.nodes[node]

    def size(self) -> int:
        """Return the number of nodes."""
        return len(self.nodes)


class _Merging:
    """Partitions of a graph, merged while no path leads out of one and back.

    Sets of nodes are ints with a bit for each place in the graph. A path through a node of another partition may go on
    from all nodes of that one, which becomes a single node.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.position = {node: number for number, node in enumerate(nodes)}
        self.downstream = [0] * len(nodes)
        self.users = [0] * len(nodes)
        for number in reversed(range(len(nodes))):
            for user in nodes[number].users:
                where = self.position[user]
                self.users[number] |= 1 << where
                self.downstream[number] |= 1 << where | self.downstream[where]
        self.members: dict[int, int] = {}
        """For each number of a partition its nodes."""
        self.first: dict[int, int] = {}
        """For each partition the number of its first node, from the end of the graph."""
        self.outside_users: dict[int, int] = {}
        self.reached: dict[int, int] = {}
        """For each partition the nodes downstream of its own."""

    def users_of(self, node: Node) -> int:
        """Return the users of a node."""
        return self.users[self.position[node]]

    def add(self, node: Node) -> int:
        """Make a partition of a node, and return its number."""
        where = self.position[node]
        number = len(self.position) - where
        self.members[number] = 1 << where
        self.first[number] = number
        self.outside_users[number] = self.users[where]
        self.reached[number] = self.downstream[where]
        return number

    def merge(self, first: int, second: int) -> int:
        """Merge two partitions into the larger one, if no path leads out of them and back.

        Returns:
            The number of the merged partition, or `first`.
        """
        members = self.members[first] | self.members[second]
        users = (self.outside_users[first] | self.outside_users[second]) & ~members
        if self._reach(users, first, second) & members:
            return first
        if self.members[first].bit_count() < self.members[second].bit_count():
            first, second = second, first
        self.members[first], self.outside_users[first] = members, users
        self.reached[first] |= self.reached[second]
        self.first[first] = min(self.first[first], self.first[second])
        for table in (self.members, self.first, self.outside_users, self.reached):
            del table[second]
        return first

    def _reach(self, users: int, first: int, second: int) -> int:
        """Return `users` and the nodes downstream of them, through other partitions too."""
        reached = rest = users
        while rest:
            lowest = (rest & -rest).bit_length() - 1
            reached |= self.downstream[lowest]
            rest &= ~(self.downstream[lowest] | 1 << lowest)
        waiting = [number for number in self.members if number not in (first, second)]
        while entered := [number for number in waiting if self.members[number] & reached]:
            waiting = [number for number in waiting if number not in entered]
            for number in entered:
                reached |= self.reached[number]
        return reached


class CapabilityBasedPartitioner:
    """Partitioner of a graph into as few submodules as possible of nodes that a backend supports.

    Args:
        graph_module: The module of the graph.
        operator_support: Tells whether the backend supports a node.
        allows_single_node_partition: If True, keep partitions of one operator that computes. Default: False.
        non_compute_ops: Names of functions that do not compute, such as ``"torch.ops.aten.view"``.
        allowed_single_node_partition_ops: Names of functions that are partitions of their own.
        skip_horizontal_fusion: If True, merge a node with its users only. Default: False.

    Example:
        >>> import triten as tt
        >>> from triten.fx.passes.infra.partitioner import CapabilityBasedPartitioner
        >>> from triten.fx.passes.operator_support import OperatorSupport
        >>> module = tt.fx.symbolic_trace(lambda x: (x.exp().relu() + 1).exp())
        >>> support = OperatorSupport({"exp": None, "relu": None})
        >>> partitioner = CapabilityBasedPartitioner(module, support, allows_single_node_partition=True)
        >>> [list(partition.nodes) for partition in partitioner.propose_partitions()]
        [[exp_1, output], [x, exp, relu]]
    """

    def __init__(
        self,
        graph_module: GraphModule,
        operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
        skip_horizontal_fusion: bool = False,
    ) -> None:
        self.graph_module = graph_module
        self.operator_support = operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = non_compute_ops or []
        self.allowed_single_node_partition_ops = allowed_single_node_partition_ops or []
        self.skip_horizontal_fusion = skip_horizontal_fusion

    def propose_partitions(self) -> list[Partition]:
        """Return partitions of the supported nodes. Nodes are taken from the last one of the graph to the first."""
        nodes = list(self.graph_module.graph.nodes)
        submodules = dict(self.graph_module.named_modules())
        merging = _Merging(nodes)
        for node in reversed(nodes):
            if not self.operator_support.is_node_supported(submodules, node):
                continue
            if self.skip_horizontal_fusion:
                users = [
                    number for number in merging.members if merging.members[number] & merging.users_of(node)
                ]
            else:
                users = list(merging.members)
            own = merging.add(node)
            for other in sorted(users, key=merging.first.__getitem__):
                own = merging.merge(own, other)
        of_node = {
            node: number
            for node in nodes
            for number, members in merging.members.items()
            if members >> merging.position[node] & 1
        }
        self._keep_results_together(nodes, of_node)
        proposed = []
        for number in merging.members:
            inside = [node for node in nodes if of_node.get(node) == number]
            if inside and (self.allows_single_node_partition or self._is_worth_it(inside)):
                proposed.append(Partition(number, inside, [merging.position[node] for node in inside]))
        return proposed

    @staticmethod
    def _keep_results_together(nodes: Sequence[Node], of_node: dict[Node, int]) -> None:
        """Move the ``getitem`` nodes of an operator's results to its partition, until nothing changes."""
        while True:
            moved: dict[Node, int | None] = {}
            for node in nodes:
                if all(_name_of(user) == "_operator.getitem" for user in node.users):
                    number = of_node.get(node)
                    moved.update({user: number for user in node.users if of_node.get(user) != number})
            if not moved:
                return
            for user, number in moved.items():
                if number is None:
                    del of_node[user]
                else:
                    of_node[user] = number

    def _is_worth_it(self, nodes: Sequence[Node]) -> bool:
        """Return whether nodes have two operators that compute, or one that may be alone."""
        free = {"torch.ops.aten.view", "_operator.getitem", *self.non_compute_ops}
        names = [_name_of(node) for node in nodes if node.op == "call_function"]
        alone = sum(name in self.allowed_single_node_partition_ops for name in names)
        return sum(name not in free for name in names) + alone > 1

    def fuse_partitions(self, partitions: Sequence[Partition], prefix: str = "fused_") -> GraphModule:
        """Replace partitions by submodules, in place, and return the module. See `fuse_by_partitions`."""
        return fuse_by_partitions(self.graph_module, [each.nodes for each in partitions], prefix)

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """Replace the proposed partitions by submodules, in place, and return the module."""
        return self.fuse_partitions(self.propose_partitions(), prefix)

    def remove_bookend_non_compute_ops(self, partitions: Sequence[Partition]) -> None:
        """Remove nodes from the beginning and the end of partitions, in place, that do not compute."""
        for partition in partitions:
            inside = set(partition.nodes)
            free = {node for node in inside if _name_of(node) in self.non_compute_ops}
            removed: set[Node] = set()
            for edges in (lambda node: node.all_input_nodes, lambda node: list(node.users)):
                remains = True
                while remains:
                    ends = {
                        node
                        for node in free - removed
                        if all(each not in inside or each in removed for each in edges(node))
                    }
                    removed |= ends
                    remains = bool(ends)
            for node in removed:
                partition.remove_node(node)


def _name_of(node: Node) -> str:
    """Return the name of a function that a node calls, as PyTorch has it; else ``""``."""
    if node.op != "call_function":
        return ""
    name = qualified_name(node.target)
    root = f"{root_name()}."
    return f"torch.{name.removeprefix(root)}" if name.startswith(root) else name

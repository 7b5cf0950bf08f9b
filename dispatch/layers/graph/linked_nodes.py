"""Doubly linked nodes with arguments and users, the base of both graphs: `Graph` here, and that of `triten.fx`.

The graphs differ in what a node may call, in the containers of its arguments, and in their errors. The order of nodes,
the users of each, and iteration while the order changes are the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, Literal, Self, TypeVar


class LinkedNode(ABC):
    """Step of a graph, with links to its neighbors, its arguments and their users.

    The keys of `users` are the nodes that take the result, in order of insertion.
    """

    __slots__ = ("_args", "_erased", "_input_nodes", "_kwargs", "_next", "_prev", "graph", "users")

    graph: Any
    _args: tuple[Any, ...]
    _kwargs: dict[str, Any]
    _next: Self
    _prev: Self
    _input_nodes: dict[Self, None]
    users: dict[Self, None]

    def __init__(self, graph: LinkedGraph[Any]) -> None:
        self.graph = graph
        self.users = {}
        self._args = ()
        self._kwargs = {}
        self._input_nodes = {}
        own: Any = self
        self._next = self._prev = own
        self._erased = False

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments; assigning them keeps `users` right."""
        return self._args

    @args.setter
    def args(self, args: Iterable[Any]) -> None:
        self._update_args_kwargs(tuple(args), self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments by name; assigning them keeps `users` right."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: Mapping[str, Any]) -> None:
        self._update_args_kwargs(self._args, dict(kwargs))

    @abstractmethod
    def _taken(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], inputs: dict[Any, None]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arguments in the containers that nodes have, and add their nodes to `inputs`."""

    def _update_args_kwargs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        own: Any = self
        for node in self._input_nodes:
            node.users.pop(own, None)
        inputs: dict[Any, None] = {}
        self._input_nodes = inputs
        self._args, self._kwargs = self._taken(args, kwargs, inputs)
        for node in inputs:
            node.users[own] = None

    @property
    def all_input_nodes(self) -> list[Self]:
        """The nodes among the arguments, each once, in order."""
        return list(self._input_nodes)

    @property
    def next(self) -> Self:
        """The step after this one; the graph's root after the last."""
        return self._next

    @property
    def prev(self) -> Self:
        """The step before this one; the graph's root before the first."""
        return self._prev

    def _link_before(self, node: Self) -> None:
        """Put a new, moved or erased node right before this one."""
        if node._erased:
            node._erased = False
            self.graph._len += 1
        else:
            node._unlink()
        before = self._prev
        before._next, node._prev, node._next, self._prev = node, before, self, node

    def _unlink(self) -> None:
        # The node keeps its own links, because an iteration over the graph may be at it.
        self._prev._next, self._next._prev = self._next, self._prev

    def _erase(self) -> None:
        """Take the node out of its graph."""
        self._unlink()
        self._erased = True
        self.graph._len -= 1


LinkedNodeT = TypeVar("LinkedNodeT", bound=LinkedNode)


class LinkedGraph(Generic[LinkedNodeT]):
    """Nodes in the order in which they run, in a ring that starts and ends at the root."""

    _len: int
    _root: LinkedNodeT

    @property
    def nodes(self) -> NodeList[LinkedNodeT]:
        """The nodes in order; `reversed` walks backwards. The graph may be changed meanwhile."""
        return NodeList(self)


class NodeList(Generic[LinkedNodeT]):
    """Nodes of a graph in order, or backwards. The graph may be changed while they are walked."""

    def __init__(
        self, graph: LinkedGraph[LinkedNodeT], direction: Literal["_next", "_prev"] = "_next"
    ) -> None:
        self.graph = graph
        self.direction = direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[LinkedNodeT]:
        root = node = self.graph._root
        while (node := getattr(node, self.direction)) is not root:
            if not node._erased:
                yield node

    def __reversed__(self) -> Iterator[LinkedNodeT]:
        return iter(NodeList(self.graph, "_next" if self.direction == "_prev" else "_prev"))

    def __repr__(self) -> str:
        return repr(list(self))

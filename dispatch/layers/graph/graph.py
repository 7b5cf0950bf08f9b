"""`Graph`: a program as a list of operator calls (torch/fx/graph.py, torch/fx/node.py).

A graph is data. It is made by `tt.func.make_graph` or by hand, read and rewritten by passes, and run by `Traced`.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from keyword import iskeyword
from typing import Any, Final

from ....runtime.generator import Generator
from ...core.op_overload import OpOverload
from .linked_nodes import LinkedGraph, LinkedNode

OPS: Final = ("placeholder", "get_attr", "call_function", "output")
"""Kinds of nodes: an input; a constant of the graph; a call of an operator, or `operator.getitem` of one's results; the
program's result.
"""


def map_nodes(value: Any, replace: Callable[[Node], Any]) -> Any:
    """Return an argument with every node in it replaced; lists become tuples, slices and dicts are traversed."""
    if isinstance(value, Node):
        return replace(value)
    if isinstance(value, (list, tuple)):
        return tuple([map_nodes(v, replace) for v in value])
    if value.__class__ is dict:
        return {key: map_nodes(v, replace) for key, v in value.items()}
    return value


def _noted(value: Any, nodes: dict[Node, None]) -> Any:
    """Return an argument as from `map_nodes`, and collect its nodes."""
    cls = value.__class__
    if cls is Node:
        nodes[value] = None
        return value
    if isinstance(value, (list, tuple)):
        return tuple([_noted(each, nodes) for each in value])
    if cls is dict:
        return {key: _noted(each, nodes) for key, each in value.items()}
    if isinstance(value, Node):
        nodes[value] = None
    return value


class Node(LinkedNode):
    """One step of a graph.

    `op` is its kind (see `OPS`), and `target` is what it calls or names. `args` and `kwargs` are nodes, constants and
    tuples of them. `val` describes the result: a `TensorSpec` for a tensor (shape, strides, dtype, device), a tuple of
    these for several results, the value itself for a number, or None if unknown. `users` are the nodes that take the
    result, in order. Made by the methods of `Graph`.
    """

    __slots__ = ("meta", "name", "op", "target", "val")

    graph: Graph

    def __init__(self, graph: Graph, name: str, op: str, target: Any, val: Any = None) -> None:
        super().__init__(graph)
        self.name = name
        self.op = op
        self.target = target
        self.val = val
        self.meta: dict[str, Any] = {}

    def _taken(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], inputs: dict[Node, None]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        named = {name: _noted(each, inputs) for name, each in kwargs.items()} if kwargs else {}
        return tuple([_noted(each, inputs) for each in args]), named

    def replace_all_uses_with(self, other: Node) -> list[Node]:
        """Make every user of this node take `other` instead. Returns those users.

        Raises ValueError for a node of another graph.
        """
        if other.graph is not self.graph:
            raise ValueError(
                f"replace_all_uses_with: %{other.name} is a node of another graph than %{self.name}"
            )
        users: list[Node] = list(self.users)
        for user in users:
            user.replace_input_with(self, other)
        return users

    def replace_input_with(self, old: Node, new: Node) -> None:
        """Take `new` wherever `old` is an argument."""

        def swap(node: Node) -> Node:
            return new if node is old else node

        self._update_args_kwargs(map_nodes(self._args, swap), map_nodes(self._kwargs, swap))

    def append(self, node: Node) -> None:
        """Move `node`, of the same graph, to right after this one."""
        self._next.prepend(node)

    def prepend(self, node: Node) -> None:
        """Move `node`, of the same graph, to right before this one. Raises ValueError for a node of another graph."""
        if node.graph is not self.graph:
            raise ValueError(f"cannot move %{node.name}, a node of another graph, beside %{self.name}")
        if node is self:
            return
        self._link_before(node)

    @property
    def is_impure(self) -> bool:
        """True if the step has effects: it writes, generates random numbers, or bounds the graph.

        A custom operator whose aliasing is not declared (tag `maybe_aliasing_or_mutating`) counts as one that writes.
        """
        if self.op != "call_function":
            return self.op != "get_attr"
        if not isinstance(self.target, OpOverload):
            return False
        tags = self.target._entry.tags
        return self.target._entry.schema.is_mutable or self.draws or "maybe_aliasing_or_mutating" in tags

    @property
    def draws(self) -> bool:
        """True if the step generates random numbers: it has the tag, and no `dropout_p` of zero."""
        if (
            not isinstance(self.target, OpOverload)
            or "nondeterministic_seeded" not in self.target._entry.tags
        ):
            return False
        for position, argument in enumerate(self.target._entry.schema.arguments):
            if argument.name == "dropout_p":
                dropout_p = (
                    self.args[position] if position < len(self.args) else self.kwargs.get("dropout_p", 0.0)
                )
                return dropout_p.__class__ not in (int, float) or dropout_p != 0
        return True

    def format_node(self) -> str:
        """Return the step as a line, such as ``%add : float32[2, 3] = aten.add.Tensor(%x, %y, alpha=2)``."""
        from .text import node_line

        return node_line(self)

    def __repr__(self) -> str:
        return f"%{self.name}"


class Graph(LinkedGraph[Node]):
    """Steps in the order in which they run: inputs and constants, operators, and one output.

    `constants` holds the tensors and other objects that `get_attr` nodes name.

    Example:
        >>> import triten as tt
        >>> graph = tt.func.Graph()
        >>> x = graph.placeholder("x")
        >>> y = graph.call_function(tt.ops.aten.add.Tensor, (x, x), {"alpha": 2})
        >>> out = graph.output(y)
        >>> print(graph)
        graph(%x):
            %add = aten.add.Tensor(%x, %x, alpha=2)
            return %add
        >>> x.users
        {%add: None}
    """

    _root: Node

    def __init__(self) -> None:
        self._len = 0
        self._root = Node(self, "", "root", None)
        self._insert_before = self._root
        self._names: dict[str, int] = {}
        self._constant_counts: dict[str, int] = {}
        self.constants: dict[str, Any] = {}

    def create_node(
        self,
        op: str,
        target: Any,
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        name: str | None = None,
        val: Any = None,
    ) -> Node:
        """Create a node at the insertion point (the end, unless `inserting_before` or `inserting_after` says
        otherwise).

        Raises ValueError for an unknown kind, and for arguments that are nodes of another graph.
        """
        if op not in OPS:
            raise ValueError(f"create_node: op is one of {', '.join(OPS)}, got {op!r}")
        node = Node(self, self.unique_name(name or _candidate(op, target)), op, target, val)
        node._update_args_kwargs(tuple(args), dict(kwargs or {}))
        for input_node in node._input_nodes:
            if input_node.graph is not self:
                for other in node.all_input_nodes:
                    other.users.pop(node, None)
                raise ValueError(
                    f"create_node: argument %{input_node.name} of %{node.name} is a node of another graph"
                )
        self._insert_before.prepend(node)
        self._len += 1
        return node

    def placeholder(self, name: str, val: Any = None) -> Node:
        """Create an input of the program."""
        return self.create_node("placeholder", name, name=name, val=val)

    def get_attr(self, name: str, val: Any = None) -> Node:
        """Create a constant of the graph, by its name in `constants`."""
        return self.create_node("get_attr", name, name=name, val=val)

    def call_function(
        self, target: Any, args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None, val: Any = None
    ) -> Node:
        """Create a call of an operator.

        Raises TypeError for a target that is neither an OpOverload nor operator.getitem.
        """
        if not isinstance(target, OpOverload) and target is not operator.getitem:
            raise TypeError(
                f"call_function: target must be an OpOverload such as tt.ops.aten.add.Tensor, or operator.getitem, "
                f"got {target!r}"
            )
        return self.create_node("call_function", target, args, kwargs, val=val)

    def output(self, result: Any) -> Node:
        """Create the program's result: a node, a constant, or a tuple or dict of these."""
        return self.create_node("output", "output", (result,))

    @property
    def output_node(self) -> Node:
        """The output. Raises RuntimeError for a graph without one."""
        node = self._root._prev
        if node.op != "output":
            raise RuntimeError("the graph has no output")
        return node

    def find_nodes(self, *, op: str, target: Any = None) -> list[Node]:
        """Return the nodes of a kind, with a target if it is given, in order."""
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def add_constant(self, value: Any, name: str = "_tensor_constant") -> str:
        """Store an object under a unique name, made of `name` and a number; return that name."""
        number = self._constant_counts.get(name, 0)
        if f"{name}{number - 1}" not in self.constants:
            number = 0
        while f"{name}{number}" in self.constants:
            number += 1
        self._constant_counts[name] = number + 1
        self.constants[f"{name}{number}"] = value
        return f"{name}{number}"

    def unique_name(self, candidate: str) -> str:
        """Return `candidate` as an identifier, numbered if another node has it."""
        base = candidate
        if not (base.isascii() and base.isidentifier()):
            base = "".join(c if c.isalnum() or c == "_" else "_" for c in candidate) or "value"
        if not base.isidentifier() or iskeyword(base) or base in ("self", "tt"):
            base = f"_{base}"
        # Built-in names are numbered at once, as the code of a graph may call them.
        count = 0 if hasattr(builtins, base) else self._names.get(base)
        if count is None:
            self._names[base] = 0
            return base
        while True:
            count += 1
            name = f"{base}_{count}"
            if name not in self._names:
                self._names[base] = count
                self._names[name] = 0
                return name

    @contextmanager
    def inserting_before(self, node: Node | None = None) -> Iterator[None]:
        """Insert new nodes before `node` (None: at the start) in the block. Raises ValueError for a foreign node."""
        yield from self._inserting(self._root._next if node is None else node)

    @contextmanager
    def inserting_after(self, node: Node | None = None) -> Iterator[None]:
        """Insert new nodes after `node` (None: at the end), in creation order, in the block."""
        yield from self._inserting(self._root if node is None else node._next)

    def _inserting(self, before: Node) -> Iterator[None]:
        if before.graph is not self:
            raise ValueError(f"cannot insert beside %{before.name}, a node of another graph")
        previous, self._insert_before = self._insert_before, before
        try:
            yield
        finally:
            self._insert_before = previous

    def erase_node(self, node: Node) -> None:
        """Remove a node. Raises RuntimeError while it has users, ValueError for a node of another graph."""
        if node.graph is not self:
            raise ValueError(f"cannot erase %{node.name}, a node of another graph")
        if node.users:
            raise RuntimeError(
                f"Tried to erase Node {node.name} but it still had {len(node.users)} users in the graph: {node.users}!"
            )
        if self._insert_before is node:
            self._insert_before = node._next
        node._update_args_kwargs((), {})
        if not node._erased:
            node._erase()

    def eliminate_dead_code(self) -> bool:
        """Erase unused nodes, except writes, random ops and inputs. Returns True if any node was erased.

        A write stays even if the tensor is not read again, because a view of it may be. A random op stays, because it
        advances the generator.
        """
        changed = False
        for node in reversed(self.nodes):
            if not node.users and not node.is_impure:
                self.erase_node(node)
                changed = True
        for name in list(self.constants):
            if not any(_names_constant(node, name) for node in self.nodes):
                del self.constants[name]
        return changed

    def lint(self, known: dict[Node, tuple[Any, ...]] | None = None) -> None:
        """Check that the graph is well formed (see `lint`). Raises RuntimeError that names the node."""
        from .lint import lint

        lint(self, known)

    def copy(self) -> Graph:
        """Return another graph with the same steps; constants are shared."""
        made = Graph()
        made.constants = dict(self.constants)
        same: dict[Node, Node] = {}
        for node in self.nodes:
            same[node] = made.node_copy(node, same.__getitem__)
        return made

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda n: n) -> Node:
        """Copy another graph's node into this one, with its arguments translated by `arg_transform`."""
        made = self.create_node(
            node.op,
            node.target,
            map_nodes(node.args, arg_transform),
            map_nodes(dict(node.kwargs), arg_transform),
            name=node.name,
            val=node.val,
        )
        made.meta = dict(node.meta)
        return made

    @property
    def python_code(self) -> str:
        """The program as a Python function over `tt.ops`; `self` holds the constants."""
        from .text import python_code

        return python_code(self)

    def __copy__(self) -> Graph:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        from copy import deepcopy

        from .pickling import packed_constant, unpacked_constant

        made = self.copy()
        made.constants = {
            name: unpacked_constant(packed_constant(value))
            if isinstance(value, Generator)
            else deepcopy(value, memo)
            for name, value in self.constants.items()
        }
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        from .pickling import packed_graph

        return packed_graph(self)

    def __str__(self) -> str:
        from .text import graph_text

        return graph_text(self)


def _candidate(op: str, target: Any) -> str:
    if isinstance(target, OpOverload):
        return target._opname
    if target is operator.getitem:
        return "getitem"
    return str(target)


def _names_constant(node: Node, name: str) -> bool:
    if node.op == "get_attr":
        return bool(node.target == name)
    matches: list[bool] = []

    def look(value: Any) -> None:
        if isinstance(value, Attribute):
            matches.append(value.name == name)
        elif isinstance(value, tuple):
            for each in value:
                look(each)

    for value in (*node.args, *node.kwargs.values()):
        look(value)
    return any(matches)


class Attribute:
    """An argument from the graph's `constants` that is not a tensor: a Generator, a Storage."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return self.name == other.name if isinstance(other, Attribute) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return Attribute, (self.name,)

    def __repr__(self) -> str:
        return f"self.{self.name}"

"""`Node`: one step of a graph, with its users (torch/fx/node.py)."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

from ..dispatch.core.op_overload import OpOverload, OpOverloadGroup
from ..dispatch.functions.queries import _assert, typename
from ..dispatch.generated import functions as _ops
from ..dispatch.layers.graph.linked_nodes import LinkedNode
from ..dispatch.tensor import Tensor
from ..runtime.device import device
from ..runtime.layout import layout
from ..runtime.memory_format import memory_format
from ..runtime.scalar_type import dtype
from .immutable_collections import immutable_dict, immutable_list
from .qualified_names import target_text, type_text

if TYPE_CHECKING:
    from ..nn.modules.module import Module
    from .graph import Graph
    from .operator_schemas import ArgsKwargsPair

__all__ = ["Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

Target: TypeAlias = Callable[..., Any] | str
"""What a node calls or names."""

Argument: TypeAlias = Any
"""A node, a constant, or a tuple, list, dict or slice of such."""

base_types = (str, int, float, bool, complex, dtype, Tensor, device, memory_format, layout, OpOverload)
"""The classes of constants among arguments."""

OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output", "root")

_RANDOM = frozenset(
    {
        *(
            _ops.bernoulli,
            _ops.multinomial,
            _ops.normal,
            _ops.poisson,
            _ops.rand,
            _ops.rand_like,
            _ops.randint,
        ),
        *(_ops.randint_like, _ops.randn, _ops.randn_like, _ops.randperm),
    }
)
_with_side_effect: set[Any] = {operator.setitem, _assert}


def has_side_effect(fn: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Keep calls of a function in `Graph.eliminate_dead_code` even if unused (`torch.fx.has_side_effect`).

    Example:
        >>> import triten as tt
        >>> @tt.fx.has_side_effect
        ... def log(x):
        ...     print("seen")
        >>> graph = tt.fx.Graph()
        >>> node = graph.call_function(log, (1,))
        >>> graph.eliminate_dead_code(), len(graph.nodes)
        (False, 1)
    """
    _with_side_effect.add(fn)
    return fn


def _is_impure_call(target: Any, impure_random: bool) -> bool:
    if target in _with_side_effect or target in _RANDOM:
        return True
    if isinstance(target, OpOverloadGroup):
        target = getattr(target, "default", None)
    if not isinstance(target, OpOverload):
        return False
    tags = target._entry.tags
    return (
        target._schema.is_mutable
        or "maybe_aliasing_or_mutating" in tags
        or (impure_random and "nondeterministic_seeded" in tags)
    )


def map_aggregate(a: Argument, fn: Callable[[Any], Any]) -> Any:
    """Apply `fn` to every leaf of an argument, inside tuples, lists, dicts and slices too.

    Lists and dicts of the result are immutable. A named tuple keeps its class.

    Source: torch.fx.node.map_aggregate.

    Example:
        >>> from triten.fx.node import map_aggregate
        >>> map_aggregate({"a": (1, [2])}, lambda leaf: leaf + 1)
        {'a': (2, [3])}
    """
    if isinstance(a, tuple):
        mapped = [map_aggregate(each, fn) for each in a]
        return type(a)._make(mapped) if hasattr(a, "_make") else tuple(mapped)
    if isinstance(a, list):
        return immutable_list([map_aggregate(each, fn) for each in a])
    if isinstance(a, dict):
        return immutable_dict((key, map_aggregate(value, fn)) for key, value in a.items())
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def map_arg(a: Argument, fn: Callable[[Node], Argument]) -> Any:
    """Apply `fn` to every node in an argument (`torch.fx.map_arg`).

    Raises:
        AssertionError: `fn` is not callable.

    Example:
        >>> import triten as tt
        >>> graph = tt.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> tt.fx.map_arg(([x, 1], {"dim": x}), lambda node: node.name)
        (['x', 1], {'dim': 'x'})
    """
    if not callable(fn):
        raise AssertionError(f"map_arg(a, fn): fn must be a callable, got {typename(fn)}")
    return map_aggregate(a, lambda leaf: fn(leaf) if isinstance(leaf, Node) else leaf)


class Node(LinkedNode):
    """One step of a `Graph`.

    `op` determines the other attributes:

    - ``placeholder``: an input. `target` is the parameter's name, with stars if it has them; `args` holds its default.
    - ``get_attr``: an attribute of the module that runs the graph; `target` is its dotted name.
    - ``call_function``: a call of `target`, a function, with `args` and `kwargs`.
    - ``call_method``: a call of the method named `target` of ``args[0]``.
    - ``call_module``: a call of the submodule whose dotted name is `target`.
    - ``output``: the end; ``args[0]`` is what the graph returns.

    `name` is unique in the graph. The keys of `users` are the nodes that use the result, in order of insertion.
    `type` is an annotation or None. `meta` is a dict in which passes store information about the node.

    Source: torch.fx.Node.

    Example:
        >>> import triten as tt
        >>> graph = tt.fx.symbolic_trace(lambda x: tt.relu(x) + 1).graph
        >>> [(node.op, node.name) for node in graph.nodes]
        [('placeholder', 'x'), ('call_function', 'relu'), ('call_function', 'add'), ('output', 'output')]
        >>> x, relu, add, output = graph.nodes
        >>> relu.args, add.args, add.users
        ((x,), (relu, 1), {output: None})
    """

    graph: Graph

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any | None = None,
    ) -> None:
        if op not in OPS:
            raise AssertionError(f"op '{op}' is not one of {', '.join(OPS)}")
        fits = callable(target) if op == "call_function" else isinstance(target, str)
        if not fits:
            expected = "Callable" if op == "call_function" else "str"
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {typename(target)} "
                f"but a {expected} is expected"
            )
        super().__init__(graph)
        self.name = name
        self.op = op
        self.target: Any = target
        self.type = return_type
        self.meta: dict[str, Any] = {}
        self._position = 0
        self._update_args_kwargs(args, kwargs)

    # Arguments

    def _taken(
        self, args: tuple[Argument, ...], kwargs: dict[str, Argument], inputs: dict[Node, None]
    ) -> tuple[tuple[Argument, ...], dict[str, Argument]]:
        def take(node: Node) -> Node:
            inputs[node] = None
            return node

        return map_arg(args, take), map_arg(kwargs, take)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Exchange the positional argument at an index."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Insert a positional argument before the one at an index, or at the end.

        Raises:
            AssertionError: The index is out of range.
        """
        if not 0 <= idx <= len(self._args):
            raise AssertionError(
                f"insert_arg(): idx must be between 0 and len(self.args) = {len(self._args)}, got {idx}"
            )
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Exchange or add the argument of a name."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Argument) -> None:
        """Take `new_input` wherever `old_input` is an argument."""

        def swap(node: Node) -> Argument:
            return new_input if node is old_input else node

        for hook in getattr(self.graph.owning_module, "_replace_hooks", ()):
            hook(old=old_input, new=getattr(new_input, "name", new_input), user=self)
        self._update_args_kwargs(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Replace this node by another in all its users.

        Args:
            replace_with: The node to use instead.
            delete_user_cb: Returns whether a user is changed. Default: all users are.
            propagate_meta: If True, `replace_with`, which has no `meta` yet, gets that of this node. Default: False.

        Returns:
            The changed users.

        Raises:
            AssertionError: `propagate_meta` is True and `replace_with` has `meta`.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "replace_all_uses_with(propagate_meta=True): replace_with already has .meta keys "
                    f"{list(replace_with.meta)}"
                )
            replace_with.meta.update(self.meta)
        changed: list[Node] = [user for user in self.users if delete_user_cb is None or delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # Place in the graph

    def prepend(self, x: Node) -> None:
        """Move a node of the same graph to right before this one.

        Raises:
            AssertionError: `x` is a node of another graph.
        """
        if x.graph is not self.graph:
            raise AssertionError(f"cannot move {x!r}, a node of another graph, before {self!r}")
        if x is self:
            warnings.warn(f"{x!r}.prepend(itself) has no effect on the graph", stacklevel=2)
            return
        self._link_before(x)
        self.graph._order_is_known = False

    def append(self, x: Node) -> None:
        """Move a node of the same graph to right after this one."""
        self._next.prepend(x)

    def __lt__(self, other: Node) -> bool:
        self.graph._number_nodes()
        return self._position < other._position

    def __gt__(self, other: Node) -> bool:
        return other < self

    def __le__(self, other: Node) -> bool:
        return not other < self

    def __ge__(self, other: Node) -> bool:
        return not self < other

    # What it is

    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether the node has side effects, so that dead-code elimination keeps it.

        Impure nodes are inputs, outputs, function calls that write, random ops, functions named by `has_side_effect`,
        and modules with an attribute ``_is_impure``. Methods count as pure, even in-place ones.

        Raises:
            AssertionError: The node calls a module, and its graph has no owning module.
        """
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_module":
            if self.graph.owning_module is None:
                raise AssertionError(f"is_impure() of {self!r}: its graph has no owning_module to ask")
            return bool(getattr(self.graph.owning_module.get_submodule(self.target), "_is_impure", False))
        return self.op == "call_function" and _is_impure_call(self.target, impure_random)

    @property
    def stack_trace(self) -> str | None:
        """Stack trace of the program at the node's creation, innermost frame last; None if it was not recorded."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def normalized_arguments(
        self,
        root: Module,
        arg_types: Sequence[Any] | None = None,
        kwarg_types: Mapping[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> ArgsKwargsPair | None:
        """Return a call's arguments with defaults, for a function or a module of `nn`; None for other nodes.

        Args:
            root: The module that holds the called module.
            arg_types, kwarg_types: Types that select an overload in PyTorch. Default: None.
            normalize_to_only_use_kwargs: If True, return positional arguments by name too. Default: False.
        """
        from .operator_schemas import normalize_function, normalize_module

        by_name = normalize_to_only_use_kwargs
        if self.op == "call_function":
            return normalize_function(self.target, self.args, self.kwargs, arg_types, kwarg_types, by_name)
        if self.op == "call_module":
            return normalize_module(root, self.target, self.args, self.kwargs, by_name)
        return None

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph._graph_namespace.rename(self, candidate)

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """Format the node as a line.

        A nonempty `placeholder_names` gets an input's text appended, and the result is None. The first element of
        `maybe_return_typename` is set to an output's type.
        """
        typed = "" if self.type is None else f"{type_text(self.type)} "
        head = f"%{self.name} : {typed}[num_users={len(self.users)}] = {self.op}"
        if self.op == "placeholder":
            if placeholder_names:
                placeholder_names.append(self.target if not typed else f"{self.target}: {typed.rstrip()}")
                return None
            default = f"(default={self._args[0]})" if self._args else ""
            return f"{head}[target={self.target}]{default}"
        if self.op == "get_attr":
            return f"{head}[target={self.target}]"
        if self.op == "output":
            if typed and maybe_return_typename:
                maybe_return_typename[0] = f" -> {typed.rstrip()}"
            return f"return {self._args[0]}"
        if include_tensor_metadata:
            from .code_generation import tensor_summary

            described = tensor_summary(self.meta, include_stride=True, include_device=True)
            if described is not None:
                head = f'%{self.name} : Tensor "{described}"[num_users={len(self.users)}] = {self.op}'
        return (
            f"{head}[target={target_text(self.target)}]"
            f"(args = {_argument_text(self._args)}, kwargs = {_argument_text(self._kwargs)})"
        )

    @staticmethod
    def _pretty_print_target(target: object) -> str:
        return target_text(target)

    def __repr__(self) -> str:
        name_of = self.graph._name_of
        return self.name if name_of is None else name_of(self)


def _argument_text(argument: Argument) -> str:
    if isinstance(argument, list):
        return f"[{', '.join(map(_argument_text, argument))}]"
    if isinstance(argument, tuple):
        return f"({', '.join(map(_argument_text, argument))}{',' if len(argument) == 1 else ''})"
    if isinstance(argument, dict):
        return f"{{{', '.join(f'{key}: {_argument_text(value)}' for key, value in argument.items())}}}"
    return f"%{argument}" if isinstance(argument, Node) else str(argument)

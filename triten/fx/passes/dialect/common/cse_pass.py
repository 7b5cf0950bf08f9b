"""`CSEPass`: common-subexpression elimination (torch/fx/passes/dialect/common/cse_pass.py)."""

from __future__ import annotations

import copy
from collections.abc import Collection, Hashable
from functools import cache
from typing import Any

from .....dispatch.core.dispatcher import Dispatcher
from .....dispatch.core.op_overload import OpOverload, OpOverloadGroup
from .....dispatch.core.tags import Tag
from ....graph import Graph
from ....graph_module import GraphModule
from ....node import Node
from ...infra.pass_base import PassBase, PassResult

__all__ = ["CSEPass", "get_CSE_banned_ops"]


@cache
def _impure_aten_ops() -> frozenset[OpOverloadGroup]:
    dispatcher = Dispatcher.singleton()
    overloads = [
        OpOverload(op) for name in dispatcher.get_all_op_names() if (op := dispatcher.find_schema(name))
    ]
    return frozenset(
        each.overloadpacket
        for each in overloads
        if each.namespace == "aten"
        and (Tag.nondeterministic_seeded in each.tags or each._schema.is_mutable)
        and not any(argument.is_out for argument in each._schema.arguments)
    )


def get_CSE_banned_ops() -> set[OpOverloadGroup]:
    """Return the ATen operators whose equal calls must not be merged: random and in-place operators.

    Example:
        >>> import triten as tt
        >>> from triten.fx.passes.dialect.common.cse_pass import get_CSE_banned_ops
        >>> banned = get_CSE_banned_ops()
        >>> tt.ops.aten.bernoulli in banned, tt.ops.aten.add_ in banned, tt.ops.aten.add in banned
        (True, True, False)
    """
    return set(_impure_aten_ops())


class CSEPass(PassBase):
    """Pass that computes equal function calls of a graph once.

    Two calls are equal if their targets and their arguments are. Calls of modules and methods are kept.

    Args:
        banned_ops: Functions, or operators of ``tt.ops`` without an overload, whose calls are never merged. Random
            functions and functions that write belong here. Default: none.

    Source: torch.fx.passes.dialect.common.cse_pass.CSEPass.

    Example:
        >>> import triten as tt
        >>> from triten.fx.passes.dialect.common.cse_pass import CSEPass, get_CSE_banned_ops
        >>> module = tt.fx.symbolic_trace(lambda x: tt.sin(x) + tt.sin(x))
        >>> result = CSEPass(get_CSE_banned_ops())(module)
        >>> result.modified, len(module.graph.nodes) - len(result.graph_module.graph.nodes)
        (True, 1)
    """

    def __init__(self, banned_ops: Collection[Any] | None = None) -> None:
        self.banned_ops = banned_ops if banned_ops is not None else set()

    def call(self, graph_module: GraphModule) -> PassResult:
        """Return a module in which equal calls are one, or the module itself if all calls differ."""
        graph = Graph()
        graph._codegen = copy.deepcopy(graph_module.graph._codegen)
        made: dict[Node, Node] = {}
        first: dict[Hashable, Node] = {}
        for node in graph_module.graph.nodes:
            key = self._key(node, made)
            known = None if key is None else first.get(key)
            made[node] = graph.node_copy(node, made.__getitem__) if known is None else known
            if key is not None:
                first.setdefault(key, made[node])
        if len(graph.nodes) == len(made):
            return PassResult(graph_module, False)
        return PassResult(GraphModule(graph_module, graph), True)

    def _key(self, node: Node, made: dict[Node, Node]) -> Hashable:
        """Return equal values for equal calls, and None for nodes that are never merged."""
        if (
            node.op != "call_function"
            or getattr(node.target, "overloadpacket", node.target) in self.banned_ops
        ):
            return None
        key = (node.target, _value(node.args, made), _value(node.kwargs, made))
        try:
            hash(key)
        except TypeError:
            return None
        return key


def _value(argument: Any, made: dict[Node, Node]) -> Any:
    """Return a value that is equal for equal arguments only: ``1`` is not ``1.0`` or True, nor is ``0.0`` ``-0.0``."""
    if isinstance(argument, Node):
        return made[argument]
    if isinstance(argument, list | tuple):
        return type(argument), tuple(_value(each, made) for each in argument)
    if isinstance(argument, dict):
        return type(argument), tuple((name, _value(each, made)) for name, each in argument.items())
    if isinstance(argument, slice):
        return slice, _value((argument.start, argument.stop, argument.step), made)
    if isinstance(argument, float | complex):
        return type(argument), repr(argument)
    return type(argument), argument

"""Tables and predicates of the nodes that a backend supports (torch/fx/passes/operator_support.py)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...nn import Module
from ..node import Node
from .shape_prop import TensorMetadata
from .tools_common import CALLABLE_NODE_OPS, get_node_target

__all__ = ["OpSupports", "OperatorSupport", "OperatorSupportBase", "any_chain", "chain", "create_op_support"]

DtypesOfArguments = tuple[Sequence[Sequence[Any] | None], Mapping[str, Sequence[Any]]]
IsNodeSupported = Callable[[Mapping[str, Module], Node], bool]


class OperatorSupportBase(ABC):
    """Predicate of the nodes that a backend supports."""

    @abstractmethod
    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        """Return whether a node is supported.

        Args:
            submodules: The submodules by their names, as `named_modules` yields them.
            node: The node.
        """


class OperatorSupport(OperatorSupportBase):
    """Support by a table of targets and dtypes.

    Args:
        support_dict: For each target, as `get_node_target` names it, None for all dtypes; or a pair of the dtypes of
            each positional argument, None for any, and a dict of those of keyword arguments. `ShapeProp` records the
            dtypes of nodes. Default: nothing is supported.

    Example:
        >>> import triten as tt
        >>> from triten.fx.passes.operator_support import OperatorSupport
        >>> x, exp, output = tt.fx.symbolic_trace(lambda x: x.exp()).graph.nodes
        >>> OperatorSupport({"exp": None}).is_node_supported({}, exp), OperatorSupport().is_node_supported({}, exp)
        (True, False)
    """

    _support_dict: Mapping[str, DtypesOfArguments | None]

    def __init__(self, support_dict: Mapping[str, DtypesOfArguments | None] | None = None) -> None:
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        """Return whether the table has a node's target and its inputs' dtypes; True for nodes that call nothing."""
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        dtypes = self._support_dict[target]
        if dtypes is None:
            return True
        positional, by_keyword = dtypes
        pairs = [
            (each, known) for each, known in zip(node.args, positional, strict=False) if known is not None
        ]
        pairs += [(node.kwargs[name], known) for name, known in by_keyword.items() if name in node.kwargs]
        return all(_dtype_of(each) in known for each, known in pairs if isinstance(each, Node))


def create_op_support(is_node_supported: IsNodeSupported) -> OperatorSupportBase:
    """Return the support that a function with the arguments of `is_node_supported` tells."""

    class FunctionalOperatorSupport(OperatorSupportBase):
        def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
            return is_node_supported(submodules, node)

    return FunctionalOperatorSupport()


def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Return the support of nodes that all of several support."""
    return create_op_support(
        lambda submodules, node: all(each.is_node_supported(submodules, node) for each in op_support)
    )


def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Return the support of nodes that any of several supports."""
    return create_op_support(
        lambda submodules, node: any(each.is_node_supported(submodules, node) for each in op_support)
    )


class OpSupports:
    """Parts for `chain` and `any_chain`."""

    @classmethod
    def decline_if_input_dtype(cls, dtype: Any) -> OperatorSupportBase:
        """Return the support of nodes without an input of a dtype. `ShapeProp` records the dtypes."""
        return create_op_support(
            lambda submodules, node: all(_dtype_of(each) != dtype for each in node.all_input_nodes)
        )

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        """Return the support of nodes whose names are not in a set."""
        return create_op_support(lambda submodules, node: node.name not in disallow_set)


def _dtype_of(node: Node) -> Any:
    """Return the dtype of a node's value, or its type."""
    meta = node.meta.get("tensor_meta")
    return meta.dtype if isinstance(meta, TensorMetadata) else node.meta["type"]

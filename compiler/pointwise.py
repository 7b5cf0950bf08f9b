"""Which steps of a graph are pointwise, and the kernels that compute them on a piece of their operands.

A pointwise step is a call of a structured operator with the tag `pointwise`, one output, and an element of the result
for each element of the broadcast operands. Its kernel is the eager one: the operator's factory is asked for a piece's
specs as it is asked for a tensor's, so that a fused kernel has eager's bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.layers.graph.graph import Node, map_nodes
from ..dispatch.plans.structured_kernel import StructuredKernel
from ..dispatch.structured.stub import PlannedKernel, StructuredCall
from ..dispatch.tensor import blank_tensor
from ..runtime.dispatch_key import BY_NAME
from ..runtime.tensor_spec import TensorSpec


class PointwiseCall(NamedTuple):
    """A step that is pointwise.

    Attributes:
        node: the step.
        values: the operator's arguments in schema order, with nodes in the place of tensors.
        runtime: the positions of those that its kernel is called with.
        kernel: the operator's structured kernel.
    """

    node: Node
    values: tuple[Any, ...]
    runtime: tuple[int, ...]
    kernel: StructuredKernel

    @property
    def operands(self) -> list[Any]:
        """What the kernel is called with after its output: nodes and numbers."""
        return [self.values[i] for i in self.runtime]

    def planned(self, specs: dict[Node, TensorSpec]) -> tuple[StructuredCall, PlannedKernel]:
        """The kernel for operands of these specs."""
        values = [specs[v] if isinstance(v, Node) else v for v in self.values]
        return self.kernel.planned_kernel(self.node.target._entry, values)


def pointwise_call(node: Node) -> PointwiseCall | None:
    """A step as a pointwise one, or None for any other."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return None
    if not isinstance(node.val, TensorSpec) or not node.val.ndim or node.val.numel < 2:
        return None
    entry = node.target._entry
    if "pointwise" not in entry.tags or node.is_impure or not node.val.is_contiguous:
        return None
    device = node.val.device.type
    if device not in ("cpu", "cuda"):
        return None
    kernel = entry.kernel_for(BY_NAME["CPU" if device == "cpu" else "CUDA"])
    planner = None if kernel is None else kernel.planner
    if not isinstance(planner, StructuredKernel) or planner.form != "functional":
        return None
    values = bound_arguments(node)
    given = [v for v in values if isinstance(v, Node)]
    if not given or any(isinstance(v, tuple | list) for v in values):
        return None
    if any(not isinstance(v.val, TensorSpec) or v.val.device is not node.val.device for v in given):
        return None
    runtime = entry.runtime_positions([v.val if isinstance(v, Node) else v for v in values])
    return PointwiseCall(node, tuple(values), tuple(runtime), planner)


def bound_arguments(node: Node) -> Sequence[Any]:
    """The arguments of a call in schema order, defaults filled in, with nodes in the place of tensors."""
    stand_ins: dict[int, Node] = {}

    def stand_in(given: Node) -> Any:
        if not isinstance(given.val, TensorSpec):
            return given.val
        made = blank_tensor()
        made._spec, made._data = given.val, None
        made._version_cell = made._autograd = made._view_base = None
        stand_ins[id(made)] = given
        held.append(made)
        return made

    def back(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return tuple([back(v) for v in value])
        return stand_ins.get(id(value), value)

    held: list[Any] = []
    args, kwargs = map_nodes(node.args, stand_in), map_nodes(dict(node.kwargs), stand_in)
    return [back(value) for value in node.target.bind(args, kwargs)]

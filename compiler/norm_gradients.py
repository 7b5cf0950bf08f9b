"""The gradients of layer_norm and rms_norm as steps over rows, on the CPU if compiled loops are available.

A row's input gradient depends on that row alone. The gradients of weight and bias are sums over all rows, which the
same loop accumulates. A reader of these sums waits for the last row, so it is in another kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.core.operator_entry import OperatorEntry
from ..dispatch.layers.graph.graph import Node
from ..dispatch.structured.stub import PlannedKernel, StructuredCall, find_kernel
from ..runtime.cpu.object_code import is_possible
from ..runtime.scalar_type import bfloat16, float16, float32
from ..runtime.tensor_spec import TensorSpec
from .pointwise import PointwiseCall, bound_arguments
from .reductions import RowCall, is_served, takes_each_once
from .row_space import RowSpace, View

STUBS = {
    "aten::native_layer_norm_backward": "native_layer_norm_backward",
    "aten::_fused_rms_norm_backward": "fused_rms_norm_backward",
}
"""The operators, and how their kernels are called."""
GIVEN = ("grad_out", "input", "mean", "rstd", "weight")
"""Arguments of the kernel; an operator may have no mean, and a call no weight."""
DTYPES = frozenset({float16, bfloat16, float32})
FEWEST = 1 << 13
"""Elements from which an eager call is a loop, which adds up in the order of this one."""


class GradientKernel:
    """Planner of the kernel of a norm's gradient.

    Attributes:
        stub: The kernel's name.
    """

    def __init__(self, stub: str) -> None:
        self.stub = f"{stub}_stub"

    def planned_kernel(
        self, op: OperatorEntry, values: Sequence[Any]
    ) -> tuple[StructuredCall, PlannedKernel]:
        """Return the kernel for operands of these specs, as `StructuredKernel.planned_kernel` does."""
        named = dict(zip([argument.name for argument in op.schema.arguments], values, strict=True))
        operands = {name: named[name] for name in GIVEN if name in named}
        source = operands["input"]
        lead = source.ndim - len(named["normalized_shape"])
        parameter = named["weight"] if named["weight"] is not None else named.get("bias")
        line = source if parameter is None else parameter
        specs = [source, *[line.replace(sizes=source.sizes[lead:]) for _ in named["output_mask"][1:]]]
        outputs = tuple(
            [
                TensorSpec.contiguous(spec.sizes, spec.dtype, spec.device) if is_wanted else None
                for spec, is_wanted in zip(specs, named["output_mask"], strict=True)
            ]
        )
        made = tuple([spec for spec in outputs if spec is not None])
        call = StructuredCall(
            op.name, operands, tuple(operands), made, None, source.device, {"lead": lead, "outputs": outputs}
        )
        return call, find_kernel(self.stub, source.device.type, op.name)(call)


class NormGradientCall(RowCall):
    """A step that makes the gradient of each row, and sums over rows."""

    @property
    def operands(self) -> list[Any]:
        """Arguments of the kernel after its outputs."""
        names = [argument.name for argument in self.node.target._entry.schema.arguments]
        return [self.call.values[names.index(name)] for name in GIVEN if name in names]

    @property
    def column_sums(self) -> dict[int, Node]:
        """The nodes of those results that are sums over rows, by their indices."""
        return {index: node for index, node in self.results.items() if index}

    @property
    def row_specs(self) -> list[TensorSpec]:
        """The specs of the results that rows have."""
        return [spec for spec in self.specs[:1] if spec is not None]

    def view_of(self, operand: Node, space: RowSpace) -> View:
        """Return the view of an input: rows, a number for each row, or a line that rows share."""
        is_rows = operand.val.sizes in (space.sizes, space.kept)
        return View(operand, len(space.sizes) if is_rows else None)


def norm_gradient_call(node: Node) -> NormGradientCall | None:
    """Return a step as a norm's gradient, or None."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return None
    entry = node.target._entry
    if entry.name not in STUBS or not takes_each_once(node) or not is_possible():
        return None
    values = tuple(bound_arguments(node))
    tensors = [value for value in values if isinstance(value, Node)]
    source: TensorSpec = tensors[1].val
    split = source.ndim - len(values[2])
    space = RowSpace(tuple(source.sizes[:split]), tuple(source.sizes[split:]), source.device)
    specs = [each.val for each in tensors] + [spec for spec in node.val if spec is not None]
    if source.device.type != "cpu" or not split or source.numel < FEWEST or not is_served(space, source):
        return None
    if any(spec.dtype not in DTYPES or spec.device is not source.device for spec in specs):
        return None
    if not all(s.is_contiguous and s.sizes in (space.sizes, space.line, space.kept) for s in specs):
        return None
    return NormGradientCall(PointwiseCall(node, values, (), GradientKernel(STUBS[entry.name])), space)

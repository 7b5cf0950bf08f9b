"""Matcher of pointwise steps, and the kernels that compute them on a piece of their operands.

A pointwise step calls a structured operator with the tag `pointwise` and one output, whose elements correspond to
those of the broadcast operands. A copy to another dtype or memory order is pointwise too. The kernel is the eager one,
planned by the operator's factory for the specs of a piece, so a fused kernel is bitwise identical to eager.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.core.operator_entry import OperatorEntry
from ..dispatch.layers.graph.graph import Node, map_nodes
from ..dispatch.plans.structured_kernel import StructuredKernel
from ..dispatch.structured.stub import PlannedKernel, StructuredCall, find_kernel
from ..dispatch.tensor import blank_tensor
from ..runtime.dispatch_key import BY_NAME
from ..runtime.tensor_spec import TensorSpec
from .element_places import memory_order
from .fused_step import FusedStep, IndexSpace

if TYPE_CHECKING:
    from ..runtime.cpu.element_program import Value
    from .host.lowering import Lowered
    from .host.row_program import LoweredRows
    from .triton.pointwise import ElementWriter
    from .triton.row_statements import Program

COPIES = frozenset({"aten::_to_copy", "aten::clone"})
"""Operators that copy their first argument."""
FILLS = frozenset({"aten::masked_fill.Scalar"})
"""Operators of each element that PyTorch does not tag as pointwise."""


class CopyKernel:
    """Planner of a copy from any strides to a contiguous output."""

    def __init__(self, out: TensorSpec) -> None:
        self.dtype = out.dtype

    def planned_kernel(
        self, op: OperatorEntry, values: Sequence[Any]
    ) -> tuple[StructuredCall, PlannedKernel]:
        """Return the kernel of a copy, as `StructuredKernel.planned_kernel` does."""
        source: TensorSpec = values[0]
        out = TensorSpec.contiguous(source.sizes, self.dtype, source.device)
        call = StructuredCall("copy", {"self": source}, ("self",), (out,), None, out.device, {})
        return call, find_kernel("copy_stub", out.device.type, "copy_")(call)


class Planner(Protocol):
    """Planner of an operator's kernels."""

    def planned_kernel(
        self, op: OperatorEntry, values: Sequence[Any]
    ) -> tuple[StructuredCall, PlannedKernel]:
        """Return the kernel for operands of these specs."""


class DeviceOnly:
    """Placeholder planner for operators that are fused only on CUDA."""

    def planned_kernel(
        self, op: OperatorEntry, values: Sequence[Any]
    ) -> tuple[StructuredCall, PlannedKernel]:
        """Raise RuntimeError."""
        raise RuntimeError(f"{op.name} has no kernel for a part of its operands")


@dataclass(frozen=True)
class PointwiseCall(FusedStep):
    """A pointwise step.

    Attributes:
        node: The step.
        values: The operator's arguments in schema order, with nodes instead of tensors.
        runtime: The positions of the arguments passed to its kernel.
        kernel: Planner of the operator's kernels.
    """

    node: Node
    values: tuple[Any, ...]
    runtime: tuple[int, ...]
    kernel: Planner
    is_pointwise: ClassVar[bool] = True

    @property
    def operands(self) -> list[Any]:
        """Arguments of the kernel after its output: nodes and numbers."""
        return [self.values[i] for i in self.runtime]

    def planned(self, specs: dict[Node, TensorSpec]) -> tuple[StructuredCall, PlannedKernel]:
        """Return the kernel for operands of these specs."""
        values = [specs[v] if isinstance(v, Node) else v for v in self.values]
        return self.kernel.planned_kernel(self.node.target._entry, values)

    @property
    def is_in_order(self) -> bool:
        """True unless the result is not contiguous."""
        return bool(self.node.val.is_contiguous)

    def is_supported_in(self, space: IndexSpace) -> bool:
        """Return True for a contiguous result."""
        return self.is_in_order

    def is_loop_alone(self, stubs: frozenset[str]) -> bool:
        """Return True for a call on the CPU of one of the eager kernels."""
        return is_planned_alone(self.node, self.kernel, stubs)

    def lower_elements(self, kernel: Lowered) -> dict[Node, Value]:
        """Add the step to a CPU loop over elements."""
        from .host.lowering import lowered_or_numpy

        return {self.node: lowered_or_numpy(self, kernel)}

    def lower_row(self, kernel: LoweredRows, values: dict[Node, Value]) -> dict[Node, Value]:
        """Add the step to a CPU loop over rows."""
        from .host.lowering import lowered_step

        return {self.node: lowered_step(kernel.elements, self, kernel.specs, values)}

    def write_elements(self, writer: ElementWriter) -> dict[Node, str]:
        """Add the step to a pointwise CUDA kernel."""
        from .triton.pointwise import element_text

        return {self.node: element_text(self, writer)}

    def write_row(self, program: Program, values: dict[Node, str], row_size: int) -> dict[Node, str]:
        """Add the step to a CUDA kernel over rows."""
        from .triton.row_statements import element_of_rows

        return {self.node: element_of_rows(self, program, values)}


def is_planned_alone(node: Node, planner: object, stubs: frozenset[str]) -> bool:
    """Return True for a call on the CPU whose kernel is one of these."""
    spec = node.all_input_nodes[0].val
    if node.is_impure or spec.device.type != "cpu":
        return False
    return getattr(planner, "stub", "").removesuffix("_stub") in stubs


def pointwise_call(node: Node) -> PointwiseCall | None:
    """Return a step as a pointwise one whose result a kernel iterates in order, or None.

    The result is contiguous; on CUDA it may be any dense permutation of its dimensions.
    """
    call = element_call(node)
    if call is None or node.val.is_contiguous:
        return call
    is_dense = memory_order(node.val.sizes, node.val.strides) is not None
    return call if is_dense and node.val.device.type == "cuda" else None


def element_call(node: Node) -> PointwiseCall | None:
    """Return a step as a pointwise one, for any layout of its result, or None."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return None
    if not isinstance(node.val, TensorSpec) or not node.val.numel:
        return None
    if node.val.device.type == "cpu" and (not node.val.ndim or node.val.numel < 2):
        return None
    entry = node.target._entry
    if node.is_impure:
        return None
    if entry.name in COPIES:
        return _copy_call(node)
    if "pointwise" not in entry.tags and entry.name not in FILLS:
        return None
    device = node.val.device.type
    if device not in ("cpu", "cuda"):
        return None
    kernel = entry.kernel_for(BY_NAME["CPU" if device == "cpu" else "CUDA"])
    planner = None if kernel is None else kernel.planner
    if not isinstance(planner, StructuredKernel) or planner.form != "functional":
        return None
    values = bound_arguments(node)
    operands = [v for v in values if isinstance(v, Node)]
    if not operands or any(isinstance(v, tuple | list) for v in values):
        return None
    if any(not isinstance(v.val, TensorSpec) or v.val.device is not node.val.device for v in operands):
        return None
    runtime = entry.runtime_positions([v.val if isinstance(v, Node) else v for v in values])
    made = PointwiseCall(node, tuple(values), tuple(runtime), planner)
    return None if device == "cuda" and not _has_element_on_cuda(made, operands) else made


def _has_element_on_cuda(call: PointwiseCall, operands: Sequence[Node]) -> bool:
    """Return True if Triton can compute a step. Triton has no complex numbers, so it cannot load them for a cast."""
    if any(node.val.dtype.is_complex for node in (call.node, *operands)):
        return False
    return call.planned({node: node.val for node in operands})[1].element is not None


def _copy_call(node: Node) -> PointwiseCall | None:
    source = node.args[0]
    if not isinstance(source, Node) or source.val.device is not node.val.device:
        return None
    values = tuple(bound_arguments(node))
    made = PointwiseCall(node, (source, *values[1:]), (0,), CopyKernel(node.val))
    return None if node.val.device.type == "cuda" and not _has_element_on_cuda(made, [source]) else made


def bound_arguments(node: Node) -> Sequence[Any]:
    """Return the arguments of a call in schema order with defaults, and nodes instead of tensors."""
    stand_ins: dict[int, Node] = {}

    def stand_in(operand: Node) -> Any:
        if not isinstance(operand.val, TensorSpec):
            return operand.val
        made = blank_tensor()
        made._spec, made._data = operand.val, None
        made._version_cell = made._autograd = made._view_base = None
        stand_ins[id(made)] = operand
        held.append(made)
        return made

    def back(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return tuple([back(v) for v in value])
        return stand_ins.get(id(value), value)

    held: list[Any] = []
    args, kwargs = map_nodes(node.args, stand_in), map_nodes(dict(node.kwargs), stand_in)
    return [back(value) for value in node.target.bind(args, kwargs)]

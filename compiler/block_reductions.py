"""Matcher of reductions that blocks share: over columns, over everything, or over rows that span blocks.

Each block of the index space has a partial result, and the partial results are combined in block order. The kernel
also computes the pointwise producers of the reduced operand, and other reductions over the same dimensions. A consumer
of a reduction waits for the last block, so it is in another kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.layers.graph.graph import Node
from ..dispatch.plans.structured_kernel import StructuredKernel
from ..dispatch.structured.meta.dims import reduced_dims
from ..dispatch.structured.stub import PlannedKernel, StructuredCall, find_kernel
from ..runtime.device import device as Device
from ..runtime.dispatch_key import BY_NAME
from ..runtime.scalar_type import bool_
from ..runtime.tensor_spec import TensorSpec
from .fused_step import FusedStep
from .pointwise import PointwiseCall, bound_arguments
from .reductions import DTYPES, takes_each_once

NORM = "_vector_norm_stub"
STUBS = frozenset((NORM, *(f"{name}_stub" for name in ("sum", "mean", "amax", "amin", "prod", "any", "all"))))
"""The kernels of the operators that may reduce blocks."""
TRUTHS = frozenset({"any_stub", "all_stub"})
"""The only reductions with a boolean result."""
MOMENTS = frozenset({"var_stub", "std_stub", "var_mean_stub", "std_mean_stub"})
"""Variances and their roots, in kernels on the CPU."""
LARGEST = frozenset({"argmax_stub", "max_dim_stub"})
SMALLEST = frozenset({"argmin_stub", "min_dim_stub"})
PLACES = LARGEST | SMALLEST
"""Argmax and argmin reductions over columns."""


class ReductionSpace(NamedTuple):
    """Index space of reductions over the same dimensions.

    Attributes:
        sizes: Sizes of the reduced operand.
        dims: The reduced dimensions, in order.
        device: Its device.
    """

    sizes: tuple[int, ...]
    dims: tuple[int, ...]
    device: Device

    @property
    def is_rows(self) -> bool:
        """False: blocks share the reductions."""
        return False

    @property
    def kept(self) -> tuple[int, ...]:
        """The sizes of the dimensions that are not reduced."""
        return tuple([n for d, n in enumerate(self.sizes) if d not in self.dims])

    @property
    def n(self) -> int:
        """The elements that make one result."""
        return math.prod(self.sizes[d] for d in self.dims)

    def holds(self, sizes: Sequence[int]) -> bool:
        """Return True if a result of these sizes belongs to the kernel: all elements, or a reduction's result."""
        keepdim_sizes = tuple([1 if d in self.dims else n for d, n in enumerate(self.sizes)])
        return tuple(sizes) in (self.sizes, self.kept, keepdim_sizes)

    def joins(self, reader: Node, is_pointwise: bool, operand: Node) -> bool:
        """Return True if a step reads only the same block of another step's result, before any reduction."""
        if not isinstance(operand.val, TensorSpec):
            return True  # several results, of which `reader` takes one
        return bool(operand.val.sizes == self.sizes)


@dataclass(frozen=True)
class ReductionCall(FusedStep):
    """A reduction that blocks share.

    Attributes:
        node: The step.
        source: The operand that is reduced.
        stub: The name of its kernel.
        space: Its index space.
        order: The order of a norm; empty for other reductions.
        whole: The step with the kernel of an eager call.
        arguments: The operator's arguments by name.
    """

    node: Node
    source: Node
    stub: str
    space: ReductionSpace
    order: str
    whole: PointwiseCall
    arguments: dict[str, Any]
    turn: ClassVar[int] = 2

    @property
    def index_space(self) -> ReductionSpace:
        """Its index space."""
        return self.space

    @property
    def reads_repeatedly(self) -> bool:
        """True for variances, argmax and argmin."""
        return self.stub in MOMENTS | PLACES

    def is_loop_alone(self, stubs: frozenset[str]) -> bool:
        """Return True for variances, argmax and argmin."""
        return self.reads_repeatedly

    @property
    def operands(self) -> list[Any]:
        """Arguments of the eager kernel after its outputs: the reduced operand, and numbers."""
        return self.whole.operands

    def planned(self) -> PlannedKernel:
        """Return the kernel of an eager call."""
        return self.whole.planned({self.source: self.source.val})[1]


def planned_reduction(
    stub: str, spec: TensorSpec, out: TensorSpec, dims: Sequence[int], order: str = ""
) -> PlannedKernel:
    """Return the eager kernel of a reduction."""
    call = reduction_call_of(stub, spec, out, dims, order)
    return find_kernel(stub, spec.device.type, call.name)(call)


def reduction_call_of(
    stub: str, spec: TensorSpec, out: TensorSpec, dims: Sequence[int], order: str = ""
) -> StructuredCall:
    """Return the call with which a reduction's kernel factory is asked."""
    name = stub.removesuffix("_stub")
    args = {"self": spec, "ord": order} if order else {"self": spec}
    return StructuredCall(name, args, ("self",), (out,), None, out.device, {"dims": tuple(dims)})


def block_reduction(node: Node) -> ReductionCall | None:
    """Return a step as a reduction that blocks share, or None."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload) or node.is_impure:
        return None
    entry = node.target._entry
    outs = node.val if isinstance(node.val, tuple | list) else (node.val,)
    if not all(isinstance(out, TensorSpec) and out.is_contiguous for out in outs):
        return None
    device = outs[0].device
    if device.type not in ("cpu", "cuda"):
        return None
    kernel = entry.kernel_for(BY_NAME["CPU" if device.type == "cpu" else "CUDA"])
    planner = None if kernel is None else kernel.planner
    if not isinstance(planner, StructuredKernel) or planner.form != "functional":
        return None
    stub = planner.stub
    if stub not in (STUBS | MOMENTS | PLACES if device.type == "cpu" else STUBS):
        return None
    if len(outs) > 1 and not takes_each_once(node):
        return None
    names = [argument.name for argument in entry.schema.arguments]
    values = tuple(bound_arguments(node))
    arguments = dict(zip(names, values, strict=True))
    source = arguments["self"]
    spec = source.val
    if not isinstance(spec, TensorSpec) or spec.device is not device or not spec.is_contiguous:
        return None
    if any(each.dtype not in DTYPES for each in (spec, *outs)) or (spec.dtype is bool_ and stub in PLACES):
        return None
    if any((out.dtype is bool_) != (stub in TRUTHS) for out in outs):
        return None
    dim = arguments.get("dim")
    if dim is not None and any(d.__class__ is not int for d in _as_tuple(dim)):
        return None
    dims = reduced_dims(dim, spec.ndim)
    space = ReductionSpace(tuple(spec.sizes), dims, device)
    if not spec.numel or space.n < 2:
        return None
    if stub in PLACES and math.prod(spec.sizes[dims[-1] + 1 :]) < 2:
        return None  # NumPy has vectors for elements side by side.
    runtime = entry.runtime_positions([v.val if isinstance(v, Node) else v for v in values])
    whole = PointwiseCall(node, values, tuple(runtime), planner)
    return ReductionCall(
        node, source, stub, space, arguments["ord"] if stub == NORM else "", whole, arguments
    )


def _as_tuple(dim: Any) -> tuple[Any, ...]:
    return tuple(dim) if isinstance(dim, tuple | list) else (dim,)

"""The gradient of the negative log likelihood as a step over rows, on the CPU if compiled loops are available.

A row of the gradient is zero except at the row's target. So the step is fused with the gradient of log_softmax, which
reads it, and no zeros are written. The value at the target depends on the number of rows, so the eager kernel never
computes a part of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.layers.graph.graph import Node
from ..dispatch.plans.structured_kernel import StructuredKernel
from ..runtime.cpu.object_code import is_possible
from ..runtime.dispatch_key import BY_NAME
from ..runtime.scalar_type import float32, int64
from ..runtime.tensor_spec import TensorSpec
from .fused_step import Check
from .pointwise import PointwiseCall, bound_arguments
from .reductions import RowCall, is_served
from .row_space import RowSpace, View

NLL_LOSS_BACKWARD = "aten::nll_loss_backward"
MIN_INT32, MAX_INT32 = -(1 << 31), (1 << 31) - 1


class LossGradientCall(RowCall):
    """The gradient of nll_loss as a step over rows."""

    @property
    def takes_all_rows(self) -> bool:
        """True: the eager kernel is called with all rows."""
        return True

    @property
    def target(self) -> Node:
        """The classes of the rows."""
        classes: Node = self.call.values[2]
        return classes

    @property
    def ignore_index(self) -> int:
        """The class of rows that do not count."""
        return int(self.call.values[5])

    @property
    def check(self) -> tuple[Node, Check]:
        """The check of the classes."""
        return self.target, check_of_targets(self)

    def view_of(self, operand: Node, space: RowSpace) -> View:
        """Return the view of an input: rows, a number for each row, or one number for all."""
        return View(operand, operand.val.ndim or None)


def loss_gradient_call(node: Node) -> LossGradientCall | None:
    """Return a step as the gradient of the negative log likelihood, or None."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return None
    entry = node.target._entry
    if entry.name != NLL_LOSS_BACKWARD or not is_possible():
        return None
    values = tuple(bound_arguments(node))
    grad, source, target, weight, _, ignore_index, total = values
    if weight is not None or not all(isinstance(each, Node) for each in (grad, source, target, total)):
        return None
    spec: TensorSpec = source.val
    if spec.device.type != "cpu" or spec.ndim != 2 or target.val.ndim != 1 or grad.val.ndim > 1:
        return None
    if any(each.val.dtype is not float32 for each in (grad, source, total)) or target.val.dtype is not int64:
        return None
    if total.val.ndim or not all(s.is_contiguous for s in (spec, node.val, target.val, grad.val)):
        return None
    is_class = 0 <= ignore_index < spec.sizes[1]
    if is_class or not (MIN_INT32 <= ignore_index <= MAX_INT32 and spec.sizes[1] <= MAX_INT32):
        return None
    space = RowSpace((spec.sizes[0],), (spec.sizes[1],), spec.device)
    kernel = entry.kernel_for(BY_NAME["CPU"])
    planner = None if kernel is None else kernel.planner
    if not is_served(space, spec) or not isinstance(planner, StructuredKernel):
        return None
    runtime = entry.runtime_positions([v.val if isinstance(v, Node) else v for v in values])
    return LossGradientCall(PointwiseCall(node, values, tuple(runtime), planner), space)


def check_of_targets(call: LossGradientCall) -> Callable[[Any], None]:
    """Return a function that checks an array of targets and raises the eager error for an invalid class."""
    from ..cpu_fallback.loss.loss import check_classes

    classes, ignore_index = call.space.n, call.ignore_index
    return lambda targets: check_classes(targets, classes, ignore_index)

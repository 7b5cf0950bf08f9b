"""Fusion of cross entropy of class indices on CUDA into the eager operator, which saves three numbers a sample.

Before::

    graph(%x : float32[64, 512] cuda:0, %t : int64[64] cuda:0, %g : float32[] cuda:0):
        %_log_softmax : float32[64, 512] cuda:0 = aten._log_softmax(%x, 1, False)
        %nll_loss_forward = aten.nll_loss_forward(%_log_softmax, %t, None, 1, -100)
        ...
        %nll_loss_backward : float32[64, 512] cuda:0 = aten.nll_loss_backward(%g, %_log_softmax, %t, None, 1, -100, ...)
        %grad : float32[64, 512] cuda:0 = aten._log_softmax_backward_data(%nll_loss_backward, %_log_softmax, 1, float32)

After::

        %_cross_entropy_forward = aten._cross_entropy_forward(%x, %t, None, 1, -100, 0.0, False)
        ...
        %grad = aten._cross_entropy_backward(%g, %x, %t, None, %statistics, %total, 1, -100, 0.0)

The pass runs before a graph is split into forward and backward.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

from ...dispatch.core.op_overload import find_overload
from ...dispatch.layers.graph.graph import Graph, Node
from ...runtime.scalar_type import bfloat16, float16, float32, int64, uint8
from ..element_order import called, operator_name
from ..pointwise import bound_arguments

SOFTMAX, SOFTMAX_BACKWARD = "aten::_log_softmax", "aten::_log_softmax_backward_data"
LOSSES = {
    "aten::nll_loss_forward": "aten::nll_loss_backward",
    "aten::nll_loss2d_forward": "aten::nll_loss2d_backward",
}


class CrossEntropy(NamedTuple):
    """Cross-entropy loss in a graph.

    Attributes:
        softmax: The log-probabilities.
        loss: The nll_loss operator.
        arguments: Its targets, weights, reduction and ignored index.
        backward: The gradient of the log-probabilities; None if the graph has none.
    """

    softmax: Node
    loss: Node
    arguments: tuple[Any, ...]
    backward: Node | None

    def result(self, index: int) -> Node | None:
        """Return the step that takes a result of the loss, or None."""
        getters = [
            user for user in self.loss.users if user.target is operator.getitem and user.args[1] == index
        ]
        return getters[0] if getters else None


def fuse_cross_entropy(graph: Graph) -> bool:
    """Rewrite losses. Return True if there was any."""
    losses = [n for n in graph.find_nodes(op="call_function") if operator_name(n) in LOSSES]
    if not losses:
        return False
    graph.eliminate_dead_code()
    changed = False
    for node in losses:
        loss = _match(node) if node.users else None
        if loss is not None and loss.softmax.val.device.type == "cuda":
            changed |= _rewritten(graph, loss)
    if changed:
        graph.eliminate_dead_code()
    return changed


def _match(loss: Node) -> CrossEntropy | None:
    softmax, *arguments = bound_arguments(loss)
    if not isinstance(softmax, Node) or operator_name(softmax) != SOFTMAX:
        return None
    source, dim, widens = bound_arguments(softmax)
    if widens or dim % source.val.ndim != 1 or not source.val.numel:
        return None
    backward = [n for n in softmax.users if operator_name(n) == LOSSES[operator_name(loss)]]
    if len(backward) > 1:
        return None
    pattern = CrossEntropy(softmax, loss, tuple(arguments), backward[0] if backward else None)
    if pattern.backward is not None:
        _, own, *saved_arguments, total = bound_arguments(pattern.backward)
        if (
            own is not softmax
            or tuple(saved_arguments) != pattern.arguments
            or total is not pattern.result(1)
        ):
            return None
    return pattern


def _only_softmax_backward(pattern: CrossEntropy) -> Node | None:
    """Return the gradient of the scores, if no other step reads that of the log-probabilities."""
    assert pattern.backward is not None
    users = list(pattern.backward.users)
    if len(users) != 1 or operator_name(users[0]) != SOFTMAX_BACKWARD:
        return None
    grad, output, *_ = users[0].args
    return users[0] if grad is pattern.backward and output is pattern.softmax else None


def _rewritten(graph: Graph, pattern: CrossEntropy) -> bool:
    """Call the operator, if only the loss and its gradient read the log-probabilities. Return True on success."""
    target, weight, reduction, ignored = pattern.arguments
    gradient = None if pattern.backward is None else _only_softmax_backward(pattern)
    readers = {n for n in (pattern.loss, pattern.backward, gradient) if n is not None}
    if set(pattern.softmax.users) != readers or (pattern.backward is None) != (gradient is None):
        return False
    if target.val.dtype not in (int64, uint8):
        return False
    source, widened = pattern.softmax.args[0], False
    narrow = None if gradient is None else _narrow_result(gradient)
    is_read_here = _widens(source) and list(source.users) == [pattern.softmax]
    if is_read_here and (gradient is None or (narrow and narrow.val.dtype is source.args[0].val.dtype)):
        source, widened = source.args[0], True
    if weight is not None and weight.val.dtype is not (float32 if widened else source.val.dtype):
        return False
    with graph.inserting_before(pattern.loss):
        forward = find_overload("aten::_cross_entropy_forward")
        made = called(graph, forward, source, target, weight, reduction, ignored, 0.0, widened)
        out, statistics, total = (
            graph.call_function(operator.getitem, (made, i), val=val) for i, val in enumerate(made.val)
        )
    for index, new in ((0, out), (1, total)):
        old = pattern.result(index)
        if old is not None:
            old.replace_all_uses_with(new)
    if gradient is not None and pattern.backward is not None:
        with graph.inserting_before(pattern.backward):
            backward = find_overload("aten::_cross_entropy_backward")
            backward_arguments = (
                pattern.backward.args[0],
                source,
                target,
                weight,
                statistics,
                total,
                reduction,
                ignored,
                0.0,
            )
            new = called(graph, backward, *backward_arguments)
        (narrow if widened and narrow is not None else gradient).replace_all_uses_with(new)
    return True


def _widens(node: Node) -> bool:
    """Return True if a step casts 16-bit floats to float32."""
    if operator_name(node) != "aten::_to_copy" or node.val.dtype is not float32:
        return False
    return node.args[0].val.dtype in (float16, bfloat16) and node.args[0].val.device is node.val.device


def _narrow_result(gradient: Node) -> Node | None:
    """Return the cast of a gradient to 16-bit floats, if no other step reads the gradient."""
    users = list(gradient.users)
    is_one = len(users) == 1 and operator_name(users[0]) == "aten::_to_copy"
    return users[0] if is_one and users[0].val.dtype in (float16, bfloat16) else None

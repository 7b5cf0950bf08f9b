"""Decomposition of training batch norm on CUDA into statistics and pointwise steps, which fuse with others.

Before::

    graph(%x : float32[8, 64, 16, 16] cuda:0, %w : float32[64] cuda:0, %b : float32[64] cuda:0, ...):
        %norm = aten._native_batch_norm_legit(%x, %w, %b, %mean, %var, True, 0.1, 1e-05)
        %getitem : float32[8, 64, 16, 16] cuda:0 = %norm[0]
        %relu : float32[8, 64, 16, 16] cuda:0 = aten.relu(%getitem)
        ...

After::

        %statistics = aten._batch_norm_statistics(%x, %mean, %var, 0.1, 1e-05)
        %centre : float32[1, 64, 1, 1] cuda:0 = aten.view(%statistics[0], [1, 64, 1, 1])
        %sub : float32[8, 64, 16, 16] cuda:0 = aten.sub.Tensor(%x, %centre)
        %factor : float32[8, 64, 16, 16] cuda:0 = aten.mul.Tensor(aten.expand(%statistics[1]...), %w...)
        %mul : float32[8, 64, 16, 16] cuda:0 = aten.mul.Tensor(%sub, %factor)
        %add : float32[8, 64, 16, 16] cuda:0 = aten.add.Tensor(%mul, %b...)
        %relu : float32[8, 64, 16, 16] cuda:0 = aten.relu(%add)
        ...

The steps are those of the operator's last launch, in its order and precision, so results are bitwise identical. An
activation and a residual are computed while the result is in registers. The pass applies if a pointwise step reads the
result.

If a pointwise step makes the gradient, the derivative becomes two sums and pointwise steps. So the derivative of an
activation is fused into both launches. The sums are those of fused reductions.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ...dispatch.core.op_overload import OpOverload, find_overload
from ...dispatch.layers.graph.graph import Graph, Node
from ...runtime.scalar_type import bfloat16, float16, float32
from ...runtime.tensor_spec import TensorSpec
from ..channel_norms import is_channels_last
from ..element_order import called, operator_name
from ..pointwise import bound_arguments

BACKWARD = "aten::native_batch_norm_backward"
TRAINING = {"aten::_native_batch_norm_legit": 5, "aten::_native_batch_norm_legit.no_stats": 3}
"""Operators, and the place of `training` among their arguments."""
LONGEST_CHAIN = 8
"""Steps that are computed once more, at most."""


def normalise_in_steps(graph: Graph) -> bool:
    """Decompose training batch norms that pointwise steps read, or whose gradients they make. Return True if any is."""
    changed = False
    for node in graph.find_nodes(op="call_function"):
        name = operator_name(node)
        if name in TRAINING and _is_served(node):
            _rewrite(graph, node)
            changed = True
        elif name == BACKWARD and _is_served_backward(node):
            _rewrite_backward(graph, node)
            changed = True
    return changed


def _is_served(node: Node) -> bool:
    name = operator_name(node)
    if name not in TRAINING or node.args[TRAINING[name]] is not True:
        return False
    x, out = node.args[0].val, node.val[0]
    if x.device.type != "cuda" or (x.strides, x.dtype) != (out.strides, out.dtype):
        return False
    if not (x.is_contiguous or is_channels_last(x)) or x.numel < 2:
        return False
    readers = [user for each in node.users if each.args[1] == 0 for user in each.users]
    return any(_is_pointwise(user) for user in readers)


def _is_pointwise(node: Node) -> bool:
    is_step = isinstance(node.target, OpOverload) and "pointwise" in node.target._entry.tags
    return is_step and isinstance(node.val, TensorSpec) and not node.is_impure


class _Steps:
    """Steps of each element of an input, which other operands have a number for each channel for."""

    def __init__(self, graph: Graph, spec: TensorSpec) -> None:
        self.graph, self.spec = graph, spec
        self.along = [1, spec.sizes[1], *[1] * (spec.ndim - 2)]
        self.wide = float32 if spec.dtype in (float16, bfloat16) else spec.dtype

    def call(self, name: str, *args: Any, **kwargs: Any) -> Node:
        """Add a step."""
        return called(self.graph, find_overload(f"aten::{name}"), *args, **kwargs)

    def of_elements(self, operand: Node) -> Node:
        """Return a number for each element, in the precision of the steps."""
        return operand if operand.val.dtype is self.wide else self.call("_to_copy", operand, dtype=self.wide)

    def of_channels(self, operand: Node) -> Node:
        """Return a number for each channel, in the precision of the steps."""
        made = self.call("view", operand, self.along)
        if operand.val.dtype is self.wide:
            return made
        return self.of_elements(self.expanded(made) if self.spec.is_contiguous else made)

    def expanded(self, operand: Node) -> Node:
        """Return a number for each channel, expanded to each element."""
        if operand.val.sizes == self.spec.sizes:
            return operand
        return self.call("expand", operand, list(self.spec.sizes))

    def mean(self, total: Node) -> Node:
        """Return a channel's mean over its elements, at each element."""
        share = self.spec.sizes[1] / self.spec.numel
        return self.call("mul.Tensor", self.expanded(self.of_channels(total)), share)

    def scale(self, rstd: Node, weight: Node | None) -> Node:
        """Return rstd * weight."""
        made = self.of_channels(rstd)
        if weight is None:
            return made
        # At each element it is a step of their kernel; of channels alone it would be one more launch.
        made = self.expanded(made) if self.spec.is_contiguous else made
        return self.call("mul.Tensor", made, self.of_channels(weight))

    def given_back(self, value: Node) -> Node:
        """Return a result in the input's dtype."""
        dtype = self.spec.dtype
        return value if dtype is self.wide else self.call("_to_copy", value, dtype=dtype)

    def replace(self, node: Node, results: Sequence[Node | None]) -> None:
        """Have all users of a call's results take these."""
        for user in list(node.users):
            new = results[user.args[1]]
            if new is not None:
                user.replace_all_uses_with(new)
            self.graph.erase_node(user)
        self.graph.erase_node(node)


def _rewrite(graph: Graph, node: Node) -> None:
    values = bound_arguments(node)
    has_running = operator_name(node) == "aten::_native_batch_norm_legit"
    x, weight, bias = values[:3]
    running = values[3:5] if has_running else (None, None)
    steps = _Steps(graph, x.val)
    with graph.inserting_before(node):
        made = steps.call("_batch_norm_statistics", x, *running, *values[-2:])
        mean, rstd = (
            graph.call_function(operator.getitem, (made, i), val=val) for i, val in enumerate(made.val)
        )
        value = steps.call("sub.Tensor", steps.of_elements(x), steps.of_channels(mean))
        value = steps.call("mul.Tensor", value, steps.scale(rstd, weight))
        if bias is not None:
            value = steps.call("add.Tensor", value, steps.of_channels(bias))
        value = steps.given_back(value)
    steps.replace(node, (value, mean, rstd))


def _is_served_backward(node: Node) -> bool:
    grad, x, *_, train, _, mask = bound_arguments(node)
    if train is not True or not mask[0] or x.val.device.type != "cuda" or x.val.numel < 2:
        return False
    if (grad.val.strides, grad.val.dtype) != (x.val.strides, x.val.dtype):
        return False
    return bool(x.val.is_contiguous) and _is_pointwise(grad) and operator_name(grad) != "aten::_to_copy"


def _rewrite_backward(graph: Graph, node: Node) -> None:
    grad, x, weight, _, _, mean, rstd, _, _, mask = bound_arguments(node)
    steps = _Steps(graph, x.val)
    call = steps.call
    dims = [0, *range(2, x.val.ndim)]

    def normalised() -> Node:
        centred = call("sub.Tensor", steps.of_elements(x), steps.of_channels(mean))
        return call("mul.Tensor", centred, steps.of_channels(rstd))

    chain = _chain_of(grad)
    with graph.inserting_before(node):
        grad_elements = steps.of_elements(grad)
        plain = call("sum.dim_IntList", grad_elements, dims)
        scaled = call("sum.dim_IntList", call("mul.Tensor", grad_elements, normalised()), dims)
        # A chain with no other reader is recomputed, so that the kernel of the sums writes nothing else.
        grad_elements = steps.of_elements(_copied(graph, chain) if chain else grad)
        # All that reads it waits for the sums, and is no part of their kernel.
        grad_input = call("sub.Tensor", grad_elements, steps.mean(plain))
        grad_input = call("sub.Tensor", grad_input, call("mul.Tensor", normalised(), steps.mean(scaled)))
        grad_input = steps.given_back(call("mul.Tensor", grad_input, steps.scale(rstd, weight)))
        parameter_grads = [
            None if not needs_grad else total if val is None else _in_dtype(steps, total, val)
            for needs_grad, total, val in zip(mask[1:], (scaled, plain), node.val[1:], strict=True)
        ]
    steps.replace(node, (grad_input, *parameter_grads))


def _chain_of(node: Node) -> list[Node]:
    """Return the pointwise steps that make a value with one reader, in order.

    Return nothing if they read more bytes than writing and reading the value would take.
    """
    if len(node.users) > 1:
        return []
    chain, leaves = {node: None}, set()
    waiting = list(node.all_input_nodes)
    while waiting:
        operand = waiting.pop()
        if operand in chain:
            continue
        if _is_pointwise(operand) and set(operand.users) <= chain.keys() and len(chain) < LONGEST_CHAIN:
            chain[operand] = None
            waiting += operand.all_input_nodes
        else:
            leaves.add(operand)
    index_of = {each: i for i, each in enumerate(node.graph.nodes)}
    large = [leaf for leaf in leaves - chain.keys() if leaf.val.numel == node.val.numel]
    return sorted(chain, key=index_of.__getitem__) if len(large) <= 2 else []


def _copied(graph: Graph, chain: Sequence[Node]) -> Node:
    """Recompute a chain, and return its last step."""
    copies: dict[Node, Node] = {}
    for node in chain:
        copies[node] = graph.node_copy(node, lambda given: copies.get(given, given))
    return copies[chain[-1]]


def _in_dtype(steps: _Steps, total: Node, spec: TensorSpec) -> Node:
    return total if total.val.dtype is spec.dtype else steps.call("_to_copy", total, dtype=spec.dtype)

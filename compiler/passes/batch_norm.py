"""Batch norm in training on CUDA: statistics by themselves, and steps of each element, which others join.

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

The steps are those of the operator's last launch, in its order and precision, so that bits stay the same; an activation
and a residual are computed while its result is in registers. It is done where a pointwise step reads the result.
"""

from __future__ import annotations

import operator
from typing import Any

from ...dispatch.core.op_overload import OpOverload, find_overload
from ...dispatch.layers.graph.graph import Graph, Node
from ...runtime.scalar_type import bfloat16, float16, float32
from ...runtime.tensor_spec import TensorSpec
from ..channel_norms import is_channels_last
from ..element_order import called, operator_name
from ..pointwise import bound_arguments

TRAINING = {"aten::_native_batch_norm_legit": 5, "aten::_native_batch_norm_legit.no_stats": 3}
"""Operators, and the place of `training` among their arguments."""


def normalise_in_steps(graph: Graph) -> bool:
    """Rewrite batch norms in training that pointwise steps read. Returns whether there was any."""
    found = [n for n in graph.find_nodes(op="call_function") if _is_served(n)]
    for node in found:
        _rewrite(graph, node)
    return bool(found)


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


def _rewrite(graph: Graph, node: Node) -> None:
    values = bound_arguments(node)
    has_running = operator_name(node) == "aten::_native_batch_norm_legit"
    x, weight, bias = values[:3]
    running = values[3:5] if has_running else (None, None)
    momentum, eps = values[-2:]
    spec: TensorSpec = x.val
    along = [1, spec.sizes[1], *[1] * (spec.ndim - 2)]
    wide = float32 if spec.dtype in (float16, bfloat16) else spec.dtype

    def call(name: str, *args: Any, **kwargs: Any) -> Node:
        return called(graph, find_overload(f"aten::{name}"), *args, **kwargs)

    def of_channels(given: Node) -> Node:
        """A number for each channel, in the precision of the steps: what is cast is so for each element."""
        made = call("view", given, along)
        if given.val.dtype is wide:
            return made
        return call("_to_copy", call("expand", made, list(spec.sizes)), dtype=wide)

    with graph.inserting_before(node):
        made = call("_batch_norm_statistics", x, *running, momentum, eps)
        mean, rstd = (
            graph.call_function(operator.getitem, (made, i), val=val) for i, val in enumerate(made.val)
        )
        value = x if spec.dtype is wide else call("_to_copy", x, dtype=wide)
        value = call("sub.Tensor", value, of_channels(mean))
        factor = of_channels(rstd)
        if weight is not None:
            factor = call("mul.Tensor", call("expand", factor, list(spec.sizes)), of_channels(weight))
        value = call("mul.Tensor", value, factor)
        if bias is not None:
            value = call("add.Tensor", value, of_channels(bias))
        if spec.dtype is not wide:
            value = call("_to_copy", value, dtype=spec.dtype)
    results = {0: value, 1: mean, 2: rstd}
    for user in list(node.users):
        user.replace_all_uses_with(results[user.args[1]])
        graph.erase_node(user)
    graph.erase_node(node)

"""Fusion of handwritten attention, with its derivative, into the operator that keeps scores on the chip.

Before::

    graph(%q : float32[2, 8, 64, 32], %k : float32[2, 8, 64, 32], %v : float32[2, 8, 64, 32], %mask : bool[64, 64]):
        %transpose : float32[2, 8, 32, 64] = aten.transpose.int(%k, -2, -1)
        ...
        %bmm : float32[16, 64, 64] = aten.bmm(%view, %view_1)
        %_unsafe_view : float32[2, 8, 64, 64] = aten._unsafe_view(%bmm, [2, 8, 64, 64])
        %mul : float32[2, 8, 64, 64] = aten.mul.Tensor(%_unsafe_view, 0.125)
        %_softmax : float32[2, 8, 64, 64] = aten._softmax(%mul, -1, False)
        ...
        %bmm_1 : float32[16, 64, 32] = aten.bmm(%view_2, %view_3)
        ...

After::

    graph(%q : float32[2, 8, 64, 32], %k : float32[2, 8, 64, 32], %v : float32[2, 8, 64, 32], %mask : bool[64, 64]):
        %attention = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v, 0.0, False, scale=0.125)
        ...

The pass runs before a graph is split into forward and backward. So the tensors saved for backward have an element for
each query, and not for each query and key. A mask that is computed from literals, and is the causal one, is not read.

Results may differ from those of the original steps:

- A row whose scores are all minus infinity is NaN after a softmax, and zero after the operator. If the elements of the
  mask are unknown, the pass makes it NaN, and the values' gradient too.
- Sums are taken in another order, and scores of 16-bit floats are not rounded.
- With the causal mask, values of later keys are not multiplied by their zero weights, so an infinite value has no
  effect on earlier queries.
"""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple

from ...dispatch.core.op_overload import find_overload
from ...dispatch.generated import functions as ops
from ...dispatch.layers.graph.graph import Graph, Node
from ...dispatch.structured.meta.attention import FUSED, LARGEST_HEAD
from ...runtime.memory_format import contiguous_format
from ...runtime.scalar_type import bool_
from ..attention_pattern import Attention, Dropout, Gradients, attentions, dtypes, has_attention
from ..element_order import Elements, Relocation, ancestors, called, row_major, seen, seen_from
from .constant_folding import literal_value

MIN_WORK = 1 << 14
"""Multiplications of scores from which it is done."""
MAX_BYTES = 1 << 24
"""The most bytes of a mask that is computed at compile time, to see if it is the causal one."""


class Mask(NamedTuple):
    """Mask arguments of the operator.

    Attributes:
        operand: The operand: bools of the kept elements, or numbers to add; None without a mask.
        is_causal: True if each query attends to the keys up to its own position.
        factor: 1 for each query, or NaN if it attends to no key; None if there is no such query.
    """

    operand: Node | None = None
    is_causal: bool = False
    factor: Node | None = None


def fuse_attention(graph: Graph) -> bool:
    """Replace handwritten attention. Return True if there was any."""
    if not has_attention(graph):
        return False
    graph.eliminate_dead_code()
    fusible = [each for each in attentions(graph) if _is_served(each)]
    for each in fusible:
        _Replacement(graph, each).run()
    if fusible:
        graph.eliminate_dead_code()
    return bool(fusible)


def _is_served(attention: Attention) -> bool:
    queries, keys, width, width_v = attention.sizes
    device = attention.result.val.device
    kinds = dtypes(attention)
    if device.type not in ("cpu", "cuda") or len(kinds) != 1 or kinds.isdisjoint(FUSED[device.type]):
        return False
    if attention.dropout is not None and not _draws_the_same(attention, attention.dropout):
        return False
    heads = math.prod(attention.lead)
    if 0 in (heads, queries, keys, width, width_v):
        return False
    if heads * queries * keys * width < MIN_WORK:
        return False
    # Matmuls of a single query read keys and values without a copy.
    return max(width, width_v) <= LARGEST_HEAD if device.type == "cuda" else queries > 1


def _draws_the_same(attention: Attention, dropout: Dropout) -> bool:
    """Return True if the operator generates the graph's random numbers: rows have whole counters, and no random op is
    between."""
    if attention.result.val.device.type != "cuda" or attention.sizes[1] % 4 or not 0 < dropout.p < 1:
        return False
    node = dropout.node.next
    while node is not attention.result:
        if node.is_impure:
            return False
        node = node.next
    return True


class _Replacement:
    """One attention's operators in a graph."""

    def __init__(self, graph: Graph, attention: Attention) -> None:
        self.graph = graph
        self.attention = attention
        self.p = 0.0 if attention.dropout is None else attention.dropout.p
        self.on_cuda = attention.result.val.device.type == "cuda"

    def run(self) -> None:
        """Write them, and have everybody read them."""
        attention, graph = self.attention, self.graph
        queries, keys, width, width_v = attention.sizes
        gradients = attention.gradients
        with graph.inserting_before(attention.result):
            query = self.whole(attention.query, queries, width)
            key = self.whole(attention.key, keys, width, is_turned=True)
            value = self.whole(attention.value, keys, width_v)
            mask = self.mask()
            made = self.forward(query, key, value, mask, gradients is not None)
            out = shown = made[0]
            if mask.factor is not None:
                shown = self.call("mul.Tensor", out, mask.factor)
                if not attention.scores.is_filled:
                    out = shown  # the gradients of the mask are NaN, too
        if gradients is not None:
            self.backward(gradients, query, key, value, mask, (out, *made[1:]))
        # The caller may write to a result, and backward must not read the caller's tensor.
        self.read_from(attention.result, shown, is_free=gradients is None)
        if attention.dropout is not None:
            graph.eliminate_dead_code()
            graph.erase_node(attention.dropout.node)

    def call(self, name: str, *args: Any, **kwargs: Any) -> Node:
        """Add a step."""
        return called(self.graph, find_overload(f"aten::{name}"), *args, **kwargs)

    def results_of(self, node: Node) -> list[Node]:
        """Add the steps that take one result each of a call."""
        return [
            self.graph.call_function(operator.getitem, (node, i), val=val) for i, val in enumerate(node.val)
        ]

    def whole(self, operand: Node, rows: int, columns: int, is_turned: bool = False) -> Node:
        """Return the earliest step of (batch, heads, rows, columns) with the elements of a matmul's operand.

        `is_turned` means that the operand is transposed.
        """
        sizes = (*self.attention.lead, rows, columns)
        turned = (*sizes[:2], columns, rows)
        path = ancestors(operand)
        for index in reversed(range(len(path))):
            node = path[index]
            if node.val.sizes not in (sizes, turned):
                continue
            seen_elements = seen_from(node, path[:index][::-1])
            if seen_elements is None:
                continue
            lines = (
                seen_elements
                if len(seen_elements.sizes) == 3
                else Elements(node, (1, *seen_elements.sizes), (0, *seen_elements.strides))
            )
            lines = lines.transposed() if is_turned else lines
            own = seen_from(node, ())
            assert own is not None
            if own.sizes == sizes and own.joined() == lines:
                return node
            if own.sizes == turned and own.transposed().joined() == lines:
                return self.call("transpose.int", node, 2, 3)
        node = self.call("transpose.int", operand, -2, -1) if is_turned else operand
        return self.call("view", node, list(sizes))

    def mask(self) -> Mask:
        """Return the mask as the operator takes it."""
        scores = self.attention.scores
        if scores.mask is None:
            return Mask()
        value = literal_value(scores.mask, MAX_BYTES)
        has_empty = True
        if value is not None:
            hidden = value if scores.is_filled else ops.eq(value, -math.inf)
            is_plain = scores.is_filled or bool(ops.all(ops.logical_or(hidden, ops.eq(value, 0))))
            queries, keys = self.attention.sizes[:2]
            if is_plain and hidden.shape[-2:] == (queries, keys):
                causal = ops.triu(ops.ones((queries, keys), dtype=bool_, device=hidden.device), 1)
                if bool(ops.all(ops.eq(hidden, causal))):
                    return Mask(is_causal=True)
            has_empty = bool(ops.any(ops.all(hidden, -1)))
        factor = None
        if has_empty:
            hides = scores.mask if scores.is_filled else self.call("eq.Scalar", scores.mask, -math.inf)
            is_empty = self.call("all.dim", hides, -1, True)
            ones_column = self.call("new_ones", self.attention.query, list(is_empty.val.sizes))
            factor = self.call("masked_fill.Scalar", ones_column, is_empty, math.nan)
        operand = self.call("logical_not", scores.mask) if scores.is_filled else scores.mask
        return Mask(operand, factor=factor)

    def forward(self, query: Node, key: Node, value: Node, mask: Mask, has_gradients: bool) -> list[Node]:
        """Add the operator, and return its results."""
        scale = self.attention.scores.scale
        if self.on_cuda:
            name = "_scaled_dot_product_efficient_attention"
            operands = (query, key, value, mask.operand, has_gradients, self.p, mask.is_causal)
            return self.results_of(self.call(name, *operands, scale=scale))
        name = "_scaled_dot_product_flash_attention_for_cpu"
        mask_argument: dict[str, Any] = {} if mask.operand is None else {"attn_mask": mask.operand}
        return self.results_of(
            self.call(name, query, key, value, 0.0, mask.is_causal, **mask_argument, scale=scale)
        )

    def backward(
        self, gradients: Gradients, query: Node, key: Node, value: Node, mask: Mask, made: tuple[Node, ...]
    ) -> None:
        """Add the derivative, and redirect the readers of the gradients to it."""
        queries, _, _, width_v = self.attention.sizes
        scale = self.attention.scores.scale
        grads = [gradients.of_query, gradients.of_key, gradients.of_value]
        index_of = {node: i for i, node in enumerate(self.graph.nodes)}
        first = min((n for n in grads if n is not None), key=index_of.__getitem__)
        with self.graph.inserting_before(first):
            grad = self.whole(gradients.grad, queries, width_v)
            out, logsumexp, *drawn = made
            if self.on_cuda:
                name = "_scaled_dot_product_efficient_attention_backward"
                needs_grad = [node is not None for node in grads]
                bias = self.call("new_zeros", query, [0]) if mask.operand is None else mask.operand
                operands = (
                    grad,
                    query,
                    key,
                    value,
                    bias,
                    out,
                    logsumexp,
                    *drawn,
                    self.p,
                    [*needs_grad, False],
                )
                node = self.call(name, *operands, mask.is_causal, scale=scale)
            else:
                name = "_scaled_dot_product_flash_attention_for_cpu_backward"
                mask_argument: dict[str, Any] = {} if mask.operand is None else {"attn_mask": mask.operand}
                operands = (grad, query, key, value, out, logsumexp, 0.0, mask.is_causal)
                node = self.call(name, *operands, **mask_argument, scale=scale)
            of_query, of_key, of_value, *_ = self.results_of(node)
            if mask.factor is not None:
                of_value = self.call("mul.Tensor", of_value, self.call("amax", mask.factor, [-2], True))
        for old, new in ((gradients.of_query, of_query), (gradients.of_value, of_value)):
            if old is not None:
                self.read_from(old, new)
        if gradients.of_key is not None:
            self.read_from(gradients.of_key, of_key, gradients.key_is_transposed)

    def read_from(self, old: Node, new: Node, is_transposed: bool = False, is_free: bool = True) -> None:
        """Redirect users of a matmul to the operator's result, including results of the program if `is_free`."""
        spec = new.val
        whole = seen(new, spec.replace(strides=row_major(spec.sizes)))
        joined = (whole.transposed() if is_transposed else whole).joined()
        assert joined is not None
        elements = joined if old.val.ndim == 3 else Elements(new, joined.sizes[1:], joined.strides[1:])
        relocation = Relocation(self.graph, is_free)
        relocation.run(old, elements)
        if not old.users:
            return
        with self.graph.inserting_before(_first_user(self.graph, old)):
            node = self.call("transpose.int", new, 2, 3) if is_transposed else new
            if not node.val.is_contiguous or (relocation.is_given(old) and not is_free):
                node = self.call("clone", node, memory_format=contiguous_format)
            old.replace_all_uses_with(self.call("_unsafe_view", node, list(old.val.sizes)))


def _first_user(graph: Graph, node: Node) -> Node:
    """Return the first step that reads a step's result."""
    return next(each for each in graph.nodes if each in node.users)

"""Steps that are computed from literals alone are computed once, when the graph is compiled.

Before::

    graph(%x : float32[3, 3]):
        %ones : bool[3, 3] = aten.ones([3, 3], dtype=bool, device=cpu)
        %triu : bool[3, 3] = aten.triu(%ones, 1)
        %masked_fill : float32[3, 3] = aten.masked_fill.Scalar(%x, %triu, 0)
        return [%masked_fill]

After::

    graph(%x : float32[3, 3]):
        %_folded0 : bool[3, 3] = self._folded0
        %masked_fill : float32[3, 3] = aten.masked_fill.Scalar(%x, %triu, 0)
        return [%masked_fill]

A tensor like another one (`zeros_like`) is computed from literals, too: nobody reads the other one's elements. A copy
of a number that the program names (`tt.tensor(2.0)`) is read where it is kept. Draws of random numbers are never
folded, and neither is what a call has to make anew: what is a result, or shares memory with one, and what a step writes
to. Nor is what takes more than `MOST_BYTES`, or memory that nothing has filled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ...dispatch.core.op_overload import OpOverload
from ...dispatch.generated import functions as ops
from ...dispatch.layers.autocast.mode import autocast
from ...dispatch.layers.graph.graph import Graph, Node, map_nodes
from ...runtime.grad_mode import set_grad_enabled, set_inference_mode
from ...runtime.tensor_spec import TensorSpec
from ..partition import roots_of

MOST_BYTES = 1 << 20
"""Of a constant: larger ones are as quick to make as to read, and would be held as long as the graph."""
MOST_BYTES_HELD = 1 << 24
"""Of all constants of a graph."""

BLANK = frozenset({"empty", "empty_strided", "empty_like"})
"""Operators whose results have no elements that mean anything."""
LIKE = frozenset({"empty_like", "zeros_like", "ones_like", "full_like"})
"""Operators that read of their first operand what it looks like, and nothing else."""
OVERWRITING = frozenset({"fill", "zero", "_arange", "_linspace", "_logspace"})
"""Operators that write all elements of their first operand, whatever those were."""
COPY = "lift_fresh_copy"


def fold_constants(graph: Graph) -> bool:
    """Compute the steps that read literals alone, and keep what they give. Returns whether there were any."""
    nodes = list(graph.nodes)
    kept = _kept_apart(graph, nodes)
    changed = _read_numbers(graph, kept)
    if _is_capturing():
        return changed
    blank: set[Node] = set()
    constant: dict[Node, None] = {}
    for node in nodes:
        if not _may_fold(node):
            continue
        if node.target._opname in BLANK:
            blank.add(node)
        elif all(n in constant or _is_overwritten(node, n, blank) for n in _read(node)):
            constant[node] = None
    ends = [n for n in constant if n not in kept and any(user not in constant for user in n.users)]
    computed: dict[Node, Any] = {}
    total = 0
    for node in ends:
        total += node.val.numel * node.val.itemsize
        if total > MOST_BYTES_HELD:
            break
        value = _computed(node, computed)
        if value is None:
            continue
        with graph.inserting_before(node):
            made = graph.get_attr(graph.add_constant(value, "_folded"), node.val)
        node.replace_all_uses_with(made)
        computed[made] = value
        changed = True
    if changed:
        _wait(ends)
        graph.eliminate_dead_code()
    return changed


def literal_value(node: Node, most_bytes: int) -> Any:
    """The tensor that a step gives, if it and the steps before it read literals alone; None for any other, and where
    one has more bytes than these.
    """
    waiting, seen = [node], {node}
    while waiting:
        each = waiting.pop()
        if not _may_fold(each, most_bytes):
            return None
        for given in _read(each):
            is_blank = given.op == "call_function" and getattr(given.target, "_opname", "") in BLANK
            if is_blank and not _is_overwritten(each, given, {given}):
                return None
            if given not in seen:
                seen.add(given)
                waiting.append(given)
    return None if _is_capturing() else _computed(node, {})


def _kept_apart(graph: Graph, nodes: list[Node]) -> set[Node]:
    """What a call has to make anew: memory of results, and memory that is written to."""
    roots = roots_of(nodes)
    own = {roots[node] for node in graph.output_node.all_input_nodes}
    for node in nodes:
        if node.op == "call_function" and isinstance(node.target, OpOverload):
            entry = node.target._entry
            if entry.schema.is_mutable or "maybe_aliasing_or_mutating" in entry.tags:
                own |= {roots[given] for given in node.all_input_nodes}
    return {node for node in nodes if roots.get(node) in own}


def _read_numbers(graph: Graph, kept: Collection[Node]) -> bool:
    """Have copies of numbers that the program names read where these are kept."""
    changed = False
    for node in graph.find_nodes(op="call_function"):
        is_copy = isinstance(node.target, OpOverload) and node.target._opname == COPY
        source = node.args[0] if is_copy else None
        if node in kept or not isinstance(source, Node) or source.op != "placeholder":
            continue
        if source not in kept and source.val == node.val:
            node.replace_all_uses_with(source)
            changed = True
    return changed


def _may_fold(node: Node, most_bytes: int = MOST_BYTES) -> bool:
    """Whether a step would be constant if its operands were."""
    if node.op != "call_function" or node.is_impure or not isinstance(node.target, OpOverload):
        return False
    spec = node.val
    if not isinstance(spec, TensorSpec) or spec.device.type not in ("cpu", "cuda"):
        return False
    return bool(spec.numel * spec.itemsize <= most_bytes)


def _read(node: Node) -> list[Node]:
    """The operands whose elements a step reads."""
    given = node.all_input_nodes
    return given[1:] if node.target._opname in LIKE else given


def _is_overwritten(node: Node, given: Node, blank: Collection[Node]) -> bool:
    """Whether an operand is memory that nothing has filled, which a step fills."""
    return given in blank and node.target._opname in OVERWRITING and given is node.args[0]


def _computed(end: Node, computed: dict[Node, Any]) -> Any:
    """A step's tensor, and those of the steps before it; None where it is not what the graph says."""
    order: dict[Node, None] = {}
    waiting = [(end, False)]
    while waiting:
        node, is_ready = waiting.pop()
        if node in computed or node in order:
            continue
        if is_ready:
            order[node] = None
        else:
            waiting.append((node, True))
            waiting += [(given, False) for given in _operands(node)]
    before = set_inference_mode(False), set_grad_enabled(False)
    try:
        with autocast(end.val.device.type, enabled=False):
            for node in order:
                computed[node] = _called(node, computed)
    finally:
        set_grad_enabled(before[1])
        set_inference_mode(before[0])
    value = computed[end]
    spec, wanted = value._spec, end.val
    looks = [(s.sizes, s.strides, s.dtype, s.device) for s in (spec, wanted)]
    return value if looks[0] == looks[1] else None


def _operands(node: Node) -> list[Node]:
    """The steps that are computed before a step."""
    return [] if node.target._opname in LIKE else node.all_input_nodes


def _called(node: Node, computed: Mapping[Node, Any]) -> Any:
    """What a step gives."""

    def value(given: Node) -> Any:
        if given in computed:
            return computed[given]
        spec = given.val  # of a tensor that another one is like
        return ops.empty_strided(spec.sizes, spec.strides, dtype=spec.dtype, device=spec.device)

    args, kwargs = map_nodes((node.args, dict(node.kwargs)), value)
    return node.target(*args, **kwargs)


def _is_capturing() -> bool:
    """Whether a CUDA graph is captured, in which nobody may wait for the device."""
    from ...runtime.cuda.driver import current_driver

    cuda = current_driver()
    return cuda is not None and bool(cuda.captures_underway)


def _wait(ends: Collection[Node]) -> None:
    """Wait for what CUDA computes: another stream may read the constants first."""
    devices = {node.val.device for node in ends if node.val.device.type == "cuda"}
    if devices:
        from ...runtime.cuda.driver import driver

        for device in devices:
            driver().synchronize(device.resolved_index)

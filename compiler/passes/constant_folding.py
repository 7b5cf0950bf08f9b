"""Constant folding: steps that depend on literals alone are computed once, at compile time.

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

A `zeros_like` depends on literals alone, too, since it does not read the elements of its operand. A copy of a number
in the program (`tt.tensor(2.0)`) is read from the constant. These steps are never folded:

- Random ops.
- Results and values that share memory with them, which a call must make anew.
- Values that a step writes to.
- Values of more than `MAX_BYTES`, and uninitialized memory.
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

MAX_BYTES = 1 << 20
"""The most bytes of a constant: making a larger one is as fast as reading it, and the graph would hold it."""
MAX_BYTES_HELD = 1 << 24
"""The most bytes of all constants of a graph."""

BLANK = frozenset({"empty", "empty_strided", "empty_like"})
"""Operators with uninitialized results."""
LIKE = frozenset({"empty_like", "zeros_like", "ones_like", "full_like"})
"""Operators that read only the metadata of their first operand."""
OVERWRITING = frozenset({"fill", "zero", "_arange", "_linspace", "_logspace"})
"""Operators that write all elements of their first operand, whatever those were."""
COPY = "lift_fresh_copy"


def fold_constants(graph: Graph) -> bool:
    """Compute the steps that read literals alone, and keep their results. Return True if there were any."""
    nodes = list(graph.nodes)
    excluded = _kept_apart(graph, nodes)
    changed = _read_numbers(graph, excluded)
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
    ends = [n for n in constant if n not in excluded and any(user not in constant for user in n.users)]
    computed: dict[Node, Any] = {}
    total = 0
    for node in ends:
        total += node.val.numel * node.val.itemsize
        if total > MAX_BYTES_HELD:
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
    """Return the tensor of a step that depends on literals alone, else None.

    Return None also if the step or one before it has more than `most_bytes`.
    """
    waiting, visited = [node], {node}
    while waiting:
        each = waiting.pop()
        if not _may_fold(each, most_bytes):
            return None
        for operand in _read(each):
            is_blank = operand.op == "call_function" and getattr(operand.target, "_opname", "") in BLANK
            if is_blank and not _is_overwritten(each, operand, {operand}):
                return None
            if operand not in visited:
                visited.add(operand)
                waiting.append(operand)
    return None if _is_capturing() else _computed(node, {})


def _kept_apart(graph: Graph, nodes: list[Node]) -> set[Node]:
    """Return the values that a call must make anew: memory of results, and memory that is written to."""
    roots = roots_of(nodes)
    own = {roots[node] for node in graph.output_node.all_input_nodes}
    for node in nodes:
        if node.op == "call_function" and isinstance(node.target, OpOverload):
            entry = node.target._entry
            if entry.schema.is_mutable or "maybe_aliasing_or_mutating" in entry.tags:
                own |= {roots[operand] for operand in node.all_input_nodes}
    return {node for node in nodes if roots.get(node) in own}


def _read_numbers(graph: Graph, excluded: Collection[Node]) -> bool:
    """Replace copies of the program's number constants by the constants."""
    changed = False
    for node in graph.find_nodes(op="call_function"):
        is_copy = isinstance(node.target, OpOverload) and node.target._opname == COPY
        source = node.args[0] if is_copy else None
        if node in excluded or not isinstance(source, Node) or source.op != "placeholder":
            continue
        if source not in excluded and source.val == node.val:
            node.replace_all_uses_with(source)
            changed = True
    return changed


def _may_fold(node: Node, most_bytes: int = MAX_BYTES) -> bool:
    """Return True if a step would be constant if its operands were."""
    if node.op != "call_function" or node.is_impure or not isinstance(node.target, OpOverload):
        return False
    spec = node.val
    if not isinstance(spec, TensorSpec) or spec.device.type not in ("cpu", "cuda"):
        return False
    return bool(spec.numel * spec.itemsize <= most_bytes)


def _read(node: Node) -> list[Node]:
    """Return the operands whose elements a step reads."""
    operands = node.all_input_nodes
    return operands[1:] if node.target._opname in LIKE else operands


def _is_overwritten(node: Node, operand: Node, blank: Collection[Node]) -> bool:
    """Return True if an operand is uninitialized memory that the step fills."""
    return operand in blank and node.target._opname in OVERWRITING and operand is node.args[0]


def _computed(end: Node, computed: dict[Node, Any]) -> Any:
    """Compute a step's tensor, and those of the steps before it. Return None if it differs from the graph's spec."""
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
            waiting += [(operand, False) for operand in _operands(node)]
    before = set_inference_mode(False), set_grad_enabled(False)
    try:
        with autocast(end.val.device.type, enabled=False):
            for node in order:
                computed[node] = _called(node, computed)
    finally:
        set_grad_enabled(before[1])
        set_inference_mode(before[0])
    value = computed[end]
    spec, expected_spec = value._spec, end.val
    layouts = [(s.sizes, s.strides, s.dtype, s.device) for s in (spec, expected_spec)]
    return value if layouts[0] == layouts[1] else None


def _operands(node: Node) -> list[Node]:
    """Return the steps that are computed before a step."""
    return [] if node.target._opname in LIKE else node.all_input_nodes


def _called(node: Node, computed: Mapping[Node, Any]) -> Any:
    """Compute a step."""

    def value(operand: Node) -> Any:
        if operand in computed:
            return computed[operand]
        spec = operand.val  # of a tensor that another one is like
        return ops.empty_strided(spec.sizes, spec.strides, dtype=spec.dtype, device=spec.device)

    args, kwargs = map_nodes((node.args, dict(node.kwargs)), value)
    return node.target(*args, **kwargs)


def _is_capturing() -> bool:
    """Return True during the capture of a CUDA graph, in which synchronization is forbidden."""
    from ...runtime.cuda.driver import current_driver

    cuda = current_driver()
    return cuda is not None and bool(cuda.captures_underway)


def _wait(ends: Collection[Node]) -> None:
    """Synchronize with CUDA: another stream may read the constants first."""
    devices = {node.val.device for node in ends if node.val.device.type == "cuda"}
    if devices:
        from ...runtime.cuda.driver import driver

        for device in devices:
            driver().synchronize(device.resolved_index)

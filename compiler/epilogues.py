"""Fusion of pointwise steps into the epilogue of a matmul or convolution.

A fusible step has one element for each element of the matmul's result, in the same order, possibly through views. It
reads its other operands by the result's rows and columns. Steps of a row kernel stay there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.layers.graph.graph import Graph, Node
from ..dispatch.plans.structured_kernel import StructuredKernel
from ..runtime.dispatch_key import BY_NAME
from ..runtime.tensor_spec import TensorSpec
from .channel_norms import ChannelNormCall, channel_norm_call, is_channels_last
from .draws import DropoutCall, dropout_call
from .element_places import Terms, grouped_terms, permuted
from .pointwise import PointwiseCall, bound_arguments, element_call
from .product_kernel import EpilogueCall, ProductKernel
from .reductions import ResultOf
from .schedule import FusedKernel, OperatorCall, Schedule, Step, before_each

PRODUCTS = frozenset(
    f"aten::{name}" for name in ("mm", "addmm", "bmm", "baddbmm", "_addmm_activation", "convolution")
)
"""Operators that may have an epilogue."""
VIEWS = frozenset({"aten::view", "aten::_unsafe_view", "aten::unsqueeze", "aten::squeeze.dim"})
"""Views that give a contiguous tensor other sizes."""
MAX_STEPS = 24
"""The most steps of an epilogue: each element of the accumulator tile stays in registers meanwhile."""
MAX_TILES = 5
"""The most operands and results of an epilogue that have one element for each element of the matmul's result."""


def product_call(node: Node) -> PointwiseCall | None:
    """Return a step as a matmul that may have an epilogue, or None."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return None
    entry = node.target._entry
    if entry.name not in PRODUCTS or not isinstance(node.val, TensorSpec) or node.val.device.type != "cuda":
        return None
    if not node.val.dtype.is_floating_point or node.val.numel < 2:
        return None
    if not node.val.is_contiguous and not (entry.name == "aten::convolution" and is_channels_last(node.val)):
        return None
    kernel = entry.kernel_for(BY_NAME["CUDA"])
    planner = None if kernel is None else kernel.planner
    if not isinstance(planner, StructuredKernel) or planner.form != "functional":
        return None
    values = tuple(bound_arguments(node))
    if any(isinstance(v, Node) and not isinstance(v.val, TensorSpec) for v in values):
        return None
    runtime = entry.runtime_positions([v.val if isinstance(v, Node) else v for v in values])
    return PointwiseCall(node, values, tuple(runtime), planner)


def is_view(node: Node) -> bool:
    """Return True if a step is a reshape of a contiguous tensor."""
    if not isinstance(node.target, OpOverload) or node.target._entry.name not in VIEWS:
        return False
    source = node.args[0]
    return isinstance(source, Node) and source.val.is_contiguous and bool(node.val.is_contiguous)


def result_spec(node: Node) -> TensorSpec:
    """Return the spec of a step's result, the first of several."""
    spec: TensorSpec = node.val if isinstance(node.val, TensorSpec) else node.val[0]
    return spec


def operand_spec(call: EpilogueCall, node: Node) -> TensorSpec:
    """Return the spec of an operand as a step broadcasts it."""
    spec: TensorSpec = call.operand_spec(node) if isinstance(call, ChannelNormCall) else node.val
    return spec


def operand_terms(
    kernel: ProductKernel, call: EpilogueCall, operand: Node
) -> tuple[Terms, Terms, Terms] | None:
    """Return the address terms of a step's operand (`grouped_terms`) by the kernel's sizes."""
    spec, domain = operand_spec(call, operand), result_spec(call.node).sizes
    if kernel.is_channels_last:
        spec = permuted(spec, domain, (0, *range(2, len(domain)), 1))
        domain = spec.sizes
    return grouped_terms(spec, domain, kernel.sizes)


def with_epilogues(schedule: Schedule, is_served: Callable[[ProductKernel], bool]) -> Schedule:
    """Return a schedule in which matmuls are fused with the pointwise kernels that read them.

    Args:
        schedule: A schedule of single matmuls and of pointwise kernels.
        is_served: Return True if there is a kernel for these steps.
    """
    steps = list(schedule.steps)
    nodes = [step.node for step in steps if isinstance(step, OperatorCall)]
    products = {node: call for node in nodes if (call := product_call(node)) is not None}
    if not products:
        return schedule
    views = {node for node in nodes if is_view(node)}
    made_by: dict[Node, ProductKernel] = {}
    order = Dependencies(schedule.graph)
    results = set(schedule.graph.output_node.all_input_nodes)
    index = 0
    while index < len(steps):
        calls = _calls_of(steps[index])
        producers: list[tuple[int, list[Node]]] = []
        for root, passed in _read_through(calls, views).items():
            if root in products or root in made_by:
                producer = _index_of(steps, index, made_by.get(root), root)
                producers = [*producers, (producer, passed)]
        # The last of several matmuls has the results of the others as operands.
        for producer, passed in sorted(_by_producer(producers).items(), reverse=True):
            absorbed = {*passed, *(call.node for call in calls if isinstance(call, ChannelNormCall))}
            taken = {call.node for call in calls if isinstance(call, ResultOf)}
            moved = order.after(steps, producer, index, absorbed)
            if moved is None:
                continue
            made = _joined(steps[producer], products, passed, calls, results)
            if made is not None and is_served(made):
                late = {id(step) for step in moved}
                between = [
                    s
                    for s in steps[producer + 1 : index]
                    if id(s) not in late and not _is_one_of(s, absorbed)
                ]
                rest = [step for step in steps[index + 1 :] if not _is_one_of(step, taken)]
                steps[producer:] = [*between, made, *moved, *rest]
                index = producer + len(between)
                made_by.update(dict.fromkeys((call.node for call in made.calls), made))
                views -= set(passed)
                break
        index += 1
    return Schedule(schedule.graph, tuple(steps))


def _is_one_of(step: Step, nodes: Collection[Node]) -> bool:
    return isinstance(step, OperatorCall) and step.node in nodes


def _calls_of(step: Step) -> tuple[EpilogueCall | ResultOf, ...]:
    """Return a step as steps of an epilogue; empty if it is not fusible.

    The reader of a batch norm's result stands for both, and dropout for the readers of its results.
    """
    if isinstance(step, FusedKernel):
        calls = tuple([c for c in step.calls if isinstance(c, PointwiseCall | DropoutCall | ResultOf)])
        return calls if len(calls) == len(step.calls) else ()
    if not isinstance(step, OperatorCall):
        return ()
    norm = channel_norm_call(step.node)
    if norm is not None:
        return norm, ResultOf(step.node)
    drawn = dropout_call(step.node)
    if drawn is not None:
        return drawn, *map(ResultOf, drawn.results.values())
    call = element_call(step.node)
    return () if call is None else (call,)


def _read_through(calls: Sequence[EpilogueCall | ResultOf], views: set[Node]) -> dict[Node, list[Node]]:
    """Return the operands of steps, each with the views through which they read it."""
    views_by_operand: dict[Node, list[Node]] = {}
    computed = [call for call in calls if not isinstance(call, ResultOf)]
    for operand in dict.fromkeys(o for call in computed for o in call.operands if isinstance(o, Node)):
        passed, node = [], operand
        while node in views:
            passed.append(node)
            node = node.args[0]
        known = views_by_operand.setdefault(node, [])
        known += [view for view in passed if view not in known]
    return views_by_operand


def _index_of(steps: Sequence[Step], end: int, kernel: ProductKernel | None, node: Node) -> int:
    """Return the place before `end` of the step that computes a matmul: its kernel, or its own call."""
    for i in range(end - 1, -1, -1):
        step = steps[i]
        if step is kernel or (isinstance(step, OperatorCall) and step.node is node):
            return i
    raise RuntimeError(f"schedule: %{node.name} is read before it is computed")


def _by_producer(producers: Sequence[tuple[int, list[Node]]]) -> dict[int, list[Node]]:
    """Return the distinct views of each producer."""
    joined: dict[int, list[Node]] = {}
    for producer, passed in producers:
        known = joined.setdefault(producer, [])
        known += [view for view in passed if view not in known]
    return joined


def _joined(
    step: Step,
    products: Mapping[Node, PointwiseCall],
    views: Sequence[Node],
    calls: Sequence[EpilogueCall | ResultOf],
    results: set[Node],
) -> ProductKernel | None:
    """Return a matmul, possibly with an epilogue already, fused with pointwise steps; None if they do not fit."""
    if isinstance(step, ProductKernel):
        product, before = step.product, step.calls
    else:
        assert isinstance(step, OperatorCall)
        product = products[step.node]
        before = (product,)
    every = (*before, *map(ResultOf, _in_order(views)), *calls)
    nodes = [call.node for call in every]
    inside = set(nodes)
    inputs = tuple(dict.fromkeys(n for node in nodes for n in node.all_input_nodes if n not in inside))
    outputs = tuple(n for n in nodes if n in results or any(user not in inside for user in n.users))
    made = ProductKernel(product, every, inputs, outputs)
    given_out = [made.root(node) for node in outputs if node in results]
    # Two results over one memory would not know of each other's writes.
    return made if len(given_out) == len(set(given_out)) and _fits(made) else None


def _in_order(views: Sequence[Node]) -> list[Node]:
    """Return views in topological order."""
    ordered: list[Node] = []
    for view in views:
        chain = [view]
        while chain[-1].args[0] in views:
            chain.append(chain[-1].args[0])
        ordered += [node for node in reversed(chain) if node not in ordered]
    return ordered


def _fits(kernel: ProductKernel) -> bool:
    epilogue, sizes = kernel.epilogue, kernel.sizes
    if len(epilogue) > MAX_STEPS:
        return False
    inputs = set(kernel.inputs)
    for call in epilogue:
        spec = result_spec(call.node)
        if isinstance(call, ChannelNormCall) and spec.sizes != kernel.product.node.val.sizes:
            return False
        if not (is_channels_last(spec) if kernel.is_channels_last else spec.is_contiguous):
            return False
        if spec.numel != math.prod(sizes) or spec.device is not kernel.device:
            return False
        for operand in call.operands:
            if isinstance(operand, Node):
                terms = operand_terms(kernel, call, operand)
                if terms is None or (operand not in inputs and operand.val.numel != spec.numel):
                    return False
    return kernel.tiles <= MAX_TILES


class Dependencies:
    """Which steps have to run before which."""

    def __init__(self, graph: Graph) -> None:
        nodes = graph.find_nodes(op="call_function")
        self.before = {node: before_each(node, nodes, i) for i, node in enumerate(nodes)}

    def before_any(self, step: Step) -> set[Node]:
        """Return all nodes that must run before a step."""
        return {operand for node in _nodes_of(step) for operand in self.before[node]}

    def after(self, steps: Sequence[Step], first: int, last: int, views: set[Node]) -> list[Step] | None:
        """Return the steps between two that must run after both once these are fused.

        Return None if a step has to run between the two.
        """
        late = set(_nodes_of(steps[first]))
        moved: list[Step] = []
        for step in steps[first + 1 : last]:
            if _is_one_of(step, views):
                late.add(step.node)  # type: ignore[union-attr]
                continue
            nodes = _nodes_of(step)
            if any(operand in late for node in nodes for operand in self.before[node]):
                moved.append(step)
                late.update(nodes)
        fused = set(_nodes_of(steps[first])) | views | set(_nodes_of(steps[last]))
        outside = late - fused
        if any(operand in outside for node in fused for operand in self.before[node]):
            return None
        return moved


def _nodes_of(step: Step) -> list[Node]:
    return [step.node] if isinstance(step, OperatorCall) else [call.node for call in step.calls]

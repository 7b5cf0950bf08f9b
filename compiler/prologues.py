"""Pointwise steps that make an operand of a product, in the product's kernel: they are the operand's prologue.

A step joins if the product alone reads what it makes, be it through views, and one of its operands has an element for
each of the result's. What is loaded of that one is computed on its way to the tensor cores, again for each tile of the
product's other side; `most_repeats` says how often that is worth it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.layers.graph.graph import Node
from .epilogues import Dependencies, product_call
from .pointwise import PointwiseCall, element_call
from .product_kernel import ProductKernel, Prologue
from .reductions import ResultOf
from .schedule import FusedKernel, OperatorCall, Schedule, Step

OPERANDS = {"mm": (0, 1), "bmm": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2), "_addmm_activation": (1, 2)}
"""The places of a product's matrices among its arguments."""
VIEWS = frozenset(
    f"aten::{name}"
    for name in (
        "view",
        "_unsafe_view",
        "unsqueeze",
        "squeeze.dim",
        "t",
        "transpose.int",
        "permute",
        "expand",
    )
)
"""Views that begin where the tensor begins."""
MOST_STEPS = 8
"""Of a prologue."""
SIMPLE = frozenset(
    f"aten::{name}"
    for name in (
        "_to_copy", "abs", "add.Scalar", "add.Tensor", "bitwise_and.Scalar", "bitwise_and.Tensor", "clamp",
        "clamp_max", "clamp_min", "clone", "masked_fill.Scalar", "maximum", "minimum", "mul.Scalar", "mul.Tensor",
        "neg", "relu", "rsub.Scalar", "sub.Scalar", "sub.Tensor", "where.self",
    )
)  # fmt: skip
"""Operators of a few instructions for an element."""
FEW, MANY = 4, 24
"""Instructions of a simple step, conversions included, and of any other one."""
ADDRESSES = 8
"""Instructions of an operand whose elements have an address each, such as scales of groups."""
FOR_A_BYTE = 8
"""Instructions that the lanes of a device issue while its memory moves a byte: on an H100 128 lanes of 132
multiprocessors at 1.7 GHz, and 3.35 TB/s."""


def most_repeats(prologue: Prologue) -> int:
    """How often an operand may be computed in a product's kernel so that this costs no more than a kernel of its own.

    That one would read the source and write the operand. Where an element of the source has more bytes than one of the
    operand, the product's kernel reads these again each time, too. What is computed once costs nothing more.
    """
    work = 0
    for call in prologue.calls:
        work += FEW if call.node.target._entry.name in SIMPLE else MANY
    for node in prologue.inputs[1:]:
        terms = prologue.terms(node)
        work += ADDRESSES if terms is not None and terms[1] and terms[2] else 0
    given: int = prologue.source.val.itemsize
    made: int = prologue.made.val.itemsize
    return max(1, FOR_A_BYTE * (given + made) // (work + FOR_A_BYTE * max(given - made, 0)))


def with_prologues(schedule: Schedule, is_served: Callable[[ProductKernel], bool]) -> Schedule:
    """A schedule in which products are together with the pointwise kernels that make their operands.

    Args:
        schedule: with epilogues.
        is_served: whether there is a kernel for these steps.
    """
    steps = list(schedule.steps)
    products = [made for step in steps if (made := _product_of(step)) is not None]
    if not products:
        return schedule
    results = set(schedule.graph.output_node.all_input_nodes)
    order = Dependencies(schedule.graph)
    for kernel in products:
        product = kernel.product
        left, right = OPERANDS[product.node.target._entry.name.removeprefix("aten::")]
        for at in (left, right):
            here = _place_of(steps, product.node)
            found = _prologue(steps[:here], product, product.values[at], at == left, results)
            if found is None:
                continue
            there, prologue = found
            inside = {call.node for call in prologue.calls} | set(prologue.views)
            between = [step for step in steps[there + 1 : here] if not _is_view_of(step, prologue)]
            # A write between the two may be to what the steps read.
            if any(order.before_any(step) & inside for step in between):
                continue
            made = _with(kernel, prologue)
            if is_served(made):
                kernel = made
                steps[there : here + 1] = [*between, made]
    return Schedule(schedule.graph, tuple(steps))


def _place_of(steps: Sequence[Step], product: Node) -> int:
    """The place of the step that computes a product."""
    found: int = next(
        i
        for i, step in enumerate(steps)
        if (isinstance(step, OperatorCall) and step.node is product)
        or (isinstance(step, ProductKernel) and step.product.node is product)
    )
    return found


def _product_of(step: Step) -> ProductKernel | None:
    """A step as a product of matrices that has no prologue yet."""
    if isinstance(step, ProductKernel):
        made = step
    elif isinstance(step, OperatorCall):
        call = product_call(step.node)
        if call is None:
            return None
        made = ProductKernel(call, (call,), tuple(step.node.all_input_nodes), (step.node,))
    else:
        return None
    return None if made.product.node.target._entry.name == "aten::convolution" else made


def _is_view_of(step: Step, prologue: Prologue) -> bool:
    return isinstance(step, OperatorCall) and step.node in prologue.views


def _prologue(
    steps: Sequence[Step], product: PointwiseCall, operand: Node, is_left: bool, results: set[Node]
) -> tuple[int, Prologue] | None:
    """The place of the step that makes a product's operand, and is read by it alone, and the prologue that it is."""
    views: list[Node] = []
    node, reader = operand, product.node
    if [given for given in product.values if given is operand] != [operand]:
        return None
    while list(node.users) == [reader] and node not in results and _is_view(node):
        views.append(node)
        node, reader = node.args[0], node
    if list(node.users) != [reader] or node in results:
        return None
    for i, step in enumerate(steps):
        calls = _calls_of(step)
        if calls and calls[-1].node is node:
            sources = _sources(calls)
            if len(sources) != 1 or len(calls) > MOST_STEPS:
                return None
            made = Prologue(operand, calls, tuple(reversed(views)), sources[0], is_left)
            return (i, made) if all(made.terms(each) is not None for each in made.inputs) else None
    return None


def _is_view(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target._entry.name in VIEWS


def _calls_of(step: Step) -> tuple[PointwiseCall, ...]:
    """The steps of a pointwise kernel of one result, that comes last; none for any other."""
    if isinstance(step, OperatorCall):
        call = element_call(step.node)
        return () if call is None else (call,)
    if not isinstance(step, FusedKernel) or step.outputs != (step.calls[-1].node,):
        return ()
    pointwise = tuple([call for call in step.calls if isinstance(call, PointwiseCall)])
    return pointwise if len(pointwise) == len(step.calls) else ()


def _sources(calls: Sequence[PointwiseCall]) -> list[Node]:
    """The inputs of pointwise steps that have an element for each of the result's."""
    inside, made = {call.node for call in calls}, calls[-1].node.val
    read = dict.fromkeys(o for call in calls for o in call.operands if isinstance(o, Node))
    return [node for node in read if node not in inside and node.val.numel == made.numel]


def _with(kernel: ProductKernel, prologue: Prologue) -> ProductKernel:
    """A kernel with one prologue more."""
    calls = (*prologue.calls, *map(ResultOf, prologue.views), *kernel.calls)
    nodes = [call.node for call in calls]
    inside = set(nodes)
    inputs = dict.fromkeys(n for node in nodes for n in node.all_input_nodes if n not in inside)
    return replace(kernel, calls=calls, inputs=tuple(inputs), prologues=(*kernel.prologues, prologue))

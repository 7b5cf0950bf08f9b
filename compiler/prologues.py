"""Fusion of steps that make a matmul's operand into the matmul's prologue.

A pointwise step, or a batch norm by running statistics, is fused under two conditions:

- The matmul alone reads its result, possibly through views.
- One operand has an element for each of the result's.

The kernel loads this operand and computes the steps before the tensor cores, again for each tile of the matmul's other
dimension. `most_repeats` limits the repeats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.layers.graph.graph import Node
from ..runtime.tensor_spec import TensorSpec
from .channel_norms import ChannelNormCall, channel_norm_call, is_channels_last
from .epilogues import Dependencies, product_call
from .pointwise import PointwiseCall, element_call
from .product_kernel import OperandMatrix, ProductKernel, Prologue, PrologueCall, result_of
from .schedule import FusedKernel, OperatorCall, Schedule, Step

OPERANDS = {
    "mm": (0, 1),
    "bmm": (0, 1),
    "addmm": (1, 2),
    "baddbmm": (1, 2),
    "_addmm_activation": (1, 2),
    "convolution": (0, 1),
}
"""The indices of a matmul's operands among its arguments; for a convolution, input and weight."""
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
"""Views that begin at the tensor's first element."""
MAX_STEPS = 8
"""The most steps of a prologue."""
SIMPLE = frozenset(
    f"aten::{name}"
    for name in (
        "_to_copy", "abs", "add.Scalar", "add.Tensor", "bitwise_and.Scalar", "bitwise_and.Tensor", "clamp",
        "clamp_max", "clamp_min", "clone", "masked_fill.Scalar", "maximum", "minimum", "mul.Scalar", "mul.Tensor",
        "neg", "relu", "rsub.Scalar", "sub.Scalar", "sub.Tensor", "where.self",
    )
)  # fmt: skip
"""Operators of a few instructions for an element."""
FEW, NORM, MANY = 4, 8, 24
"""Instructions of a simple step, conversions included, of a batch norm by known statistics, and of any other one."""
ADDRESSES = 8
"""Cost in instructions of an operand whose elements have an address each, such as scales of groups."""
FOR_A_BYTE = 8
"""Instructions that the lanes of a device issue while its memory moves a byte: on an H100 128 lanes of 132
multiprocessors at 1.7 GHz, and 3.35 TB/s."""


def most_repeats(prologue: Prologue) -> int:
    """Return how often an operand may be recomputed before fusing it costs more than a kernel of its own.

    A separate kernel would read the source and write the operand. If the source has wider elements than the operand,
    the matmul kernel also reads the extra bytes at each repeat. Computing once adds no cost.
    """
    work = 0
    for call in prologue.calls:
        is_norm = isinstance(call, ChannelNormCall)
        work += NORM if is_norm else FEW if call.node.target._entry.name in SIMPLE else MANY
    for node in prologue.inputs[1:]:
        terms = prologue.terms(node)
        work += ADDRESSES if terms is not None and terms[1] and terms[2] else 0
    source_itemsize: int = prologue.source.val.itemsize
    operand_itemsize: int = prologue.made.val.itemsize
    return max(
        1,
        FOR_A_BYTE
        * (source_itemsize + operand_itemsize)
        // (work + FOR_A_BYTE * max(source_itemsize - operand_itemsize, 0)),
    )


def with_prologues(schedule: Schedule, is_served: Callable[[ProductKernel], bool]) -> Schedule:
    """Return a schedule in which matmuls are fused with the pointwise kernels that make their operands.

    Args:
        schedule: A schedule after epilogue fusion.
        is_served: Return True if there is a kernel for these steps.
    """
    steps = list(schedule.steps)
    products = [made for step in steps if (made := _product_of(step)) is not None]
    if not products:
        return schedule
    results = set(schedule.graph.output_node.all_input_nodes)
    order = Dependencies(schedule.graph)
    for kernel in products:
        product = kernel.product
        for operand_index in OPERANDS[product.node.target._entry.name.removeprefix("aten::")]:
            step_index = _index_of(steps, product.node)
            for prologue in _prologues(steps[:step_index], product, operand_index, results):
                inside = {call.node for call in prologue.steps}
                rest = [step for step in steps[:step_index] if not _is_in(step, inside)]
                first = next(i for i, step in enumerate(steps) if _is_in(step, inside))
                # A write between the two may change operands of the steps.
                if any(order.before_any(step) & inside for step in rest[first:]):
                    continue
                made = _with(kernel, prologue)
                if is_served(made):
                    kernel = made
                    steps[: step_index + 1] = [*rest, made]
                    break
    return Schedule(schedule.graph, tuple(steps))


def _index_of(steps: Sequence[Step], product: Node) -> int:
    """Return the index of the step that computes a matmul."""
    index: int = next(
        i
        for i, step in enumerate(steps)
        if (isinstance(step, OperatorCall) and step.node is product)
        or (isinstance(step, ProductKernel) and step.product.node is product)
    )
    return index


def _product_of(step: Step) -> ProductKernel | None:
    """Return a step as a matmul kernel, with or without an epilogue, or None."""
    if isinstance(step, ProductKernel):
        return step
    if not isinstance(step, OperatorCall):
        return None
    call = product_call(step.node)
    if call is None:
        return None
    return ProductKernel(call, (call,), tuple(step.node.all_input_nodes), (step.node,))


def _is_in(step: Step, nodes: Collection[Node]) -> bool:
    """Return True if a step computes one of these nodes."""
    if isinstance(step, OperatorCall):
        return step.node in nodes
    return isinstance(step, FusedKernel) and any(call.node in nodes for call in step.calls)


def operand_matrices(product: PointwiseCall, index: int) -> list[OperandMatrix]:
    """Return the ways in which an operand may be multiplied: a 1x1 convolution may also be a matmul."""
    matrix = _matrix(product, index)
    volume = _volume(product, index) if product.node.target._entry.name == "aten::convolution" else None
    return [each for each in (matrix, volume) if each is not None]


def _volume(product: PointwiseCall, index: int) -> OperandMatrix | None:
    """Return the input or the weight of a convolution as a volume; None for other layouts."""
    spec: TensorSpec = product.values[index].val
    if index == 1 and product.values[6]:
        return None
    rows, channels, pixels = spec.sizes[0], spec.sizes[1], math.prod(spec.sizes[2:])
    if spec.is_contiguous:
        strides = (channels * pixels, 1, pixels)
    elif is_channels_last(spec):
        strides = (channels * pixels, channels, 1)
    else:
        return None
    return OperandMatrix(index == 0, (rows, pixels, channels), strides, is_volume=True)


def _matrix(product: PointwiseCall, index: int) -> OperandMatrix | None:
    """Return an operand of a matmul; None if the step is not a matmul.

    A 1x1 convolution is one: channels-last, of pixels and a weight; otherwise of a weight and planes.
    """
    name = product.node.target._entry.name.removeprefix("aten::")
    operand_spec: TensorSpec = product.values[index].val
    if name != "convolution":
        sizes, strides = (1, *operand_spec.sizes)[-3:], (0, *operand_spec.strides)[-3:]
        return OperandMatrix(index == OPERANDS[name][0], sizes, strides)  # type: ignore[arg-type]
    input_spec, made = product.values[0].val, product.node.val
    if product.values[6] or math.prod(product.values[1].val.sizes[2:]) > 1:
        return None
    images, channels, pixels = input_spec.sizes[0], input_spec.sizes[1], math.prod(input_spec.sizes[2:])
    if is_channels_last(input_spec) and is_channels_last(made):
        if index == 0:
            return OperandMatrix(True, (1, images * pixels, channels), (0, channels, 1))
        return OperandMatrix(False, (1, channels, made.sizes[1]), (0, 1, channels))
    if not input_spec.is_contiguous or not made.is_contiguous:
        return None
    if index == 0:
        return OperandMatrix(False, (images, channels, pixels), (channels * pixels, pixels, 1))
    # Each image would compute the weight again.
    return OperandMatrix(True, (1, made.sizes[1], channels), (0, channels, 1)) if images == 1 else None


def _prologues(
    steps: Sequence[Step], product: PointwiseCall, index: int, results: set[Node]
) -> Iterator[Prologue]:
    """Yield the prologues made of steps that only this matmul reads, the longest first."""
    operand = product.values[index]
    matrices = operand_matrices(product, index)
    views: list[Node] = []
    node, reader = operand, product.node
    if [value for value in product.values if value is operand] != [operand]:
        return
    while list(node.users) == [reader] and node not in results and _is_view(node):
        views.append(node)
        node, reader = node.args[0], node
    made_by = {result_of(each[-1]): each for step in steps if (each := _calls_of(step))}
    calls: tuple[PrologueCall, ...] = ()
    candidates: list[Prologue] = []
    inside = {reader}
    while node in made_by and node not in results and set(node.users) <= inside:
        calls = (*made_by[node], *calls)
        inside |= {node for call in calls for node in (call.node, result_of(call))}
        sources = _sources(calls)
        if len(sources) != 1 or len(calls) > MAX_STEPS:
            break
        node = sources[0]
        for matrix in matrices:
            made = Prologue(operand, calls, tuple(reversed(views)), node, matrix)
            if all(made.terms(each) is not None for each in made.inputs):
                candidates.append(made)
    yield from reversed(candidates)


def _is_view(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target._entry.name in VIEWS


def _calls_of(step: Step) -> tuple[PrologueCall, ...]:
    """Return the steps of a pointwise kernel whose only result comes last, or a batch norm; empty for any other."""
    if isinstance(step, OperatorCall):
        norm = channel_norm_call(step.node)
        call = element_call(step.node) if norm is None else norm
        return () if call is None else (call,)
    if not isinstance(step, FusedKernel) or step.outputs != (step.calls[-1].node,):
        return ()
    pointwise = tuple([call for call in step.calls if isinstance(call, PointwiseCall)])
    return pointwise if len(pointwise) == len(step.calls) else ()


def _sources(calls: Sequence[PrologueCall]) -> list[Node]:
    """Return the inputs of steps that have an element for each of the result's."""
    inside, made = {result_of(call) for call in calls}, result_of(calls[-1]).val
    read = dict.fromkeys(o for call in calls for o in call.operands if isinstance(o, Node))
    return [node for node in read if node not in inside and node.val.numel == made.numel]


def _with(kernel: ProductKernel, prologue: Prologue) -> ProductKernel:
    """Return a kernel with one more prologue."""
    calls = (*prologue.steps, *kernel.calls)
    nodes = [call.node for call in calls]
    inside = set(nodes)
    inputs = dict.fromkeys(n for node in nodes for n in node.all_input_nodes if n not in inside)
    return replace(kernel, calls=calls, inputs=tuple(inputs), prologues=(*kernel.prologues, prologue))

"""Matmul with an epilogue, with prologues, or both, as a step of a schedule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from ..dispatch.layers.graph.graph import Node
from ..runtime.device import device as Device
from ..runtime.tensor_spec import TensorSpec
from .channel_norms import ChannelNormCall, is_channels_last
from .draws import DropoutCall
from .element_places import Terms, grouped_terms, memory_order, permuted
from .kernel_names import joined_name
from .pointwise import PointwiseCall
from .reductions import ResultOf

EpilogueCall = PointwiseCall | ChannelNormCall | DropoutCall
"""A step that may be in an epilogue: pointwise, a batch norm of a convolution's channels, or a dropout."""


PrologueCall = PointwiseCall | ChannelNormCall
"""A step that may be in a prologue."""
Triple = tuple[int, int, int]


class OperandMatrix(NamedTuple):
    """Operand as the matmul kernel multiplies it.

    Attributes:
        is_left: True for the left operand, such as the input of a convolution that is not 1x1.
        sizes, strides: Batch, rows and columns; of a volume: images or filters, pixels or taps, and channels.
        is_volume: True for an operand of a convolution that is not a matmul.
    """

    is_left: bool
    sizes: Triple
    strides: Triple
    is_volume: bool = False


def result_of(call: EpilogueCall) -> Node:
    """Return the node of a step's result; for a batch norm, the node that takes its first result."""
    return next(iter(call.node.users)) if isinstance(call, ChannelNormCall) else call.node


@dataclass(frozen=True)
class Prologue:
    """Steps that make an operand of a matmul, computed on the tiles that the matmul loads.

    Attributes:
        operand: The operand as the matmul reads it.
        calls: The steps in order; the last makes the operand.
        views: The views through which the matmul reads it, in order.
        source: The input that has an element for each of the operand's.
        matrix: The operand as it is multiplied.
    """

    operand: Node
    calls: tuple[PrologueCall, ...]
    views: tuple[Node, ...]
    source: Node
    matrix: OperandMatrix

    @property
    def is_left(self) -> bool:
        """True for the left operand."""
        return self.matrix.is_left

    @property
    def made(self) -> Node:
        """The step that makes the operand."""
        return result_of(self.calls[-1])

    @property
    def steps(self) -> tuple[PrologueCall | ResultOf, ...]:
        """All steps: computed steps, the steps that take their results, and views."""
        prologue_steps: list[PrologueCall | ResultOf] = []
        for call in self.calls:
            prologue_steps.append(call)
            if isinstance(call, ChannelNormCall):
                prologue_steps.append(ResultOf(result_of(call)))
        return *prologue_steps, *map(ResultOf, self.views)

    @property
    def inputs(self) -> list[Node]:
        """Inputs of the steps, the source first."""
        inside = {result_of(call) for call in self.calls}
        read = [o for call in self.calls for o in call.operands if isinstance(o, Node) and o not in inside]
        return list(dict.fromkeys([self.source, *read]))

    def terms(self, node: Node) -> tuple[Terms, Terms, Terms] | None:
        """Return the address terms of an input by the operand's batch, row and column; None if these do not determine
        it."""
        made = self.made.val
        sizes, strides = self.matrix.sizes, self.matrix.strides
        inner, outer = memory_order(made.sizes, made.strides), memory_order(sizes, strides)
        input_spec = self._spec(node)
        if inner is None or outer is None or input_spec is None or made.numel != math.prod(sizes):
            return None
        spec = permuted(input_spec, made.sizes, inner)
        groups = grouped_terms(spec, spec.sizes, [sizes[i] for i in outer])
        if groups is None:
            return None
        batch, rows, columns = (groups[outer.index(i)] for i in range(3))
        return batch, rows, columns

    def _spec(self, node: Node) -> TensorSpec | None:
        """Return an input's spec as the steps broadcast it; None if they broadcast it differently."""
        readers = [call for call in self.calls if any(o is node for o in call.operands)]
        specs = {c.operand_spec(node) if isinstance(c, ChannelNormCall) else node.val for c in readers}
        return specs.pop() if len(specs) == 1 else None


@dataclass(frozen=True)
class ProductKernel:
    """A matmul, the steps that make its operands, and its epilogue.

    Attributes:
        product: The matmul.
        calls: All steps in order. A `ResultOf` is a view, or takes a result of a batch norm or of dropout.
        inputs: The outside nodes that they read.
        outputs: The steps that are read outside, or are results. A matmul and its views are one.
        prologues: The prologue of each computed operand.
    """

    product: PointwiseCall
    calls: tuple[EpilogueCall | ResultOf, ...]
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    prologues: tuple[Prologue, ...] = ()

    @property
    def computed(self) -> list[EpilogueCall]:
        """Computed steps: prologues, the matmul, and its epilogue."""
        return [call for call in self.calls if not isinstance(call, ResultOf)]

    @property
    def epilogue(self) -> list[EpilogueCall]:
        """Steps after the matmul, in order."""
        computed = self.computed
        return computed[computed.index(self.product) + 1 :]

    @property
    def is_channels_last(self) -> bool:
        """True for a channels-last convolution."""
        return is_channels_last(self.product.node.val)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Batch, rows and columns of the result, in memory order.

        For a convolution: images, channels and pixels; if channels-last: 1, all pixels, and channels.
        """
        sizes = self.product.node.val.sizes
        if self.is_channels_last:
            return 1, sizes[0] * math.prod(sizes[2:]), sizes[1]
        if self.product.node.target._entry.name == "aten::convolution":
            return sizes[0], sizes[1], math.prod(sizes[2:])
        b, m, n = (1, *sizes)[-3:]
        return b, m, n

    @property
    def draws(self) -> list[DropoutCall]:
        """Random ops of the kernel, in order."""
        return [call for call in self.calls if isinstance(call, DropoutCall)]

    @property
    def operands(self) -> list[Node]:
        """The inputs that the epilogue reads."""
        read = dict.fromkeys(o for call in self.epilogue for o in call.operands if isinstance(o, Node))
        return [node for node in self.inputs if node in read]

    @property
    def tiles(self) -> int:
        """Number of epilogue operands and results with one element for each of the matmul's."""
        numel = math.prod(self.sizes)
        results = {self.root(node) for node in self.outputs}
        whole = [node for node in self.operands if node.val.numel == numel]
        return len(results) + len(whole)

    @property
    def device(self) -> Device:
        """Device of the kernel."""
        spec: TensorSpec = self.product.node.val
        return spec.device

    @property
    def name(self) -> str:
        """The names of its operators, joined."""
        return joined_name(self.computed)

    def root(self, node: Node) -> Node:
        """Return the step whose elements a step of the kernel has: itself, or the base of the view."""
        drawn = {each for call in self.draws for each in call.results.values()}
        views = {call.node for call in self.calls if isinstance(call, ResultOf)} - drawn
        while node in views:
            node = node.args[0]
        return node

    def __str__(self) -> str:
        inputs, outputs = ", ".join(map(repr, self.inputs)), ", ".join(map(repr, self.outputs))
        spec = self.product.node.val
        head = f"kernel {self.name}({inputs}) -> {outputs} over {list(spec.sizes)} on {spec.device}:"
        return "\n".join([head, *(f"    {call.node.format_node()}" for call in self.calls)])

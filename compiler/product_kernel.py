"""A product with an epilogue, with prologues, or both, as a step of a schedule."""

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
"""A step that may be in an epilogue: pointwise, of a convolution's channels, or a draw."""


PrologueCall = PointwiseCall | ChannelNormCall
"""A step that may be in a prologue."""
Triple = tuple[int, int, int]


class OperandMatrix(NamedTuple):
    """An operand as the product's kernel multiplies it.

    Attributes:
        is_left: whether it is the left one, which the input of a convolution of several taps is.
        sizes, strides: batch, rows and columns; of a volume images or filters, pixels or taps, and channels.
        is_volume: whether it is of a convolution that is no product of matrices.
    """

    is_left: bool
    sizes: Triple
    strides: Triple
    is_volume: bool = False


def result_of(call: EpilogueCall) -> Node:
    """The node of a step's result: of a batch norm what takes it."""
    return next(iter(call.node.users)) if isinstance(call, ChannelNormCall) else call.node


@dataclass(frozen=True)
class Prologue:
    """The steps that make an operand of a product, computed of the tiles that the product loads.

    Attributes:
        operand: the operand as the product reads it.
        calls: the steps in order, the last of which makes the operand.
        views: those through which the product reads it, in order.
        source: the input that has an element for each of the operand's.
        matrix: the operand as it is multiplied.
    """

    operand: Node
    calls: tuple[PrologueCall, ...]
    views: tuple[Node, ...]
    source: Node
    matrix: OperandMatrix

    @property
    def is_left(self) -> bool:
        """Whether it is the left operand."""
        return self.matrix.is_left

    @property
    def made(self) -> Node:
        """The step that makes the operand."""
        return result_of(self.calls[-1])

    @property
    def steps(self) -> tuple[PrologueCall | ResultOf, ...]:
        """All steps: those that are computed, what takes their results, and views."""
        found: list[PrologueCall | ResultOf] = []
        for call in self.calls:
            found.append(call)
            if isinstance(call, ChannelNormCall):
                found.append(ResultOf(result_of(call)))
        return *found, *map(ResultOf, self.views)

    @property
    def inputs(self) -> list[Node]:
        """What the steps read, the source first."""
        inside = {result_of(call) for call in self.calls}
        read = [o for call in self.calls for o in call.operands if isinstance(o, Node) and o not in inside]
        return list(dict.fromkeys([self.source, *read]))

    def terms(self, node: Node) -> tuple[Terms, Terms, Terms] | None:
        """Where the element of an input lies by the operand's batch, row and column; None where these do not say it."""
        made = self.made.val
        sizes, strides = self.matrix.sizes, self.matrix.strides
        inner, outer = memory_order(made.sizes, made.strides), memory_order(sizes, strides)
        given = self._spec(node)
        if inner is None or outer is None or given is None or made.numel != math.prod(sizes):
            return None
        spec = permuted(given, made.sizes, inner)
        found = grouped_terms(spec, spec.sizes, [sizes[i] for i in outer])
        if found is None:
            return None
        batch, rows, columns = (found[outer.index(i)] for i in range(3))
        return batch, rows, columns

    def _spec(self, node: Node) -> TensorSpec | None:
        """An input's spec as steps broadcast it; None where they do so differently."""
        readers = [call for call in self.calls if any(o is node for o in call.operands)]
        specs = {c.operand_spec(node) if isinstance(c, ChannelNormCall) else node.val for c in readers}
        return specs.pop() if len(specs) == 1 else None


@dataclass(frozen=True)
class ProductKernel:
    """A product, the steps that make its operands, and those that are computed of its elements before these are stored.

    Attributes:
        product: the product.
        calls: all steps in order; a view is a `ResultOf`, as is what takes a result of a batch norm or of dropout.
        inputs: the nodes outside that they read.
        outputs: the steps that are read outside, or are results; a product and its views are one.
        prologues: of each operand that is computed.
    """

    product: PointwiseCall
    calls: tuple[EpilogueCall | ResultOf, ...]
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    prologues: tuple[Prologue, ...] = ()

    @property
    def computed(self) -> list[EpilogueCall]:
        """The steps that are computed: prologues, the product, and its epilogue."""
        return [call for call in self.calls if not isinstance(call, ResultOf)]

    @property
    def epilogue(self) -> list[EpilogueCall]:
        """The steps behind the product, in order."""
        computed = self.computed
        return computed[computed.index(self.product) + 1 :]

    @property
    def is_channels_last(self) -> bool:
        """Whether it is a convolution whose channels lie innermost."""
        return is_channels_last(self.product.node.val)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Those of the product: batch, rows and columns, in the order in which elements lie.

        Of a convolution images, channels and pixels; where channels lie innermost 1, all pixels, and channels.
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
        """Its draws of random numbers, in order."""
        return [call for call in self.calls if isinstance(call, DropoutCall)]

    @property
    def operands(self) -> list[Node]:
        """The inputs that the epilogue reads."""
        read = dict.fromkeys(o for call in self.epilogue for o in call.operands if isinstance(o, Node))
        return [node for node in self.inputs if node in read]

    @property
    def tiles(self) -> int:
        """How many operands of the epilogue, and results, have an element for each of the product's."""
        numel = math.prod(self.sizes)
        results = {self.root(node) for node in self.outputs}
        whole = [node for node in self.operands if node.val.numel == numel]
        return len(results) + len(whole)

    @property
    def device(self) -> Device:
        """Where it runs."""
        spec: TensorSpec = self.product.node.val
        return spec.device

    @property
    def name(self) -> str:
        """The names of its operators, joined."""
        return joined_name(self.computed)

    def root(self, node: Node) -> Node:
        """The step whose elements a step of the kernel has: itself, or what it is a view of."""
        drawn = {each for call in self.draws for each in call.results.values()}
        views = {call.node for call in self.calls if isinstance(call, ResultOf)} - drawn
        while node in views:
            node = node.args[0]
        return node

    def __str__(self) -> str:
        given, made = ", ".join(map(repr, self.inputs)), ", ".join(map(repr, self.outputs))
        spec = self.product.node.val
        head = f"kernel {self.name}({given}) -> {made} over {list(spec.sizes)} on {spec.device}:"
        return "\n".join([head, *(f"    {call.node.format_node()}" for call in self.calls)])

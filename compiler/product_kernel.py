"""A product with an epilogue, as a step of a schedule."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..dispatch.layers.graph.graph import Node
from ..runtime.device import device as Device
from ..runtime.tensor_spec import TensorSpec
from .channel_norms import ChannelNormCall, is_channels_last
from .kernel_names import joined_name
from .pointwise import PointwiseCall
from .reductions import ResultOf

EpilogueCall = PointwiseCall | ChannelNormCall
"""A step that may be in an epilogue: pointwise, or of a convolution's channels."""


@dataclass(frozen=True)
class ProductKernel:
    """A product, and the pointwise steps that are computed of its elements before they are stored.

    Attributes:
        product: the product.
        calls: all steps in order; a view is a `ResultOf`, as is what takes the result of a batch norm.
        inputs: the nodes outside that they read.
        outputs: the steps that are read outside, or are results; a product and its views are one.
    """

    product: PointwiseCall
    calls: tuple[EpilogueCall | ResultOf, ...]
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]

    @property
    def computed(self) -> list[EpilogueCall]:
        """The steps that are computed: the product, and its epilogue."""
        return [call for call in self.calls if not isinstance(call, ResultOf)]

    @property
    def epilogue(self) -> list[EpilogueCall]:
        """The steps beside the product, in order."""
        return [call for call in self.computed if call is not self.product]

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
        views = {call.node for call in self.calls if isinstance(call, ResultOf)}
        while node in views:
            node = node.args[0]
        return node

    def __str__(self) -> str:
        given, made = ", ".join(map(repr, self.inputs)), ", ".join(map(repr, self.outputs))
        spec = self.product.node.val
        head = f"kernel {self.name}({given}) -> {made} over {list(spec.sizes)} on {spec.device}:"
        return "\n".join([head, *(f"    {call.node.format_node()}" for call in self.calls)])

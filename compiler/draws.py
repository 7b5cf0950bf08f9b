"""Fusion of dropout: a kernel generates the same random numbers as an eager call.

Element i of a random op has word i % 4 of counter `first` + i // 4 (`dispatch/structured/meta/draws.py`), in every
kernel. A kernel call takes the counters of its random ops from the device's generator, in program order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.layers.graph.graph import Node
from ..dispatch.structured.meta.draws import counters
from ..runtime.cpu.object_code import is_possible
from ..runtime.generator import get_cpu_engine
from ..runtime.scalar_type import bfloat16, float16, float32, float64
from ..runtime.tensor_spec import TensorSpec
from .pointwise import bound_arguments
from .reductions import takes_each_once

DTYPES = frozenset({float16, bfloat16, float32, float64})


class DropoutCall(NamedTuple):
    """Dropout of elements, with the mask of the kept ones.

    Attributes:
        node: The step.
        source: The input.
        p: The probability of dropping an element.
    """

    node: Node
    source: Node
    p: float

    @property
    def operands(self) -> list[Any]:
        """Input of the dropout."""
        return [self.source]

    @property
    def spec(self) -> TensorSpec:
        """Spec of the output."""
        spec: TensorSpec = self.source.val
        return spec

    @property
    def counters(self) -> int:
        """How many counters it takes."""
        return counters(self.spec, False)

    @property
    def results(self) -> dict[int, Node]:
        """Nodes that take a result, by its place: the output, and the mask."""
        return {user.args[1]: user for user in self.node.users}


def dropout_call(node: Node) -> DropoutCall | None:
    """Return a step as a fusible dropout, or None."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return None
    if node.target._entry.name != "aten::native_dropout":
        return None
    source, p, train = bound_arguments(node)
    if train is False or not isinstance(p, float | int) or not 0 <= p <= 1:
        return None
    if not isinstance(source, Node) or not takes_each_once(node):
        return None
    spec = source.val
    if spec.device.type not in ("cpu", "cuda") or spec.dtype not in DTYPES or spec.numel < 2 or not spec.ndim:
        return None
    if not all(each.is_contiguous for each in (spec, *node.val)):
        return None
    if spec.device.type == "cpu" and (get_cpu_engine() != "philox" or not is_possible()):
        return None
    return DropoutCall(node, source, float(p))

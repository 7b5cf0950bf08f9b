"""Fusion of dropout: a kernel generates the same random numbers as an eager call.

Element i of a random op has word i % 4 of counter `first` + i // 4 (`dispatch/structured/meta/draws.py`), in every
kernel. A kernel call takes the counters of its random ops from the device's generator, in program order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.layers.graph.graph import Node
from ..dispatch.structured.meta.draws import counters
from ..runtime.cpu.object_code import is_possible
from ..runtime.generator import get_cpu_engine
from ..runtime.scalar_type import bfloat16, float16, float32, float64
from ..runtime.tensor_spec import TensorSpec
from .fused_step import EagerCall, FusedStep, IndexSpace
from .pointwise import bound_arguments
from .reductions import takes_each_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..runtime.cpu.element_program import ElementProgram, Value
    from .host.lowering import Lowered
    from .host.row_program import LoweredRows
    from .triton.pointwise import ElementWriter
    from .triton.row_statements import Program

DTYPES = frozenset({float16, bfloat16, float32, float64})


@dataclass(frozen=True)
class DropoutCall(FusedStep):
    """Dropout of elements, with the mask of the kept ones.

    Attributes:
        node: The step.
        source: The input.
        p: The probability of dropping an element.
    """

    node: Node
    source: Node
    p: float
    is_split_off: ClassVar[bool] = True

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

    def is_supported_in(self, space: IndexSpace) -> bool:
        """Return True if it drops elements of whole rows."""
        return space.is_rows and bool(self.spec.sizes == space.sizes)

    def is_loop_alone(self, stubs: frozenset[str]) -> bool:
        """Return True on the CPU."""
        return self.spec.device.type == "cpu"

    def lower_elements(self, kernel: Lowered) -> dict[Node, Value]:
        """Add the step to a CPU loop over elements."""
        return self._lowered(kernel.program, kernel.random_ops, kernel.values)

    def lower_row(self, kernel: LoweredRows, values: dict[Node, Value]) -> dict[Node, Value]:
        """Add the step to a CPU loop over rows."""
        return self._lowered(kernel.elements, kernel.random_ops, values)

    def _lowered(
        self, program: ElementProgram, random_ops: Sequence[DropoutCall], values: dict[Node, Value]
    ) -> dict[Node, Value]:
        from .host.draws import dropped

        made = dropped(program, self, random_ops.index(self), values[self.source])
        return {node: made[index] for index, node in self.results.items()}

    def eager_call(self) -> EagerCall:
        """Return the step as an eager call."""
        from .host.draws import eager_draw

        return EagerCall(eager_draw(self), [self.source], [self.results.get(index) for index in (0, 1)])

    def write_elements(self, writer: ElementWriter) -> dict[Node, str]:
        """Add the step to a pointwise CUDA kernel."""
        from .triton.draws import values_of

        source = writer.values_for(self)[self.source]
        return values_of(self, writer.kernel.draws.index(self), source, writer.imports)

    def write_row(self, program: Program, values: dict[Node, str], row_size: int) -> dict[Node, str]:
        """Add the step to a CUDA kernel over rows."""
        from .triton.draws import dropped_rows

        made = dropped_rows(program, self, values[self.source], row_size)
        return {node: made[index] for index, node in self.results.items()}


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

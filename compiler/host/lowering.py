"""Lowering of operators to values of an element program, bitwise identical to the kernels in `cpu_fallback`.

An operator's row describes its eager kernel: the function, the dtype, and where it rounds. An operator without a row
for its dtypes is left to NumPy. A ufunc without instructions is called between the loops around it. Sizes are those of
the whole tensors: eager kernels may differ between many and few elements, and these rows model many.
"""

from __future__ import annotations

from ...cpu_fallback.elementwise.activation_rows import ACTIVATIONS
from ...cpu_fallback.elementwise.arithmetic_rows import ARITHMETIC
from ...cpu_fallback.elementwise.constants import RangedConstants
from ...cpu_fallback.elementwise.operator_step import Row, Step
from ...dispatch.layers.graph.graph import Node
from ...dispatch.plans.structured_kernel import StructuredKernel
from ...dispatch.structured.stub import StructuredCall
from ...runtime.cpu.element_program import REGISTERS, CannotLower, ElementProgram, Value
from ...runtime.tensor_spec import TensorSpec
from ..pointwise import CopyKernel, PointwiseCall
from ..schedule import FusedKernel

LOWERINGS: dict[str, Row] = {**ARITHMETIC, **ACTIVATIONS}
"""By stub: the value of an operator's call."""


class Lowered:
    """A fused kernel as an element program.

    A program may have several elements of a kernel: `first` is the position of this one's first input.

    Attributes:
        program: The program, to which steps add values.
        inputs: The nodes of the kernel's inputs.
        first: The position of the kernel's first input among the program's.
        random_ops: The kernel's random ops, in order.
        picks: The kernel's gathers, in order.
        specs: The spec of each node, inputs and steps.
        values: The value of each node.
        outputs: The values of the kernel's outputs.
    """

    def __init__(self, kernel: FusedKernel, program: ElementProgram, first: int = 0) -> None:
        self.program, self.inputs, self.first = program, kernel.inputs, first
        self.random_ops, self.picks = kernel.draws, kernel.picks
        self.values: dict[Node, Value] = {}
        for i, node in enumerate(kernel.inputs, first):
            self.values[node] = program.value("input", node.val.dtype.name, detail=i)
        self.specs = {node: node.val for node in (*kernel.inputs, *(call.node for call in kernel.calls))}
        for call in kernel.computed:
            self.values |= call.lower_elements(self)
        self.outputs = [self.values[node] for node in kernel.outputs]


def lowered_or_numpy(call: PointwiseCall, kernel: Lowered) -> Value:
    """Return the value of a step, which NumPy computes if there are no instructions for it."""
    try:
        return lowered_step(kernel.program, call, kernel.specs, kernel.values)
    except CannotLower:
        operands = [kernel.values[o] for o in call.operands if isinstance(o, Node)]
        return kernel.program.value("operator", call.node.val.dtype.name, operands=operands, detail=call)


def lowered_step(
    program: ElementProgram, call: PointwiseCall, specs: dict[Node, TensorSpec], values: dict[Node, Value]
) -> Value:
    """Return the value of a step. May raise CannotLower."""
    out = call.node.val.dtype.name
    if out not in REGISTERS:
        raise CannotLower(out)
    if isinstance(call.kernel, CopyKernel):
        return program.convert(values[call.operands[0]], out)
    if not isinstance(call.kernel, StructuredKernel):
        raise CannotLower(call.node.target.name())
    structured, _ = call.planned(specs)
    if call.kernel.stub == "masked_fill_stub":
        return _filled(program, structured, call, values)
    row = LOWERINGS.get(call.kernel.stub.removesuffix("_stub"))
    if row is None:
        raise CannotLower(call.kernel.stub)
    if structured.iterator is None and "common_dtype" not in structured.extra:
        raise CannotLower(structured.name)
    return program.convert(row(Step(program, structured, call.operands, values)), out)


def _filled(
    program: ElementProgram, structured: StructuredCall, call: PointwiseCall, values: dict[Node, Value]
) -> Value:
    """Lower masked_fill with a number, which is converted to the dtype without promotion."""
    bound = dict(zip(structured.runtime, call.operands, strict=True))
    number = bound["value"] if "value" in bound else structured.args["value"]
    spec = structured.outputs[0]
    if isinstance(number, Node):
        raise CannotLower("masked_fill")
    try:
        filled = RangedConstants(spec.np_dtype, float, spec.dtype)[number]
    except RuntimeError as error:  # The eager kernel refuses it.
        raise CannotLower("masked_fill") from error
    mask, data = values[bound["mask"]], values[bound["self"]]
    return program.select(mask, program.number(filled[()], spec.dtype.name), data)

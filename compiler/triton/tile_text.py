"""Source of computations over a tile: addresses by rows and columns, loads, and pointwise steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...dispatch.layers.graph.graph import Node
from ...runtime.tensor_spec import TensorSpec
from ...triton_kernels.conversion import triton_type
from ..element_places import Terms
from ..pointwise import PointwiseCall
from .pointwise import operands_of
from .source_text import step_text, type_text

MARGIN = 1 << 20
"""The most elements by which a program's masked offsets may exceed a tensor's end."""


def reach(node: Node) -> int:
    """Return one more than the largest offset of a tensor's elements."""
    spec: TensorSpec = node.val
    return 1 + sum((size - 1) * abs(stride) for size, stride in zip(spec.sizes, spec.strides, strict=True))


def offset_by(index: str, terms: Terms, count: int, names: Mapping[int, str]) -> str:
    """Return an offset as source, by an index below `count`; `names` are the program's names of strides."""
    texts = []
    for divisor, size, stride in terms:
        text = index if divisor == 1 else f"{index} // {divisor}"
        if divisor * size < count:
            text = f"{text} % {size}"
        stride_name = names.get(stride, str(stride))
        texts.append(
            f"({text}) * {stride_name}"
            if text != index
            else index
            if stride == 1
            else f"{index} * {stride_name}"
        )
    return " + ".join(texts)


def load_text(pointer: str, by_row: str, by_column: str, is_row: str, is_column: str, mask: str) -> str:
    """Return a load of an operand with an element for each place of a tile, for each row, for each column, or
    for all."""
    if by_row and by_column:
        return f"tl.load({pointer} + ({by_row})[:, None] + ({by_column})[None, :], mask={mask})"
    if by_row:
        return f"tl.load({pointer} + {by_row}, mask={is_row})[:, None]"
    if by_column:
        return f"tl.load({pointer} + {by_column}, mask={is_column})[None, :]"
    return f"tl.load({pointer})"


def step_lines(
    call: PointwiseCall,
    name: str,
    values: dict[Node, str],
    specs: dict[Node, TensorSpec],
    imports: dict[Any, str],
) -> list[str]:
    """Return the lines that define a pointwise step's result, rounded to its dtype; functions are added to
    `imports`."""
    element = call.planned(specs)[1].element
    assert element is not None
    function = imports.setdefault(element.function, f"f_{element.function.__name__}_{len(imports)}")
    arguments = operands_of(element, call.operands, values)
    return [
        f"# {step_text(call.node, values)}",
        f"{name} = convert({function}({arguments}), {type_text(triton_type(call.node.val.dtype))})",
    ]

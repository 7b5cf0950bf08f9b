"""The source of a batch norm by running statistics, a step of pointwise kernels, epilogues and prologues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...dispatch.layers.graph.graph import Node
from ...triton_kernels.conversion import compute_type, triton_type
from ...triton_kernels.elementwise.pointwise_functions import rsqrt
from ..channel_norms import ChannelNormCall
from ..product_kernel import result_of
from .source_text import step_text, type_text

if TYPE_CHECKING:
    from .pointwise import ElementWriter


def normalised_elements(call: ChannelNormCall, writer: ElementWriter) -> dict[Node, str]:
    """Add the lines of a batch norm to a pointwise kernel. Return its first result as source."""
    name = f"n{writer.kernel.computed.index(call)}"
    writer.lines += normalised_lines(call, name, writer.values_for(call), writer.imports)
    return {result_of(call): name}


def normalised_lines(
    call: ChannelNormCall, name: str, values: Mapping[Node, str], imports: dict[Any, str]
) -> list[str]:
    """Return the lines that define a batch norm's result, as `normalise_channels` computes it."""
    compute = type_text(compute_type(call.input.val.dtype))
    imports.setdefault(rsqrt, "rsqrt")

    def of(node: Node) -> str:
        return f"convert({values[node]}, {compute})"

    factor = f"rsqrt({of(call.variance)} + tl.full([], {call.eps!r}, {compute}))"
    if call.weight is not None:
        factor += f" * {of(call.weight)}"
    lines = [
        f"# {step_text(call.node, values)}",
        f"{name} = ({of(call.input)} - {of(call.mean)}) * ({factor})",
    ]
    if call.bias is not None:
        lines.append(f"{name} = {name} + {of(call.bias)}")
    return [*lines, f"{name} = convert({name}, {type_text(triton_type(call.input.val.dtype))})"]

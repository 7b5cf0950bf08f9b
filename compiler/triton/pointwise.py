"""Fused pointwise CUDA kernel: one Triton program over all of its steps, and its launch.

A step calls the scalar function of the eager kernel, in its compute type, and rounds its result to the dtype that it
has in the program. So results are bitwise identical to eager, and no intermediate goes to memory. The source names the
operator of each line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from ...dispatch.layers.graph.graph import Node
from ...dispatch.structured.allocation import allocator_of
from ...dispatch.structured.stub import ElementFunction
from ...runtime.memory_format import contiguous_strides
from ...runtime.tensor_spec import TensorSpec
from ...triton_kernels.conversion import triton_type
from ...triton_kernels.elementwise.elementwise import HEAVY
from ...triton_kernels.elementwise.kernel_parameters import BYTES, INTERPRETED_BLOCK
from ...triton_kernels.geometry import Geometry
from ...triton_kernels.launch import INT32_MAX, Launch, cdiv, interpreted, next_power_of_2
from ..fused_step import FusedStep
from ..pointwise import PointwiseCall
from ..schedule import FusedKernel
from .accesses import Accesses
from .draws import kept_lines
from .gathers import bound_of_pick
from .launch_arguments import FLAGS, LaunchArguments
from .source_files import module_of
from .source_text import number_text, type_text

WARPS = 4
"""Warps of a program, unless tuning found a better number."""

HEADER = '''"""{what}

Written by `tt.compile` for {device}; each step names the operator that it comes from.
"""

from triten.runtime.cuda.triton.lazy_triton import tl, triton
from triten.triton_kernels.conversion import convert
{imports}


@triton.jit
def {name}_elements({operands}, index, mask):
{body}


@triton.jit
def {name}({pointers}, n, BLOCK: tl.constexpr):
    start = tl.program_id(0).to({index_type}) * BLOCK
    index = start + tl.arange(0, BLOCK)
{draws}    if start + BLOCK <= n:
        {name}_elements({operands}, index, None)
    else:
        {name}_elements({operands}, index, index < n)
'''


class WrittenKernel(NamedTuple):
    """Source of a fused kernel, and the parameters of its launch.

    Attributes:
        name: The program's name.
        text: The module's source.
        numel: The number of elements of the index space.
        index_type: ``i32`` or ``i64``.
        is_heavy: True if a step uses so many registers that a program takes half a block.
    """

    name: str
    text: str
    numel: int
    index_type: str
    is_heavy: bool


@dataclass
class ElementWriter:
    """Source of the steps of a fused kernel, as it is written.

    Attributes:
        kernel: The kernel.
        accesses: Its loads, and the geometry of loads and stores.
        specs: The spec of each node, inputs and steps.
        pointers: The names of the inputs' pointers.
        dense: The strides of an operand whose offset is the index itself.
        lines: The lines so far; a step may add lines before its own.
        values: The names of the values of the steps so far.
        imports: Functions by their names in the source.
        is_heavy: True if a step uses many registers.
    """

    kernel: FusedKernel
    accesses: Accesses
    specs: dict[Node, TensorSpec]
    pointers: dict[Node, str]
    dense: tuple[int, ...]
    lines: list[str]
    values: dict[Node, str] = field(default_factory=dict)
    imports: dict[Any, str] = field(default_factory=dict)
    is_heavy: bool = False

    def values_for(self, step: FusedStep) -> dict[Node, str]:
        """Return the names of the values that a step reads: those of other steps, and loads."""
        return self.accesses.values_for(step, self.values)

    def function(self, function: Any) -> str:
        """Return the name of a `@triton.jit` function in the source."""
        return self.imports.setdefault(function, f"f_{function.__name__}_{len(self.imports)}")

    def offset(self, strides: Sequence[int]) -> str:
        """Return the offset of an operand with these strides, as source."""
        return offset_text(strides, self.dense)


def element_text(call: PointwiseCall, writer: ElementWriter) -> str:
    """Return the value of a pointwise step as source."""
    element = call.planned(writer.specs)[1].element
    if element is None:
        raise RuntimeError(f"{call.node.target.name()} has no function of one element")
    writer.is_heavy = writer.is_heavy or element.function in HEAVY
    arguments = operands_of(element, call.operands, writer.values_for(call))
    type_ = type_text(triton_type(call.node.val.dtype))
    return f"convert({writer.function(element.function)}({arguments}), {type_})"


def device_kernel(kernel: FusedKernel, tunes: bool = False) -> Callable[..., tuple[Any, ...]]:
    """Return a function from the buffers of a kernel's inputs to those of its outputs.

    Args:
        kernel: The kernel.
        tunes: If True, autotune its block and warps. Default: False.
    """
    written = write_kernel(kernel)
    block = block_of(kernel, written)
    # Timing runs would advance the random generator, and report indices that are out of bounds.
    if not tunes or kernel.draws or kernel.picks:
        return _launched(kernel, written, block, WARPS)
    from .tuning import configuration_of

    chosen = configuration_of(kernel, written.text, block, partial(_launched, kernel, written))
    return _launched(kernel, written, chosen.tile[0], chosen.warps)


def _launched(
    kernel: FusedKernel, written: WrittenKernel, block: int, warps: int
) -> Callable[..., tuple[Any, ...]]:
    launch, grid = plan_launch(kernel, written, block, warps)
    allocators = [allocator_of(node.val) for node in kernel.outputs]
    enqueue, n = launch.enqueue, written.numel
    if kernel.draws or kernel.picks:
        return launch_arguments(kernel).launching(launch, grid, allocators, n)

    def run(*inputs: Any) -> tuple[Any, ...]:
        outs = tuple([new() for new in allocators])
        enqueue(grid, *[x.address for x in inputs], *[out.address for out in outs], n)
        return outs

    return run


def plan_launch(
    kernel: FusedKernel, written: WrittenKernel, block: int | None = None, warps: int = WARPS
) -> tuple[Launch, tuple[int, int, int]]:
    """Plan the launch of a written kernel, and its grid. Without a block, choose the one that fits its operands."""
    specs = [node.val for node in (*kernel.inputs, *kernel.outputs)]
    names = [f"a{i}" for i in range(len(kernel.inputs))] + [f"b{i}" for i in range(len(kernel.outputs))]
    if block is None:
        block = block_of(kernel, written)
    signature = {name: f"*{spec.dtype.triton_name}" for name, spec in zip(names, specs, strict=True)}
    more = launch_arguments(kernel)
    launch = Launch(
        kernel.domain.device,
        getattr(module_of(written.text), written.name),
        {**signature, **more.signature, "n": written.index_type},
        {"BLOCK": block},
        divisible=["n"] if written.numel % 16 == 0 else [],
        elements=[
            *more.elements,
            *(name for name, spec in zip(names, specs, strict=True) if spec.numel == 1),
        ],
        num_warps=warps,
    )
    return launch, (cdiv(written.numel, block), 1, 1)


def block_of(kernel: FusedKernel, written: WrittenKernel) -> int:
    """Return the elements of a program: 128-bit accesses of four warps to the widest operand."""
    if interpreted():
        return min(max(next_power_of_2(written.numel), 16), INTERPRETED_BLOCK)
    widest: int = max(node.val.itemsize for node in (*kernel.inputs, *kernel.outputs))
    return BYTES // max(widest, 2) // (2 if written.is_heavy else 1)


def write_kernel(kernel: FusedKernel) -> WrittenKernel:
    """Write the source of a fused kernel."""
    domain = kernel.domain
    specs = {node: node.val for node in kernel.inputs} | {c.node: c.node.val for c in kernel.calls}
    accesses = Accesses(kernel)
    geometry = accesses.geometry
    wide = max(geometry.extent(), domain.numel) + 2 * INTERPRETED_BLOCK > INT32_MAX
    index_type = "i64" if wide else "i32"
    sources = {node: f"a{i}" for i, node in enumerate(kernel.inputs)}
    targets = {node: f"b{i}" for i, node in enumerate(kernel.outputs)}
    dense = contiguous_strides(geometry.sizes[::-1])[::-1]
    is_dense = (
        not accesses.coordinates
        and not kernel.picks
        and all(own == dense or not any(own) for own in geometry.strides)
    )
    lines = [] if is_dense else offsets(geometry)
    # Without coordinates the program is that of any sizes, and compiled once for all of them.
    over = f": {list(domain.sizes)}" if lines else ""
    lines += accesses.mask_lines()
    for i, access in enumerate(accesses.loads):
        node, shift = access.node, access.shift(domain.sizes)
        mask = "mask" if access.region is None else accesses.mask_of(access.region)
        load = loaded(sources[node], geometry.strides[i], dense, shift, mask)
        lines.append(f"x{i} = {load}  # %{node.name}")
    writer = ElementWriter(kernel, accesses, specs, sources, dense, lines)
    values, imports = writer.values, writer.imports
    for i, call in enumerate(kernel.computed):
        texts = call.write_elements(writer)
        step = call.node.format_node()
        lines.append(f"# {step}" if over else f"# %{call.node.name} = {step.partition(' = ')[2]}")
        for node, value in texts.items():
            values[node] = f"y{i}" if len(texts) == 1 else f"y{i}_{node.args[1]}"
            lines.append(f"{values[node]} = {value}")
            if node in targets:
                offset = writer.offset(accesses.strides_of_output(node))
                lines.append(f"tl.store({targets[node]} + {offset}, {values[node]}, mask=mask)")
    pointers = [*sources.values(), *targets.values()]
    drawn = [f"keep_{i}" for i in range(len(kernel.draws))]
    draws: list[str] = []
    if drawn:
        offset = offset_text(accesses.strides_of_draws, dense)
        draws = kept_lines(kernel.draws, offset, offsets(geometry), imports)
    text = HEADER.format(
        what=f"{', '.join(c.node.target.name().removeprefix('aten::') for c in kernel.computed)}{over}.",
        device=domain.device.type,
        imports="\n".join(import_of(function, name) for function, name in imports.items()),
        name=kernel.name,
        pointers=", ".join([*pointers, *launch_arguments(kernel).signature]),
        operands=", ".join([*pointers, *drawn, *([FLAGS] if kernel.picks else [])]),
        draws="".join(f"    {line}\n" for line in draws),
        body="\n".join(f"    {line}" for line in lines),
        index_type="tl.int64" if wide else "tl.int32",
    )
    return WrittenKernel(kernel.name, text, math.prod(domain.sizes), index_type, writer.is_heavy)


def launch_arguments(kernel: FusedKernel) -> LaunchArguments:
    """Return the launch arguments besides inputs and outputs."""
    bounds = [(bound_of_pick(call), kernel.inputs.index(call.numbers)) for call in kernel.picks]
    return LaunchArguments(kernel.device, bounds, kernel.draws)


def import_of(function: Any, name: str) -> str:
    """Return the import line of a scalar function."""
    return f"from {function.__module__} import {function.__name__} as {name}"


def offsets(geometry: Geometry) -> list[str]:
    """Return the lines that split an index into coordinates, the innermost first."""
    lines, rest = [], "index"
    for i, size in enumerate(geometry.sizes):
        if i == len(geometry.sizes) - 1:
            lines.append(f"i{i} = {rest}")
        else:
            lines += [f"i{i} = {rest} % {size}", f"r{i} = {rest} // {size}"]
            rest = f"r{i}"
    return lines


def offset_text(strides: Sequence[int], dense: Sequence[int]) -> str:
    """Return an operand's offset as source: the index itself if its strides are those of the outputs, `dense`."""
    if tuple(strides) == tuple(dense):
        return "index"
    terms = [f"i{i}" if s == 1 else f"i{i} * {s}" for i, s in enumerate(strides) if s]
    return f"({' + '.join(terms)})" if terms else "0"


def loaded(
    pointer: str, strides: Sequence[int], dense: Sequence[int], shift: int = 0, mask: str = "mask"
) -> str:
    """Return the load of an operand as source; a single element is loaded once.

    Args:
        pointer: The operand's pointer.
        strides, dense: See `offset_text`.
        shift: The number subtracted from the offset. Default: 0.
        mask: The name of the mask. Elements outside of a mask other than the default are 1.
    """
    if not any(strides):
        return f"tl.load({pointer})"
    offset = offset_text(strides, dense) + (f" - {shift}" if shift else "")
    other = "" if mask == "mask" else ", other=1"
    return f"tl.load({pointer} + {offset}, mask={mask}{other})"


def operands_of(element: ElementFunction, operands: Sequence[Any], values: dict[Node, str]) -> str:
    """Return a scalar function's arguments as source, in its compute types."""
    arguments = []
    for index, type_, prepare in zip(element.operands, element.types, element.prepare, strict=True):
        operand = operands[index]
        if isinstance(operand, Node):
            arguments.append(f"convert({values[operand]}, {type_text(type_)})")
        else:
            arguments.append(f"tl.full([], {number_text(prepare(operand))}, {type_text(type_)})")
    return ", ".join(arguments)

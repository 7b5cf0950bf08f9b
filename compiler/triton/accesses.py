"""Loads of a fused CUDA kernel: the input, the place and the elements of each.

A step of a part of a `cat` reads its operands at the part's offset, and only for the part's elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...dispatch.layers.graph.graph import Node
from ...runtime.memory_format import contiguous_strides
from ...runtime.tensor_spec import TensorSpec
from ...triton_kernels.conversion import compute_type, triton_type
from ...triton_kernels.geometry import Geometry, broadcast_strides, coalesced
from ..concatenations import CatCall, Padding, Region, regions_of
from ..fused_step import FusedStep
from ..picks import PickCall
from ..schedule import FusedKernel
from .source_text import number_text, type_text

if TYPE_CHECKING:
    from .pointwise import ElementWriter


class Access(NamedTuple):
    """Input as a step reads it.

    Attributes:
        node: The input.
        region: The part of a `cat` for which it is read; None for all elements.
        spec: The broadcast spec of a per-channel input; None for the input's own spec.
    """

    node: Node
    region: Region | None
    spec: TensorSpec | None = None

    def strides(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the strides over an index space of these sizes."""
        spec = self.node.val if self.spec is None else self.spec
        return broadcast_strides(spec, sizes if self.region is None else self.region.sizes)

    def shift(self, sizes: Sequence[int]) -> int:
        """Return the number subtracted from the offset: a part begins at its own first element."""
        region = self.region
        return 0 if region is None else region.start * self.strides(sizes)[region.cat.dim]


class Accesses:
    """All loads of a kernel, and the geometry of loads and stores.

    Attributes:
        loads: The loads; those of all elements first, in the order of the inputs.
        names: The names of their values.
        regions: The steps that are computed for a part of a `cat`.
        coordinates: The dimensions along which steps need coordinates.
        geometry: The index space, with the strides of loads, stores, coordinates, gathers, and random ops.
    """

    def __init__(self, kernel: FusedKernel) -> None:
        self.kernel = kernel
        self.regions = regions_of(kernel.calls)
        self.cats = kernel.joins
        self.coordinates = list(dict.fromkeys(dim for call in kernel.computed for dim in call.coordinates))
        inputs = set(kernel.inputs)
        read = [
            self._access(call, index, operand)
            for call in kernel.computed
            for index, operand in enumerate(call.operands)
            if isinstance(operand, Node) and operand in inputs
        ]
        plain = [Access(node, None) for node in kernel.inputs]
        self.loads = [each for each in plain if each in set(read)]
        self.loads += dict.fromkeys(each for each in read if each not in self.loads)
        self.names = {each: f"x{i}" for i, each in enumerate(self.loads)}
        sizes = kernel.domain.sizes
        strides = [each.strides(sizes) for each in self.loads]
        strides += [broadcast_strides(node.val, sizes) for node in kernel.outputs]
        strides += [tuple([int(d == dim) for d in range(len(sizes))]) for dim in self.coordinates]
        strides += [pick.strides for pick in kernel.picks]
        strides += [contiguous_strides(tuple(sizes))] * bool(kernel.draws)
        # The outputs' order is that of the index.
        first, last = len(self.loads), len(self.loads) + len(kernel.outputs)
        merged = coalesced(sizes, [*strides[first:last], *strides[:first], *strides[last:]])
        made = last - first
        turned = (*merged.strides[made:last], *merged.strides[:made], *merged.strides[last:])
        self.geometry: Geometry = Geometry(merged.sizes, turned)

    def strides_of_output(self, node: Node) -> tuple[int, ...]:
        """Return an output's strides over the geometry."""
        return self.geometry.strides[len(self.loads) + self.kernel.outputs.index(node)]

    def strides_of_source(self, pick: PickCall) -> tuple[int, ...]:
        """Return the strides over the geometry of a gather's source."""
        before = len(self.loads) + len(self.kernel.outputs) + len(self.coordinates)
        return self.geometry.strides[before + self.kernel.picks.index(pick)]

    @property
    def strides_of_draws(self) -> tuple[int, ...]:
        """Return the strides of a tensor whose elements are in the order of random numbers."""
        return self.geometry.strides[-1]

    def _access(self, call: FusedStep, index: int, operand: Node) -> Access:
        """Return the access with which a step reads an operand."""
        spec = call.read_spec(operand)
        if spec is not None:
            return Access(operand, None, spec)
        return Access(operand, call.read_region(index) or self.regions.get(call.node))

    def values_for(self, call: FusedStep, values: dict[Node, str]) -> dict[Node, str]:
        """Return the names of the values that a step reads: those of other steps, and loads."""
        own = dict(values)
        for index, operand in enumerate(call.operands):
            if isinstance(operand, Node) and operand not in values:
                own[operand] = self.names[self._access(call, index, operand)]
        return own

    def parts_of(self, cat: CatCall, values: dict[Node, str]) -> list[str]:
        """Return the values of a `cat`'s parts, as source."""
        part_values = []
        for k, part in enumerate(cat.parts):
            if isinstance(part, Padding):
                type_ = type_text(compute_type(cat.node.val.dtype))
                part_values.append(f"tl.full([], {number_text(part.value)}, {type_})")
            else:
                part_values.append(
                    values[part] if part in values else self.names[Access(part, Region(cat, k))]
                )
        return part_values

    def coordinate(self, dim: int) -> str:
        """Return the coordinate along a dimension, as source."""
        before = len(self.loads) + len(self.kernel.outputs)
        strides = self.geometry.strides[before + self.coordinates.index(dim)]
        return f"i{strides.index(1)}" if 1 in strides else "0"

    def mask_of(self, region: Region) -> str:
        """Return the name of the mask of a part's elements."""
        return f"is_{self.cats.index(region.cat)}_{region.part}"

    def mask_lines(self) -> list[str]:
        """Return the lines that define the masks of loaded parts."""
        lines: list[str] = []
        names = []
        for region in dict.fromkeys(each.region for each in self.loads if each.region is not None):
            starts, coordinate, name = (
                region.cat.starts,
                self.coordinate(region.cat.dim),
                self.mask_of(region),
            )
            first, end = starts[region.part], starts[region.part + 1]
            bounds = [f"({coordinate} >= {first})"] if first else []
            bounds += [f"({coordinate} < {end})"] if end < starts[-1] else []
            lines.append(f"{name} = {' & '.join(bounds)}")
            names.append(name)
        if names:
            lines += ["if mask is not None:", *(f"    {name} = {name} & mask" for name in names)]
        return lines


def joined_elements(cat: CatCall, writer: ElementWriter) -> str:
    """Return the value of a `cat` in a pointwise kernel, as source."""
    accesses = writer.accesses
    type_ = type_text(triton_type(cat.node.val.dtype))
    return joined_text(cat, accesses.parts_of(cat, writer.values), accesses.coordinate(cat.dim), type_)


def joined_text(cat: CatCall, parts: Sequence[str], coordinate: str, type_: str) -> str:
    """Return the value of a `cat` as source."""
    text = f"convert({parts[-1]}, {type_})"
    for k in range(len(parts) - 2, -1, -1):
        text = f"tl.where({coordinate} < {cat.starts[k + 1]}, convert({parts[k]}, {type_}), {text})"
    return text

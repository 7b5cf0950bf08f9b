"""Source of a matmul's prologue: an operand's tile is computed from the tile loaded instead of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...dispatch.layers.graph.graph import Node
from ...triton_kernels.launch import INT32_MAX
from ...triton_kernels.products.problem import CannotFuse, Matrices, Source
from ..channel_norms import ChannelNormCall
from ..element_places import Terms
from ..epilogues import result_spec
from ..product_kernel import Prologue, result_of
from ..prologues import most_repeats
from .channel_norms import normalised_lines
from .product_forms import unpacked_text
from .tile_text import MARGIN, load_text, offset_by, reach, step_lines

PROLOGUE = """

@triton.jit
def {name}_prologue(
    x, y, operands, batch, rows, columns, depths, is_row, is_column, is_depth, WHOLE: tl.constexpr
):
    {unpacked} = operands
{body}
    return x, y
"""


class TilePlace(NamedTuple):
    """Names of an operand's tile and of its indices in a program.

    Attributes:
        tile: The loaded tile.
        batch: The index of the matrix.
        axes: The indices of rows and of columns.
        masks: The masks of valid rows and columns.
    """

    tile: str
    batch: str
    axes: tuple[str, str]
    masks: tuple[str, str]


IN_LOOP = {
    True: TilePlace("x", "batch", ("rows", "depths"), ("is_row", "is_depth")),
    False: TilePlace("y", "batch", ("depths", "columns"), ("is_depth", "is_column")),
}
"""Places of the left and of the right operand in the loop of a matmul."""


class WrittenPrologue:
    """Source of an operand's prologue.

    Attributes:
        is_left: True for the left operand.
        pointers: The types of the pointers besides the source's, by name.
        operands: The nodes of these pointers.
        elements: The names of the pointers to a single element.
    """

    def __init__(self, prologue: Prologue) -> None:
        self.prologue, self.is_left = prologue, prologue.is_left
        self.operands = prologue.inputs[1:]
        nodes = {f"{'p' if self.is_left else 'q'}{i}": node for i, node in enumerate(self.operands)}
        specs = {name: result_spec(node) for name, node in nodes.items()}
        self.pointers = {name: f"*{spec.dtype.triton_name}" for name, spec in specs.items()}
        self.elements = tuple(name for name, spec in specs.items() if spec.numel == 1)

    def source(self) -> Source:
        """Return the tensor that the matmul kernel loads. Raise CannotFuse if strides do not describe it."""
        terms = self.prologue.terms(self.prologue.source)
        sizes = self.prologue.matrix.sizes
        assert terms is not None
        if any(reach(node) + MARGIN > INT32_MAX for node in self.operands):
            raise CannotFuse("what an operand is computed of is beyond 32 bits")
        dtype = self.prologue.source.val.dtype
        # Shared memory is sized for tiles of the operand, and must hold as many tiles of the source.
        is_wide = dtype.itemsize > 2 * self.prologue.made.val.itemsize
        if dtype.is_complex or dtype.name == "bool" or is_wide:
            raise CannotFuse(f"an operand is computed of {dtype}")
        strides = [_stride(each, size) for each, size in zip(terms, sizes, strict=True)]
        batch, rows, columns = strides
        return Source(
            Matrices(sizes, (batch, rows, columns), dtype),
            most_repeats(self.prologue),
            self._is_narrow(),
            self.prologue.matrix.is_volume,
        )

    def _is_narrow(self) -> bool:
        """Return True if an input or an intermediate has fewer bits than the operand; bools do not count."""
        results = [result_of(call).val for call in self.prologue.calls]
        made = [spec for spec in results if spec.dtype.name != "bool"]
        inputs = [node.val for node in self.prologue.inputs]
        least: int = min(spec.itemsize for spec in (*inputs, *made))
        return least < int(self.prologue.made.val.itemsize)

    def lines(self, imports: dict[Any, str], position: TilePlace) -> tuple[list[str], str]:
        """Return the lines that compute a tile, and the name of the result; `imports` are the scalar functions."""
        prologue = self.prologue
        tile, batched, axes, masks = position
        inside = f"{masks[0]}[:, None] & {masks[1]}[None, :]"
        sizes = prologue.matrix.sizes
        values = {prologue.source: tile}
        lines = []
        for name, node in zip(self.pointers, self.operands, strict=True):
            terms = prologue.terms(node)
            assert terms is not None
            batch, *sides = (
                offset_by(index, each, size, {})
                for index, each, size in zip((batched, *axes), terms, sizes, strict=True)
            )
            pointer = f"{name} + {batch}" if batch else name
            load = load_text(pointer, sides[0], sides[1], *masks, inside)
            loaded = f"tl.broadcast_to({load}, {tile}.shape)" if any(sides) else load
            lines.append(f"{name}_tile = {loaded}")
            values[node] = f"{name}_tile"
        made_here = [result_of(call) for call in prologue.calls]
        specs = {node: node.val for node in (*prologue.inputs, *made_here)}
        for i, call in enumerate(prologue.calls):
            name = f"{tile}_{i}"
            if isinstance(call, ChannelNormCall):
                lines += normalised_lines(call, name, values, imports)
            else:
                lines += step_lines(call, name, values, specs, imports)
            values[result_of(call)] = name
        return lines, values[prologue.made]

    def lines_in_loop(self, imports: dict[Any, str]) -> list[str]:
        """Return the lines in the loop over the K dimension, beyond which the operand is zero."""
        position = IN_LOOP[self.is_left]
        lines, made = self.lines(imports, position)
        inner = "is_depth[None, :]" if self.is_left else "is_depth[:, None]"
        lines += [
            f"{position.tile} = {made}",
            "if not WHOLE:",
            f"    {position.tile} = tl.where({inner}, {made}, tl.zeros_like({made}))",
        ]
        return lines


def _stride(terms: Terms, size: int) -> int:
    if not terms:
        return 0
    if len(terms) > 1 or terms[0][:2] != (1, size):
        raise CannotFuse("no strides describe what an operand is computed of")
    return terms[0][2]


def prologue_text(
    name: str, prologues: Sequence[WrittenPrologue], pointers: Sequence[str], imports: dict[Any, str]
) -> str:
    """Return the function that computes operands from the tiles of their sources: ``{name}_prologue``.

    Args:
        name: Name of the kernel.
        prologues: The prologues.
        pointers: Names of all pointers of the kernel.
        imports: Functions by their names in the source; others are added.
    """
    lines = [line for each in prologues for line in each.lines_in_loop(imports)]
    body = "\n".join(f"    {line}" for line in lines)
    return PROLOGUE.format(name=name, unpacked=unpacked_text(pointers), body=body)


def nodes_of(prologues: Sequence[WrittenPrologue]) -> list[Node]:
    """Return the nodes of the prologues' pointers, in order."""
    return [node for written in prologues for node in written.operands]

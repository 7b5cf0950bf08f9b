"""The source of a product's prologue: an operand's tile is computed of what is loaded in its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...dispatch.layers.graph.graph import Node
from ...triton_kernels.launch import INT32_MAX
from ...triton_kernels.products.matmul import tile_sums
from ...triton_kernels.products.problem import CannotFuse, Matrices, Source
from ..element_places import Terms
from ..epilogues import result_spec
from ..product_kernel import Prologue
from ..prologues import most_repeats
from .tile_text import MARGIN, load_text, offset_by, reach, step_lines

IMPORTS = (
    "from triten.triton_kernels.products.epilogue import finish",
    "from triten.triton_kernels.products.product import multiply_add, tile_of",
)
"""Of a tiled product whose sums are a function of its own."""
PLACES = {
    "tiled": ["place = done + inner"],
    "persistent": [
        "rows, columns = row + tl.arange(0, BLOCK_M), column + tl.arange(0, BLOCK_N)",
        "place = inner + tl.arange(0, BLOCK_K)",
    ],
}
"""The indices of a tile along the inner side, and beside it, in the loop of a form."""
MASKS = ["is_row, is_column, is_place = rows < m, columns < n, place < k"]
INDENT = {"tiled": " " * 8, "persistent": " " * 12}
"""Of the loop over the inner side."""
NEXT = "        total = multiply_add("
"""Where the loop of `tile_sums` has loaded both tiles."""


class WrittenPrologue:
    """The source of what makes an operand.

    Attributes:
        is_left: which operand it is.
        pointers: the types of the addresses beside the source's, by name.
        operands: the nodes that lie there.
        elements: the names of those of one element.
    """

    def __init__(self, prologue: Prologue) -> None:
        self.prologue, self.is_left = prologue, prologue.is_left
        self.operands = prologue.inputs[1:]
        nodes = {f"{'p' if self.is_left else 'q'}{i}": node for i, node in enumerate(self.operands)}
        found = {name: result_spec(node) for name, node in nodes.items()}
        self.pointers = {name: f"*{spec.dtype.triton_name}" for name, spec in found.items()}
        self.elements = tuple(name for name, spec in found.items() if spec.numel == 1)

    def source(self) -> Source:
        """What the product's kernel loads. Raises CannotFuse where strides do not describe it."""
        terms = self.prologue.terms(self.prologue.source)
        sizes = (1, *self.prologue.operand.val.sizes)[-3:]
        assert terms is not None
        if any(reach(node) + MARGIN > INT32_MAX for node in self.operands):
            raise CannotFuse("what an operand is computed of is beyond 32 bits")
        dtype = self.prologue.source.val.dtype
        if dtype.is_complex or dtype.name == "bool":
            raise CannotFuse(f"an operand is computed of {dtype}")
        strides = [_stride(each, size) for each, size in zip(terms, sizes, strict=True)]
        batch, rows, columns = strides
        return Source(Matrices(sizes, (batch, rows, columns), dtype), most_repeats(self.prologue))

    def lines(self, imports: dict[Any, str]) -> list[str]:
        """The lines that compute the tile; `imports` are the functions of elements."""
        prologue, tile = self.prologue, "x" if self.is_left else "y"
        axes = ("rows", "place") if self.is_left else ("place", "columns")
        masks = ("is_row", "is_place") if self.is_left else ("is_place", "is_column")
        inside = f"{masks[0]}[:, None] & {masks[1]}[None, :]"
        sizes = (1, *prologue.operand.val.sizes)[-3:]
        values = {prologue.source: tile}
        lines = []
        for name, node in zip(self.pointers, self.operands, strict=True):
            terms = prologue.terms(node)
            assert terms is not None
            batch, *sides = (
                offset_by(index, each, size, {})
                for index, each, size in zip(("batch", *axes), terms, sizes, strict=True)
            )
            pointer = f"{name} + {batch}" if batch else name
            load = load_text(pointer, sides[0], sides[1], *masks, inside)
            loaded = f"tl.broadcast_to({load}, {tile}.shape)" if any(sides) else load
            lines.append(f"{name}_tile = {loaded}")
            values[node] = f"{name}_tile"
        specs = {node: node.val for node in prologue.inputs} | {c.node: c.node.val for c in prologue.calls}
        for i, call in enumerate(prologue.calls):
            name = f"{tile}_{i}"
            lines += step_lines(call, name, values, specs, imports)
            values[call.node] = name
        made, zero = values[prologue.made], f"{masks[1 if self.is_left else 0]}"
        inner = f"{zero}[None, :]" if self.is_left else f"{zero}[:, None]"
        lines += [
            f"{tile} = {made}",
            "if not WHOLE:",
            f"    {tile} = tl.where({inner}, {made}, tl.zeros_like({made}))",
        ]
        return lines


def _stride(terms: Terms, size: int) -> int:
    if not terms:
        return 0
    if len(terms) > 1 or terms[0][:2] != (1, size):
        raise CannotFuse("no strides describe what an operand is computed of")
    return terms[0][2]


def lines_in_loop(form: str, prologues: Sequence[WrittenPrologue], imports: dict[Any, str]) -> str:
    """The lines of prologues in the loop of a form."""
    lines = [*PLACES[form], *MASKS]
    for each in prologues:
        lines += each.lines(imports)
    return "".join(f"{INDENT[form]}{line}\n" for line in lines)


def sums_text(name: str, prologues: Sequence[WrittenPrologue], imports: dict[Any, str]) -> str:
    """The function of a tile's sums, `tile_sums` with prologues: ``{name}_sums``."""
    pointers = "".join(f"    {each},\n" for written in prologues for each in written.pointers)
    source: str = tile_sums.source
    text = source.replace(
        "def tile_sums(\n    a,\n    b,\n", f"def {name}_sums(\n    a,\n    b,\n{pointers}", 1
    )
    text = text.replace(
        "    BLOCK_K: tl.constexpr,\n", "    BLOCK_K: tl.constexpr,\n    WHOLE: tl.constexpr,\n", 1
    )
    head, found, tail = text.partition(NEXT)
    assert found and f"def {name}_sums(" in head
    return "\n\n" + head + lines_in_loop("tiled", prologues, imports) + found + tail


def nodes_of(prologues: Sequence[WrittenPrologue]) -> list[Node]:
    """What lies at the addresses of prologues, in their order."""
    return [node for written in prologues for node in written.operands]

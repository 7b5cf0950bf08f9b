"""Source of a matmul's prologue: an operand's tile is computed from the tile loaded instead of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...dispatch.layers.graph.graph import Node
from ...triton_kernels.launch import INT32_MAX
from ...triton_kernels.products.matmul import tile_sums
from ...triton_kernels.products.problem import CannotFuse, Matrices, Source
from ..channel_norms import ChannelNormCall
from ..element_places import Terms
from ..epilogues import result_spec
from ..product_kernel import Prologue, result_of
from ..prologues import most_repeats
from .channel_norms import normalised_lines
from .tile_text import MARGIN, load_text, offset_by, reach, step_lines

IMPORTS = (
    "from triten.triton_kernels.products.epilogue import finish",
    "from triten.triton_kernels.products.product import multiply_add, tile_of",
)
"""Imports of a tiled matmul whose accumulation is a function of its own."""
PLACES = {
    "tiled": ["place = done + inner"],
    "persistent": [
        "rows, columns = row + tl.arange(0, BLOCK_M), column + tl.arange(0, BLOCK_N)",
        "place = inner + tl.arange(0, BLOCK_K)",
    ],
}
"""Indices of a tile along the K dimension and the other one, in the loop of a form."""
MASKS = ["is_row, is_column, is_place = rows < m, columns < n, place < k"]
BEHIND = {"tiled": ["if first is not None:", "    place += first"], "persistent": []}
"""Start of a split of the K dimension, if the split has its own start and `k` is its length."""
INDENT = {"tiled": " " * 8, "persistent": " " * 12}
"""Indentation of the loop over the K dimension."""
NEXT = "        total = multiply_add("
"""The place in the loop of `tile_sums` after the loads of both tiles."""


TILED_SUMS = """

@triton.jit
def {name}(
    a, b, addend, out,
    {prologue_pointers}m, n, k, part, apart, az, am, ak, bz, bk, bn, oz, om, on, sz, sm, sn, alpha, beta,
    ACCUMULATOR: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr, ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, WHOLE: tl.constexpr,
):
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    batch = (tl.program_id(0) // (tiles_m * tiles_n)).to(tl.int64)
    tile_m, tile_n = tile_of(tl.program_id(0) % (tiles_m * tiles_n), tiles_m, tiles_n, 8)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    first = tl.program_id(1).to(tl.int64) * part
    k = tl.minimum(k - tl.program_id(1) * part, part)
    out += tl.program_id(1).to(tl.int64) * apart
    total = {name}_sums(
        a, b, {prologue_pointers}batch, rows, columns, first, m, n, k, az, am, ak, bz, bk, bn,
        ACCUMULATOR, DOT, PRECISION, BLOCK_M, BLOCK_N, BLOCK_K, WHOLE,
    )
    mask = (rows < m)[:, None] & (columns < n)[None, :]
    tl.store(out + batch * oz + rows[:, None] * om + columns[None, :] * on, total, mask=mask)
"""
PERSISTENT_SUMS = """

@triton.jit
def {name}(
    a, b, addend, out,
    {prologue_pointers}scale_a, scale_b, scale_out, m, n, k, batches, parts, steps, oz, om, on, sz, sm, sn,
    alpha, beta,
    ADDEND: tl.constexpr, ADDEND_BATCHED: tl.constexpr, A_BATCHED: tl.constexpr, B_BATCHED: tl.constexpr,
    A_TRANSPOSED: tl.constexpr, B_TRANSPOSED: tl.constexpr, BULK_STORE: tl.constexpr, ACTIVATION: tl.constexpr,
    ROW_WISE: tl.constexpr, SATURATES: tl.constexpr, PRECISION: tl.constexpr, IMPRECISE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, HALVES: tl.constexpr, WHOLE: tl.constexpr,
):
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    each = tiles_m * tiles_n
    for tile in tl.range(tl.program_id(0), each * batches * parts, tl.num_programs(0), flatten=True):
        sums = tile // each
        batch = sums % batches
        tile_m, tile_n = tile_of(tile % each, tiles_m, tiles_n, 8)
        row, column = tile_m * BLOCK_M, tile_n * BLOCK_N
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for step in range(steps):
            inner = (sums // batches * steps + step) * BLOCK_K
            x = operand_tile(a, batch, row, inner, A_BATCHED, A_TRANSPOSED, BLOCK_M, BLOCK_K)
            y = operand_tile(b, batch, inner, column, B_BATCHED, B_TRANSPOSED, BLOCK_K, BLOCK_N)
{in_loop}            total = tl.dot(x, y, total, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE)
        to = row + tl.arange(0, BLOCK_M), column + tl.arange(0, BLOCK_N)
        mask = (to[0] < m)[:, None] & (to[1] < n)[None, :]
        tl.store(out + sums.to(tl.int64) * oz + to[0][:, None] * om + to[1][None, :] * on, total, mask=mask)
"""
SUMS = {"tiled sums": TILED_SUMS, "persistent sums": PERSISTENT_SUMS}
"""Split-K matmuls: the sums of all splits, one after another."""


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
    True: TilePlace("x", "batch", ("rows", "place"), ("is_row", "is_place")),
    False: TilePlace("y", "batch", ("place", "columns"), ("is_place", "is_column")),
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
        inner = "is_place[None, :]" if self.is_left else "is_place[:, None]"
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


def lines_in_loop(form: str, prologues: Sequence[WrittenPrologue], imports: dict[Any, str]) -> str:
    """Return the lines of prologues in the loop of a form."""
    lines = [*PLACES[form], *MASKS, *BEHIND[form]]
    for each in prologues:
        lines += each.lines_in_loop(imports)
    return "".join(f"{INDENT[form]}{line}\n" for line in lines)


def sums_text(name: str, prologues: Sequence[WrittenPrologue], imports: dict[Any, str]) -> str:
    """Return the function of a tile's sums, `tile_sums` with prologues: ``{name}_sums``."""
    pointers = "".join(f"    {each},\n" for written in prologues for each in written.pointers)
    source: str = tile_sums.source
    text = source.replace(
        "def tile_sums(\n    a,\n    b,\n", f"def {name}_sums(\n    a,\n    b,\n{pointers}", 1
    )
    text = text.replace(
        "    BLOCK_K: tl.constexpr,\n", "    BLOCK_K: tl.constexpr,\n    WHOLE: tl.constexpr,\n", 1
    )
    head, separator, tail = text.partition(NEXT)
    assert separator and f"def {name}_sums(" in head
    return "\n\n" + head + lines_in_loop("tiled", prologues, imports) + separator + tail


def nodes_of(prologues: Sequence[WrittenPrologue]) -> list[Node]:
    """Return the nodes of the prologues' pointers, in order."""
    return [node for written in prologues for node in written.operands]

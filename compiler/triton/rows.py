"""CUDA kernel over rows: one Triton program for some rows, over all of its steps, and its launch.

If a row fits in a block, it is read once, and all values stay in registers. If not, the program passes over it block
by block, once for each dependent reduction, and recomputes cheap values. Reductions combine as the eager kernels do,
in their types.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...dispatch.layers.graph.graph import Node
from ...dispatch.structured.allocation import allocator_of
from ...triton_kernels.geometry import Geometry, broadcast_strides, coalesced
from ...triton_kernels.indexing.index_bounds import Bound
from ...triton_kernels.launch import INT32_MAX, Launch, cdiv, interpreted, next_power_of_2
from ...triton_kernels.random.random import start_of_draws
from ...triton_kernels.reduction.sides import INTERPRETED_REDUCED, INTERPRETED_TILE, WARP_SIZE
from ..row_space import View
from ..schedule import RowsKernel
from .draws import start_lines
from .launch_arguments import LaunchArguments
from .pointwise import import_of
from .row_statements import Program, Statement, program_of, words_of
from .source_files import module_of
from .source_text import number_text, type_text

HEADER = '''"""{what}

Written by `tt.compile` for {device}; each step names the operator that it comes from.
"""

from triten.runtime.cuda.triton.lazy_triton import tl, triton
from triten.triton_kernels.conversion import convert
{imports}


@triton.jit
def {name}({pointers}, n_rows, BLOCK_O: tl.constexpr, BLOCK_R: tl.constexpr):
    o = (tl.program_id(0).to({index_type}) * BLOCK_O + tl.arange(0, BLOCK_O))[:, None]
{body}
'''
SPREAD = 2048
"""The least elements of a block, of several rows if they are short."""
LANE = 16
"""Elements of a row for each lane."""
LOOP = 2048
"""Elements of a row at a time if it is read in several passes, by `LOOP_WARPS` warps."""
LOOP_WARPS = 8
REGISTERS, RESIDENT = 65536, 16
"""Registers of a multiprocessor, and the least number of resident warps that share them. None are reserved for
addresses: the compiler delays loads until their use."""


class Tile(NamedTuple):
    """How many rows and how many elements of a row a program has at a time, and its warps."""

    rows: int
    elements: int
    warps: int


class WrittenRows(NamedTuple):
    """Source of a kernel, and the parameters of its launch.

    Attributes:
        name: The program's name.
        text: The module's source.
        tile: The block for which it was written.
        is_whole: True if the block has whole rows.
        index_type: ``i32`` or ``i64``.
        bounds: The bounds of indices, and the indices of the inputs that hold them.
    """

    name: str
    text: str
    tile: Tile
    is_whole: bool
    index_type: str
    bounds: tuple[tuple[Bound, int], ...] = ()


def device_rows_kernel(kernel: RowsKernel) -> Callable[..., tuple[Any, ...]]:
    """Return a function from the buffers of a kernel's inputs to those of its outputs."""
    written = write_rows_kernel(kernel)
    launch, grid = plan_launch(kernel, written)
    allocators = [allocator_of(node.val) for node in kernel.outputs]
    enqueue, rows = launch.enqueue, kernel.space.rows
    if written.bounds or kernel.draws:
        more = LaunchArguments(kernel.device, written.bounds, kernel.draws)
        return more.launching(launch, grid, allocators, rows)

    def run(*inputs: Any) -> tuple[Any, ...]:
        outs = tuple([new() for new in allocators])
        enqueue(grid, *[x.address for x in inputs], *[out.address for out in outs], rows)
        return outs

    return run


def plan_launch(kernel: RowsKernel, written: WrittenRows) -> tuple[Launch, tuple[int, int, int]]:
    """Plan the launch of a written kernel, and its grid."""
    specs = [node.val for node in (*kernel.inputs, *kernel.outputs)]
    names = names_of(kernel)
    signature = {name: f"*{spec.dtype.triton_name}" for name, spec in zip(names, specs, strict=True)}
    more = LaunchArguments(kernel.device, written.bounds, kernel.draws)
    tile = written.tile
    launch = Launch(
        kernel.device,
        getattr(module_of(written.text), written.name),
        {**signature, **more.signature, "n_rows": written.index_type},
        {"BLOCK_O": tile.rows, "BLOCK_R": tile.elements},
        divisible=["n_rows"] if kernel.space.rows % 16 == 0 else [],
        elements=[
            *more.elements,
            *(name for name, spec in zip(names, specs, strict=True) if spec.numel == 1),
        ],
        num_warps=tile.warps,
    )
    return launch, (cdiv(kernel.space.rows, tile.rows), 1, 1)


def names_of(kernel: RowsKernel) -> list[str]:
    """Return the program's names of its inputs and outputs."""
    return [f"a{i}" for i in range(len(kernel.inputs))] + [f"b{i}" for i in range(len(kernel.outputs))]


def write_rows_kernel(kernel: RowsKernel) -> WrittenRows:
    """Write the source of a kernel over rows."""
    program = program_of(kernel)
    layout = Layout(kernel, program)
    tile, is_whole = tile_of(kernel, program, layout)
    writer = _Writer(kernel, program, layout, tile)
    body = writer.whole() if is_whole else writer.in_passes()
    operators = ", ".join(c.node.target.name().removeprefix("aten::") for c in kernel.computed)
    names = names_of(kernel)
    bounds = tuple([(bound, kernel.inputs.index(node)) for bound, node in program.bounds])
    text = HEADER.format(
        what=f"{operators}: rows {list(kernel.space.line)} of {list(kernel.space.sizes)}.",
        device=kernel.device.type,
        imports="\n".join(import_of(function, name) for function, name in program.imports.items()),
        name=kernel.name,
        pointers=", ".join([*names, *LaunchArguments(kernel.device, bounds, kernel.draws).signature]),
        body="\n".join(f"    {line}" if line else "" for line in body),
        index_type="tl.int64" if layout.is_wide else "tl.int32",
    )
    return WrittenRows(kernel.name, text, tile, is_whole, "i64" if layout.is_wide else "i32", bounds)


class Layout:
    """Memory layout of inputs and outputs: offsets over rows, and over the elements of a row."""

    def __init__(self, kernel: RowsKernel, program: Program) -> None:
        space = kernel.space
        split = len(space.lead)
        strides: dict[Any, Sequence[int]] = {}
        for name, view in program.loads.items():
            strides[name] = self._strides(view, space.lead, space.line)
        for node in kernel.outputs:
            strides[node] = self._strides(View(node, node.val.ndim), space.lead, space.line)
        self.names = list(strides)
        self.over_rows = coalesced(space.lead, [own[:split] for own in strides.values()], keep_order=True)
        self.over_line = coalesced(space.line, [own[split:] for own in strides.values()], keep_order=True)
        extent = self.over_rows.extent() + self.over_line.extent()
        self.is_wide = max(extent, space.rows * space.n) + 2 * INTERPRETED_TILE > INT32_MAX

    @staticmethod
    def _strides(view: View, lead: tuple[int, ...], line: tuple[int, ...]) -> tuple[int, ...]:
        spec = view.node.val
        if view.ndim is not None and view.ndim == len(lead):
            return broadcast_strides(spec, lead) + (0,) * len(line)
        return broadcast_strides(spec, lead + line)

    def strides(self, name: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return a value's strides over rows and over the elements of a row, the inner dimension first."""
        index = self.names.index(name)
        return self.over_rows.strides[index], self.over_line.strides[index]

    def moves_along_rows(self, name: Any) -> bool:
        """Return True if a value differs between elements of a row."""
        return any(self.strides(name)[1])


def offset_lines(geometry: Geometry, index: str, letter: str) -> list[str]:
    """Return the lines that split an index into coordinates, the innermost first."""
    if len(geometry.sizes) < 2:
        return []
    lines, rest = [], index
    for i, size in enumerate(geometry.sizes[:-1]):
        lines += [f"{letter}{i} = {rest} % {size}", f"{letter}_{i} = {rest} // {size}"]
        rest = f"{letter}_{i}"
    return [*lines, f"{letter}{len(geometry.sizes) - 1} = {rest}"]


def offset_text(geometry: Geometry, strides: Sequence[int], index: str, letter: str) -> str:
    """Return an operand's offset as source; empty if all strides are zero."""
    if not any(strides):
        return ""
    runs = [strides[0] * math.prod(geometry.sizes[:i]) for i in range(len(strides))]
    if list(strides) == runs:
        names, strides = [index], strides[:1]
    else:
        names = [f"{letter}{i}" for i in range(len(strides))]
    terms = [name if s == 1 else f"{name} * {s}" for name, s in zip(names, strides, strict=True) if s]
    return " + ".join(terms)


def tile_of(kernel: RowsKernel, program: Program, layout: Layout) -> tuple[Tile, bool]:
    """Return the block of a program, and True if it has whole rows.

    A lane has 16 elements, as in the eager kernels, or fewer if their live values exceed its registers.
    """
    rows, n = kernel.space.rows, kernel.space.n
    whole = next_power_of_2(n)
    if interpreted():
        elements = min(whole, INTERPRETED_REDUCED)
        return Tile(min(next_power_of_2(rows), INTERPRETED_TILE // elements), elements, 4), whole == elements
    outputs = min(next_power_of_2(rows), max(1, SPREAD // whole))
    words = max_live_words(program, layout) * (2 if program.is_heavy else 1)
    for warps in (4, 8, 16, 32):
        each = cdiv(outputs * whole, WARP_SIZE * warps)
        room = REGISTERS // (WARP_SIZE * max(warps, RESIDENT))
        if each <= LANE and each * words <= room:
            return Tile(outputs, whole, warps), True
    return Tile(1, min(whole, LOOP), LOOP_WARPS), whole <= LOOP


def max_live_words(program: Program, layout: Layout) -> int:
    """Return the most registers that an element of a row takes at once."""
    wide = wide_values(program, layout)
    words = {name: words_of(view.node.val) for name, view in program.loads.items()}
    words |= {s.name: s.words for s in program.statements}
    last: dict[str, int] = {}
    for i, statement in enumerate(program.statements):
        last.update(dict.fromkeys(statement.reads, i))
    for name in program.stores.values():
        last.setdefault(name, len(program.statements))
    alive: set[str] = set()
    max_words = 1
    for i, statement in enumerate(program.statements):
        alive.update(name for name in (*statement.reads, statement.name) if name in wide)
        max_words = max(max_words, sum(words[name] for name in alive))
        alive = {name for name in alive if last.get(name, -1) > i}
    return max_words


def wide_values(program: Program, layout: Layout) -> set[str]:
    """Return the values that differ between elements of a row."""
    wide = {name for name in program.loads if layout.moves_along_rows(name)}
    for statement in program.statements:
        moves = statement.moves_along_rows or wide.intersection(statement.reads)
        if statement.reduction is None and moves:
            wide.add(statement.name)
    return wide


class _Writer:
    """Writes the body of a program."""

    def __init__(self, kernel: RowsKernel, program: Program, layout: Layout, tile: Tile) -> None:
        self.kernel, self.program, self.layout, self.tile = kernel, program, layout, tile
        self.n = kernel.space.n
        self.wide = wide_values(program, layout)
        self.pointers = dict(zip((*kernel.inputs, *kernel.outputs), names_of(kernel), strict=True))
        self.masks_rows = kernel.space.rows % tile.rows != 0
        self.masks_line = self.n % tile.elements != 0
        self.lines: list[str] = []
        self.indent = ""

    def write(self, line: str) -> None:
        """Add a line."""
        self.lines.append(self.indent + line)

    def begin(self) -> None:
        """Write the lines before all steps."""
        for line in offset_lines(self.layout.over_rows, "o", "o"):
            self.write(line)
        if self.masks_rows or self.program.bounds:
            self.write("is_row = o < n_rows")
        if self.program.draws:
            for line in start_lines(len(self.program.draws), self.function(start_of_draws)):
                self.write(line)

    def columns(self, base: str = "") -> None:
        """Write the indices of the current elements of a row."""
        wide = ".to(tl.int64)" if self.layout.is_wide else ""
        self.write(f"r = {base}tl.arange(0, BLOCK_R)[None, :]{wide}")
        for line in offset_lines(self.layout.over_line, "r", "r"):
            self.write(line)
        if self.masks_line:
            self.write(f"is_inside = r < {self.n}")
        if self.program.bounds:
            self.write(f"is_element = is_row & (r < {self.n})")
        if self.program.draws and self.n % 4 == 0:
            first = base.replace("base", "base // 4")
            self.write(f"quads = {first}tl.arange(0, BLOCK_R // 4)[None, :]")

    def mask(self, over_rows: bool, over_line: bool) -> str:
        """Return the mask of a value that moves over rows, or along them; empty if there is none."""
        own = ["is_row"] if over_rows and self.masks_rows else []
        return " & ".join([*own, *(["is_inside"] if over_line and self.masks_line else [])])

    def access(self, name: Any) -> tuple[str, str]:
        """Return the offset of a value, and the other arguments of its load or store."""
        over_rows, over_line = self.layout.strides(name)
        texts = [
            offset_text(self.layout.over_rows, over_rows, "o", "o"),
            offset_text(self.layout.over_line, over_line, "r", "r"),
        ]
        mask = self.mask(bool(texts[0]), bool(texts[1]))
        offset = " + ".join(text for text in texts if text)
        return (f" + {offset}" if offset else ""), (f", mask={mask}" if mask else "")

    def load(self, name: str) -> None:
        """Load an input."""
        view = self.program.loads[name]
        offset, rest = self.access(name)
        self.write(f"{name} = tl.load({self.pointers[view.node]}{offset}{rest})  # %{view.node.name}")

    def store(self, node: Node, value: str) -> None:
        """Store an output."""
        offset, _ = self.access(node)
        mask = self.mask(True, self.layout.moves_along_rows(node))
        rest = f", mask={mask}" if mask else ""
        # A number for each row may be a scalar, and must be broadcast to the addresses.
        self.write(f"tl.store({self.pointers[node]}{offset}, {value}{rest})")

    def filled(self, statement: Statement, value: str) -> str:
        """Return a combined value as a tile, filled with the reduction's identity outside of rows."""
        type_ = type_text(statement.accumulator)
        value = f"tl.broadcast_to(convert({value}, {type_}), (BLOCK_O, BLOCK_R))"
        mask = self.mask(True, True)
        return f"tl.where({mask}, {value}, {self.start(statement)})" if mask else value

    def start(self, statement: Statement) -> str:
        """Return the initial value of a reduction."""
        assert statement.reduction is not None
        number = number_text(statement.reduction.start(statement.accumulator))
        return f"tl.full((1, 1), {number}, {type_text(statement.accumulator)})"

    def function(self, made: Any) -> str:
        """Return the name of a function in the source."""
        return self.program.function(made)

    def whole(self) -> list[str]:
        """Return the lines of every step, over whole rows."""
        self.begin()
        self.columns()
        done: set[str] = set()
        for statement in self.program.statements:
            for name in statement.reads:
                if name in self.program.loads and name not in done:
                    self.load(name)
                    done.add(name)
            if statement.comment:
                self.write(f"# {statement.comment}")
            value = statement.text.format_map(_Same())
            if statement.reduction is None:
                self.write(f"{statement.name} = {value}")
            else:
                row = statement.reduction
                value = (
                    f"{self.function(row.combine)}({self.start(statement)}, {self.filled(statement, value)})"
                )
                self.write(f"{statement.name} = {self.function(row.across)}({value})[:, None]")
            for node, name in self.program.stores.items():
                if name == statement.name:
                    self.store(node, name)
        return self.lines

    def in_passes(self) -> list[str]:
        """Return the lines that process rows block by block: one pass before any reduction, one after it, and so on."""
        self.begin()
        level = self.levels()
        statements = {s.name: s for s in self.program.statements}
        for each in range(max(level.values()) + 1):
            numbers = [n for n in level if n not in self.wide and level[n] == each]
            for name in numbers:
                self.number(name, statements)
            ends = [
                s.name
                for s in self.program.statements
                if s.reduction is not None and self.level_of_reads(s, level) == each
            ]
            stored = [
                (node, name)
                for node, name in self.program.stores.items()
                if name in self.wide and level[name] == each
            ]
            if ends or stored:
                self.one_pass(each, ends, stored, statements)
        return self.lines

    def levels(self) -> dict[str, int]:
        """Return the number of passes after which each value is known."""
        level = dict.fromkeys(self.program.loads, 0)
        for statement in self.program.statements:
            level[statement.name] = self.level_of_reads(statement, level) + (statement.reduction is not None)
        return level

    @staticmethod
    def level_of_reads(statement: Statement, level: dict[str, int]) -> int:
        """Return the number of passes before all operands of a statement are known."""
        return max((level[name] for name in statement.reads), default=0)

    def number(self, name: str, statements: dict[str, Statement]) -> None:
        """Write a number for each row, outside of all passes."""
        if name in self.program.loads:
            self.load(name)
        elif (statement := statements[name]).reduction is not None:
            across = self.function(statement.reduction.across)
            self.write(f"{name} = {across}(all_{name})[:, None]")
        else:
            if statement.comment:
                self.write(f"# {statement.comment}")
            self.write(f"{name} = {statement.text.format_map(_Same())}")
        for node, stored in self.program.stores.items():
            if stored == name:
                self.store(node, name)

    def one_pass(
        self, each: int, ends: list[str], stored: list[tuple[Node, str]], statements: dict[str, Statement]
    ) -> None:
        """Write one pass over the row, which combines `ends` and stores `stored`."""
        needed: set[str] = set()
        waiting = [*(name for end in ends for name in statements[end].reads), *(name for _, name in stored)]
        while waiting:
            name = waiting.pop()
            if name in self.wide and name not in needed:
                needed.add(name)
                waiting += statements[name].reads if name in statements else ()
        for end in ends:
            number = self.start(statements[end]).replace("(1, 1)", "(BLOCK_O, BLOCK_R)")
            self.write(f"all_{end} = {number}")
        self.write(f"for base in range(0, {self.n}, BLOCK_R):")
        self.indent = "    "
        self.columns("base + ")
        renamed = _Renamed(self.wide, f"_{each}")
        for name in self.program.loads:
            if name in needed:
                self.load(name)
                self.lines[-1] = self.lines[-1].replace(f"{name} =", f"{name}_{each} =", 1)
        for statement in self.program.statements:
            value = statement.text.format_map(renamed)
            if statement.name in needed:
                if statement.comment:
                    self.write(f"# {statement.comment}")
                self.write(f"{statement.name}_{each} = {value}")
            elif statement.name in ends and statement.reduction is not None:
                own = f"all_{statement.name}"
                self.write(
                    f"{own} = {self.function(statement.reduction.combine)}({own}, {self.filled(statement, value)})"
                )
        for node, name in stored:
            self.store(node, f"{name}_{each}")
        self.indent = ""


class _Same(dict[str, str]):
    """Values by their own names."""

    def __missing__(self, name: str) -> str:
        return name


class _Renamed(dict[str, str]):
    """Values of each element by the names that they have in a pass."""

    def __init__(self, wide: set[str], suffix: str) -> None:
        self.wide, self.suffix = wide, suffix

    def __missing__(self, name: str) -> str:
        return name + self.suffix if name in self.wide else name

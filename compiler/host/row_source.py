"""LLVM IR of a loop over rows: passes over a row's elements, with reductions and ufuncs between them.

A pass is a separate function whose arrays do not overlap, so that LLVM vectorizes it. Operands of reductions and
ufuncs, and values that a later pass needs again, are stored: in an output's row, or in a row of a *workspace*, the
loop's last array. The geometry is that of `llvm_source`, with a row as the innermost dimension. A row without
reductions may be split into tiles, which fit in the first-level cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...cpu_fallback.normalization.row_gradient_loop import ROWS_PER_PARTIAL_SUM
from ...cpu_fallback.random.draw_loops import words_function
from ...cpu_fallback.reduction.reduction_source import declaration, symbol_of
from ...runtime.cpu.calling_convention import HEADER, python_call
from ...runtime.cpu.element_loop import made_of
from ...runtime.cpu.element_program import CannotLower, Value
from ...runtime.cpu.llvm_source import declarations, element_lines, element_pointer, nest, storage
from .row_program import RowProgram

WORKSPACE_ITEM = 8
"""Bytes of an element of a workspace's row."""


FLUSH = """\
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define internal void @flush(ptr noalias nocapture %sums, ptr noalias nocapture %kept, i64 %n) noinline {
entry:
  br label %each
each:
  %i = phi i64 [0, %entry], [%j, %each]
  %k = getelementptr float, ptr %kept, i64 %i
  %s = getelementptr double, ptr %sums, i64 %i
  %new = load float, ptr %k, align 4
  %wide = fpext float %new to double
  %old = load double, ptr %s, align 8
  %sum = fadd double %old, %wide
  store double %sum, ptr %s, align 8
  store float 0.0, ptr %k, align 4
  %j = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %j, %n
  br i1 %more, label %each, label %done
done:
  ret void
}
"""
"""Adds the sums of a few rows to those of all before them, and begins anew."""


@dataclass(frozen=True)
class RowLoop:
    """A loop's text, and how many rows its workspace has."""

    text: str
    workspace: int


def write_rows(
    program: RowProgram, steps: Sequence[str], rank: int, width: int = 16, tile: int = 0
) -> RowLoop:
    """Return a module's text.

    Args:
        program: The row program.
        steps: Step of each array along a row, outputs first: ``unit``, ``zero`` or ``any``.
        rank: The dimensions of the loop nest including the row's, 1 or more.
        width: Lanes of the vectors in which BLAS adds. Default: 16.
        tile: Elements of a tile of a row. Default: 0, no tiles.

    Raises:
        CannotLower: NumPy has no loop for a ufunc.
    """
    writer = _Writer(program, steps, rank, width, tile)
    loop = writer.loop()
    called = dict.fromkeys(ufunc.declaration() for ufunc in program.ufuncs.values())
    text = "\n".join(
        [
            HEADER + declarations(program.order) + "".join(called),
            "".join(declaration(name, width) for name in program.reductions),
            words_function() if program.draws else "",
            FLUSH if program.columns else "",
            *writer.passes,
            loop,
            python_call(len(steps) + 1, rank),
        ]
    )
    return RowLoop(text, writer.workspace)


class _Writer:
    def __init__(self, program: RowProgram, steps: Sequence[str], rank: int, width: int, tile: int) -> None:
        self.program, self.steps, self.rank = program, steps, rank
        self.width, self.tile = width, tile
        self.row = rank - 1
        self.ufuncs = program.ufuncs
        self.count = "%m" if tile else f"%n{rank - 1}"
        self.passes: list[str] = []
        self.workspace = 0
        count = len(program.outputs)
        self.inputs = {id(value): count + i for i, value in enumerate(program.inputs)}
        is_row = program.are_rows[len(program.inputs) :]
        self.row_outputs = [(v, j) for j, v in enumerate(program.outputs) if is_row[j]]
        self.number_outputs = [(v, j) for j, v in enumerate(program.outputs) if not is_row[j]]
        self.names: dict[int, str] = {}
        self.stored: dict[int, str] = {}

    def loop(self) -> str:
        """Return the loop over rows; it adds the passes' text to `passes`."""
        rank, row, count = self.rank, self.row, len(self.steps)
        # NumPy's loops receive pointers to rows, so these pointers are captured.
        outputs = len(self.program.outputs)
        sums = count - 1 if self.program.columns else -1
        pointers = ", ".join(
            f"ptr noalias %p{j}" if j < outputs or j == sums else f"ptr %p{j}" for j in range(count)
        )
        head = f"define internal void @loop(ptr readonly %g, {pointers}, ptr noalias %p{count}) noinline {{"
        body = []
        for value in self.program.inputs:
            if id(value) not in self.program.rows:
                body += element_lines([(value, self._at(self.inputs[id(value)]))], [], [], self.names)
        self._choose_stored()
        self.kept = {c: f"%k{c}" for c in range(len(self.program.columns))}
        for level in range(max(self.program.levels.values(), default=0) + 1):
            body += self._numbers(level)
            body += self._pass(level)
        for value, j in self.number_outputs:
            body += element_lines([], [], [(value, self._at(j))], self.names)
        workspace_rows = []
        for k in range(self.workspace):
            workspace_rows.append(f"  %w{k}_bytes = mul i64 {self.tile or f'%n{row}'}, {WORKSPACE_ITEM * k}")
            workspace_rows.append(f"  %w{k} = getelementptr i8, ptr %p{count}, i64 %w{k}_bytes")
        moves = [step == "any" for step in self.steps]
        body = [*workspace_rows, *(self._in_tiles(body) if self.tile else body)]
        before, each_row, after = self._sums(sums)
        lines = nest(rank, rank - 1, moves, [*body, *each_row], before)
        return "\n".join([head, "entry:", *self._ufunc_arguments(), *lines, *after, "  ret void", "}"]) + "\n"

    def _sums(self, array: int) -> tuple[list[str], list[str], list[str]]:
        """Emit the sums over rows: code before the first row, after each row, and after the last.

        Rows of the workspace keep the sums of a few rows in float32, which are then added to an array in float64.
        """
        if not self.kept:
            return [], [], []
        n, before, flushed = f"%n{self.row}", ["  %rows_p = alloca i64", "  store i64 0, ptr %rows_p"], []
        for c, register in self.kept.items():
            before += [
                f"  {register}_bytes = mul i64 {n}, {WORKSPACE_ITEM * self.workspace}",
                f"  {register} = getelementptr i8, ptr %p{len(self.steps)}, i64 {register}_bytes",
                f"  {register}_place = mul i64 {n}, {c}",
                f"  {register}_sums = getelementptr double, ptr %b{array}_0, i64 {register}_place",
                f"  {register}_size = mul i64 {n}, 4",
                f"  call void @llvm.memset.p0.i64(ptr {register}, i8 0, i64 {register}_size, i1 false)",
            ]
            flushed.append(f"  call void @flush(ptr {register}_sums, ptr {register}, i64 {n})")
            self.workspace += 1
        each_row = [
            "  %rows_before = load i64, ptr %rows_p",
            "  %rows_met = add i64 %rows_before, 1",
            "  store i64 %rows_met, ptr %rows_p",
            f"  %rows_low = urem i64 %rows_met, {ROWS_PER_PARTIAL_SUM}",
            "  %is_full = icmp eq i64 %rows_low, 0",
            "  br i1 %is_full, label %full, label %next_row",
            "full:",
            *flushed,
            "  br label %next_row",
            "next_row:",
        ]
        return before, each_row, flushed

    def _at(self, j: int) -> str:
        """Return the pointer to an array's row, or its tile."""
        return f"%e{j}" if self.tile else f"%b{j}_{self.row}"

    def _in_tiles(self, body: list[str]) -> list[str]:
        """Emit the loop over the tiles of a row, around the body for one tile."""
        n, before = f"%n{self.row}", f"body{self.row - 1}" if self.row else "entry"
        lines = ["  br label %tile", "tile:", f"  %at = phi i64 [0, %{before}], [%at_next, %tile]"]
        lines += [f"  %left = sub i64 {n}, %at", f"  %short = icmp slt i64 %left, {self.tile}"]
        lines.append(f"  %m = select i1 %short, i64 %left, i64 {self.tile}")
        for j, step in enumerate(self.steps):
            value = [*self.program.outputs, *self.program.inputs][j]
            base = f"%b{j}_{self.row}"
            lines += element_pointer(f"e{j}", base, storage(value.dtype), step, "%at", f"%s{j}_{self.row}")
        lines += [*body, f"  %at_next = add i64 %at, {self.tile}", f"  %again = icmp slt i64 %at_next, {n}"]
        return [*lines, "  br i1 %again, label %tile, label %tiles_done", "tiles_done:"]

    def _ufunc_arguments(self) -> list[str]:
        """Emit the arguments of NumPy's loops: pointers, a count and strides."""
        if not self.ufuncs:
            return []
        lines = [
            "  %u_pointers = alloca [2 x ptr]",
            "  %u_second = getelementptr ptr, ptr %u_pointers, i64 1",
        ]
        lines.append("  %u_count = alloca i64")
        for size in (4, 8):
            lines += [
                f"  %u_steps{size} = alloca [2 x i64], align 16",
                f"  store <2 x i64> splat (i64 {size}), ptr %u_steps{size}",
            ]
        return lines

    def _choose_stored(self) -> None:
        """Give each value that is read again a row of memory."""
        program = self.program
        for value, j in self.row_outputs:
            self.stored.setdefault(id(value), self._at(j))
        for value in program.order:
            for operand in value.operands:
                is_later = program.levels[id(value)] > program.levels[id(operand)]
                if id(operand) in self.stored or operand.kind == "constant":
                    continue
                is_row = id(operand) in program.rows
                if value.kind == "picked" and operand is value.operands[1]:
                    continue
                if value.kind in ("reduction", "picked") and not is_row:
                    raise CannotLower("a row of one number")
                if value.kind != "instruction":
                    array_index = self.inputs.get(id(operand))
                    if array_index is not None and is_row and self.steps[array_index] == "unit":
                        self.stored[id(operand)] = self._at(array_index)
                        continue
                elif not (is_row and id(value) in program.rows and is_later) or operand.kind != "instruction":
                    continue
                self._store(operand)
            if value.kind in ("ufunc", "draw") and id(value) not in self.stored:
                self._store(value)

    def _store(self, value: Value) -> None:
        row = f"%w{self.workspace}"
        self.stored[id(value)] = f"{row}_words" if value.kind == "draw" else row
        self.workspace += 1

    def _numbers(self, level: int) -> list[str]:
        """Emit the reductions, gathers and ufuncs of a level, and the numbers computed from them."""
        lines = []
        for value in self.program.order:
            if self.program.levels[id(value)] != level:
                continue
            if value.kind == "draw":
                lines += self._draw(value)
            elif value.kind == "ufunc":
                lines += self._ufunc(value)
            elif id(value) in self.program.rows:
                continue
            elif value.kind == "reduction":
                name = f"%r{len(self.names)}"
                rows = "".join(f"ptr {self.stored[id(operand)]}, " for operand in value.operands)
                symbol = symbol_of(value.detail, self.width)
                lines.append(f"  {name} = call {value.register} @{symbol}({rows}i64 {self.count})")
                self.names[id(value)] = name
            elif value.kind == "picked":
                row, number = value.operands
                address, kind = f"%at{len(self.names)}", storage(row.dtype)
                name = self.names[id(number)]
                lines.append(f"  {address} = getelementptr {kind}, ptr {self.stored[id(row)]}, i64 {name}")
                lines += element_lines([(value, address)], [], [], self.names)
            elif value.kind == "instruction":
                lines += element_lines([], [value], [], self.names)
        return lines

    def _draw(self, value: Value) -> list[str]:
        """Emit the random words of a row's elements. The first counter may also serve preceding elements, so there
        may be more."""
        (seeds,), words, k = value.operands, self.stored[id(value)], value.detail
        row, j = words.removesuffix("_words"), self.inputs[id(seeds)]
        return [
            f"  %d{k}_here = ptrtoint ptr {self._at(j)} to i64",
            f"  %d{k}_start = ptrtoint ptr %p{j} to i64",
            f"  %d{k}_element = sub i64 %d{k}_here, %d{k}_start",
            f"  %d{k}_seed_p = getelementptr i64, ptr %p{j}, i64 {2 * k}",
            f"  %d{k}_seed = load i64, ptr %d{k}_seed_p, align 8",
            f"  %d{k}_first_p = getelementptr i64, ptr %p{j}, i64 {2 * k + 1}",
            f"  %d{k}_first = load i64, ptr %d{k}_first_p, align 8",
            f"  %d{k}_skipped = and i64 %d{k}_element, 3",
            f"  %d{k}_before = lshr i64 %d{k}_element, 2",
            f"  %d{k}_counter = add i64 %d{k}_first, %d{k}_before",
            f"  %d{k}_last = add i64 %d{k}_skipped, {self.count}",
            f"  %d{k}_rounded = add i64 %d{k}_last, 3",
            f"  %d{k}_counters = lshr i64 %d{k}_rounded, 2",
            f"  call void @triten_words(ptr {row}, i64 %d{k}_counters, i64 %d{k}_counter, i64 %d{k}_seed)",
            f"  {words} = getelementptr i32, ptr {row}, i64 %d{k}_skipped",
        ]

    def _ufunc(self, value: Value) -> list[str]:
        """Emit the call of NumPy's loop, for a row or for a number, as a row of one."""
        (operand,), loop, lines = value.operands, self.ufuncs[id(value)], []
        is_row = id(value) in self.program.rows
        if not is_row:
            lines += element_lines([], [], [(operand, self.stored[id(operand)])], self.names)
        size = 4 if value.dtype == "float32" else 8
        lines += [
            f"  store ptr {self.stored[id(operand)]}, ptr %u_pointers",
            f"  store ptr {self.stored[id(value)]}, ptr %u_second",
            f"  store i64 {self.count if is_row else 1}, ptr %u_count",
            f"  call void @{loop.symbol}(ptr %u_pointers, ptr %u_count, ptr %u_steps{size}, ptr {loop.data})",
        ]
        if not is_row:
            lines += element_lines([(value, self.stored[id(value)])], [], [], self.names)
        return lines

    def _pass(self, level: int) -> list[str]:
        """Emit the call of a pass over a row, and add its text to `passes`; nothing if it stores nothing."""
        program, levels = self.program, self.program.levels
        outputs = {id(value) for value, _ in self.row_outputs}
        # The operand of a ufunc that is a number is stored before the call.
        writes = [
            v
            for v in program.order
            if id(v) in self.stored and levels[id(v)] == level and v.kind not in ("ufunc", "draw")
            if (id(v) in program.rows or id(v) in outputs) and not self._is_given(v)
        ]
        targets = [(v, self.stored[id(v)], "unit") for v in writes]
        # A repeated result, or a result that is an input, is written to each of its places.
        for value, j in self.row_outputs:
            if levels[id(value)] == level and self.stored[id(value)] != self._at(j):
                targets.append((value, self._at(j), "unit"))
        columns = [(value, c) for c, value in enumerate(program.columns) if levels[id(value)] == level]
        if not targets and not columns:
            return []
        known = [
            v
            for v in program.order
            if id(v) in self.stored and (levels[id(v)] < level or v.kind in ("ufunc", "draw"))
        ]
        available = [*known, *program.inputs, *(v for v in program.order if id(v) not in program.rows)]
        ends = [*(v for v, _, _ in targets), *(v for v, _ in columns)]
        order = [v for v in made_of(ends, available) if v.kind == "instruction"]
        used = list(dict.fromkeys([*(o for v in order for o in v.operands), *ends]))
        reads, numbers = [], []
        for value in used:
            if value in order or value.kind == "constant":
                continue
            if value.kind == "position":
                continue
            if id(value) not in program.rows:
                numbers.append(value)
            elif id(value) in self.inputs:
                j = self.inputs[id(value)]
                reads.append((value, self._at(j), self.steps[j], f"%s{j}_{self.row}"))
            else:
                reads.append((value, self.stored[id(value)], "unit", ""))
        return self._written_pass(level, reads, order, targets, numbers, columns)

    def _is_given(self, value: Value) -> bool:
        """Return True if a stored value is in an input's row."""
        array_index = self.inputs.get(id(value))
        return array_index is not None and self.stored[id(value)] == self._at(array_index)

    def _written_pass(
        self,
        level: int,
        reads: Sequence[tuple[Value, str, str, str]],
        order: Sequence[Value],
        targets: Sequence[tuple[Value, str, str]],
        numbers: Sequence[Value],
        columns: Sequence[tuple[Value, int]],
    ) -> list[str]:
        parameters, arguments, pointers = ["i64 %n"], [f"i64 {self.count}"], []
        sources, sinks = [], []
        for i, (value, pointer, step, stride) in enumerate(reads):
            parameters.append(f"ptr nocapture readonly %a{i}")
            arguments.append(f"ptr {pointer}")
            if step == "any":
                parameters.append(f"i64 %s{i}")
                arguments.append(f"i64 {stride}")
            pointers += element_pointer(f"q{i}", f"%a{i}", storage(value.dtype), step, "%i", f"%s{i}")
            sources.append((value, f"%q{i}"))
        for j, (value, pointer, step) in enumerate(targets):
            parameters.append(f"ptr noalias nocapture %o{j}")
            arguments.append(f"ptr {pointer}")
            pointers += element_pointer(f"u{j}", f"%o{j}", storage(value.dtype), step, "%i", "")
            sinks.append((value, f"%u{j}"))
        names = {}
        for k, value in enumerate(numbers):
            parameters.append(f"{value.register} %c{k}")
            arguments.append(f"{value.register} {self.names[id(value)]}")
            names[id(value)] = f"%c{k}"
        names |= {id(value): "%i" for value in self.program.order if value.kind == "position"}
        elements = element_lines(sources, order, sinks, names)
        for value, c in columns:
            parameters.append(f"ptr noalias nocapture %k{c}")
            arguments.append(f"ptr {self.kept[c]}")
            elements += [
                f"  %k{c}_p = getelementptr float, ptr %k{c}, i64 %i",
                f"  %k{c}_old = load float, ptr %k{c}_p, align 4",
                f"  %k{c}_new = fadd float %k{c}_old, {names[id(value)]}",
                f"  store float %k{c}_new, ptr %k{c}_p, align 4",
            ]
        lines = [
            f"define internal void @pass{level}({', '.join(parameters)}) noinline {{",
            "entry:",
            "  br label %each",
            "each:",
            "  %i = phi i64 [0, %entry], [%j, %each]",
            *pointers,
            *elements,
            "  %j = add nuw nsw i64 %i, 1",
            "  %more = icmp slt i64 %j, %n",
            "  br i1 %more, label %each, label %done",
            "done:",
            "  ret void",
            "}",
        ]
        self.passes.append("\n".join(lines) + "\n")
        return [f"  call void @pass{level}({', '.join(arguments)})"]

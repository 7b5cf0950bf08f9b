"""LLVM IR of a loop: values of an element program, over arrays of any strides.

The module has a function of CPython's fast calling convention, `call`. Its arguments are a *geometry* and arrays,
outputs first; an accumulator is an output that is read before it is written. A geometry is an array of int64: the
sizes of the loop nest, outermost first, and for each array an offset and strides, in bytes. So one function serves all
sizes, and parts of an index space without views.

Arithmetic is IEEE: LLVM may not contract, reorder or assume that there are no NaNs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .calling_convention import HEADER, loaded_number, python_call
from .element_loop import Loop
from .element_program import REGISTERS, Value


def write_loop(loop: Loop, steps: Sequence[str], rank: int, known: Mapping[str, int] | None = None) -> str:
    """Return a module's text.

    Args:
        loop: The loop.
        steps: Step of each array along the innermost dimension, outputs first: ``unit``, ``zero`` or ``any``.
        rank: The dimensions of the loop nest, 1 or more.
        known: Numbers of the geometry that are constant, by their names in `nest`.
    """
    writer = _Writer(loop, steps, rank, known)
    call = python_call(len(writer.arrays), rank)
    return HEADER + declarations(loop.instructions) + "\n" + writer.loop() + "\n" + call


def loop_text(loop: Loop, steps: Sequence[str], rank: int, name: str) -> str:
    """Return the text of a loop's function alone, with the given name."""
    return _Writer(loop, steps, rank).loop(name)


def storage(dtype: str) -> str:
    """Return the LLVM type of an element in memory."""
    register = REGISTERS[dtype]
    return "i8" if register == "i1" else register


class _Writer:
    def __init__(
        self, loop: Loop, steps: Sequence[str], rank: int, known: Mapping[str, int] | None = None
    ) -> None:
        self.known = known
        self.inputs, self.outputs = loop.reads, [value for value, _ in loop.writes]
        self.instructions, self.steps, self.rank = loop.instructions, steps, rank
        self.accumulators = loop.accumulators
        self.arrays = [*self.outputs, *self.inputs]

    def loop(self, name: str = "loop") -> str:
        """Return the loop nest."""
        count, inner = len(self.arrays), self.rank - 1
        pointers = ", ".join(
            f"ptr {'noalias nocapture' if j < len(self.outputs) else 'nocapture readonly'} %p{j}"
            for j in range(count)
        )
        head = f"define internal void @{name}(ptr nocapture readonly %g, {pointers}) noinline {{"
        moves = [step == "any" for step in self.steps]
        lines = nest(self.rank, self.rank, moves, self._body(inner), known=self.known)
        return "\n".join([head, "entry:", *lines, "  ret void", "}"]) + "\n"

    def _body(self, inner: int) -> list[str]:
        lines = []
        for j, (value, step) in enumerate(zip(self.arrays, self.steps, strict=True)):
            lines += element_pointer(
                f"q{j}", f"%b{j}_{inner}", storage(value.dtype), step, f"%i{inner}", f"%s{j}_{inner}"
            )
        num_outputs = len(self.outputs)
        reads = [(value, f"%q{num_outputs + i}") for i, value in enumerate(self.inputs)]
        reads += [(value, f"%q{value.detail}") for value in self.accumulators]
        writes = [(value, f"%q{j}") for j, value in enumerate(self.outputs)]
        return [*lines, *element_lines(reads, self.instructions, writes, {})]


def declarations(instructions: Sequence[Value]) -> str:
    """Return the declarations of the LLVM intrinsics that instructions call."""
    by_name = {}
    for value in instructions:
        if value.text.startswith("call "):
            head, _, arguments = value.text[5:].partition("(")
            types = ", ".join(argument.split()[0] for argument in arguments.split(", "))
            by_name[head] = f"declare {head}({types})\n"
    return "".join(by_name.values())


def nest(
    rank: int,
    loops: int,
    moves: Sequence[bool],
    body: Sequence[str],
    before: Sequence[str] = (),
    known: Mapping[str, int] | None = None,
) -> list[str]:
    """Return loops over the outer dimensions of a geometry, with or without the innermost, around a body.

    ``%b{j}_{d}`` is the pointer into array `j` in the loop of dimension `d`, which counts ``%i{d}``; ``%n{d}`` are the
    sizes.

    Args:
        rank: The dimensions of the geometry.
        loops: The number of loops, `rank` or one less.
        moves: For each array, True if its innermost stride is loaded.
        body: The body, whose last block the innermost loop ends.
        before: Lines before the loops.
        known: Numbers that are constant, by their names: ``n{d}``, and ``s{j}_{d}``, an array's stride.
    """
    arrays = range(len(moves))
    lines = []

    def loaded(name: str, index: int) -> list[str]:
        number = None if known is None else known.get(name)
        return loaded_number(name, index) if number is None else [f"  %{name} = add i64 0, {number}"]

    for d in range(rank):
        lines += loaded(f"n{d}", d)
    for j in arrays:
        base = rank + j * (rank + 1)
        lines += loaded_number(f"o{j}", base)
        lines.append(f"  %b{j}_0 = getelementptr i8, ptr %p{j}, i64 %o{j}")
        for d in range(rank):
            if d < rank - 1 or moves[j]:
                lines += loaded(f"s{j}_{d}", base + 1 + d)
    lines += before
    for d in range(loops):
        lines += _opened(d)
        if d < rank - 1:
            lines += [f"  %m{j}_{d} = mul i64 %i{d}, %s{j}_{d}" for j in arrays]
            lines += [f"  %b{j}_{d + 1} = getelementptr i8, ptr %b{j}_{d}, i64 %m{j}_{d}" for j in arrays]
    lines += body
    if not loops:
        lines.append("  br label %done")
    for d in reversed(range(loops)):
        lines += [
            *([f"  br label %latch{d}"] if d == loops - 1 else []),
            f"latch{d}:",
            f"  %j{d} = add nuw nsw i64 %i{d}, 1",
            f"  %c{d} = icmp slt i64 %j{d}, %n{d}",
            f"  br i1 %c{d}, label %head{d}, label %{f'latch{d - 1}' if d else 'done'}",
        ]
    return [*lines, "done:"]


def element_pointer(name: str, base: str, kind: str, step: str, index: str, stride: str) -> list[str]:
    """Emit the pointer to an element of a row that is contiguous, a single element, or strided."""
    if step == "unit":
        return [f"  %{name} = getelementptr {kind}, ptr {base}, i64 {index}"]
    if step == "zero":
        return [f"  %{name} = getelementptr i8, ptr {base}, i64 0"]
    return [
        f"  %{name}_m = mul i64 {index}, {stride}",
        f"  %{name} = getelementptr i8, ptr {base}, i64 %{name}_m",
    ]


def element_lines(
    reads: Sequence[tuple[Value, str]],
    instructions: Sequence[Value],
    writes: Sequence[tuple[Value, str]],
    names: dict[int, str],
) -> list[str]:
    """Emit the loads, instructions and stores of an element.

    Args:
        reads: Values, and pointers to them.
        instructions: The instructions in order.
        writes: Values, and pointers to where they are stored.
        names: Names of known values by their `id`; new values are added.
    """
    lines = []
    for value, pointer in reads:
        if value.kind == "place":
            names[id(value)] = pointer
            continue
        i = len(names)
        lines.append(f"  %x{i} = load {storage(value.dtype)}, ptr {pointer}, align 1")
        names[id(value)] = f"%x{i}"
        if value.dtype == "bool":
            lines.append(f"  %y{i} = icmp ne i8 %x{i}, 0")
            names[id(value)] = f"%y{i}"
    for value in instructions:
        i = len(names)
        lines.append(f"  %v{i} = {value.text.format(*[_name(operand, names) for operand in value.operands])}")
        names[id(value)] = f"%v{i}"
    for j, (value, pointer) in enumerate(writes):
        name = _name(value, names)
        if value.dtype == "bool":
            lines.append(f"  %z{j} = zext i1 {name} to i8")
            name = f"%z{j}"
        lines.append(f"  store {storage(value.dtype)} {name}, ptr {pointer}, align 1")
    return lines


def _name(value: Value, names: dict[int, str]) -> str:
    return value.text if value.kind == "constant" else names[id(value)]


def _opened(d: int) -> list[str]:
    """Emit the head of a loop, which runs at least once."""
    before = f"body{d - 1}" if d else "entry"
    return [
        f"  br label %head{d}",
        f"head{d}:",
        f"  %i{d} = phi i64 [0, %{before}], [%j{d}, %latch{d}]",
        f"  br label %body{d}",
        f"body{d}:",
    ]

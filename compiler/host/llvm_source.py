"""LLVM's text of a loop: values of an element program, over arrays of any strides.

The text has a function of Python's fast calling convention, `call`. Its arguments are a *geometry* and arrays, outputs
first; an accumulator is an output that is read before it is written. A geometry is an array of int64: the sizes of the
loop nest, outermost first, and for each array an offset and strides, in bytes. So one function serves all sizes, and
parts of an index space, without a view being made.

Arithmetic is IEEE's: LLVM is not allowed to contract, to reorder or to assume that there are no NaNs.
"""

from __future__ import annotations

from collections.abc import Sequence

from .element_program import REGISTERS, Value
from .stages import Loop

DATA = object.__basicsize__
"""Where an array object has the pointer to its elements: behind the head that all objects have (PyArrayObject)."""
UNLOCKED_FROM = 1 << 12
"""Elements from which the loop runs without the GIL; to take it again may mean to wait for it."""

HEADER = """\
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)
@_Py_NoneStruct = external global i8
"""


def write_loop(loop: Loop, steps: Sequence[str], rank: int) -> str:
    """A module's text.

    Args:
        loop: what is read, computed and written.
        steps: of each array, outputs first, how it goes along the innermost dimension: ``unit``, ``zero`` or ``any``.
        rank: the dimensions of the loop nest, 1 or more.
    """
    writer = _Writer(loop, steps, rank)
    return HEADER + writer.declarations() + "\n" + writer.loop() + "\n" + writer.call()


def storage(dtype: str) -> str:
    """LLVM's type of an element in memory."""
    register = REGISTERS[dtype]
    return "i8" if register == "i1" else register


class _Writer:
    def __init__(self, loop: Loop, steps: Sequence[str], rank: int) -> None:
        self.inputs, self.outputs = loop.reads, [value for value, _ in loop.writes]
        self.instructions, self.steps, self.rank = loop.instructions, steps, rank
        self.accumulators = loop.accumulators
        self.arrays = [*self.outputs, *self.inputs]
        self.names: dict[int, str] = {}

    def declarations(self) -> str:
        """Declarations of the functions of LLVM that instructions call."""
        found = {}
        for value in self.instructions:
            if value.text.startswith("call "):
                head, _, argument = value.text[5:].partition("(")
                found[head] = f"declare {head}({argument.split()[0]})\n"
        return "".join(found.values())

    def loop(self) -> str:
        """The loop nest."""
        rank, arrays = self.rank, self.arrays
        places = range(len(arrays))
        pointers = ", ".join(
            f"ptr {'noalias nocapture' if j < len(self.outputs) else 'nocapture readonly'} %p{j}"
            for j in places
        )
        lines = [f"define internal void @loop(ptr nocapture readonly %g, {pointers}) noinline {{", "entry:"]
        for d in range(rank):
            lines += _loaded(f"n{d}", d)
        for j in places:
            base = rank + j * (rank + 1)
            lines += _loaded(f"o{j}", base)
            lines.append(f"  %b{j}_0 = getelementptr i8, ptr %p{j}, i64 %o{j}")
            for d in range(rank):
                if d < rank - 1 or self.steps[j] == "any":
                    lines += _loaded(f"s{j}_{d}", base + 1 + d)
        for d in range(rank - 1):
            lines += _opened(d)
            lines += [f"  %m{j}_{d} = mul i64 %i{d}, %s{j}_{d}" for j in places]
            lines += [f"  %b{j}_{d + 1} = getelementptr i8, ptr %b{j}_{d}, i64 %m{j}_{d}" for j in places]
        inner = rank - 1
        lines += _opened(inner)
        lines += self._body(inner)
        for d in reversed(range(rank)):
            after = f"latch{d - 1}" if d else "done"
            lines += [
                f"  br label %latch{d}" if d == inner else "",
                f"latch{d}:",
                f"  %j{d} = add nuw nsw i64 %i{d}, 1",
                f"  %c{d} = icmp slt i64 %j{d}, %n{d}",
                f"  br i1 %c{d}, label %head{d}, label %{after}",
            ]
        lines += ["done:", "  ret void", "}"]
        return "\n".join(line for line in lines if line) + "\n"

    def _body(self, inner: int) -> list[str]:
        lines = []
        for j, value in enumerate(self.arrays):
            kept, step = storage(value.dtype), self.steps[j]
            if step == "unit":
                lines.append(f"  %q{j} = getelementptr {kept}, ptr %b{j}_{inner}, i64 %i{inner}")
            elif step == "zero":
                lines.append(f"  %q{j} = getelementptr i8, ptr %b{j}_{inner}, i64 0")
            else:
                lines.append(f"  %m{j}_{inner} = mul i64 %i{inner}, %s{j}_{inner}")
                lines.append(f"  %q{j} = getelementptr i8, ptr %b{j}_{inner}, i64 %m{j}_{inner}")
        for i, value in enumerate(self.inputs):
            j = len(self.outputs) + i
            lines.append(f"  %x{i} = load {storage(value.dtype)}, ptr %q{j}, align 1")
            self.names[id(value)] = f"%x{i}"
            if value.dtype == "bool":
                lines.append(f"  %y{i} = icmp ne i8 %x{i}, 0")
                self.names[id(value)] = f"%y{i}"
        for value in self.accumulators:
            j = value.detail
            lines.append(f"  %w{j} = load {storage(value.dtype)}, ptr %q{j}, align 1")
            self.names[id(value)] = f"%w{j}"
        for i, value in enumerate(self.instructions):
            names = [self._name(operand) for operand in value.operands]
            lines.append(f"  %v{i} = {value.text.format(*names)}")
            self.names[id(value)] = f"%v{i}"
        for j, value in enumerate(self.outputs):
            name = self._name(value)
            if value.dtype == "bool":
                lines.append(f"  %z{j} = zext i1 {name} to i8")
                name = f"%z{j}"
            lines.append(f"  store {storage(value.dtype)} {name}, ptr %q{j}, align 1")
        return lines

    def _name(self, value: Value) -> str:
        return value.text if value.kind == "constant" else self.names[id(value)]

    def call(self) -> str:
        """The function that Python calls: it takes the arrays' pointers, and lets the GIL go for a long loop."""
        places = range(len(self.arrays))
        lines = ["define ptr @call(ptr %self, ptr %arguments, i64 %count) {", "entry:"]
        for j, name in enumerate(("g", *(f"p{j}" for j in places))):
            lines += [
                f"  %{name}_at = getelementptr ptr, ptr %arguments, i64 {j}",
                f"  %{name}_object = load ptr, ptr %{name}_at",
                f"  %{name}_data = getelementptr i8, ptr %{name}_object, i64 {DATA}",
                f"  %{name} = load ptr, ptr %{name}_data",
            ]
        numel = "1"
        for d in range(self.rank):
            lines += _loaded(f"n{d}", d)
            lines.append(f"  %t{d} = mul i64 {numel}, %n{d}")
            numel = f"%t{d}"
        given = ", ".join(["ptr %g", *(f"ptr %p{j}" for j in places)])
        lines += [
            f"  %long = icmp sge i64 {numel}, {UNLOCKED_FROM}",
            "  br i1 %long, label %unlocked, label %locked",
            "unlocked:",
            "  %state = call ptr @PyEval_SaveThread()",
            f"  call void @loop({given})",
            "  call void @PyEval_RestoreThread(ptr %state)",
            "  br label %done",
            "locked:",
            f"  call void @loop({given})",
            "  br label %done",
            "done:",
            "  call void @Py_IncRef(ptr @_Py_NoneStruct)",
            "  ret ptr @_Py_NoneStruct",
            "}",
        ]
        return "\n".join(lines) + "\n"


def _loaded(name: str, place: int) -> list[str]:
    """A number of the geometry."""
    return [
        f"  %{name}_g = getelementptr i64, ptr %g, i64 {place}",
        f"  %{name} = load i64, ptr %{name}_g",
    ]


def _opened(d: int) -> list[str]:
    """The head of a loop, which runs once at least."""
    before = f"body{d - 1}" if d else "entry"
    return [
        f"  br label %head{d}",
        f"head{d}:",
        f"  %i{d} = phi i64 [0, %{before}], [%j{d}, %latch{d}]",
        f"  br label %body{d}",
        f"body{d}:",
    ]

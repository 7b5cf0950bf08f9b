"""Functions of LLVM's written line by line: loops, variables, sums, and the functions by which a loop is called."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from .calling_convention import DATA, HEADER, part_function


class Code:
    """Lines of a function of LLVM's, with counted loops and variables."""

    def __init__(self) -> None:
        self.variables: list[str] = []
        self.lines: list[str] = []
        self._count = 0

    def name(self, kind: str = "t") -> str:
        """Return a new name."""
        self._count += 1
        return f"{kind}{self._count}"

    def new(self, text: str, name: str = "") -> str:
        """Emit an instruction and return its value, which has a new name by default."""
        made = name or f"%{self.name()}"
        self.lines.append(f"  {made} = {text}")
        return made

    def do(self, text: str) -> None:
        """Emit an instruction without a value."""
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        """Begin a basic block."""
        self.lines.append(f"{name}:")

    def go(self, text: str) -> None:
        """End a basic block by a branch."""
        self.do(f"br {text}")

    def add(self, a: str, b: str) -> str:
        """Emit the sum of two integers."""
        return self.new(f"add i64 {a}, {b}")

    def mul(self, a: str, b: str) -> str:
        """Emit the product of two integers."""
        return self.new(f"mul i64 {a}, {b}")

    def at(self, kind: str, base: str, index: str) -> str:
        """Emit a pointer to an element."""
        return self.new(f"getelementptr {kind}, ptr {base}, i64 {index}")

    def number(self, table: str, index: int | str) -> str:
        """Emit the load of a number from an array of int64."""
        return self.new(f"load i64, ptr {self.at('i64', table, str(index))}")

    def numbers(self, table: str, names: Sequence[str]) -> dict[str, str]:
        """Emit the loads of all numbers of a table, by name."""
        return {name: self.number(table, i) for i, name in enumerate(names)}

    def variable(self, kind: str, initial: str) -> str:
        """Emit a variable, which LLVM keeps in a register."""
        made = f"%{self.name('x')}"
        self.variables.append(f"  {made} = alloca {kind}")
        self.do(f"store {kind} {initial}, ptr {made}")
        return made

    @contextlib.contextmanager
    def loop(self, first: str, last: str, step: int | str = 1, *, plain: bool = False) -> Iterator[str]:
        """Emit a loop from `first` to below `last`, possibly without iterations; a plain loop is not unrolled."""
        counter, label = self.variable("i64", first), self.name("loop")
        self.go(f"label %{label}")
        self.label(label)
        i = self.new(f"load i64, ptr {counter}")
        again = self.new(f"icmp slt i64 {i}, {last}")
        self.go(f"i1 {again}, label %{label}_body, label %{label}_end")
        self.label(f"{label}_body")
        yield i
        self.do(f"store i64 {self.add(i, str(step))}, ptr {counter}")
        self.go(f"label %{label}" + (", !llvm.loop !0" if plain else ""))
        self.label(f"{label}_end")

    def in_steps(self, total: str, steps: Iterable[int]) -> Iterator[tuple[int, str, str]]:
        """Yield each step, largest first, with the range that it covers in whole steps; the last step is 1."""
        done = self.variable("i64", "0")
        for step in steps:
            first = self.new(f"load i64, ptr {done}")
            left = self.new(f"sub i64 {total}, {first}")
            last = self.add(first, self.mul(self.new(f"sdiv i64 {left}, {step}"), str(step)))
            yield step, first, last
            self.do(f"store i64 {last}, ptr {done}")

    @contextlib.contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Do something only if a bit is set."""
        label = self.name("if")
        self.go(f"i1 {condition}, label %{label}, label %{label}_end")
        self.label(label)
        yield
        self.go(f"label %{label}_end")
        self.label(f"{label}_end")

    def function(self, name: str, arguments: str, attributes: str = "", result: str = "void") -> str:
        """Return the whole function; `result` is the type and the value that it returns, if any."""
        head = f"define internal {result.split()[0]} @{name}({arguments}) {attributes} {{\nentry:"
        return "\n".join([head, *self.variables, *self.lines, f"  ret {result}", "}"]) + "\n"


class FloatCode(Code):
    """Loop over arrays of one float dtype, whose sums are float64.

    Args:
        dtype: ``float32`` or ``float64``.
    """

    def __init__(self, dtype: str) -> None:
        super().__init__()
        self.kind = {"float32": "float", "float64": "double"}[dtype]

    def value(self, array: str, index: str, kind: str = "") -> str:
        """Emit the load of an element."""
        kind = kind or self.kind
        return self.new(f"load {kind}, ptr {self.at(kind, array, index)}")

    def store(self, value: str, array: str, index: str, kind: str = "") -> None:
        """Write an element."""
        kind = kind or self.kind
        self.do(f"store {kind} {value}, ptr {self.at(kind, array, index)}")

    def wide(self, value: str) -> str:
        """Emit a number as float64."""
        return value if self.kind == "double" else self.new(f"fpext float {value} to double")

    def narrow(self, value: str) -> str:
        """Emit a float64 converted to the dtype."""
        return value if self.kind == "double" else self.new(f"fptrunc double {value} to float")

    def add_piece(self, totals: Sequence[str], length: str, terms: Callable[[str], list[str]]) -> None:
        """Emit the addition of terms of several places to totals: first in the dtype itself, in several lanes."""
        sums = [self.variable(self.kind, "0.0") for _ in totals]
        with self.loop("0", length) as i:
            for each, term in zip(sums, terms(i), strict=True):
                old = self.new(f"load {self.kind}, ptr {each}")
                added = self.new(f"fadd reassoc {self.kind} {old}, {term}")
                self.do(f"store {self.kind} {added}, ptr {each}")
        for total, each in zip(totals, sums, strict=True):
            part = self.wide(self.new(f"load {self.kind}, ptr {each}"))
            old = self.new(f"load double, ptr {total}")
            self.do(f"store double {self.new(f'fadd double {old}, {part}')}, ptr {total}")

    def module(self, name: str, arrays: int, written: int) -> str:
        """Return the module of a function of an array of numbers, ``%g``, and other arrays, the last of which are
        written."""
        pointers = [
            f"ptr {'noalias nocapture' if j >= arrays - written else 'noalias nocapture readonly'} %p{j}"
            for j in range(arrays)
        ]
        body = self.function(name, ", ".join(["ptr nocapture readonly %g", *pointers]), "noinline nounwind")
        smin = "declare i64 @llvm.smin.i64(i64, i64)\n"
        return HEADER + smin + body + module_calls(name, arrays + 1)


def module_calls(function: str, count: int) -> str:
    """Return the function that Python calls with numbers and arrays, which releases the GIL, and that of threads."""
    code = Code()
    pointers = []
    for j in range(count):
        array = code.new(f"load ptr, ptr {code.at('ptr', '%arguments', str(j))}")
        pointers.append(code.new(f"load ptr, ptr {code.at('i8', array, str(DATA))}"))
    state = code.new("call ptr @PyEval_SaveThread()")
    code.do(f"call void @{function}({', '.join(f'ptr {each}' for each in pointers)})")
    code.do(f"call void @PyEval_RestoreThread(ptr {state})")
    code.do("call void @Py_IncRef(ptr @_Py_NoneStruct)")
    head = "define ptr @call(ptr %self, ptr %arguments, i64 %count) {\nentry:"
    called = "\n".join([head, *code.lines, "  ret ptr @_Py_NoneStruct", "}"]) + "\n"
    return called + part_function(function, count - 1)

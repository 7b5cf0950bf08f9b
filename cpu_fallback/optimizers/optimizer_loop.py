"""Loops of optimizer steps for an optimizer and its flags: Adam with decoupled weight decay, SGD with momentum.

The computation is that of `dispatch/structured/meta/optimizers.py`, operation for operation. Arrays come in the
operator's order: parameters and states, which are written, then gradients. Numbers of the call, which change from step
to step, come last, each in an array of its own, in the compute dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...runtime.cpu.calling_convention import DATA, HEADER
from ...runtime.cpu.element_loop import Loop
from ...runtime.cpu.element_program import CannotLower, ElementProgram, Value
from ...runtime.cpu.llvm_source import write_loop
from ...runtime.cpu.object_code import loop_function, target

NUMBERS = {"sgd": 4, "adam": 7}
"""The number of scalar arguments of a call (`compiled_steps.py` has their order)."""


def optimizer_loop(kind: str, dtype: str, *flags: str) -> Callable[..., None] | None:
    """Return the loop of a step, or None if the processor does not convert its dtype.

    Args:
        kind: ``sgd`` or ``adam``.
        dtype: Dtype of parameters, gradients and states.
        flags: What the step does, such as ``decays``, ``decoupled``, ``nesterov`` and ``amsgrad``.
    """
    found = target()
    assert found is not None
    program = ElementProgram(found.converts_half, found.truncates)
    try:
        writes, reads = STEPS[kind](_Step(program, dtype, set(flags), NUMBERS[kind]))
        outputs = [program.convert(value, dtype) for value in writes]
    except CannotLower:
        return None
    loop = Loop(tuple(reads), tuple([(value, f"o{i}") for i, value in enumerate(outputs)]))
    own = len(outputs) + 1
    return loop_function(write_loop(loop, ["unit"] * own + ["zero"] * (len(reads) - 1), 1))


def addresses() -> Callable[..., None]:
    """Return ``call(out, *arrays)``, which writes the addresses of the arrays' first elements."""
    return loop_function(HEADER + ADDRESSES)


ADDRESSES = f"""\
define ptr @call(ptr %self, ptr %arguments, i64 %count) {{
entry:
  %out_object = load ptr, ptr %arguments
  %out_data = getelementptr i8, ptr %out_object, i64 {DATA}
  %out = load ptr, ptr %out_data
  br label %head
head:
  %i = phi i64 [1, %entry], [%next, %body]
  %is_more = icmp slt i64 %i, %count
  br i1 %is_more, label %body, label %done
body:
  %object_at = getelementptr ptr, ptr %arguments, i64 %i
  %object = load ptr, ptr %object_at
  %data_at = getelementptr i8, ptr %object, i64 {DATA}
  %data = load i64, ptr %data_at
  %before = sub i64 %i, 1
  %to = getelementptr i64, ptr %out, i64 %before
  store i64 %data, ptr %to
  %next = add i64 %i, 1
  br label %head
done:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}}
"""


class _Step:
    """Operands of an optimizer step: `states` are read from the arrays that they are written to."""

    def __init__(self, program: ElementProgram, dtype: str, flags: set[str], numbers: int) -> None:
        self.program, self.dtype, self.flags = program, dtype, flags
        self.wide = "float64" if dtype == "float64" else "float32"
        self.gradient = program.value("input", dtype, detail=0)
        self.numbers = [program.value("input", self.wide, detail=1 + i) for i in range(numbers)]
        self.reads = (self.gradient, *self.numbers)

    def state(self, place: int) -> Value:
        """Return the output at a place, before it is written."""
        return self.program.convert(self.program.value("accumulator", self.dtype, detail=place), self.wide)

    def start(self) -> Value:
        """Return the gradient, or its negative for `maximize`."""
        g = self.program.convert(self.gradient, self.wide)
        return self.program.negative(g) if "maximize" in self.flags else g

    def __call__(self, name: str, a: Value, b: Value) -> Value:
        return self.program.arithmetic(name, a, b)


def _sgd(s: _Step) -> tuple[list[Value], Sequence[Value]]:
    rate, decay, keep, undamped = s.numbers
    p, g = s.state(0), s.start()
    written = []
    if "decays" in s.flags:
        g = s("add", g, s("mul", p, decay))
    if "momentum" in s.flags:
        b = g if "first" in s.flags else s("add", s("mul", s.state(1), keep), s("mul", g, undamped))
        written = [b]
        g = s("add", g, s("mul", b, keep)) if "nesterov" in s.flags else b
    return [s("sub", p, s("mul", g, rate)), *written], s.reads


def _adam(s: _Step) -> tuple[list[Value], Sequence[Value]]:
    decay, step_size, root, toward, kept, rest, eps = s.numbers
    p, m, v, g = s.state(0), s.state(1), s.state(2), s.start()
    if "decays" in s.flags:
        if "decoupled" in s.flags:
            p = s("mul", p, decay)
        else:
            g = s("add", g, s("mul", p, decay))
    m = s("add", m if "near" in s.flags else g, s("mul", s("sub", g, m), toward))
    v = s("add", s("mul", v, kept), s("mul", s("mul", g, rest), g))
    written = [m, v]
    largest = v
    if "amsgrad" in s.flags:
        largest = s.program.maximum(s.state(3), v)
        written.append(largest)
    root_of = s("add", s("div", s.program.intrinsic("sqrt", largest), root), eps)
    return [s("sub", p, s("div", s("mul", m, step_size), root_of)), *written], s.reads


STEPS: dict[str, Callable[[_Step], Any]] = {"sgd": _sgd, "adam": _adam}

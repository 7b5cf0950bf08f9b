"""Plans of functional forms: allocate results, run a kernel on them, and wrap them.

A loop over a call's arguments would cost more than many small kernels. The function of each shape of call is
therefore generated, once in a process, for all kernels and specs of its plans.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

from ...runtime.float_errors import is_taken, run_quiet, run_quiet_copy
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ...runtime.traceback_filter import HANDLER, hide_inner_frames
from ...runtime.written_code import defined
from ..core.kernel_function import Plan
from ..structured.allocation import allocator_of, numpy_may_allocate, numpy_may_make_number
from ..structured.stub import PlannedKernel
from ..tensor import blank_tensor

TENSOR, VALUE = "tensor", "value"
"""Slot of a runtime argument: a tensor; or a value (a number, None, a generator or a list). A list without None is
represented by the number of its tensors.
"""

MANY = 5
"""Shorter lists are unpacked by position, in a third of the time of a comprehension; longer ones share one form."""

Slots = tuple[str | int, ...]

PASSED = frozenset({float, int, bool, complex, None.__class__})
"""Classes of values that kernels receive unchanged."""


def data_of(value: Any) -> Any:
    """Return the kernel's form of an argument: a tensor's memory; numbers and generators unchanged; lists unpacked."""
    if isinstance(value, TensorImpl):
        return value._data
    if isinstance(value, (list, tuple)):
        return [None if v is None else v._data for v in value]
    return value


_TENSOR_AND_NUMBER: Slots = (TENSOR, VALUE)


def list_length(specs: Any) -> int:
    """Return the length of a list of tensors without None, at most `MANY`; 0 for anything else."""
    if specs.__class__ is not tuple or not all(spec.__class__ is TensorSpec for spec in specs):
        return 0
    return min(len(specs), MANY)


def slot_of(spec: Any) -> str | int:
    """Return the slot of a runtime argument, from its spec."""
    return TENSOR if isinstance(spec, TensorSpec) else list_length(spec) or VALUE


class FunctionalForm:
    """Plan factory for calls whose arguments have these slots, with the functions generated so far.

    Args:
        slots: Slots of the runtime arguments.
        result_type: Constructor of the result of several outputs.
    """

    __slots__ = ("_into", "fresh", "fresh_quiet", "gather", "slots")

    def __init__(self, slots: Slots, result_type: Callable[[Sequence[Any]], Any] | None) -> None:
        self.slots = slots
        self.gather = result_type
        self.fresh = fresh_maker(slots, False)
        self.fresh_quiet = fresh_maker(slots, True)
        self._into: dict[tuple[int, bool], Callable[..., Plan]] = {}

    def plan(self, kernel: PlannedKernel, outputs: tuple[TensorSpec, ...]) -> Plan:
        """Return the plan of a call, from its kernel and its outputs' specs."""
        into, compute, quiet, _, _, first, unshared, number, _ = kernel
        if (
            compute is not None
            and self.gather is None
            and len(outputs) == 1
            and numpy_may_allocate(outputs[0])
        ):
            if compute.__class__ is FunctionType:
                marks = compute.__dict__
                if "constants" in marks and self.slots == _TENSOR_AND_NUMBER:
                    return _constant_plan(marks["ufunc"], marks["constants"], outputs[0])
                if "followed_by" in marks:
                    maker = fresh_maker(self.slots, quiet, True)
                    return maker(marks["function"], outputs[0], marks["followed_by"])
                if "alone" in marks:
                    compute, quiet = marks["alone"], True
            return (self.fresh_quiet if quiet else self.fresh)(compute, outputs[0])
        if number is not None and numpy_may_make_number(outputs[0]):
            return (self.fresh_quiet if quiet else self.fresh)(number, outputs[0])
        compute = unshared or into
        if hasattr(compute, "alone"):
            compute, quiet = compute.alone, True
        count = len(outputs)
        make = self._into.get((count, quiet))
        if make is None:
            make = self._into[count, quiet] = into_maker(
                self.slots, count, quiet, self.gather is not None and (self.gather is not tuple or count == 1)
            )
        plan = make(compute, outputs, [allocator_of(spec) for spec in outputs], self.gather)
        if first is not None and numpy_may_allocate(outputs[0]):
            plan.first = self.fresh_quiet(first, outputs[0])  # type: ignore[attr-defined]
        return plan


def _constant_plan(ufunc: Any, constants: Mapping[Any, Any], spec: TensorSpec) -> Plan:
    """Return the plan of a ufunc of a tensor and a number, which is cached as an array of the tensor's dtype."""

    def plan(self: Any, number: Any) -> Any:
        out = blank_tensor()
        try:
            value = constants[number]
            try:
                out._data = run_quiet(ufunc, self._data, value)
            except RuntimeError:
                out._data = run_quiet_copy(ufunc, self._data, value)
        except BaseException:
            hide_inner_frames()
            raise
        out._spec = spec
        out._version_cell = out._autograd = out._view_base = None
        return out

    return plan


@functools.cache
def fresh_maker(slots: Slots, quiet: bool, has_constant: bool = False) -> Callable[..., Plan]:
    """Return a function from a kernel that returns a new array, and its spec, to a plan.

    Args:
        slots: Slots of the runtime arguments.
        quiet: If True, ignore floating-point errors.
        has_constant: If True, the kernel takes a constant last, which the function takes after the spec.
    """
    constant = ["constant"] if has_constant else []
    lines = [
        "out = blank_tensor()",
        *_computing(quiet, "out._data = ", _argument_expressions(slots) + constant),
        *_wrapping("out", "spec"),
        "return out",
    ]
    return _made(", ".join(["compute, spec", *constant]), [], slots, lines)


@functools.cache
def into_maker(
    slots: Slots, count: int, quiet: bool, gathered: bool, left_out: tuple[int, ...] = ()
) -> Callable[..., Plan]:
    """Return a function from a kernel that writes to its outputs, their specs and allocators, to a plan.

    Args:
        slots: Slots of the runtime arguments.
        count: Number of outputs.
        quiet: If True, ignore floating-point errors.
        gathered: True if a function builds the result from the outputs; otherwise several outputs form a tuple.
        left_out: Outputs that are None, for the kernel and in the result. Default: none.
    """
    numbers = range(count)
    written = [i for i in numbers if i not in left_out]
    lines = [f"data{i} = out{i} = None" for i in left_out]
    lines += [f"out{i} = blank_tensor()" for i in written]
    lines += [f"out{i}._data = data{i} = allocate{i}()" for i in written]
    lines += _computing(quiet, "", [f"data{i}" for i in numbers] + _argument_expressions(slots))
    for i in written:
        lines += _wrapping(f"out{i}", f"spec{i}")
    outs = "".join([f"out{i}, " for i in numbers])
    result = f"gather(({outs}))" if gathered else "out0" if count == 1 else f"({outs})"
    unpacked = [f"{''.join([f'spec{i}, ' for i in numbers])}= specs"] if count else []
    unpacked += [f"{''.join([f'allocate{i}, ' for i in numbers])}= allocators"] if count else []
    return _made("compute, specs, allocators, gather", unpacked, slots, [*lines, f"return {result}"])


@functools.cache
def host_kernel_maker(
    slots: Slots, count: int, gathered: bool, quiet: bool, fills: bool
) -> Callable[..., Plan]:
    """Return a function from a composite's host kernel, output specs, allocators and the composite itself, to a plan.

    Args:
        slots: Slots of the runtime arguments.
        count: Number of outputs.
        gathered: True if a function builds the result from several outputs; otherwise they form a tuple.
        quiet: If True, ignore floating-point errors.
        fills: True if the kernel fills outputs that the plan allocates, and returns False for a call that it
            declines. Otherwise it returns the outputs' arrays, or None for a declined call.
    """
    numbers = range(count)
    data = [f"data{i}" for i in numbers]
    target = "filled" if fills else "data0" if count == 1 else "data"
    lines = [f"data{i} = allocate{i}()" for i in numbers] if fills else []
    computing = _computing(
        quiet, f"{target} = ", data + _argument_expressions(slots) if fills else _argument_expressions(slots)
    )
    lines += computing if quiet else [f"try: {computing[0]}", HANDLER]
    lines += [
        f"if {target} is {'False' if fills else 'None'}:",
        f"    try: return composed({', '.join([f'v{i}' for i in range(len(slots))])})",
        f"    {HANDLER}",
    ]
    if count > 1 and not fills:
        lines += [f"{', '.join(data)} = data"]
    for i in numbers:
        lines += [f"out{i} = blank_tensor()", f"out{i}._data = data{i}", *_wrapping(f"out{i}", f"spec{i}")]
    outs = "".join([f"out{i}, " for i in numbers])
    result = f"gather(({outs}))" if gathered else "out0" if count == 1 else f"({outs})"
    unpacked = [f"{''.join([f'spec{i}, ' for i in numbers])}= specs"]
    if fills:
        unpacked += [f"{''.join([f'allocate{i}, ' for i in numbers])}= allocators"]
    parameters = "compute, specs, allocators, gather, composed"
    return _made(parameters, unpacked, slots, [*lines, f"return {result}"])


def _argument_expressions(slots: Slots) -> list[str]:
    """Return the kernel's argument expressions for the runtime arguments."""
    expressions = []
    for i, slot in enumerate(slots):
        if slot == TENSOR:
            expressions.append(f"v{i}._data")
        elif slot == VALUE:
            expressions.append(f"v{i} if v{i}.__class__ in PASSED else data_of(v{i})")
        elif isinstance(slot, int) and slot < MANY:
            expressions.append(f"[{', '.join([f'v{i}[{index}]._data' for index in range(slot)])}]")
        else:
            expressions.append(f"[t._data for t in v{i}]")
    return expressions


def _computing(quiet: bool, target: str, expressions: Sequence[str]) -> list[str]:
    """Return the statements that call the kernel; with `quiet` they ignore floating-point errors."""
    called = ", ".join(expressions)
    if not quiet:
        return [f"{target}compute({called})"]
    return [
        "try:",
        f"    {target}run_quiet(compute, {called})",
        "except RuntimeError as error:",
        "    if not is_taken(error): hide_inner_frames(); raise",
        f"    try: {target}run_quiet_copy(compute, {called})",
        f"    {HANDLER}",
        HANDLER,
    ]


def _wrapping(out: str, spec: str) -> list[str]:
    return [f"{out}._spec = {spec}", f"{out}._version_cell = {out}._autograd = {out}._view_base = None"]


def _made(parameters: str, before: Sequence[str], slots: Slots, lines: Sequence[str]) -> Callable[..., Plan]:
    """Compile these statements to a function whose errors hide inner frames."""
    if HANDLER not in lines:
        lines = [f"try: {'; '.join(lines)}", HANDLER]
    text = [
        f"def make({parameters}):",
        *[f"    {line}" for line in before],
        f"    def plan({', '.join([f'v{i}' for i in range(len(slots))])}):",
        *[f"        {line}" for line in lines],
        "    return plan",
        "",
    ]
    names: dict[str, Any] = {
        "PASSED": PASSED,
        "blank_tensor": blank_tensor,
        "data_of": data_of,
        "__name__": __name__,
        "hide_inner_frames": hide_inner_frames,
        "is_taken": is_taken,
        "run_quiet": run_quiet,
        "run_quiet_copy": run_quiet_copy,
    }
    made: Callable[..., Plan] = defined(
        "make", "\n".join(text), f"plan of {', '.join(map(str, slots))}", names
    )
    return made

"""Plans of functional forms: functions that make results, have a kernel compute them, and wrap them.

A loop over a call's arguments would cost more than many a small kernel, so that the function of each shape of call is
written out: once in a process, whatever kernels and specs its plans then hold.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...runtime.float_errors import is_taken, run_quiet, run_quiet_copy
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ..core.kernel_function import Plan
from ..tensor import Tensor
from .allocation import allocator_of, numpy_may_allocate
from .stub import PlannedKernel

TENSOR, VALUE, TENSORS = "tensor", "value", "tensors"
"""What a runtime argument is to a plan: a tensor; a number, nothing, a generator or a list; a list without gaps."""

PASSED = frozenset({float, int, bool, complex, None.__class__})
"""Classes of the values that kernels get as they are."""


def data_of(value: Any) -> Any:
    """What a kernel is called with: a tensor's bytes; numbers and generators as they are; lists opened."""
    if isinstance(value, TensorImpl):
        return value._data
    if value.__class__ is list or value.__class__ is tuple:
        return [None if v is None else v._data for v in value]
    return value


class Shape(NamedTuple):
    """What the text of a plan depends on.

    Args:
        roles: of the runtime arguments: `TENSOR`, `VALUE` or `TENSORS`.
        outputs: how many there are.
        into: whether the kernel writes to memory that the plan allocates, rather than return new arrays.
        quiet: whether the plan has floating-point errors ignored while the kernel runs.
        gathered: whether a function makes the result of the outputs; several are a tuple otherwise.
    """

    roles: tuple[str, ...]
    outputs: int
    into: bool
    quiet: bool
    gathered: bool


def functional_plan(
    kernel: PlannedKernel,
    outputs: tuple[TensorSpec, ...],
    kinds: Sequence[bool],
    result_type: Callable[[Sequence[Any]], Any] | None,
    one_list: bool = False,
) -> Plan:
    """The plan of a functional form.

    `kinds` says which runtime arguments are tensors; `one_list` that the only one is a list of tensors.
    """
    into, fresh, quiet = kernel.unshared or kernel.into, kernel.fresh, kernel.quiet
    roles = (TENSORS,) if one_list else tuple([TENSOR if kind else VALUE for kind in kinds])
    count = len(outputs)
    if count == 1 and result_type is None and fresh is not None and numpy_may_allocate(outputs[0]):
        compute, quiet = _alone(fresh, quiet)
        return _maker(Shape(roles, 1, False, quiet, False))(compute, outputs, (), None)
    gather = None if result_type is tuple and count > 1 else result_type
    compute, quiet = _alone(into, quiet)
    shape = Shape(roles, count, True, quiet, gather is not None)
    plan = _maker(shape)(compute, outputs, [allocator_of(spec) for spec in outputs], gather)
    if kernel.first is not None and numpy_may_allocate(outputs[0]):
        first = _maker(Shape(roles, 1, False, True, False))(kernel.first, outputs[:1], (), None)
        plan.first = first  # type: ignore[attr-defined]
    return plan


def _alone(function: Callable[..., Any], quiet: bool) -> tuple[Callable[..., Any], bool]:
    """A kernel, and whether the plan is to have errors ignored: it does so itself for one that would (`quietly`)."""
    alone = getattr(function, "alone", None)
    return (function, quiet) if alone is None else (alone, True)


@functools.cache
def _maker(shape: Shape) -> Callable[..., Plan]:
    """A function from a kernel, the outputs' specs, their allocators and what gathers them to a plan."""
    roles, count, into, _, gathered = shape
    specs = "".join([f"spec{i}, " for i in range(count)])
    allocators = "".join([f"allocate{i}, " for i in range(count)])
    lines = ["def make(compute, specs, allocators, gather):"]
    if count:
        lines.append(f"    {specs}= specs")
    if into and count:
        lines.append(f"    {allocators}= allocators")
    lines.append(f"    def plan({', '.join([f'v{i}' for i in range(len(roles))])}):")
    lines += [f"        out{i} = Tensor()" for i in range(count)]
    if into:
        lines += [f"        out{i}._data = data{i} = allocate{i}()" for i in range(count)]
    lines += [f"        {line}" for line in _computing(shape)]
    for i in range(count):
        lines.append(f"        out{i}._spec = spec{i}")
        lines.append(f"        out{i}._version_cell = out{i}._autograd = out{i}._view_base = None")
    outs = "".join([f"out{i}, " for i in range(count)])
    result = f"gather(({outs}))" if gathered else "out0" if count == 1 else f"({outs})"
    lines.append(f"        return {result}")
    lines.append("    return plan")
    names = {
        "PASSED": PASSED,
        "Tensor": Tensor,
        "data_of": data_of,
        "is_taken": is_taken,
        "run_quiet": run_quiet,
        "run_quiet_copy": run_quiet_copy,
    }
    exec(compile("\n".join(lines), f"<plan of {shape}>", "exec"), names)
    return names["make"]  # type: ignore[return-value]


def _computing(shape: Shape) -> list[str]:
    """The statements that call the kernel."""
    values = {
        TENSOR: "{0}._data",
        VALUE: "{0} if {0}.__class__ in PASSED else data_of({0})",
        TENSORS: "[t._data for t in {0}]",
    }
    given = [f"data{i}" for i in range(shape.outputs)] if shape.into else []
    given += [values[role].format(f"v{i}") for i, role in enumerate(shape.roles)]
    called, target = ", ".join(given), "" if shape.into else "out0._data = "
    if not shape.quiet:
        return [f"{target}compute({called})"]
    return [
        "try:",
        f"    {target}run_quiet(compute, {called})",
        "except RuntimeError as error:",
        "    if not is_taken(error):",
        "        raise",
        f"    {target}run_quiet_copy(compute, {called})",
    ]

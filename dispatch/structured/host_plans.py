"""Plans of compositions that a kernel of the host computes at once, on plain tensors of which nothing is recorded.

Elsewhere, and where the operands turn out to be none for that kernel, the composition serves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...runtime.device import CPU
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ..core.argument_roles import spec_of
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry
from .functional_plans import FunctionalForm
from .part_plans import is_unseen
from .stub import StructuredCall, find_kernel


class Unsuited(Exception):
    """Raised by a kernel, before it has written anything, for operands that the composition is to take."""


def plan_on_host(
    op: OperatorEntry,
    key_set: int,
    args: Sequence[Any],
    output: TensorSpec,
    parts: Sequence[str],
    composed: Plan,
) -> Plan | None:
    """The plan of a CompositeImplicit operator by the kernel under ``<operator>_at_once_stub``.

    None where somebody would see that `parts` do not run.

    Args:
        op: the composition.
        output: its only result.
        parts: the operators that it is made of.
        composed: what takes over where the kernel raises `Unsuited`.
    """
    if output.device is not CPU or not is_unseen(key_set, parts):
        return None
    names = [argument.name for argument in op.schema.arguments]
    runtime = op.runtime_positions(args)
    known = {name: spec_of(value) for name, value in zip(names, args, strict=True)}
    kinds = [isinstance(args[i], TensorImpl) for i in runtime]
    for position in runtime:
        if isinstance(args[position], int | float):
            known[names[position]] = args[position].__class__
    name = op.name.partition("::")[2]
    passed = tuple([names[i] for i in runtime])
    call = StructuredCall(name, known, passed, (output,), None, CPU, {})
    kernel = find_kernel(f"{name}_at_once_stub", "cpu", name)(call)
    quick = FunctionalForm(kinds, None).plan(kernel, (output,))

    def planned(*values: Any) -> Any:
        try:
            return quick(*values)
        except Unsuited:
            return composed(*values)

    return planned

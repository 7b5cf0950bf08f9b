"""Compositions that a kernel of the host computes at once where nobody would see the parts.

A composition pays the call path for each of its parts, and their results are written out. On plain contiguous host
tensors of float32 or float64, with numbers at their defaults, its plan is that of one kernel instead, registered under
a stub of the composition's name; whatever records, differentiates or overrides gets the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from ...runtime.device import CPU
from ...runtime.layout import strided
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import float32, float64
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry
from ..structured.functional_plans import FunctionalForm
from ..structured.native.indexing import broadcast_sizes
from ..structured.part_plans import is_unseen
from ..structured.register import planned_by
from ..structured.stub import StructuredCall, find_kernel

Sizes = Callable[..., tuple[int, ...] | None]


def _broadcast(*specs: TensorSpec) -> tuple[int, ...]:
    return reduce(broadcast_sizes, [spec.sizes for spec in specs])


def _same(dtype: ScalarType) -> ScalarType:
    return dtype


def at_once(
    *parts: str, sizes: Sizes = _broadcast, dtype: Callable[[ScalarType], ScalarType] = _same
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator of a composition that the host has a kernel for.

    Args:
        parts: full names of the operators that it is made of.
        sizes: of the arguments, specs for tensors, the result's sizes; None where the kernel does not serve them.
        dtype: of the operands' dtype, the result's.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def plan(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
            alone = _plan(op, key_set, args, parts, sizes, dtype)
            return op.rebind(function, args) if alone is None else alone

        return planned_by(plan)(function)

    return decorate


def _plan(
    op: OperatorEntry,
    key_set: int,
    args: Sequence[Any],
    parts: Sequence[str],
    sizes: Sizes,
    dtype: Callable[[ScalarType], ScalarType],
) -> Plan | None:
    positions = op.runtime_positions(args)
    tensors = [args[i] for i in positions]
    if not all(isinstance(each, TensorImpl) for each in tensors):
        return None
    specs: list[TensorSpec] = [each._spec for each in tensors]
    common = specs[0].dtype
    if common not in (float32, float64) or not all(
        spec.dtype is common and spec.device is CPU and spec.layout is strided and spec.is_contiguous
        for spec in specs
    ):
        return None
    if not is_unseen(key_set, parts):
        return None
    names = [argument.name for argument in op.schema.arguments]
    given = dict(zip(names, args, strict=True))
    given |= {names[i]: spec for i, spec in zip(positions, specs, strict=True)}
    shape = sizes(*given.values())
    if shape is None:
        return None
    out = TensorSpec.contiguous(shape, dtype(common), CPU)
    name = op.name.partition("::")[2].partition(".")[0]
    runtime = tuple([names[i] for i in positions])
    call = StructuredCall(name, given, runtime, (out,), None, CPU, {"common_dtype": common})
    kernel = find_kernel(f"{name}_stub", "cpu", name)(call)
    return FunctionalForm([True] * len(specs), None).plan(kernel, (out,))

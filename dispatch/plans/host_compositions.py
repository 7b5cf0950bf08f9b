"""Compositions that the host computes at once: one kernel over whole arrays in the place of a chain of operators.

A composition stays what defines an operator: for derivatives, for other devices, under modes and transforms, and for
calls that a kernel of its own would not make quicker. Where nobody would see the chain, a meta function decides the
result, as of a structured operator, and the kernel behind a stub computes it. (`host_kernel` is for those whose kernel
itself says what its results are, as LAPACK's routines do.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...runtime.layout import strided
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import float32, float64
from ...runtime.tensor_spec import TensorSpec
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry
from ..iterator.broadcast import broadcast_shapes
from ..structured.meta_base import MetaBase
from .delegated import is_unseen
from .register import planned_by
from .structured import MetaFunction
from .structured_kernel import StructuredKernel


class ComposedError(Exception):
    """Raised for calls that are the composition's, those that it refuses among them.

    A meta function raises it for specs; a kernel for values, before it has written anything, if its composition was
    decorated with ``by_values``.
    """


class AtOnce:
    """What a composition is served by where nobody would see its parts.

    Args:
        meta: ``meta(builder, *arguments)``; raises `ComposedError` for what is the composition's.
        stub: the kernel's name.
        parts: the operators of the composition, with their namespace.
        by_values: whether the kernel may leave a call to the composition.
    """

    __slots__ = ("_by_values", "_parts", "_structured")

    def __init__(self, meta: MetaFunction, stub: str, *parts: str, by_values: bool = False) -> None:
        self._structured = StructuredKernel(meta, stub, "functional")
        self._parts = parts
        self._by_values = by_values

    def plan(
        self, op: OperatorEntry, key_set: int, args: Sequence[Any], function: Callable[..., Any]
    ) -> Plan | None:
        """The plan of a call, or None for what is the composition's, `function`."""
        if not is_unseen(key_set, self._parts):
            return None
        try:
            made = self._structured(op, key_set, args)
        except ComposedError:
            return None
        # Calls on other shapes may be the composition's: they come here again.
        made.__dict__.pop("of_kind", None)
        return _or_composed(made, op.rebind(function, args)) if self._by_values else made


def computed_at_once(
    meta: MetaFunction, stub: str, *parts: str, by_values: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator of a composition that a host kernel serves: see `AtOnce`."""
    served = AtOnce(meta, stub, *parts, by_values=by_values)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def plan(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
            return served.plan(op, key_set, args, function)

        return planned_by(plan)(function)

    return decorate


def _or_composed(made: Plan, composed: Plan) -> Plan:
    def plan(*values: Any) -> Any:
        try:
            return made(*values)
        except ComposedError:
            return composed(*values)

    return plan


Sizes = Callable[..., tuple[int, ...] | None]
"""Of a call's arguments, specs for tensors, the result's sizes; None where the kernel does not serve them."""


def _broadcast(*specs: TensorSpec) -> tuple[int, ...]:
    return broadcast_shapes(*[spec.sizes for spec in specs])


def of_plain(
    sizes: Sizes = _broadcast, dtype: Callable[[ScalarType], ScalarType] | None = None
) -> MetaFunction:
    """The meta function of contiguous tensors of one dtype, float32 or float64, with a contiguous result.

    Args:
        sizes: of the result.
        dtype: of the operands' dtype, the result's, where that is another one.
    """

    def meta(builder: MetaBase, *args: Any) -> None:
        specs = [arg for arg in args if isinstance(arg, TensorSpec)]
        common = specs[0].dtype
        if common not in (float32, float64) or not all(
            spec.dtype is common and spec.layout is strided and spec.is_contiguous for spec in specs
        ):
            raise ComposedError
        try:
            found = sizes(*args)
        except RuntimeError:
            raise ComposedError from None
        if found is None:
            raise ComposedError
        builder.extra["common_dtype"] = common
        builder.set_output_contiguous(0, found, dtype=common if dtype is None else dtype(common))

    return meta

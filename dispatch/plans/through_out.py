"""Functional and in-place forms of structured operators by way of their ``out=`` form.

A backend that registers a kernel only for ``add.out`` gets ``add`` and ``add_`` from it. The meta function determines
the outputs, and the dispatcher finds the kernel. ATen registers the same for CompositeExplicitAutogradNonFunctional.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...runtime.dispatch_key import Functionality, highest_priority
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ..core.bound_arguments import spec_of
from ..core.dispatcher import Dispatcher
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry
from ..core.result_types import result_type_of
from ..structured.meta_base import MetaBase
from .structured import MetaFunction
from .structured_kernel import device_of


class ThroughOut:
    """The planner of one form.

    Args:
        meta: The operator's meta function.
        form: ``functional`` or ``inplace``.
        out: The full name of the ``out=`` form.
    """

    __slots__ = ("form", "meta", "out")

    def __init__(self, meta: MetaFunction, form: str, out: str) -> None:
        self.meta = meta
        self.form = form
        self.out = out

    def __call__(self, op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
        """Return the plan for bound arguments."""
        out = Dispatcher.singleton().find_schema_or_throw(self.out)
        key = highest_priority(key_set)
        if key.functionality is not Functionality.Dense:
            # A form that writes to strided memory does not apply to other layouts.
            raise NotImplementedError(op.missing_kernel(key_set, key))
        out.lookup(key_set)  # raises for a backend without a kernel, before any allocation
        specs = [spec_of(value) for value in args]
        positions = op.runtime_positions(args)
        for position in positions:
            if isinstance(args[position], int | float | complex):
                specs[position] = args[position].__class__
        inplace = self.form == "inplace"
        name = op.name.partition("::")[2].partition(".")[0].rstrip("_")
        builder = MetaBase(name, self.form, (specs[0],) if inplace else (), device_of(specs))
        self.meta(builder, *specs)
        outputs = [builder.outputs[i] for i in range(len(builder.outputs))]
        proxies = [builder.proxy.get(i) for i in range(len(outputs))]
        result_type = result_type_of(op.schema)
        into = _caller(out, key_set, args, positions)
        if inplace:
            return _inplace(into, proxies[0])
        makers = [_maker(spec) for spec in outputs]

        def functional(*runtime: Any) -> Any:
            results = [make() for make in makers]
            into(runtime, results)
            if result_type is not None:
                return result_type(results)
            return results[0] if len(results) == 1 else tuple(results)

        return functional


def _caller(
    out: OperatorEntry, key_set: int, args: Sequence[Any], positions: Sequence[int]
) -> Callable[[Sequence[Any], list[Any]], Any]:
    template = list(args)
    for position in positions:
        template[position] = None

    def into(runtime: Sequence[Any], results: list[Any]) -> Any:
        bound = template.copy()
        for position, value in zip(positions, runtime, strict=True):
            bound[position] = value
        return out.call_with_keys(key_set, [*bound, *results])

    return into


def _inplace(into: Callable[[Sequence[Any], list[Any]], Any], proxy: TensorSpec | None) -> Plan:
    if proxy is None:

        def write(*runtime: Any) -> Any:
            into(runtime, [runtime[0]])
            return runtime[0]

        return write
    make = _maker(proxy)

    def write_back(*runtime: Any) -> Any:
        made = make()
        into(runtime, [made])
        return runtime[0].copy_(made)

    return write_back


def _maker(spec: TensorSpec) -> Callable[[], TensorImpl]:
    from ..generated.functions import empty_strided

    return lambda: empty_strided(spec.sizes, spec.strides, dtype=spec.dtype, device=spec.device)

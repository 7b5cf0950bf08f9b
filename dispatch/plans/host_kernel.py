"""Kernels on the host of whole compositions, for calls whose parts nobody sees.

A composition pays the call path once for each of its parts: a hundred microseconds for a determinant that LAPACK has
in one. Where nothing is recorded or observed and its parts are this package's own (`part_plans.is_unseen`), a call on
the host is planned as one kernel, if there is one for its specs; every other call is composed. The composition remains
what the operator means: it raises the errors, and a host kernel takes no call that it would refuse for its specs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...runtime import allocator
from ...runtime.allocator import ALIGN_FROM
from ...runtime.device import CPU
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ..core.argument_roles import spec_of
from ..core.kernel_function import Plan, Planner
from ..core.operator_entry import OperatorEntry, guarded_below_autograd
from ..structured.allocation import allocator_of
from ..structured.result_types import result_type_of
from ..structured.stub import load_kernels
from .delegated import is_unseen
from .functional import TENSOR, VALUE, composed_maker


class HostCall(NamedTuple):
    """A planned call: the outputs' specs, and what computes them.

    Args:
        outputs: the specs.
        compute: of small outputs; None where there is no quicker way than `into`.
        into: ``into(*outputs, *arrays)`` fills the memory of outputs of any size, and gives whether it has.

    `compute`, called with the runtime arguments (arrays for tensors), gives a new array in the strides of its spec for
    each output, a tuple of them for several; or None for values that are to be composed: a singular matrix, whose error
    the composition raises. Floating-point errors are ignored meanwhile.
    """

    outputs: tuple[TensorSpec, ...]
    compute: Callable[..., Any] | None
    into: Callable[..., bool | None] | None = None


HostFactory = Callable[..., HostCall | None]
"""From an operator's arguments, tensors as specs, to its call; None for those that are to be composed."""

_factories: dict[str, HostFactory] = {}


def host_kernel(*names: str) -> Callable[[HostFactory], HostFactory]:
    """Decorator of the factory of compositions' kernels on the host."""

    def register(factory: HostFactory) -> HostFactory:
        _factories.update(dict.fromkeys(names, factory))
        return factory

    return register


def on_host(name: str, *parts: str) -> Planner:
    """The planner of a composition that has a kernel on the host.

    Args:
        name: of the kernel.
        parts: the operators of ``aten`` that it is computed instead of, beside those that move elements.
    """
    whole = [f"aten::{part}" for part in parts]

    def plan(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
        if not is_unseen(key_set, whole) or allocator.host_is_custom:
            return None
        factory = _factories.get(name) or _imported(name)
        specs = [spec_of(value) for value in args]
        made = None if factory is None else factory(*specs)
        if made is None:
            return None
        compute = made.compute
        if compute is None or any(_is_out_of_place(spec) for spec in made.outputs):
            if made.into is None or made.outputs[0].device is not CPU:
                return None
            compute = _filling(made.into, made.outputs)
        kinds = [isinstance(args[i], TensorImpl) for i in op.runtime_positions(args)]
        roles = tuple([TENSOR if kind else VALUE for kind in kinds])
        gather = result_type_of(op.schema)
        composed = guarded_below_autograd(args, op.rebind(op.lookup(key_set).bind(op, key_set), args))
        make = composed_maker(roles, len(made.outputs), gather is not None)
        return make(compute, made.outputs, gather, composed)

    return plan


def _imported(name: str) -> HostFactory | None:
    """A kernel's factory, the module that registers it imported first."""
    for wanted in (name, None):
        load_kernels("cpu", wanted)
        if name in _factories:
            break
    return _factories.get(name)


def _is_out_of_place(spec: TensorSpec) -> bool:
    """Whether an output wants memory that NumPy does not give by itself: aligned, or not on the host."""
    return spec.nbytes >= ALIGN_FROM or spec.device is not CPU


def _filling(into: Callable[..., bool | None], specs: tuple[TensorSpec, ...]) -> Callable[..., Any]:
    """What allocates outputs as all others are, and fills them."""
    allocators = [allocator_of(spec) for spec in specs]
    if len(specs) == 1:
        (allocate,) = allocators

        def compute(*data: Any) -> Any:
            out = allocate()
            return out if into(out, *data) else None

        return compute

    def compute_several(*data: Any) -> Any:
        outputs = [allocate() for allocate in allocators]
        return outputs if into(*outputs, *data) else None

    return compute_several

"""Host kernels of compositions: one function over whole arrays in the place of a chain of operators.

A composition pays the call path once for each operator that it calls: a hundred microseconds for a determinant that
LAPACK has in one. It may therefore have a host kernel, which serves calls on plain host tensors whose operators nobody
would see: nothing is recorded, traced or observed, no key is excluded, and the operators' kernels are this package's
own (`is_unseen`). The composition remains what the operator means. It raises the errors, it serves derivatives, other
devices, modes and transforms, and every call that the kernel leaves to it, for its specs or for its values.

The composition names its kernel and the operators that it calls (`dispatch/composite/matrix_functions.py`)::

    @host_kernel("linalg_det", "_linalg_det", "linalg_lu_factor_ex", "prod")
    def linalg_det(A): ...

The kernel is registered under a stub as all others are (`cpu_fallback/factorization/lu_functions.py`). Its factory
gets the `StructuredCall`, without outputs, and gives a `HostKernel`, which says what the outputs are, or None::

    register_stub("linalg_det_host_stub", "cpu", by_arguments(det))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...runtime import allocator
from ...runtime.allocator import ALIGN_FROM
from ...runtime.device import CPU
from ...runtime.dispatch_key import Functionality, functionality_bit
from ...runtime.scalar_type import is_only_stored, registered
from ..core.argument_roles import spec_of, tensors_in
from ..core.dispatcher import Dispatcher
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry, concerns, guarded_below_autograd, observers
from ..core.result_types import result_type_of
from ..structured.allocation import allocator_of
from ..structured.stub import HOST_STUB, StructuredCall, find_host_kernel, recorders
from .functional import host_kernel_maker, roles_of
from .register import planned_by

_CPU_ALONE = functionality_bit(Functionality.Dense) | 1
"""The key set of calls on plain host tensors, of which nothing is recorded."""


def is_unseen(key_set: int, names: Sequence[str]) -> bool:
    """Whether nobody would see that a call on the host is computed otherwise than by the operators `names`.

    That is where nothing is recorded or observed, and their kernels are this package's own.
    """
    if key_set != _CPU_ALONE or recorders:
        return False
    find = Dispatcher.singleton().find_schema_or_throw
    for name in names:
        part = find(name)
        if any(concerns(observe, part) for observe in observers):
            return False
        bits = part.key_set_of([None] * len(part.schema.arguments))
        if bits != _CPU_ALONE or part.lookup(bits).written is not None:
            return False
    return True


class HostPlanner:
    """The planner of a composition that has a host kernel.

    Args:
        name: of the kernel, without the end of its stub.
        operators: of ``aten`` that the composition calls, beside those that move elements.
    """

    __slots__ = ("_operators", "stub")

    def __init__(self, name: str, *operators: str) -> None:
        self.stub = f"{name}{HOST_STUB}"
        self._operators = tuple([f"aten::{operator}" for operator in operators])

    def __call__(self, op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
        """The plan of a call, or None for what is the composition's."""
        if not is_unseen(key_set, self._operators):
            return None
        specs = [spec_of(value) for value in args]
        runtime = op.runtime_positions(args)
        for position in runtime:
            if isinstance(args[position], int | float | complex):
                specs[position] = args[position].__class__
        if registered and any(is_only_stored(tensor._spec.dtype) for tensor in tensors_in(args)):
            return None
        names = [argument.name for argument in op.schema.arguments]
        call = StructuredCall(
            op.name.partition("::")[2].partition(".")[0],
            dict(zip(names, specs, strict=True)),
            tuple([names[i] for i in runtime]),
            (),
            None,
            CPU,
            {},
        )
        kernel = find_host_kernel(self.stub)(call)
        if kernel is None:
            return None
        outputs, compute, into, quiet = kernel
        allocators = None
        aligned = any(spec.nbytes >= ALIGN_FROM for spec in outputs)
        if compute is None or aligned or allocator.host_is_custom:
            if into is None:
                return None
            compute, allocators = into, [allocator_of(spec) for spec in outputs]
        elif hasattr(compute, "alone"):
            compute, quiet = compute.alone, True
        gather = result_type_of(op.schema)
        composed = guarded_below_autograd(args, op.rebind(op.lookup(key_set).bind(op, key_set), args))
        roles = roles_of([specs[i] for i in runtime])
        gathered = gather is not None and gather is not tuple
        make = host_kernel_maker(roles, len(outputs), gathered, quiet, allocators is not None)
        return make(compute, outputs, allocators, gather, composed)


def host_kernel(name: str, *operators: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator of a composition that has a host kernel: see `HostPlanner`."""
    return planned_by(HostPlanner(name, *operators))

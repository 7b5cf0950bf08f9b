"""Host kernels of composites: one function over whole arrays instead of a chain of operators.

A composite pays the call path once for each operator that it calls: a hundred microseconds for a determinant that
LAPACK computes in one. It may therefore have a host kernel for plain host tensors. The kernel serves a call only if
the composite's inner operators are unobservable (`is_unseen`): no recording, tracing, observers or excluded keys, and
only this package's own kernels. The composite still defines the operator. It raises the errors and serves
derivatives, other devices, modes and transforms. It also serves every call that the kernel declines for its specs or
values.

The composite names its kernel and the operators that it calls (`dispatch/composite/matrix_functions.py`)::

    @host_kernel("linalg_det", "_linalg_det", "linalg_lu_factor_ex", "prod")
    def linalg_det(A): ...

The kernel is registered under a stub like all others (`cpu_fallback/factorization/lu_functions.py`). Its factory gets
the `StructuredCall`, without outputs, and returns a `HostKernel` that describes the outputs, or None::

    register_stub("linalg_det_host_stub", "cpu", by_arguments(det))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...runtime import allocator
from ...runtime.allocator import ALIGN_FROM
from ...runtime.device import CPU
from ...runtime.dispatch_key import Functionality, functionality_bit
from ...runtime.scalar_type import is_only_stored
from ..core.bound_arguments import spec_of, tensors_in
from ..core.call_kind import leave_replanner
from ..core.dispatcher import Dispatcher
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry, concerns, guarded_below_autograd, interceptions, observers
from ..structured.allocation import allocator_of
from ..structured.complex_half import holds_complex_half
from ..structured.stub import HOST_STUB, HostKernel, StructuredCall, find_host_kernel, recorders
from .functional import Slots, fresh_maker, host_kernel_maker, into_maker, slot_of
from .register import Composite, planned_by
from .structured import Frame, frame_of

_CPU_ALONE = functionality_bit(Functionality.Dense) | 1
"""The key set of calls on plain host tensors without recording."""


_untouched: list[dict[tuple[str, ...], bool]] = [{}]
"""Cache, by operator names, of whether only this package's kernels serve them; replaced when plans are cleared."""


def is_unseen(key_set: int, names: tuple[str, ...]) -> bool:
    """Return whether a host call may bypass the operators `names` unobserved.

    Nothing may record or observe the call, and the operators' kernels must be this package's own.
    """
    if key_set != _CPU_ALONE or recorders:
        return False
    known = _untouched[0]
    untouched = known.get(names)
    if untouched is None:
        # Taken before the result is computed: a registration in between discards both.
        untouched = known[names] = all(map(_is_untouched, names))
    return untouched


def _is_untouched(name: str) -> bool:
    """Return whether an operator has no observers and its kernel for plain host tensors is this package's own."""
    op = Dispatcher.singleton().find_schema_or_throw(name)
    if any(concerns(observe, op) for observe in observers):
        return False
    if any(interception.concerns(op) for interception in interceptions):
        return False
    bits = op.key_set_of([None] * len(op.schema.arguments))
    return bits == _CPU_ALONE and op.lookup(bits).written is None


def _ask_again() -> None:
    _untouched[0] = {}


Dispatcher.singleton().on_change.append(_ask_again)


class HostPlanner:
    """Planner of a composite that has a host kernel.

    Args:
        name: The kernel's name, without its stub's suffix.
        operators: The ``aten`` operators that the composite calls, except those that move elements.
    """

    __slots__ = ("_frame", "_operators", "stub")

    def __init__(self, name: str, *operators: str) -> None:
        self._frame: Frame | None = None
        self.stub = f"{name}{HOST_STUB}"
        self._operators = tuple([f"aten::{operator}" for operator in operators])

    def __call__(self, op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
        """Return the plan of a call, or None for a call that the composite serves."""
        if not is_unseen(key_set, self._operators):
            return None
        frame = self._frame
        if frame is None or frame.schema is not op.schema:
            frame = self._frame = frame_of(op)
        specs = [spec_of(value) for value in args]
        runtime = op.runtime_positions(args)
        for position in runtime:
            if isinstance(args[position], int | float | complex):
                specs[position] = args[position].__class__
        if any(is_only_stored(tensor._spec.dtype) for tensor in tensors_in(args)):
            return None
        if holds_complex_half(specs):
            return None
        passed = tuple([frame.names[i] for i in runtime])
        slots = tuple([slot_of(specs[i]) for i in runtime])
        factory, gather = find_host_kernel(self.stub), frame.result_type

        def kernel_of(specs: Sequence[Any]) -> HostKernel | None:
            call_args = dict(zip(frame.names, specs))  # noqa: B905 - as many as the operator has
            return factory(StructuredCall(frame.name, call_args, passed, (), None, CPU, {}))

        kernel = kernel_of(specs)
        if kernel is None:
            return None
        if kernel.declines or len(kernel.outputs) > 1:
            composed = guarded_below_autograd(args, op.rebind(op.lookup(key_set).bind(op, key_set), args))
            return _plan_of(kernel, slots, gather, composed)

        def replanner(specs: Sequence[Any]) -> Plan | None:
            # A kernel that may decline needs the composite with its original arguments, which specs do not hold.
            kernel = kernel_of(specs)
            return (
                None
                if kernel is None or kernel.declines or len(kernel.outputs) > 1
                else _plan_of(kernel, slots, gather)
            )

        plan = _plan_of(kernel, slots, gather)
        return plan if plan is None else leave_replanner(plan, op, replanner)


def _plan_of(
    kernel: HostKernel,
    slots: Slots,
    gather: Callable[[Sequence[Any]], Any] | None,
    composed: Plan | None = None,
) -> Plan | None:
    """Return the plan of a call that a kernel serves; None if it serves only small outputs and these are large.

    `composed` is the composite, for calls that the kernel declines and for several arrays.
    """
    outputs, compute, into, quiet, declines = kernel
    allocators = None
    left_out = tuple([i for i, spec in enumerate(outputs) if spec is None])
    written = [spec for spec in outputs if spec is not None]
    if compute is None or allocator.host_is_custom or any(s.nbytes >= ALIGN_FROM for s in written):
        if into is None:
            return None
        compute = into
        allocators = [None if spec is None else allocator_of(spec) for spec in outputs]
    alone = getattr(compute, "alone", None)
    if alone is not None:
        compute, quiet = alone, True
    count, fills = len(outputs), allocators is not None
    gathered = gather is not None and gather is not tuple
    if declines or (count > 1 and not fills):
        return host_kernel_maker(slots, count, gathered, quiet, fills)(
            compute, outputs, allocators, gather, composed
        )
    if fills:
        make = into_maker(slots, count, quiet, gathered, left_out)
        return make(compute, outputs, allocators, gather)
    return fresh_maker(slots, quiet)(compute, outputs[0])


def host_kernel(name: str, *operators: str) -> Callable[[Composite], Composite]:
    """Return a decorator for a composite that has a host kernel; see `HostPlanner`."""
    return planned_by(HostPlanner(name, *operators))

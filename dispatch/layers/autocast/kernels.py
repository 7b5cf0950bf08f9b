"""The kernels of the Autocast keys: one planner, which casts arguments by a policy and calls the operator below.

A plan holds, for each dtype that the thread may have set, the casts that arguments need and the plans below. A call
then only runs the casts and a plan. Casts are operators (`_to_copy`) that autograd records.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ....runtime.device import device as Device
from ....runtime.dispatch_key import (
    AUTOCAST_BIT,
    AUTOGRAD_BITS,
    BACKEND_MASK,
    RUNTIME,
    BackendComponent,
    DispatchKey,
    Functionality,
    functionality_bit,
)
from ....runtime.fork_lock import forkable
from ....runtime.grad_mode import set_grad_enabled
from ....runtime.local_dispatch_key_set import local
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.scalar_type import float32, float64
from ....runtime.tensor_impl import TensorImpl
from ....runtime.tensor_spec import TensorSpec
from ...core.bound_arguments import key_of
from ...core.dispatcher import Dispatcher
from ...core.kernel_function import KernelFunction, Plan, Planner
from ...core.operator_entry import BELOW_AUTOGRAD, OperatorEntry
from ...core.registration import RegistrationHandle
from ...schema import ListType, OptionalType, Type, base_type
from . import lists
from .state import state

if TYPE_CHECKING:
    from ...tensor import Tensor

_PLAIN = BACKEND_MASK | functionality_bit(Functionality.Dense) | AUTOGRAD_BITS | AUTOCAST_BIT
"""Keys of calls that only autograd sees below; modes and subclasses receive every cast too."""

_AUTOGRAD = (Functionality.AutogradFunctionality, Functionality.AutogradOther)

Caster = Callable[[Any], Any]


class Call(NamedTuple):
    """Call to be planned: its operator and keys, and its arguments; the plan receives those at `positions`."""

    op: OperatorEntry
    bits: int
    backend: int
    args: Sequence[Any]
    positions: Sequence[int]

    def eligible(self, value: Any) -> bool:
        """Return True if autocast may cast an argument: a floating-point tensor of its backend, not float64."""
        if not isinstance(value, TensorImpl):
            return False
        spec = value._spec
        return (
            spec.device.backend == self.backend and spec.dtype.is_floating_point and spec.dtype is not float64
        )


def planner_of(policy: Callable[[Call, ScalarType], Plan], backend: int) -> Planner:
    """Return the planner of a kernel, which applies `policy` to a call for the dtype that the thread has set."""

    def plan(op: OperatorEntry, bits: int, args: Sequence[Any]) -> Plan:
        positions = op.runtime_positions(args)
        # Each call passes its tensors: a plan that stored them would keep them alive.
        template = [None if i in positions else value for i, value in enumerate(args)]
        by_dtype: dict[ScalarType, Plan] = {}

        def autocast(*runtime: Any) -> Any:
            dtype = state.dtypes[backend]
            cast_plan = by_dtype.get(dtype)
            if cast_plan is None:
                full = _filled(template, positions, runtime)
                cast_plan = by_dtype[dtype] = policy(Call(op, bits, backend, full, positions), dtype)
            return cast_plan(*runtime)

        return autocast

    return plan


def _filled(template: Sequence[Any], positions: Sequence[int], runtime: Sequence[Any]) -> list[Any]:
    full = list(template)
    for position, value in zip(positions, runtime, strict=True):
        full[position] = value
    return full


def lower_precision_fp(call: Call, dtype: ScalarType) -> Plan:
    """Cast every eligible argument to the thread's dtype; keep casts of parameters."""
    return _casting(call, dtype, keep=True)


def fp32(call: Call, dtype: ScalarType) -> Plan:
    """Cast every eligible argument to float32."""
    return _casting(call, float32, keep=False)


def promote(call: Call, dtype: ScalarType) -> Plan:
    """Cast every eligible argument to the widest dtype among them: the thread's, or float32.

    Raises RuntimeError where there is a third.
    """
    widest = dtype
    for argument, value in zip(call.op.schema.arguments, call.args, strict=True):
        # Optional tensors, such as a bias, do not affect the dtype.
        if isinstance(argument.type, OptionalType) or _holds_optionals(argument.type):
            continue
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if not call.eligible(each):
                continue
            arg_dtype = each._spec.dtype
            if arg_dtype is float32 or widest is float32:
                widest = float32
            elif arg_dtype is not widest:
                raise RuntimeError(
                    f"{call.op.name}: Unexpected floating ScalarType in autocast: argument '{argument.name}' is "
                    f"{arg_dtype.name}, expected {dtype.name} (the autocast dtype), float32 or float64"
                )
    return _casting(call, widest, keep=widest is dtype)


def fp32_set_opt_dtype(call: Call, dtype: ScalarType) -> Plan:
    """Set the ``dtype`` argument to float32 if the first argument is eligible and no dtype is given."""
    if not call.eligible(call.args[0]):
        return _below(call, call.args)
    new_args = [
        float32 if value is None and base_type(argument.type).name == "ScalarType" else value
        for argument, value in zip(call.op.schema.arguments, call.args, strict=True)
    ]
    return _below(call, new_args)


def fp32_append_dtype(call: Call, dtype: ScalarType) -> Plan:
    """Call the overload with a ``dtype``: float32 if the first argument is eligible, else the argument's own.

    Raises RuntimeError where that overload is not defined.
    """
    name = lists.REDISPATCHED[call.op.name.removeprefix("aten::")]
    target = Dispatcher.singleton().find_schema_or_throw(f"aten::{name}")
    first = call.args[0]
    appended = float32 if call.eligible(first) else first._spec.dtype

    def redispatch(*args: Any) -> Any:
        return _excluding(target.call, (*args, appended))

    return call.op.rebind(redispatch, call.args)


def banned(call: Call, dtype: ScalarType) -> Plan:
    """Refuse the operator, and name what to use instead."""
    raise RuntimeError(
        "triten.nn.functional.binary_cross_entropy and triten.nn.BCELoss are unsafe to autocast.\n"
        "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
        "In this case, combine the two layers using triten.nn.functional.binary_cross_entropy_with_logits\n"
        "or triten.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
        "safe to autocast."
    )


def casting_to(dtype: ScalarType) -> Callable[[Call, ScalarType], Plan]:
    """Return the policy that casts to one dtype regardless of the thread's, as custom operators ask for."""

    def cast_inputs(call: Call, _: ScalarType) -> Plan:
        return _casting(call, dtype, keep=False, optional_lists=True)

    return cast_inputs


POLICIES: dict[str, Callable[[Call, ScalarType], Plan]] = {
    lists.LOWER_PRECISION_FP: lower_precision_fp,
    lists.FP32: fp32,
    lists.FP32_SET_OPT_DTYPE: fp32_set_opt_dtype,
    lists.FP32_APPEND_DTYPE: fp32_append_dtype,
    lists.PROMOTE: promote,
    lists.BANNED: banned,
}


def _excluding(function: Plan, args: Sequence[Any]) -> Any:
    """Call with autocast off in this thread: the operator's parts receive the arguments unchanged."""
    before = local.excluded
    local.excluded = before | AUTOCAST_BIT
    try:
        return function(*args)
    finally:
        local.excluded = before


def _below(call: Call, args: Sequence[Any]) -> Plan:
    """Return the plan below the Autocast key for these arguments, which may be cast."""
    op, bits = call.op, call.bits & ~AUTOCAST_BIT
    if bits & ~_PLAIN:
        # A mode or a subclass: its dispatch keys depend on the thread at the time of the call.
        positions = call.positions
        template = [None if i in positions else value for i, value in enumerate(args)]

        def through_modes(*runtime: Tensor | None) -> Any:
            return _excluding(op.call, _filled(template, positions, runtime))

        return through_modes
    if not op.key_set_of(args) & AUTOGRAD_BITS:
        bits &= BELOW_AUTOGRAD
    plan: Plan = _excluding(op.plan, (bits, args))
    key, kernel = op.served_by(bits)
    if key.functionality in _AUTOGRAD and kernel.planner is not None:
        # A generated wrapper calls only the plan below it.
        kernel = op.served_by(bits & BELOW_AUTOGRAD)[1]
    if kernel.leaf:
        return plan
    return lambda *runtime: _excluding(plan, runtime)


def _holds_optionals(kind: Type) -> bool:
    """Return True if arguments of a schema type are lists such as the indices of `index_put`, which PyTorch does not
    cast.
    """
    return isinstance(kind, ListType) and isinstance(kind.elem, OptionalType)


def _casting(call: Call, dtype: ScalarType, *, keep: bool, optional_lists: bool = False) -> Plan:
    """Return the plan that casts eligible arguments to `dtype`; with `keep`, the thread keeps casts of parameters."""
    arguments = call.op.schema.arguments
    casters: list[tuple[int, Caster]] = []
    for index, position in enumerate(call.positions):
        if _holds_optionals(arguments[position].type) and not optional_lists:
            continue
        caster = _caster(call, call.args[position], dtype, keep)
        if caster is not None:
            casters.append((index, caster))
    if not casters:
        return _below(call, call.args)
    full = [None if i in call.positions else value for i, value in enumerate(call.args)]
    positions = call.positions
    call = call._replace(args=())
    plans: dict[tuple[Any, ...], Plan] = {}

    def casting(*runtime: Any) -> Any:
        values = list(runtime)
        for index, cast in casters:
            values[index] = cast(values[index])
        # The grad mode at the call and at the time of caching determines whether the cast requires grad.
        key = tuple([key_of(values[index]) for index, _ in casters])
        plan = plans.get(key)
        if plan is None:
            plan = plans[key] = _below(call, _filled(full, positions, values))
        return plan(*values)

    return casting


def _caster(call: Call, value: Any, dtype: ScalarType, keep: bool) -> Caster | None:
    """Return the function that casts the arguments of one position; None if they are unchanged."""
    if isinstance(value, (list, tuple)):
        each = [_caster(call, v, dtype, keep) for v in value]
        if not any(each):
            return None
        return lambda values: tuple(
            [v if cast is None else cast(v) for v, cast in zip(values, each, strict=True)]
        )
    if not call.eligible(value) or value._spec.dtype is dtype:
        return None
    cast = _cast(value, dtype, call.bits)
    spec: TensorSpec = value._spec
    if keep and spec.dtype is float32 and spec.requires_grad:
        return _keeping(cast, dtype, bool(call.bits & AUTOGRAD_BITS))
    return cast


def _cast(value: Tensor, dtype: ScalarType, bits: int) -> Caster:
    """Return the function that casts tensors with the metadata of `value`."""
    if bits & ~_PLAIN:
        return lambda tensor: _excluding(tensor.to, (dtype,))
    keys = value._spec.call_keys
    to_copy = Dispatcher.singleton().find_schema_or_throw("aten::_to_copy")
    return to_copy.plan(
        keys if bits & AUTOGRAD_BITS else keys & BELOW_AUTOGRAD, (value, dtype, None, None, None, False, None)
    )


def _keeping(cast: Caster, dtype: ScalarType, recorded: bool) -> Caster:
    """Run `cast`, and cache the cast of a leaf until the thread clears its cache.

    It is recorded even where grad mode is off, since the next use may be in a region where it is on. A write to the
    leaf meanwhile does not show, as in PyTorch.
    """

    def kept(tensor: Tensor) -> Any:
        if not state.cache_enabled or tensor._view_base is not None or not tensor.is_leaf:
            return cast(tensor)
        key = (id(tensor), dtype, recorded)
        cached = state.casts.get(key)
        if cached is not None and cached[0]() is tensor:
            return cached[1]
        before = set_grad_enabled(recorded)
        try:
            made = cast(tensor)
        finally:
            set_grad_enabled(before)
        state.casts[key] = (weakref.ref(tensor), made)
        return made

    return kept


def autocast_key(backend: int) -> DispatchKey:
    """Return the Autocast key of a backend."""
    return RUNTIME[Functionality.AutocastFunctionality, BackendComponent(backend)]


class _Lists:
    """Registers the kernels of one device type's lists, for operators as they are defined."""

    def __init__(self, backend: int) -> None:
        self.backend = backend
        of_device = next(each for name, each in lists.LISTS.items() if Device(name).backend == backend)
        self.policies = {f"aten::{name}": policy for policy, names in of_device.items() for name in names}
        self.handles: dict[str, RegistrationHandle] = {}

    def on_operator_registered(self, op: OperatorEntry) -> None:
        policy = self.policies.get(op.name)
        if policy is None:
            return
        kernel = KernelFunction(
            None,
            planner=planner_of(POLICIES[policy], self.backend),
            source=f"autocast/lists.py ({policy})",
            leaf=True,
        )
        self.handles[op.name] = Dispatcher.singleton().register_impl(
            op.name, autocast_key(self.backend), kernel, beneath=True
        )

    def on_operator_deregistered(self, op: OperatorEntry) -> None:
        handle = self.handles.pop(op.name, None)
        if handle is not None:
            handle.close()


_registered: set[int] = set()
_lock = forkable(threading.Lock())


def register_lists(backend: int) -> None:
    """Register the kernels of a device type's lists, once per process."""
    with _lock:
        if backend not in _registered:
            Dispatcher.singleton().add_listener(_Lists(backend), as_loaded=True)
            _registered.add(backend)

"""`OperatorEntry`: one operator's schema, kernels by key, and cached dispatch decisions.

`lookup` returns the kernel of a key set, memoized. `plan` asks that kernel for a closure over the whole decision.
Source: ATen/core/dispatch/OperatorEntry.h.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...runtime.device import CPU, get_default_device
from ...runtime.device import device as Device
from ...runtime.device_guard import current_device, unindexed
from ...runtime.dispatch_key import (
    ADINPLACE_BIT,
    AUTOGRAD_BITS,
    BACKEND_MASK,
    BY_NAME,
    NUM_BACKENDS,
    RUNTIME,
    DispatchKey,
    Functionality,
    functionality_bit,
    highest_priority,
)
from ...runtime.fork_lock import forkable
from ...runtime.grad_mode import inference_enabled, is_grad_enabled, is_inference_mode_enabled
from ...runtime.layout import strided
from ...runtime.local_dispatch_key_set import ExcludeDispatchKeyGuard, effective
from ...runtime.tensor_impl import TensorImpl
from ...runtime.thread_state import inherited
from ...runtime.traceback_filter import HANDLER, hide_inner_frames
from ...runtime.written_code import defined
from ..schema import FunctionSchema, base_type, parse_schema
from .bound_arguments import is_runtime, key_of, static_key_of, tensors_in
from .inference import as_inference, guarded_write, keys_in_inference_mode
from .kernel_function import KernelFunction, Plan
from .mode_stack import stack as mode_stack
from .native_calls import as_native, from_composites
from .version_tracking import tracked
from .whole_operators import WHOLE, recorders

if TYPE_CHECKING:
    from ...runtime.dispatch_key_set import DispatchKeySet

IMPLICIT = BY_NAME["CompositeImplicitAutograd"]
EXPLICIT = BY_NAME["CompositeExplicitAutograd"]
NON_FUNCTIONAL = BY_NAME["CompositeExplicitAutogradNonFunctional"]
AUTOGRAD = BY_NAME["Autograd"]
UNDEFINED = BY_NAME["Undefined"]
"""The key of calls with an empty key set, which composites serve."""
BACKEND_SELECT = BY_NAME["BackendSelect"]
ADINPLACE = BY_NAME["ADInplaceOrView"]
NAMED = BY_NAME["Named"]
_DENSE = functionality_bit(Functionality.Dense)
_NAMED = functionality_bit(Functionality.Named)
PYTHON_BIT = functionality_bit(Functionality.Python)
_BACKEND_FUNCTIONALITIES = {
    Functionality.Dense,
    Functionality.Quantized,
    Functionality.Sparse,
    Functionality.SparseCsr,
}
_AUTOGRAD_FUNCTIONALITIES = {Functionality.AutogradFunctionality, Functionality.AutogradOther}
_DECOMPOSING = {
    Functionality.Python,
    Functionality.FuncTorchDynamicLayerBackMode,
    Functionality.Functionalize,
    Functionality.ForwardAD,
}
"""Layers that see the parts of a composite operator, as in PyTorch, where autograd decomposes it first."""

_SERVED_IN_PARTS = (
    functionality_bit(Functionality.FuncTorchDynamicLayerBackMode)
    | functionality_bit(Functionality.Quantized)
    | functionality_bit(Functionality.Sparse)
    | functionality_bit(Functionality.SparseCsr)
)
"""Keys whose tensors a composite with a derivative serves by its parts, as one without a derivative does."""

MAX_PLANS = 4096
"""Plan cache limit for one operator; the cache is cleared when full."""

fallbacks: dict[DispatchKey, KernelFunction] = {}
"""Backend fallbacks: the kernel of a key for every operator without its own kernel there."""

late_kernels: dict[Functionality, Callable[[OperatorEntry, DispatchKey], KernelFunction | None]] = {}
"""Providers of kernels for rarely used functionalities, called once for each operator and key."""

inplace_or_view: list[KernelFunction] = []
"""User kernels for ADInplaceOrView: calls from a kernel below that key do not reach them again."""

_parsing = forkable(threading.RLock())

registering = forkable(threading.RLock())
"""Held while an operator's kernels are replaced. The kernels are a dictionary that is never mutated."""

deciding: set[OperatorEntry] = set()
"""Operators with cached decisions. A registration for any operator clears them: a composite's plan holds its parts'."""


observers: list[Callable[[OperatorEntry, DispatchKey, Sequence[Any], Plan], Plan]] = []
"""Wrappers around every hop of every call, installed when plans are made: traces, profilers.

Code that adds or removes an observer must make the dispatcher forget all plans. An observer for a few operators has
an attribute `concerns` that selects them.
"""


def concerns(observe: Callable[..., Plan], op: OperatorEntry) -> bool:
    """Return whether an observer applies to an operator's calls."""
    is_concerned: Callable[[OperatorEntry], bool] | None = getattr(observe, "concerns", None)
    return is_concerned is None or is_concerned(op)


class Interception(NamedTuple):
    """Wrapper around the calls of selected operators, inside all observers: a selector and a plan factory."""

    concerns: Callable[[OperatorEntry], bool]
    around: Callable[[OperatorEntry, Sequence[Any], Plan], Plan]


interceptions: list[Interception] = []
"""Interceptions that the first use of a layer installs for good: for example vmap's around random operators.

Code that appends an interception must make the dispatcher forget all plans.
"""


class Trials(threading.local):
    """Thread-local flag: True while this thread plans a composite by calling its parts to see their results.

    Code that counts calls, such as `tt.perf.cost`, skips these: the plan makes them again.
    """

    depth = 0


trials = inherited(Trials())


class OperatorEntry:
    """Operator with a full name (``aten::add.Tensor``): schema, kernels, tags, memoized decisions.

    `kernels` maps each key to its kernels in registration order; the last is active. A registration replaces the
    dictionary as a whole, so that other threads may read it meanwhile. For the same reason a schema is never changed:
    the operator is retired and a new one takes its name. `names` counts name-only registrations. `replanners` caches
    planners' functions for known call kinds on new shapes (see `call_kind.py`).
    """

    __slots__ = (
        "__weakref__",
        "_always",
        "_plans",
        "_schema",
        "_schema_text",
        "_table",
        "are_runtime",
        "bakeable",
        "device_positions",
        "is_mutable",
        "is_retired",
        "kernels",
        "name",
        "names",
        "numbers_as_tensors",
        "positions",
        "replanners",
        "source",
        "tags",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.source = ""
        self.tags: frozenset[str] = frozenset()
        self.names = 0
        self.is_retired = False
        self.numbers_as_tensors = False
        # Replaced rather than mutated once other threads can see the operator.
        self.kernels: dict[DispatchKey, tuple[KernelFunction, ...]] = {}
        self._schema_text: str | None = None
        self._schema: FunctionSchema | None = None
        self._always: list[int] = []
        self._table: dict[int, KernelFunction] = {}
        self._plans: dict[Any, Plan] = {}
        self.replanners: dict[Any, Callable[[Sequence[Any]], Plan | None]] = {}
        self.are_runtime: tuple[bool, ...] | None = None
        self.positions: list[int] = []
        self.bakeable: list[tuple[int, int]] = []
        self.device_positions: list[int] = []
        self.is_mutable = False

    def define(self, schema: str | FunctionSchema, source: str, tags: frozenset[str]) -> None:
        """Set the operator's schema; text is parsed on first use."""
        self.source, self.tags = source, tags
        if not isinstance(schema, str):
            self._schema = schema
        # Assigned last, since `has_schema` reads it: other threads see the operator complete or not at all.
        self._schema_text = str(schema)

    @property
    def has_user_kernel(self) -> bool:
        """True if a user-written kernel is registered for any key."""
        return any(kernel.written is not None for kernels in self.kernels.values() for kernel in kernels)

    def user_kernel_serves(self, args: Sequence[Any]) -> bool:
        """Return whether bound arguments reach a user-written kernel at any of their keys."""
        if not self.has_user_kernel:
            return False
        bits = effective(self.key_set_of(args))
        for key, kernels in self.kernels.items():
            if kernels[-1].written is None:
                continue
            if key in (IMPLICIT, EXPLICIT, NON_FUNCTIONAL):
                # PyTorch's own backend kernels take precedence over kernels of alias keys.
                if self.name not in WHOLE:
                    return True
            elif bits & AUTOGRAD_BITS if key is AUTOGRAD else not key.bits & ~bits:
                return True
        return False

    def _kernel_of_this_package(
        self, kernel: KernelFunction, bits: int, args: Sequence[Any]
    ) -> KernelFunction:
        """Return the kernel beneath a user's if PyTorch dispatches a Scalar overload instead; else `kernel`."""
        from .dispatched_overload import stands_for_numbers

        if not stands_for_numbers(self, args):
            return kernel
        kernels = self.kernels
        origin = self.origin_of(self.served_by(bits)[0], kernels)
        beneath = [] if origin is None else [each for each in kernels[origin] if each.written is None]
        return beneath[-1] if beneath else kernel

    def retire(self) -> None:
        """Refuse every call from now on. Calls in progress keep the schema and their kernels."""
        self.is_retired = True
        self.clear()

    @property
    def has_schema(self) -> bool:
        """True if the operator is defined, rather than only named by an impl."""
        return self._schema_text is not None

    @property
    def schema(self) -> FunctionSchema:
        """The schema. Raises RuntimeError for an operator that is not defined."""
        schema = self._schema
        if schema is None:
            if self._schema_text is None:
                raise RuntimeError(f"{self.name} has kernels but no schema: define it first")
            # Parsed once, since packets distinguish overloads by the identity of their schemas.
            with _parsing:
                schema = self._schema
                if schema is None:
                    schema = self._schema = parse_schema(self._schema_text, self.source or None)
        return schema

    def find_runtime_arguments(self) -> tuple[bool, ...]:
        """Return for each argument whether plans take it at run time."""
        are_runtime = self.are_runtime
        if are_runtime is None:
            arguments = self.schema.arguments
            are_runtime = tuple(is_runtime(a.type) for a in arguments)
            self.positions = [i for i, dynamic in enumerate(are_runtime) if dynamic]
            defaults = [(i, arguments[i].default) for i in self.positions]
            self.bakeable = [(i, d) for i, d in defaults if isinstance(d, int) and d.__class__ is int]
            self.device_positions = [i for i, a in enumerate(arguments) if base_type(a.type).name == "Device"]
            self.is_mutable = self.schema.is_mutable
            self.are_runtime = are_runtime
        return are_runtime

    def clear(self) -> None:
        """Clear every cached decision, after a registration."""
        self._always = []
        self._table = {}
        self._plans = {}
        self.replanners = {}

    def lookup(self, bits: int) -> KernelFunction:
        """Return the kernel that serves a key set. Raises NotImplementedError if there is none."""
        kernel = self._table.get(bits)
        if kernel is None:
            # Take the table before finding the entry: a registration in between then discards both.
            deciding.add(self)
            table = self._table
            kernel = self._resolve(bits)
            table[bits] = kernel
        return kernel

    def _resolve(self, bits: int) -> KernelFunction:
        return self.served_by(bits)[1]

    def served_by(self, bits: int) -> tuple[DispatchKey, KernelFunction]:
        """Return the key and the kernel that serve a key set. Raises NotImplementedError if there is none."""
        if self.is_retired:
            raise NotImplementedError(
                f"Could not run '{self.name}': its definition at {self.source} was taken back."
            )
        # Autograd ignores names, as PyTorch's does: the Named kernel drops names and calls again, from autograd on.
        remaining = bits & BELOW_AUTOGRAD if bits & _NAMED and NAMED not in self.kernels else bits
        while True:
            key = highest_priority(remaining)
            kernel = self.kernel_for(key)
            if key is UNDEFINED:
                if kernel is None:
                    raise NotImplementedError(self.missing_kernel(bits, key))
                return key, kernel
            if key.functionality in _AUTOGRAD_FUNCTIONALITIES and IMPLICIT in self.kernels:
                if self.name in WHOLE:
                    # One node, named as PyTorch's, where a composite that writes nothing has a derivative. vmap maps
                    # the parts, and a sparse or quantized tensor may have a kernel of the composite's name.
                    is_whole = not (bits & _SERVED_IN_PARTS or self.schema.is_mutable)
                    if AUTOGRAD in self.kernels and is_whole:
                        return key, self.kernels[AUTOGRAD][-1]
                    if remaining & PYTHON_BIT:
                        return key, self.kernels[AUTOGRAD][-1] if AUTOGRAD in self.kernels else _UNRECORDED
                kernel = self._around_late_kernel(key, remaining, kernel)
            if kernel is None:
                if (
                    key.functionality in _AUTOGRAD_FUNCTIONALITIES
                    or key.functionality in _BACKEND_FUNCTIONALITIES
                ):
                    raise NotImplementedError(self.missing_kernel(bits, key))
            elif not kernel.is_fallthrough:
                return key, kernel
            remaining = without(remaining, key)

    def kernel_for(self, key: DispatchKey) -> KernelFunction | None:
        """Return the kernel of a runtime key: its own, a composite, the alias, the fallback, or None."""
        kernels = self.kernels
        if key.functionality in late_kernels and key not in kernels:
            late = late_kernels[key.functionality](self, key)
            if late is not None:
                # No decision needs clearing: no call has reached this key before. The lock keeps a registration by
                # another thread from being lost between read and write.
                with registering:
                    kernels = self.kernels
                    if key not in kernels:
                        self.kernels = kernels = {**kernels, key: (late,)}
        origin = self.origin_of(key, kernels)
        return fallbacks.get(key) if origin is None else kernels[origin][-1]

    def _around_late_kernel(
        self, key: DispatchKey, bits: int, kernel: KernelFunction | None
    ) -> KernelFunction | None:
        """Return the Autograd or fallback kernel of a composite if a late kernel serves these tensors; else `kernel`.

        Dense tensors still decompose under autograd: their backend has no late kernel.
        """
        for functionality in late_kernels:
            if bits & functionality_bit(functionality) and key.backend is not None:
                below = RUNTIME[functionality, key.backend]
                self.kernel_for(below)
                if below in self.kernels:
                    return self.kernels[AUTOGRAD][-1] if AUTOGRAD in self.kernels else fallbacks.get(key)
        return kernel

    def origin_of(
        self, key: DispatchKey, kernels: Mapping[DispatchKey, tuple[KernelFunction, ...]]
    ) -> DispatchKey | None:
        """Return the key of `kernels` that serves a runtime key: itself, an alias, or None."""
        if key in kernels:
            return key
        if key.functionality in _BACKEND_FUNCTIONALITIES or key is UNDEFINED:
            for alias in (NON_FUNCTIONAL, EXPLICIT, IMPLICIT):
                if alias in kernels:
                    return alias
        elif key.functionality in _DECOMPOSING:
            if key.functionality is Functionality.Python and self.name in WHOLE:
                return None
            if IMPLICIT in kernels and not self._has_backend_kernel(kernels, key):
                return IMPLICIT
        elif key.functionality in _AUTOGRAD_FUNCTIONALITIES:
            if IMPLICIT in kernels and not self._has_backend_kernel(kernels, key):
                return IMPLICIT
            if AUTOGRAD in kernels:
                return AUTOGRAD
        return None

    def _has_backend_kernel(
        self, kernels: Mapping[DispatchKey, tuple[KernelFunction, ...]], key: DispatchKey
    ) -> bool:
        if EXPLICIT in kernels or NON_FUNCTIONAL in kernels:
            return True
        if key.backend is not None:
            return any(_counts(RUNTIME[f, key.backend], kernels) for f in _BACKEND_FUNCTIONALITIES)
        if not any(k.functionality in _BACKEND_FUNCTIONALITIES for k in kernels):
            return False
        if key.functionality in _AUTOGRAD_FUNCTIONALITIES:
            raise RuntimeError(
                f"{self.name} has kernels for CompositeImplicitAutograd and for a backend under AutogradOther; "
                "the choice between them is ambiguous: register a kernel for AutogradOther or CompositeExplicitAutograd"
            )
        return any(_counts(k, kernels) for k in kernels if k.functionality in _BACKEND_FUNCTIONALITIES)

    def missing_kernel(self, bits: int, key: DispatchKey) -> str:
        """Return the error message for a call without a kernel; `key` is the key at which the search ended."""
        available = sorted(k.name for k in self.kernels)
        if key.functionality is None:
            where = f"with arguments of key set {bits:#x}, which names no backend (no tensor among them?)"
        else:
            where = f"with arguments from the '{key.name}' backend"
        return f"Could not run '{self.name}' {where}. It is available for: [{', '.join(available)}]."

    def key_set_of(self, args: Sequence[Any]) -> int:
        """Return the call key set of bound arguments: from their tensors, or from a factory's device argument.

        c10 has BackendSelect and ADInplaceOrView in every thread's included set. Here a factory's device is already
        in the key set, and plans bump versions and record view bases themselves. Those two keys would only fall
        through. They are in the set of operators with a user-registered kernel for them, and cost the others nothing.
        """
        if self.are_runtime is None:
            self.find_runtime_arguments()
        bits = 0
        for position in self.positions:
            value = args[position]
            if isinstance(value, TensorImpl):
                bits |= value._spec.call_keys
            elif isinstance(value, (list, tuple)):
                for element in value:
                    if isinstance(element, TensorImpl):
                        bits |= element._spec.call_keys
        if not bits:
            device = next((args[i] for i in self.device_positions if isinstance(args[i], Device)), None)
            if device is None:
                bits = _DENSE | (1 << get_default_device().backend) if self.device_positions else _DENSE | 1
            else:
                bits = _DENSE | (1 << device.backend)
        cell = self._always
        return bits | (cell[0] if cell else self._find_always(cell))

    def _find_always(self, cell: list[int]) -> int:
        """Return the keys of every call of this operator, cached in a cell that `clear` replaces."""
        deciding.add(self)
        bits = 0
        for key in (BACKEND_SELECT, ADINPLACE):
            kernel = self.kernel_for(key)
            if kernel is not None and not kernel.is_fallthrough:
                bits |= key.bits
        cell.append(bits)
        return bits

    def call(self, *args: Any) -> Any:
        """Call with all arguments in schema order, through this thread's key sets."""
        bits = effective(self.key_set_of(args))
        if inference_enabled and is_inference_mode_enabled():
            bits = keys_in_inference_mode(bits & BELOW_AUTOGRAD, args)
            return as_inference(self.schema, args, self.call_with_keys(bits, args))
        return self.call_with_keys(bits, args)

    def call_with_keys(self, bits: int, args: Sequence[Any]) -> Any:
        """Call the kernel of a key set. `redispatch` calls this with the current key removed."""
        are_runtime = self.find_runtime_arguments()
        schema_arguments = self.schema.arguments
        key: list[Any] = [bits]
        runtime: list[Any] = []
        for value, dynamic, argument in zip(args, are_runtime, schema_arguments, strict=True):
            if dynamic and not is_baked(value, argument.default):
                key.append(key_of(value))
                runtime.append(value)
            else:
                key.append(static_key_of(value))
        is_hashable = True
        try:
            plan = self._plans.get(tuple(key))
        except (
            TypeError
        ):  # the kernel must not run in this handler, where its own `raise` would chain this error
            is_hashable = False
        if not is_hashable:
            plan = self.plan(bits, args)
        elif plan is None:
            deciding.add(self)
            plans = self._plans
            plan = self.plan(bits, args)
            if len(plans) >= MAX_PLANS:
                plans.clear()
            plans[tuple(key)] = plan
        return plan(*runtime)

    def plan(self, bits: int, args: Sequence[Any]) -> Plan:
        """Return a new plan for a key set and bound arguments."""
        if self.are_runtime is None:
            self.find_runtime_arguments()
        for position in self.device_positions:
            where = args[position]
            if where is None and get_default_device() is not CPU and not tensors_in(args):
                # User-registered kernels see their tensors' device, as under PyTorch's default device.
                where = get_default_device()
                args = [*args[:position], where, *args[position + 1 :]]
            if where.__class__ is Device and where in unindexed:
                return self._plan_on_current_device(bits, args)
        kernel = self._table.get(bits) or self.lookup(bits)
        if kernel.written is not None and self.numbers_as_tensors:
            kernel = self._kernel_of_this_package(kernel, bits, args)
        planner, plan = kernel.planner, None
        if bits & PYTHON_BIT and kernel.function is not None:
            planner = None  # A composite's planner tries its parts, which handlers would see twice.
        if planner is not None:
            trials.depth += 1
            try:
                plan = planner(self, bits, args)
            finally:
                trials.depth -= 1
        if plan is None:
            bound = kernel.bind(self, bits)
            if bits & PYTHON_BIT and self._is_native(kernel, args):
                bound = as_native(bound)
            plan = self.rebind(bound, args)
            if not kernel.leaf and not bits & AUTOGRAD_BITS:
                hidden = self._hidden_from(kernel, bits)
                if self._takes_detached(kernel, args, hidden):
                    plan = _given_detached(args, plan)
                else:
                    plan = guarded_below_autograd(args, plan, hidden)
                plan = tracked(self, self.served_by(bits)[0], kernel, args, plan)
        if self.is_mutable:
            plan = guarded_write(self.schema, args, plan)
        for interception in interceptions:
            if interception.concerns(self):
                plan = interception.around(self, args, plan)
        for observe in observers:
            plan = observe(self, self.served_by(bits)[0], args, plan)
        return plan

    def _is_native(self, kernel: KernelFunction, args: Sequence[Any]) -> bool:
        """Return whether a kernel is a composite of this package, called without numbers for tensors."""
        from .dispatched_overload import number_positions

        if kernel.written is not None or kernel not in self.kernels.get(IMPLICIT, ()):
            return False
        return not number_positions(self, args)

    def _takes_detached(self, kernel: KernelFunction, args: Sequence[Any], hidden: int) -> bool:
        """Return whether a composite of this package may get detached operands instead of calls without autograd.

        Its inner calls then have no key set to exclude, and find their plans as a program's calls do.
        """
        if kernel.written is not None or hidden or self.is_mutable:
            return False
        if not any(kernel in self.kernels.get(key, ()) for key in (IMPLICIT, EXPLICIT, NON_FUNCTIONAL)):
            return False
        if any(each.alias_info is not None for each in self.schema.returns):
            return False
        return not any(tensor._spec.keys or tensor._spec.layout is not strided for tensor in tensors_in(args))

    def _hidden_from(self, kernel: KernelFunction, bits: int) -> int:
        """Return the keys that are hidden from calls made by a kernel below autograd."""
        if not inplace_or_view or bits & ADINPLACE_BIT or kernel in self.kernels.get(IMPLICIT, ()):
            return 0
        return ADINPLACE_BIT

    def _plan_on_current_device(self, bits: int, args: Sequence[Any]) -> Plan:
        """Return a plan that follows the current device: "cuda" names another device after `set_device`."""
        device_type = next(value.type for value in args if value.__class__ is Device and value in unindexed)
        positions = self.runtime_positions(args)
        template = [None if i in positions else value for i, value in enumerate(args)]
        plans: dict[int, Plan] = {}

        def plan(*runtime: Any) -> Any:
            index = current_device(device_type)
            device_plan = plans.get(index)
            if device_plan is None:
                bound = [
                    Device(device_type, index) if value.__class__ is Device and value in unindexed else value
                    for value in template
                ]
                for position, value in zip(positions, runtime, strict=True):
                    bound[position] = value
                device_plan = plans[index] = self.plan(bits, bound)
            return device_plan(*runtime)

        return plan

    def runtime_positions(self, args: Sequence[Any]) -> list[int]:
        """Return the positions of the arguments that a plan takes: runtime arguments that are not baked."""
        if self.are_runtime is None:
            self.find_runtime_arguments()
        baked = [i for i, default in self.bakeable if is_baked(args[i], default)]
        return [i for i in self.positions if i not in baked] if baked else self.positions

    def rebind(self, function: Plan, args: Sequence[Any]) -> Plan:
        """Return a plan that inserts runtime arguments among the static ones and calls `function`."""
        positions = self.runtime_positions(args)
        if positions == list(range(len(args))):
            return function
        chosen = set(positions)
        static = [value for position, value in enumerate(args) if position not in chosen]
        return _filling(len(args), tuple(positions))(function, static)

    def dump(self) -> str:
        """Return the operator's definition, kernels, and the kernel of each runtime key with its reason."""
        from .description import describe

        return describe(self)

    def __repr__(self) -> str:
        return f"OperatorEntry({self.name})"


@functools.cache
def _filling(count: int, positions: tuple[int, ...]) -> Callable[[Plan, Sequence[Any]], Plan]:
    """Return a factory of plans for a function of `count` arguments, with runtime values at `positions`.

    The plan is generated code: building a list for each call takes longer than many small kernels.
    """
    names = [f"v{i}" if i in positions else f"known{i}" for i in range(count)]
    known = "".join([f"{name}, " for name in names if name.startswith("known")])
    runtime_names = ", ".join([f"v{i}" for i in positions])
    text = f"""def bind(function, static):
    {known}= static
    def filling({runtime_names}):
        try: return function({", ".join(names)})
        {HANDLER}
    return filling
"""
    globals_ = {"__name__": __name__, "hide_inner_frames": hide_inner_frames}
    made: Callable[[Plan, Sequence[Any]], Plan] = defined("bind", text, "plan", globals_)
    return made


def _counts(key: DispatchKey, kernels: Mapping[DispatchKey, tuple[KernelFunction, ...]]) -> bool:
    """Return whether a kernel under a key keeps composites from decomposing; this package's late kernels do not."""
    if key not in kernels:
        return False
    return key.functionality not in late_kernels or kernels[key][-1].written is not None


def _decompose_recorded(op: OperatorEntry, key_set: DispatchKeySet, stack: list[Any]) -> None:
    """Call a composite without a derivative of its own: as parts if autograd records them, else whole."""
    values = list(stack)
    stack.clear()
    if is_grad_enabled() and op.name in recorders and _is_seen_whole(values):
        result = recorders[op.name](op, key_set.raw_repr(), values)
    elif is_grad_enabled():
        composite = op.kernels[IMPLICIT][-1].function
        assert composite is not None
        with from_composites():
            result = composite(*values)
    else:
        result = op.call_with_keys(key_set.raw_repr() & BELOW_AUTOGRAD, values)
    stack.extend((result,) if len(op.schema.returns) == 1 else result or ())


def _is_seen_whole(values: Sequence[Any]) -> bool:
    """Return True if the mode or the subclasses that a call reaches see this package's composites whole."""
    askers = mode_stack.modes[-1:] or [type(tensor) for tensor in tensors_in(values)]
    return not any(getattr(asker, "sees_parts", False) for asker in askers)


_UNRECORDED = KernelFunction(_decompose_recorded, boxed=True, source="composite under grad mode")


def is_baked(value: object, default: object) -> bool:
    """Return whether the key holds a runtime argument by value: an int equal to its schema default (alpha=1)."""
    return value.__class__ is int and default.__class__ is int and bool(value == default)


def guarded_below_autograd(args: Sequence[Any], plan: Plan, hidden: int = 0) -> Plan:
    """Wrap `plan` of a kernel that calls operators, so that autograd does not record the inner operators as well.

    `hidden` are other keys that the inner operators skip.
    """
    if any(t._spec.requires_grad for t in tensors_in(args)):
        hidden |= AUTOGRAD_BITS
    if not hidden:
        return plan

    def below(*runtime: Any) -> Any:
        with ExcludeDispatchKeyGuard(hidden):
            return plan(*runtime)

    return below


def _given_detached(args: Sequence[Any], plan: Plan) -> Plan:
    """Wrap `plan` of a composite, so that it gets detached tensors for those of `args` that require grad."""
    if not any(tensor._spec.requires_grad for tensor in tensors_in(args)):
        return plan

    def detached(value: Any) -> Any:
        if isinstance(value, TensorImpl):
            spec = value._spec
            if not spec.requires_grad:
                return value
            made: Any = value._blank()
            made._data, made._spec = value._data, spec.twin
            made._version_cell = made._autograd = made._view_base = None
            return made
        if isinstance(value, (list, tuple)):
            return value.__class__([detached(each) for each in value])
        return value

    def below(*runtime: Any) -> Any:
        return plan(*[detached(value) for value in runtime])

    return below


def without(bits: int, key: DispatchKey) -> int:
    """Return the key set below `key`: without its functionality, or without its backend for a dense key."""
    assert key.functionality is not None
    if (
        key.functionality in _BACKEND_FUNCTIONALITIES
        and key.backend is not None
        and bits & BACKEND_MASK & ((1 << key.backend) - 1)
    ):
        return bits & ~(1 << key.backend)
    return bits & ~(1 << (NUM_BACKENDS + key.functionality))


BELOW_AUTOGRAD = ~AUTOGRAD_BITS
"""Mask that clears the autograd functionalities of a key set."""

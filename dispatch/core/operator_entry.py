"""`OperatorEntry`: one operator, its schema, its kernels by key, and what was decided about them.

`lookup` answers which kernel serves a key set, computed once and memoised; `plan` asks that kernel for a
closure over the whole decision. Source: ATen/core/dispatch/OperatorEntry.h.
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
from ...runtime.local_dispatch_key_set import ExcludeDispatchKeyGuard, effective
from ...runtime.tensor_impl import TensorImpl
from ...runtime.thread_state import inherited
from ...runtime.traceback_filter import HANDLER, hide_inner_frames
from ...runtime.written_code import defined
from ..schema import FunctionSchema, base_type, parse_schema
from .bound_arguments import is_runtime, key_of, static_key_of, tensors_in
from .inference import as_inference, guarded_write, keys_in_inference_mode
from .kernel_function import KernelFunction, Plan
from .version_tracking import tracked
from .whole_operators import WHOLE

if TYPE_CHECKING:
    from ...runtime.dispatch_key_set import DispatchKeySet

IMPLICIT = BY_NAME["CompositeImplicitAutograd"]
EXPLICIT = BY_NAME["CompositeExplicitAutograd"]
NON_FUNCTIONAL = BY_NAME["CompositeExplicitAutogradNonFunctional"]
AUTOGRAD = BY_NAME["Autograd"]
UNDEFINED = BY_NAME["Undefined"]
"""The key of calls whose set is empty, which composites serve."""
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
"""Layers that see what a composite operator is made of, as they do in PyTorch, where autograd decomposes it first."""

MAX_PLANS = 4096
"""Plans that one operator keeps; beyond them it starts anew."""

fallbacks: dict[DispatchKey, KernelFunction] = {}
"""Backend fallbacks: the kernel of a key for every operator that has none of its own there."""

late_kernels: dict[Functionality, Callable[[OperatorEntry, DispatchKey], KernelFunction | None]] = {}
"""Where the kernels of a functionality that few programs use come from: asked once for each operator and key."""

inplace_or_view: list[KernelFunction] = []
"""Kernels that users registered for ADInplaceOrView: what a kernel below that key calls does not come there again."""

_parsing = forkable(threading.RLock())

registering = forkable(threading.RLock())
"""Held while an operator's kernels are replaced: they are a dictionary that is never written to again."""

deciding: set[OperatorEntry] = set()
"""Operators that hold decisions, which a registration for any of them forgets: a composite's plan holds its parts'."""


observers: list[Callable[[OperatorEntry, DispatchKey, Sequence[Any], Plan], Plan]] = []
"""What stands around every hop of every call, put there when plans are made: traces, profilers.

They come and go; whoever appends or removes one has the dispatcher forget all plans. One that stands around few
operators only has an attribute `concerns` that tells which.
"""


def concerns(observe: Callable[..., Plan], op: OperatorEntry) -> bool:
    """Whether an observer may stand around the calls of an operator."""
    is_concerned: Callable[[OperatorEntry], bool] | None = getattr(observe, "concerns", None)
    return is_concerned is None or is_concerned(op)


class Interception(NamedTuple):
    """What stands around the calls of some operators, inside of all observers: which ones, and what makes the plan."""

    concerns: Callable[[OperatorEntry], bool]
    around: Callable[[OperatorEntry, Sequence[Any], Plan], Plan]


interceptions: list[Interception] = []
"""Parts of layers that the first use of their layer puts around operators, for good: vmap's around random ones.

Whoever appends one has the dispatcher forget all plans.
"""


class Trials(threading.local):
    """Whether this thread makes a composition's plan, which calls its parts to see what they give.

    Whoever counts calls, as `tt.perf.cost` does, leaves those out: the plan makes them again.
    """

    depth = 0


trials = inherited(Trials())


class OperatorEntry:
    """An operator by its full name (``aten::add.Tensor``): schema, kernels, tags, memoised decisions.

    `kernels` holds, by key, the kernels in the order of their registration, of which the last counts. A registration
    replaces it whole, so that other threads may read it meanwhile. For the same reason a schema, once given, is never
    changed: the operator is retired and another one takes its name. `names` counts the registrations of the name
    alone. `replanners` are what planners keep for calls of known kinds on new shapes (see `call_kind.py`).
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
        # Replaced rather than changed once others can see the operator.
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
        """Give the operator its schema; text is parsed when first asked for."""
        self.source, self.tags = source, tags
        if not isinstance(schema, str):
            self._schema = schema
        # Last, since `has_schema` asks for it: other threads find the operator whole or not at all.
        self._schema_text = str(schema)

    @property
    def has_user_kernel(self) -> bool:
        """True if a kernel that a user wrote is registered, for whatever key."""
        return any(kernel.written is not None for of in self.kernels.values() for kernel in of)

    def user_kernel_serves(self, args: Sequence[Any]) -> bool:
        """Return whether bound arguments come to a kernel that a user wrote, at whatever key of theirs."""
        if not self.has_user_kernel:
            return False
        bits = effective(self.key_set_of(args))
        for key, kernels in self.kernels.items():
            if kernels[-1].written is None:
                continue
            if key in (IMPLICIT, EXPLICIT, NON_FUNCTIONAL):
                # PyTorch's own kernels for backends come before those for alias keys.
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
        """Refuse every call from now on. Those under way still have the schema and their kernels."""
        self.is_retired = True
        self.clear()

    @property
    def has_schema(self) -> bool:
        """Whether the operator is defined, rather than only named by an impl."""
        return self._schema_text is not None

    @property
    def schema(self) -> FunctionSchema:
        """The schema. Raises RuntimeError for an operator that is not defined."""
        schema = self._schema
        if schema is None:
            if self._schema_text is None:
                raise RuntimeError(f"{self.name} has kernels but no schema: define it first")
            # Once, since packets tell overloads apart by the identity of their schemas.
            with _parsing:
                schema = self._schema
                if schema is None:
                    schema = self._schema = parse_schema(self._schema_text, self.source or None)
        return schema

    def find_runtime_arguments(self) -> tuple[bool, ...]:
        """For each argument, whether it is passed to plans."""
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
        """Forget every decision, after a registration."""
        self._always = []
        self._table = {}
        self._plans = {}
        self.replanners = {}

    def lookup(self, bits: int) -> KernelFunction:
        """The kernel that serves a key set. Raises NotImplementedError where there is none."""
        kernel = self._table.get(bits)
        if kernel is None:
            # The table is taken before its entry is found: a registration meanwhile leaves both behind.
            deciding.add(self)
            table = self._table
            kernel = self._resolve(bits)
            table[bits] = kernel
        return kernel

    def _resolve(self, bits: int) -> KernelFunction:
        return self.served_by(bits)[1]

    def served_by(self, bits: int) -> tuple[DispatchKey, KernelFunction]:
        """The key at which a key set's call ends, and the kernel there. Raises NotImplementedError for none."""
        if self.is_retired:
            raise NotImplementedError(
                f"Could not run '{self.name}': its definition at {self.source} was taken back."
            )
        # Autograd ignores names, as PyTorch's does: the Named kernel takes them off and calls again, from autograd on.
        remaining = bits & BELOW_AUTOGRAD if bits & _NAMED and NAMED not in self.kernels else bits
        while True:
            key = highest_priority(remaining)
            kernel = self.kernel_for(key)
            if key is UNDEFINED:
                if kernel is None:
                    raise NotImplementedError(self.missing_kernel(bits, key))
                return key, kernel
            if key.functionality in _AUTOGRAD_FUNCTIONALITIES and IMPLICIT in self.kernels:
                if remaining & PYTHON_BIT and self.name in WHOLE:
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
        """The kernel of one runtime key: its own, a composite, the alias, the fallback, or None."""
        kernels = self.kernels
        if key.functionality in late_kernels and key not in kernels:
            late = late_kernels[key.functionality](self, key)
            if late is not None:
                # Nothing that was decided is forgotten: no call has come to this key before. But for the lock, what
                # another thread registers between reading and writing would be lost.
                with registering:
                    kernels = self.kernels
                    if key not in kernels:
                        self.kernels = kernels = {**kernels, key: (late,)}
        origin = self.origin_of(key, kernels)
        return fallbacks.get(key) if origin is None else kernels[origin][-1]

    def _around_late_kernel(
        self, key: DispatchKey, bits: int, kernel: KernelFunction | None
    ) -> KernelFunction | None:
        """The kernel of an autograd key of a composite that has a late kernel of its own for these tensors.

        Dense tensors decompose under autograd all the same: a late kernel is none of their backend's.
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
        """Under which of `kernels`' keys the kernel of a runtime key stands: itself, an alias, or none of them."""
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
        """The message of a call that no kernel serves: `key` is the one at which the search ended."""
        available = sorted(k.name for k in self.kernels)
        if key.functionality is None:
            where = f"with arguments of key set {bits:#x}, which names no backend (no tensor among them?)"
        else:
            where = f"with arguments from the '{key.name}' backend"
        return f"Could not run '{self.name}' {where}. It is available for: [{', '.join(available)}]."

    def key_set_of(self, args: Sequence[Any]) -> int:
        """The call key set of bound arguments: of their tensors, or of the device argument of a factory.

        c10 has BackendSelect and ADInplaceOrView in every thread's included set. Here the device of a factory stands
        in the set already, and plans bump versions and remember bases themselves, so that the two keys would only
        be fallen through: they stand in the set of operators that have a kernel for them, registered by a user, and
        cost the others nothing.
        """
        if self.are_runtime is None:
            self.find_runtime_arguments()
        bits = 0
        for position in self.positions:
            value = args[position]
            if isinstance(value, TensorImpl):
                bits |= value._spec.call_keys
            elif value.__class__ is list or value.__class__ is tuple:
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
        """The keys of every call of this operator, whatever its arguments; kept in a cell that `clear` replaces."""
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
        """Call the kernel of a key set; `redispatch` is this with the current key taken out."""
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
        ):  # the kernel must not run in this handler, where its own `raise` would find this error
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
        """A new plan for a key set and bound arguments."""
        if self.are_runtime is None:
            self.find_runtime_arguments()
        for position in self.device_positions:
            where = args[position]
            if where is None and get_default_device() is not CPU and not tensors_in(args):
                # Kernels from outside see where their tensors go, as they do under PyTorch's default device.
                where = get_default_device()
                args = [*args[:position], where, *args[position + 1 :]]
            if where.__class__ is Device and where in unindexed:
                return self._plan_on_current_device(bits, args)
        kernel = self._table.get(bits) or self.lookup(bits)
        if kernel.written is not None and self.numbers_as_tensors:
            kernel = self._kernel_of_this_package(kernel, bits, args)
        planner, plan = kernel.planner, None
        if bits & PYTHON_BIT and kernel.function is not None:
            planner = None  # That of a composite tries its parts, which handlers would see twice.
        if planner is not None:
            trials.depth += 1
            try:
                plan = planner(self, bits, args)
            finally:
                trials.depth -= 1
        if plan is None:
            plan = self.rebind(kernel.bind(self, bits), args)
            if not kernel.leaf and not bits & AUTOGRAD_BITS:
                plan = guarded_below_autograd(args, plan, self._hidden_from(kernel, bits))
                plan = tracked(self, self.served_by(bits)[0], kernel, args, plan)
        if self.is_mutable:
            plan = guarded_write(self.schema, args, plan)
        for interception in interceptions:
            if interception.concerns(self):
                plan = interception.around(self, args, plan)
        for observe in observers:
            plan = observe(self, self.served_by(bits)[0], args, plan)
        return plan

    def _hidden_from(self, kernel: KernelFunction, bits: int) -> int:
        """The keys that calls from a kernel below autograd do not come to again, where they have kernels."""
        if not inplace_or_view or bits & ADINPLACE_BIT or kernel in self.kernels.get(IMPLICIT, ()):
            return 0
        return ADINPLACE_BIT

    def _plan_on_current_device(self, bits: int, args: Sequence[Any]) -> Plan:
        """A plan that follows the current device: "cuda" names another one after `set_device`."""
        device_type = next(value.type for value in args if value.__class__ is Device and value in unindexed)
        positions = self.runtime_positions(args)
        template = [None if i in positions else value for i, value in enumerate(args)]
        plans: dict[int, Plan] = {}

        def plan(*runtime: Any) -> Any:
            index = current_device(device_type)
            found = plans.get(index)
            if found is None:
                bound = [
                    Device(device_type, index) if value.__class__ is Device and value in unindexed else value
                    for value in template
                ]
                for position, value in zip(positions, runtime, strict=True):
                    bound[position] = value
                found = plans[index] = self.plan(bits, bound)
            return found(*runtime)

        return plan

    def runtime_positions(self, args: Sequence[Any]) -> list[int]:
        """Positions of the arguments that a plan is called with: runtime ones that are not baked."""
        if self.are_runtime is None:
            self.find_runtime_arguments()
        baked = [i for i, default in self.bakeable if is_baked(args[i], default)]
        return [i for i in self.positions if i not in baked] if baked else self.positions

    def rebind(self, function: Plan, args: Sequence[Any]) -> Plan:
        """A plan that puts runtime arguments into their places among the static ones and calls `function`."""
        positions = self.runtime_positions(args)
        if positions == list(range(len(args))):
            return function
        chosen = set(positions)
        static = [value for position, value in enumerate(args) if position not in chosen]
        return _filling(len(args), tuple(positions))(function, static)

    def dump(self) -> str:
        """The operator's definition and kernels, and which kernel serves each runtime key and why (`describe`)."""
        from .description import describe

        return describe(self)

    def __repr__(self) -> str:
        return f"OperatorEntry({self.name})"


@functools.cache
def _filling(count: int, positions: tuple[int, ...]) -> Callable[[Plan, Sequence[Any]], Plan]:
    """What makes a plan of a function of `count` arguments: those at `positions` are the plan's, the others known.

    Written out, since a list to be filled in at each call takes longer than many a small kernel.
    """
    names = [f"v{i}" if i in positions else f"known{i}" for i in range(count)]
    known = "".join([f"{name}, " for name in names if name.startswith("known")])
    given = ", ".join([f"v{i}" for i in positions])
    text = f"""def bind(function, static):
    {known}= static
    def filling({given}):
        try: return function({", ".join(names)})
        {HANDLER}
    return filling
"""
    globals_ = {"__name__": __name__, "hide_inner_frames": hide_inner_frames}
    made: Callable[[Plan, Sequence[Any]], Plan] = defined("bind", text, "plan", globals_)
    return made


def _counts(key: DispatchKey, kernels: Mapping[DispatchKey, tuple[KernelFunction, ...]]) -> bool:
    """Whether a backend has a kernel under a key that keeps composites from decomposing: no late one of ours does."""
    if key not in kernels:
        return False
    return key.functionality not in late_kernels or kernels[key][-1].written is not None


def _decompose_recorded(op: OperatorEntry, key_set: DispatchKeySet, stack: list[Any]) -> None:
    """Call a composite without a derivative of its own: its parts where autograd records them, else the whole."""
    values = list(stack)
    stack.clear()
    if is_grad_enabled():
        composite = op.kernels[IMPLICIT][-1].function
        assert composite is not None
        result = composite(*values)
    else:
        result = op.call_with_keys(key_set.raw_repr() & BELOW_AUTOGRAD, values)
    stack.extend((result,) if len(op.schema.returns) == 1 else result or ())


_UNRECORDED = KernelFunction(_decompose_recorded, boxed=True, source="composite under grad mode")


def is_baked(value: object, default: object) -> bool:
    """Whether a runtime argument stands in the key by value: an int that is its schema's default (alpha=1)."""
    return value.__class__ is int and default.__class__ is int and bool(value == default)


def guarded_below_autograd(args: Sequence[Any], plan: Plan, hidden: int = 0) -> Plan:
    """`plan` of a kernel that calls operators, such that those do not record what the caller records as one.

    `hidden` are keys that they do not come to for another reason.
    """
    if any(t._spec.requires_grad for t in tensors_in(args)):
        hidden |= AUTOGRAD_BITS
    if not hidden:
        return plan

    def below(*runtime: Any) -> Any:
        with ExcludeDispatchKeyGuard(hidden):
            return plan(*runtime)

    return below


def without(bits: int, key: DispatchKey) -> int:
    """The set below `key`: without its functionality, or without its backend where that is the dense one's."""
    assert key.functionality is not None
    if (
        key.functionality in _BACKEND_FUNCTIONALITIES
        and key.backend is not None
        and bits & BACKEND_MASK & ((1 << key.backend) - 1)
    ):
        return bits & ~(1 << key.backend)
    return bits & ~(1 << (NUM_BACKENDS + key.functionality))


BELOW_AUTOGRAD = ~AUTOGRAD_BITS
"""Mask that takes the autograd functionalities out of a key set."""

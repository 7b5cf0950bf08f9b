"""Observation of an explained call: around every hop, in the kernel factories, and at every launch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....runtime.dispatch_key import DispatchKey, Functionality
from ....runtime.dispatch_key_set import DispatchKeySet
from ....runtime.fork_lock import forkable
from ....runtime.local_dispatch_key_set import effective
from ....runtime.scalar_type import dtype as ScalarType
from ...core.description import answer_of
from ...core.dispatcher import Dispatcher
from ...core.kernel_function import KernelFunction, Plan
from ...core.operator_entry import (
    AUTOGRAD,
    EXPLICIT,
    IMPLICIT,
    NON_FUNCTIONAL,
    OperatorEntry,
    observers,
    trials,
)
from ...generated.kernel_index import KERNELS
from ...plans.structured_kernel import StructuredKernel, device_of
from ...plans.through_out import ThroughOut
from ...plans.view_kernel import ViewKernel
from ...structured.choices import listeners
from ...structured.kernel_packages import BACKENDS
from ..trace import describe
from .explanation import Explanation, Hop, PlannedLaunch, Planning, Stub
from .locations import location_of, location_of_declaration, location_of_derivative, locations_of_factory

_FORMS = {
    "functional": "functional: new memory for the result",
    "inplace": "in-place: the result is written to the first argument",
    "out": "out: the result is written to `out`, which is resized if need be",
}
_PACKAGES = {"cpu": "cpu_fallback", "cuda": "triton_kernels"}
_AUTOGRAD = (Functionality.AutogradFunctionality, Functionality.AutogradOther)

_lock = forkable(threading.RLock())
"""Lock of the one thread that explains; other threads wait, because all plans are rebuilt."""


class Watch:
    """Record of the operators that an explained call runs in its thread: a listener of choices and an observer of
    plans.
    """

    def __init__(self) -> None:
        self.calls: list[Hop] = []
        self._open: list[Hop] = []
        self._thread = threading.get_ident()
        self._stubs: list[Stub] = []
        self._choices: list[tuple[str, str]] = []
        self._planned_launches: list[PlannedLaunch] = []
        self._of_stub: dict[tuple[str, str], Planning] = {}
        self._driver: Any = None
        self._launch_observer: Any = None

    def concerns(self, op: OperatorEntry) -> bool:
        """Return False, so that composites are decomposed and their host kernels are not used."""
        return False

    def __call__(self, op: OperatorEntry, key: DispatchKey, args: Sequence[Any], plan: Plan) -> Plan:
        """Return `plan` with a hop recorded for each run of it."""
        if not self._is_here():
            return plan
        planning = self._planning(op, key, args)
        self._claim(planning)
        self._complete(op, key, planning)

        def watched(*values: Any) -> Any:
            if trials.depth or not self._is_here():
                return plan(*values)
            hop = Hop(planning)
            (self._open[-1].calls if self._open else self.calls).append(hop)
            self._open.append(hop)
            try:
                return plan(*values)
            finally:
                self._open.pop()
                # Choices that a kernel makes in its first run.
                self._claim(planning)

        return watched

    def _is_here(self) -> bool:
        return threading.get_ident() == self._thread

    def _claim(self, planning: Planning) -> None:
        """Assign the factories' reports since the last plan to the plan that requested them."""
        planning.stubs += self._stubs
        planning.choices = list(dict.fromkeys([*planning.choices, *self._choices]))
        planning.planned_launches += self._planned_launches
        self._stubs, self._choices, self._planned_launches = [], [], []

    def _complete(self, op: OperatorEntry, key: DispatchKey, planning: Planning) -> None:
        """Complete a plan with the findings of an earlier plan that shares its kernel factory or kernel."""
        kernel = op.kernel_for(key)
        if kernel is None or not isinstance(kernel.planner, StructuredKernel):
            return
        shared = (kernel.planner.stub, planning.device)
        if planning.stubs:
            self._of_stub[shared] = planning
        elif shared in self._of_stub:
            earlier = self._of_stub[shared]
            planning.stubs = earlier.stubs
            planning.choices = planning.choices or earlier.choices
            planning.planned_launches = planning.planned_launches or earlier.planned_launches

    def _planning(self, op: OperatorEntry, key: DispatchKey, args: Sequence[Any]) -> Planning:
        kernel = op.kernel_for(key)
        assert kernel is not None
        origin = op.origin_of(key, op.kernels)
        planning = Planning(
            operator=op.name,
            schema=str(op.schema),
            declared=location_of_declaration(op.source) if op.source else "an unknown location",
            arguments=", ".join(describe(value) for value in args),
            keys=", ".join(k.name for k in DispatchKeySet.from_raw_repr(effective(op.key_set_of(args)))),
            key=key.name,
            kernel=_kernel_text(op, key, kernel),
            plan=_plan_text(key, origin, kernel),
            device=str(device_of(args)),
        )
        if isinstance(kernel.planner, StructuredKernel | ThroughOut):
            planning.meta = location_of(kernel.planner.meta)
        elif isinstance(kernel.planner, ViewKernel):
            planning.meta = location_of(kernel.planner.geometry)
        if origin is AUTOGRAD and op.name.startswith("aten::"):
            planning.derivative = location_of_derivative(op.name)
        return planning

    def on_choice(self, algorithm: str, because: str) -> None:
        """Add a choice to the plan that is being made."""
        if self._is_here():
            self._choices.append((algorithm, because))

    def on_stub(self, name: str, device_type: str, factory: Callable[..., Any]) -> None:
        """Add a stub to the plan that is being made."""
        if not self._is_here():
            return
        if device_type == "cuda":
            self._watch_launches()
        registered = None
        if device_type in _PACKAGES:
            module = KERNELS.get(name, (None, None))[BACKENDS.index(device_type)]
            registered = module and f"{_PACKAGES[device_type]}/{module.replace('.', '/')}.py"
        location = ", over ".join(locations_of_factory(factory)) or None
        if registered and location and f"{registered}:" in location:
            registered = None
        self._stubs.append(Stub(name, device_type, location, registered))

    def on_launch_planned(self, kernel: Any, constants: Mapping[str, object]) -> None:
        """Add a launch to the plan that is being made."""
        if self._is_here():
            self._watch_launches()
            text = ", ".join(f"{k}={_constant(v)}" for k, v in constants.items() if v is not None)
            self._planned_launches.append(PlannedLaunch(kernel.fn.__name__, location_of(kernel), text))

    def _watch_launches(self) -> None:
        """Observe every launch from now on; only called for CUDA kernels, which have a driver."""
        if self._driver is None:
            from ....runtime.cuda.driver import driver

            self._driver = driver()
            self._launch_observer = self._driver.observe_launches(self._on_launch)

    def _on_launch(
        self, name: str, grid: tuple[int, int, int], stream: int, launch: Callable[[], None]
    ) -> None:
        if self._is_here() and self._open:
            self._open[-1].launches.append((name, grid))
        if self._launch_observer is None:
            launch()
        else:
            self._launch_observer(name, grid, stream, launch)

    def start(self) -> None:
        """Start watching: all plans are rebuilt."""
        observers.append(self)
        listeners.append(self)
        Dispatcher.singleton().forget_all()

    def stop(self) -> None:
        """Stop observing, and discard the observed plans."""
        listeners.remove(self)
        observers.remove(self)
        if self._driver is not None:
            self._driver.observe_launches(self._launch_observer)
            self._driver = None
        Dispatcher.singleton().forget_all()


def watched_call(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Explanation:
    """Return the explanation of one call."""
    with _lock:
        watch = Watch()
        watch.start()
        try:
            result = fn(*args, **kwargs)
        finally:
            watch.stop()
    return Explanation(watch.calls, result)


def _kernel_text(op: OperatorEntry, key: DispatchKey, kernel: KernelFunction) -> str:
    """Return text that names the kernel of a key, the reason for it, and where it is defined."""
    text = answer_of(op, key, op.kernels)
    location = None
    if kernel.written is not None:
        location = location_of(kernel.written)
    elif kernel.function is not None:
        location = location_of(kernel.function)
    elif not isinstance(kernel.planner, StructuredKernel | ThroughOut | ViewKernel):
        location = location_of(kernel.planner)
    return text if location is None else f"{text.partition(', ')[0]}, {location}"


def _plan_text(key: DispatchKey, origin: DispatchKey | None, kernel: KernelFunction) -> str:
    """Return the text of a kernel's plan."""
    planner = kernel.planner
    if isinstance(planner, StructuredKernel):
        return _FORMS[planner.form]
    if isinstance(planner, ThroughOut):
        return f"{planner.form}, through the out= form's kernel"
    if isinstance(planner, ViewKernel):
        return "view: the same bytes in another geometry"
    if kernel.boxed:
        return "boxed kernel: it gets the arguments on a stack"
    if origin in (IMPLICIT, EXPLICIT, NON_FUNCTIONAL) and not kernel.leaf:
        return "composite of other operators"
    if key.functionality in _AUTOGRAD and planner is not None:
        if origin is None:
            return "autograd fallback: the result is marked as not differentiable"
        return "autograd wrapper: the call below, and a node for backward"
    if planner is not None:
        return "made by the kernel itself"
    return "none: the kernel is called with all arguments"


def _constant(value: object) -> str:
    """Return the text of a constant of a launch."""
    if isinstance(value, ScalarType):
        return value.name
    name = getattr(value, "__name__", None)
    return name if isinstance(name, str) else str(value)

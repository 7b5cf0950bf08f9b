"""What generated registrations call: one line for each definition and kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ...runtime.device import device as Device
from ...runtime.dispatch_key import BY_NAME, RUNTIME, DispatchKey, Functionality
from ..core.dispatcher import Dispatcher
from ..core.kernel_function import KernelFunction, Planner
from ..structured.stub import foreign_device_types, on_register
from .structured import MetaFunction
from .structured_kernel import StructuredKernel
from .through_out import ThroughOut
from .view_kernel import GeometryFunction, ViewKernel

Composite = TypeVar("Composite", bound=Callable[..., Any])

_dispatcher = Dispatcher.singleton()
_BACKENDS: tuple[DispatchKey, ...] = tuple(BY_NAME[name] for name in ("CPU", "CUDA", "Meta"))
_AUTOGRAD = BY_NAME["Autograd"]
_NON_FUNCTIONAL = BY_NAME["CompositeExplicitAutogradNonFunctional"]
_EXPLICIT = BY_NAME["CompositeExplicitAutograd"]
_by_stub: dict[str, list[tuple[str, KernelFunction]]] = {}
"""The operators that a stub's kernels serve, for backends of other packages that bring some."""

_composite_planners: dict[Callable[..., Any], Planner] = {}


def define(
    name: str, schema: str, source: str, tags: tuple[str, ...] = (), wrapped_numbers: bool = False
) -> None:
    """Define an operator; its schema is parsed at first use."""
    entry = _dispatcher.install(f"aten::{name}", f"aten::{schema}", source, frozenset(tags))
    entry.numbers_as_tensors = wrapped_numbers


def _impl(name: str, key: DispatchKey, kernel: KernelFunction) -> None:
    _dispatcher.install_kernel(f"aten::{name}", (key,), kernel)


def _impl_by_stub(name: str, stub: str, kernel: KernelFunction) -> None:
    """Register a kernel that asks for a stub, for every backend that has it."""
    others = map(_dense_key, foreign_device_types(stub))
    _dispatcher.install_kernel(f"aten::{name}", (*_BACKENDS, *others), kernel)
    _by_stub.setdefault(stub, []).append((name, kernel))


def _dense_key(device_type: str) -> DispatchKey:
    return RUNTIME[Functionality.Dense, Device(device_type).backend]


def structured(name: str, meta: MetaFunction, stub: str, form: str, out: str | None = None) -> None:
    """Register a form of a structured operator for every backend that has stubs.

    `out` names its ``out=`` form, through which it serves backends that have a kernel for that alone.
    """
    kernel = KernelFunction(
        None, planner=StructuredKernel(meta, stub, form), source=f"structured {stub}", leaf=True
    )
    _impl_by_stub(name, stub, kernel)
    if out is not None:
        through_out = KernelFunction(None, planner=ThroughOut(meta, form, f"aten::{out}"), source=f"by {out}")
        _impl(name, _NON_FUNCTIONAL, through_out)


def planned(name: str, stub: str, plan: Planner) -> None:
    """Register a kernel that plans its own calls, for every backend that has the stub which it asks for."""
    kernel = KernelFunction(None, planner=plan, source=plan.__module__, leaf=True)
    _impl_by_stub(name, stub, kernel)


def stub_of(name: str, kernel: KernelFunction) -> str | None:
    """The stub that an operator's kernel asks for; None if it asks for none."""
    if isinstance(kernel.planner, StructuredKernel):
        return kernel.planner.stub
    return next((stub for stub, served in _by_stub.items() if (name, kernel) in served), None)


def _serve(stub: str, device_type: str) -> None:
    """Register the operators of a stub for the backend that has brought a kernel."""
    key = _dense_key(device_type)
    with _dispatcher.lock:
        for name, kernel in _by_stub.get(stub, ()):
            if key not in _dispatcher.find_schema_or_throw(f"aten::{name}").kernels:
                _dispatcher.register_impl(f"aten::{name}", key, kernel)


on_register.append(_serve)


UNTRACKED = {"view.dtype"}
"""Views that autograd knows nothing of, as PyTorch's: they have no base, as what `detach` gives."""


def view(name: str, geometry: GeometryFunction) -> None:
    """Register a view operator for every backend."""
    kernel = ViewKernel(geometry, tracked=name not in UNTRACKED)
    _impl(name, _EXPLICIT, KernelFunction(None, planner=kernel, source="view geometry", leaf=True))


def planner(name: str, key: str, plan: Planner) -> None:
    """Register a kernel that plans its own calls."""
    _impl(name, BY_NAME[key], KernelFunction(None, planner=plan, source=plan.__module__, leaf=True))


def planned_by(planner: Planner) -> Callable[[Composite], Composite]:
    """Decorator of a composite whose calls `planner` plans, where the specs tell which single part serves them."""

    def decorate(function: Composite) -> Composite:
        _composite_planners[function] = planner
        return function

    return decorate


def composite(name: str, key: str, function: Callable[..., Any]) -> None:
    """Register a composite of other operators."""
    kernel = KernelFunction(function, planner=_composite_planners.get(function), source=function.__module__)
    _impl(name, BY_NAME[key], kernel)


def autograd(name: str, plan: Planner) -> None:
    """Register the wrapper of an operator's derivative for every autograd key."""
    _impl(name, _AUTOGRAD, KernelFunction(None, planner=plan, source=plan.__module__))

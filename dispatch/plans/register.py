"""Definition of operators from table rows, for generated registrations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from ...runtime.device import device as Device
from ...runtime.dispatch_key import BY_NAME, RUNTIME, DispatchKey, Functionality
from ..core.dispatcher import Dispatcher
from ..core.kernel_function import KernelFunction, Planner
from ..structured.stub import foreign_device_types, on_register
from .structured import MetaFunction
from .structured_kernel import StructuredKernel
from .through_out import ThroughOut
from .view_kernel import GeometryFunction, ViewKernel, check_alignment

Structured = tuple[MetaFunction, str, str] | tuple[MetaFunction, str, str, str]
"""The meta function of an operator, its stub, its form, and its ``out=`` form."""

Composite = TypeVar("Composite", bound=Callable[..., Any])

_dispatcher = Dispatcher.singleton()
_BACKENDS: tuple[DispatchKey, ...] = tuple(BY_NAME[name] for name in ("CPU", "CUDA", "Meta"))
_AUTOGRAD = BY_NAME["Autograd"]
_NON_FUNCTIONAL = BY_NAME["CompositeExplicitAutogradNonFunctional"]
_EXPLICIT = BY_NAME["CompositeExplicitAutograd"]
_by_stub: dict[str, list[tuple[str, KernelFunction]]] = {}
"""The operators that a stub's kernels serve, for out-of-tree backends that add kernels."""

_composite_planners: dict[Callable[..., Any], Planner] = {}


def operators_of(file: str) -> Callable[..., None]:
    """Return `operator` for the entries of a YAML file."""
    return partial(operator, file)


def operator(
    file: str,
    schema: str,
    *,
    entry: str = "",
    tags: str = "",
    wrapped_numbers: bool = False,
    view: GeometryFunction | None = None,
    structured: Structured | None = None,
    planner: Planner | None = None,
    stub: str = "",
    dispatch: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
    autograd: Planner | None = None,
) -> None:
    """Define an operator and register its kernels; the schema is parsed at first use.

    Args:
        file: The YAML file that declares the operator.
        schema: The declaration, without the namespace.
        entry: The operator whose entry in `file` declares this one too. Default: its own.
        tags: Tags of the operator.
        wrapped_numbers: If True, Python numbers may stand for tensors. Default: False.
        view: The geometry of the result, of a view operator.
        structured: Arguments of the operator's `StructuredKernel`, and the ``out=`` form through which it also runs.
        planner: The function that plans the operator's own calls.
        stub: The stub for which `planner` asks. Every backend that has the stub then has the operator.
        dispatch: Kernels that are composed of other operators, by dispatch key.
        autograd: The planner of every Autograd key.
    """
    name = schema.partition("(")[0]
    source = f"{file}: {entry or name}"
    made = _dispatcher.install(f"aten::{name}", f"aten::{schema}", source, frozenset(tags.split()))
    made.numbers_as_tensors = wrapped_numbers
    if view is not None:
        kernel = ViewKernel(view, CHECKS.get(name), tracked=name not in UNTRACKED)
        _impl(name, _EXPLICIT, KernelFunction(None, planner=kernel, source="view geometry", leaf=True))
    if structured is not None:
        _install_structured(name, *structured)
    if planner is not None:
        own = KernelFunction(None, planner=planner, source=planner.__module__, leaf=True)
        if stub:
            _impl_by_stub(name, stub, own)
        else:
            _impl(name, _EXPLICIT, own)
    for key, function in dispatch.items():
        planned = _composite_planners.get(function)
        _impl(name, BY_NAME[key], KernelFunction(function, planner=planned, source=function.__module__))
    if autograd is not None:
        _impl(name, _AUTOGRAD, KernelFunction(None, planner=autograd, source=autograd.__module__))


def _impl(name: str, key: DispatchKey, kernel: KernelFunction) -> None:
    _dispatcher.install_kernel(f"aten::{name}", (key,), kernel)


def _impl_by_stub(name: str, stub: str, kernel: KernelFunction) -> None:
    """Register a kernel that looks up a stub, for every backend that implements the stub."""
    foreign_keys = map(_dense_key, foreign_device_types(stub))
    _dispatcher.install_kernel(f"aten::{name}", (*_BACKENDS, *foreign_keys), kernel)
    _by_stub.setdefault(stub, []).append((name, kernel))


def _dense_key(device_type: str) -> DispatchKey:
    return RUNTIME[Functionality.Dense, Device(device_type).backend]


def _install_structured(name: str, meta: MetaFunction, stub: str, form: str, out: str | None = None) -> None:
    """Register a form of a structured operator for every backend with stubs.

    `out` names its ``out=`` form, through which it serves backends that have a kernel only for that form.
    """
    kernel = KernelFunction(
        None, planner=StructuredKernel(meta, stub, form), source=f"structured {stub}", leaf=True
    )
    _impl_by_stub(name, stub, kernel)
    if out is not None:
        through_out = KernelFunction(None, planner=ThroughOut(meta, form, f"aten::{out}"), source=f"by {out}")
        _impl(name, _NON_FUNCTIONAL, through_out)


def stub_of(name: str, kernel: KernelFunction) -> str | None:
    """Return the stub that an operator's kernel looks up; None if it uses no stub."""
    if isinstance(kernel.planner, StructuredKernel):
        return kernel.planner.stub
    return next((stub for stub, served in _by_stub.items() if (name, kernel) in served), None)


def _serve(stub: str, device_type: str) -> None:
    """Register the operators of a stub for a backend that has added a kernel."""
    key = _dense_key(device_type)
    with _dispatcher.lock:
        for name, kernel in _by_stub.get(stub, ()):
            if key not in _dispatcher.find_schema_or_throw(f"aten::{name}").kernels:
                _dispatcher.register_impl(f"aten::{name}", key, kernel)


on_register.append(_serve)


CHECKS = {"view.dtype": check_alignment}
"""Checks of a view operator's arguments that its geometry cannot make: they need the tensor's memory."""

UNTRACKED = {"view.dtype"}
"""Views that autograd does not track, as in PyTorch: like the result of `detach`, they have no base."""


def planned_by(planner: Planner) -> Callable[[Composite], Composite]:
    """Return a decorator for a composite with this planner, which selects from the specs the single part that serves
    a call.
    """

    def decorate(function: Composite) -> Composite:
        _composite_planners[function] = planner
        return function

    return decorate

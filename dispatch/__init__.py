"""How a call finds its kernel (ATen core): schemas, operators, iterators, structured kernels, autograd.

The subfolders hold the parts; `load` registers every generated operator. Kernels do not belong here: they
register from `cpu_fallback` and `triton_kernels`, which import this folder and not the reverse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..runtime.dispatch_key_set import DispatchKeySet
    from .core.kernel_function import Plan
    from .core.operator_entry import OperatorEntry

# What a user finds here beside the folders; not imported with the package, which code generation needs bare.
_PUBLIC = {
    "Dispatcher": ".core.dispatcher",
    "ExcludeDispatchKeyGuard": "..runtime.local_dispatch_key_set",
    "FunctionSchema": ".schema",
    "IncludeDispatchKeyGuard": "..runtime.local_dispatch_key_set",
    "KernelFunction": ".core.kernel_function",
    "OperatorEntry": ".core.operator_entry",
    "RegistrationHandle": ".core.registration",
    "SchemaError": ".schema",
    "parse_schema": ".schema",
    "record_kernels": ".structured.record_kernels",
    "show_trace": ".functional.trace",
}


def __getattr__(name: str) -> Any:
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(module, __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})


def _forward_mode(op: OperatorEntry, key_set: DispatchKeySet, stack: list[Any]) -> None:
    # Loaded with the first dual tensor.
    from .autograd.forward_mode import forward_fallback

    forward_fallback(op, key_set, stack)


def _plan_named(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """The planner of the Named key, loaded when the first named tensor comes."""
    from .functional.named.key import plan_named

    return plan_named(op, key_set, args)


def _functionalize(op: OperatorEntry, key_set: DispatchKeySet, stack: list[Any]) -> None:
    # Imported by the first call that is to be rewritten.
    from .functional.functionalization.functionalize import functionalize_fallback

    functionalize_fallback(op, key_set, stack)


def _registration(family: str) -> Callable[[], None]:
    """The function that defines a family's operators and registers their kernels."""
    import importlib

    return importlib.import_module(f".generated.registrations_{family}", __name__).register  # type: ignore[no-any-return]


def load() -> None:
    """Make every operator known; a family's are registered when one of them is first asked for.

    Called once by the package's root.
    """
    import os
    from functools import partial

    from ..runtime.dispatch_key import RUNTIME, Functionality
    from .autograd.recording import not_differentiable
    from .core.dispatcher import Dispatcher
    from .core.kernel_function import KernelFunction
    from .functional import plan_batched
    from .functional.python_key import PYTHON, python_fallback
    from .generated.operator_index import OPERATORS

    dispatcher = Dispatcher.singleton()
    with dispatcher.loading():
        for family, names in OPERATORS.items():
            dispatcher.defer(names, partial(_registration, family))
        for (functionality, _), key in RUNTIME.items():
            if functionality in (Functionality.AutogradFunctionality, Functionality.AutogradOther):
                kernel = KernelFunction(None, planner=not_differentiable, source="autograd fallback")
                dispatcher.register_fallback(key, kernel)
            elif functionality is Functionality.ForwardAD:
                dispatcher.register_fallback(
                    key, KernelFunction(_forward_mode, boxed=True, source="forward mode")
                )
            elif key is PYTHON:
                dispatcher.register_fallback(
                    key, KernelFunction(python_fallback, boxed=True, source="modes and subclasses")
                )
            elif functionality is Functionality.Named:
                dispatcher.register_fallback(
                    key, KernelFunction(None, planner=_plan_named, source="named tensors")
                )
            elif functionality is Functionality.FuncTorchDynamicLayerBackMode:
                dispatcher.register_fallback(
                    key, KernelFunction(None, planner=plan_batched, source="batching rules of vmap")
                )
            elif functionality is Functionality.Functionalize:
                dispatcher.register_fallback(
                    key, KernelFunction(_functionalize, boxed=True, source="functionalize")
                )
            elif functionality not in (
                Functionality.Dense,
                Functionality.Quantized,
                Functionality.Sparse,
                Functionality.SparseCsr,
            ):
                dispatcher.register_fallback(key, KernelFunction.fallthrough("functionality without kernel"))
    if os.environ.get("TRITEN_SHOW_DISPATCH_TRACE", "0") not in ("", "0"):
        from .functional.trace import trace_everything

        trace_everything()

"""Dispatcher and operator model (ATen core): schemas, operators, iterators, structured kernels, autograd.

The subfolders hold the parts; `load` registers every generated operator. Kernels do not belong here: `cpu_fallback`
and `triton_kernels` register them, and import this folder rather than the reverse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..runtime.dispatch_key import DispatchKey
    from ..runtime.dispatch_key_set import DispatchKeySet
    from .core.kernel_function import KernelFunction, Plan
    from .core.operator_entry import OperatorEntry

from ..runtime.lazy_import import lazy_names, when_imported

# Imported lazily: code generation needs the bare package.
__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        ".core.dispatcher": "Dispatcher",
        ".core.kernel_function": "KernelFunction",
        ".core.operator_entry": "OperatorEntry",
        ".core.registration": "RegistrationHandle",
        ".layers.trace": "show_trace",
        ".schema": "FunctionSchema SchemaError parse_schema",
        ".structured.record_kernels": "record_kernels",
        "..runtime.local_dispatch_key_set": "ExcludeDispatchKeyGuard IncludeDispatchKeyGuard",
    },
)


def _forward_mode(op: OperatorEntry, key_set: DispatchKeySet, stack: list[Any]) -> None:
    # Loaded by the first dual tensor.
    from .autograd.forward_mode import forward_fallback

    forward_fallback(op, key_set, stack)


def _plan_named(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Run the planner of the Named key, loaded by the first named tensor."""
    from .layers.named.key import plan_named

    return plan_named(op, key_set, args)


def _functionalize(op: OperatorEntry, key_set: DispatchKeySet, stack: list[Any]) -> None:
    # Imported by the first call that needs rewriting.
    from .layers.functionalization.functionalize import functionalize_fallback

    functionalize_fallback(op, key_set, stack)


def _sparse_kernel(op: OperatorEntry, key: DispatchKey) -> KernelFunction | None:
    """Return the kernel of an operator at a sparse key; the first sparse tensor loads the table."""
    from .layers.sparse.table import kernel_of

    return kernel_of(op, key)


def _quantized_kernel(op: OperatorEntry, key: DispatchKey) -> KernelFunction | None:
    """Return the kernel of an operator at the Quantized key; the first quantized tensor loads the table."""
    from .layers.quantized.table import kernel_of

    return kernel_of(op, key)


def _quantized_operators() -> Callable[[], None]:
    """Return the function that defines `tt.ops.quantized`, imported with the first of its operators."""
    from .layers.quantized.operators import register

    return register


def _metadata_queries() -> Callable[[], None]:
    """Return the function that defines `tt.ops.prim`, imported with the first of its operators."""
    from .layers.dispatched_metadata import register_queries

    return register_queries


def _foreach_operators() -> Callable[[], None]:
    """Return the function that defines the operators over lists, imported with the first of them."""
    from .functions.foreach_operators import register

    return register


def _record_launch(kernel: Any, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Call the operator for a launch of a user's Triton kernel, imported with the first recorded launch."""
    from .custom_ops.triton_launch import call_launch_operator

    call_launch_operator(kernel, grid, args, kwargs)


def _registration(family: str) -> Callable[[], None]:
    """Return the function that defines a family's operators and registers their kernels."""
    import importlib

    return importlib.import_module(f".generated.registrations.{family}", __name__).register  # type: ignore[no-any-return]


def load() -> None:
    """Declare every operator; the first lookup of an operator registers its family.

    The package's root calls this once.
    """
    import importlib
    import os
    from functools import partial

    from ..runtime.dispatch_key import RUNTIME, Functionality
    from .autograd.recording import not_differentiable
    from .core.dispatcher import Dispatcher
    from .core.foreach_schemas import SCHEMAS as foreach_schemas
    from .core.kernel_function import KernelFunction
    from .core.operator_entry import late_kernels
    from .core.public_spelling import set_public_places
    from .generated import functions
    from .generated.registrations.operator_index import OPERATORS
    from .layers import plan_batched
    from .layers.python_key import python_fallback
    from .layers.quantized.schemas import NAMES as quantized_names
    from .methods import attach
    from .tensor import Tensor

    attach()
    set_public_places(functions, Tensor)
    recorded = KernelFunction(None, planner=not_differentiable, source="autograd fallback")
    passed = KernelFunction.fallthrough("functionality without kernel")
    fallbacks: dict[Functionality, KernelFunction | None] = {
        Functionality.Dense: None,
        Functionality.Quantized: None,
        Functionality.Sparse: None,
        Functionality.SparseCsr: None,
        Functionality.Python: KernelFunction(python_fallback, boxed=True, source="modes and subclasses"),
        Functionality.FuncTorchDynamicLayerBackMode: KernelFunction(
            None, planner=plan_batched, source="batching rules of vmap"
        ),
        Functionality.Functionalize: KernelFunction(_functionalize, boxed=True, source="functionalize"),
        Functionality.Named: KernelFunction(None, planner=_plan_named, source="named tensors"),
        Functionality.AutogradOther: recorded,
        Functionality.AutogradFunctionality: recorded,
        Functionality.ForwardAD: KernelFunction(_forward_mode, boxed=True, source="forward mode"),
    }
    """Kernel that every key of a functionality falls back to, lowest first. None: there is no fallback; each operator
    has kernels there. Calls pass by all other functionalities."""
    dispatcher = Dispatcher.singleton()
    late_kernels[Functionality.Sparse] = late_kernels[Functionality.SparseCsr] = _sparse_kernel
    late_kernels[Functionality.Quantized] = _quantized_kernel
    observer = f"{__package__.rpartition('.')[0]}.runtime.cuda.triton.launch_observer"
    when_imported(observer, lambda: importlib.import_module(observer).register_recorder(_record_launch))
    with dispatcher.loading():
        for family, names in OPERATORS.items():
            dispatcher.defer(names, partial(_registration, family))
        dispatcher.defer(quantized_names, _quantized_operators)
        dispatcher.defer(("prim::device", "prim::layout"), _metadata_queries)
        dispatcher.defer(foreach_schemas, _foreach_operators)
        for (functionality, _), key in RUNTIME.items():
            kernel = fallbacks.get(functionality, passed)
            if kernel is not None:
                dispatcher.register_fallback(key, kernel)
    if os.environ.get("TRITEN_SHOW_DISPATCH_TRACE", "0") not in ("", "0"):
        from .layers.trace import trace_everything

        trace_everything()

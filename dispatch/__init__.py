"""How a call finds its kernel (ATen core): schemas, operators, iterators, structured kernels, autograd.

The subfolders hold the parts; `load` registers every generated operator. Kernels do not belong here: they
register from `cpu_fallback` and `triton_kernels`, which import this folder and not the reverse.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    # What a user finds here beside the folders; not imported with the package, which code generation needs bare.
    if name == "show_trace":
        from .functional.trace import show_trace

        return show_trace
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _functionalize(op: Any, key_set: Any, stack: list[Any]) -> None:
    # Imported by the first call that is to be rewritten.
    from .functional.functionalize import functionalize_fallback

    functionalize_fallback(op, key_set, stack)


def load() -> None:
    """Define every operator. Called once by the package's root."""
    import os

    from ..runtime.dispatch_key import RUNTIME, Functionality
    from .autograd.recording import not_differentiable
    from .core.dispatcher import Dispatcher
    from .core.kernel_function import KernelFunction
    from .functional.python_key import PYTHON, python_fallback
    from .generated.register_all import register_all

    register_all()
    dispatcher = Dispatcher.singleton()
    for (functionality, _), key in RUNTIME.items():
        if functionality in (Functionality.AutogradFunctionality, Functionality.AutogradOther):
            kernel = KernelFunction(None, planner=not_differentiable, source="autograd fallback")
            dispatcher.register_fallback(key, kernel)
        elif key is PYTHON:
            dispatcher.register_fallback(
                key, KernelFunction(python_fallback, boxed=True, source="modes and subclasses")
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

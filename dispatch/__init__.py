"""How a call finds its kernel (ATen core): schemas, operators, iterators, structured kernels, autograd.

The subfolders hold the parts; `load` registers every generated operator. Kernels do not belong here: they
register from `cpu_fallback` and `triton_kernels`, which import this folder and not the reverse.
"""


def load() -> None:
    """Define every operator. Called once by the package's root."""
    from ..runtime.dispatch_key import RUNTIME, Functionality
    from .autograd.recording import not_differentiable
    from .core.dispatcher import Dispatcher
    from .core.kernel_function import KernelFunction
    from .generated.register_all import register_all

    register_all()
    dispatcher = Dispatcher.singleton()
    for (functionality, _), key in RUNTIME.items():
        if functionality in (Functionality.AutogradFunctionality, Functionality.AutogradOther):
            kernel = KernelFunction(None, planner=not_differentiable, source="autograd fallback")
            dispatcher.register_fallback(key, kernel)
        elif functionality not in (
            Functionality.Dense,
            Functionality.Quantized,
            Functionality.Sparse,
            Functionality.SparseCsr,
        ):
            dispatcher.register_fallback(key, KernelFunction.fallthrough("functionality without kernel"))
